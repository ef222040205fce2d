"""Makes twins and distractors of stories by a language model, and writes the rows, rejected stories
and card."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.rows import STORY_NAMES, RowError, find_column, window_twins
from narrative_twins.files import digest
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.llm.running import Asker, Prices, run_jobs
from narrative_twins.llm.server import Server
from narrative_twins.making.made import REJECT, MadeRows, ModelFiles, model_settings, recipe_text
from narrative_twins.making.recipes import RECIPES, TwinOptions
from narrative_twins.stories.story import Story, StoryError

logger = logging.getLogger(__name__)

_TWIN = ("twin", "translated_narrative_twin")
_NEGATIVE = ("negative", "negative_narrative")


@dataclass(frozen=True)
class SourceStory:
    """A story to make twins or distractors of.

    Attributes:
        row: the columns that are copied to the new row, with `story`.
        windows: its sentences; a short story is a single window.
    """

    row: Mapping[str, Any]
    windows: list[list[str]]

    @classmethod
    def parse(cls, content: Any, options: TwinOptions) -> SourceStory:
        """Parse a story in any form that `Story.parse` takes, or a data row with a `story`; may
        raise `StoryError`."""
        count = RECIPES[options.recipe].windows
        row = dict(content) if isinstance(content, Mapping) else {}
        given = find_column(row, *STORY_NAMES)
        if given is not None:
            content = {"sentences": given, "id": row.get("id")}
        story = Story.parse(content, windows=count)
        if count == 1:
            named = {} if story.id is None else {"id": story.id}
            return cls({**named, "story": list(story.sentences)}, [list(story.sentences)])
        if len(story.windows) != count:
            raise StoryError(
                f"the synopsis has {len(story.windows)} windows; give {count}, or a list of"
                " sentences"
            )
        windows = [list(story.sentences[lo:hi]) for lo, hi in story.windows]
        left_out = (*STORY_NAMES, *_NEGATIVE, *REJECT, "text", "sentences")
        copied = {name: value for name, value in row.items() if name not in left_out}
        if given is None:
            copied = {name: copied[name] for name in ("id", "title") if name in copied}
        row = {**copied, "story": windows}
        if find_column(row, *_TWIN) is not None:
            try:
                window_twins(row, "the row", count)
            except RowError as error:
                raise StoryError(error.problem) from None
        return cls(row, windows)


def make_twins(
    sources: Sequence[SourceStory],
    server: Server,
    out: str,
    *,
    options: TwinOptions | None = None,
    prices: Prices | None = None,
    language: str = "en",
    progress: bool = False,
    dry_run: bool = False,
    report: Callable[[str], None] = logger.warning,
) -> MadeRows:
    """Make rows of narrative twins, and write them.

    Every answer is saved at once in `OUT.answers`, so the same call resumes an interrupted run.
    `OUT` gets the rows, for `load_story_twins` or `load_window_twins`, and `OUT.rejects` the
    rejected stories; neither is written if empty. The facts and the card of the rows are written
    next to them, see `RowsFile`; without a card if rows have no twin, since these do not load. The
    model is asked only once about equal stories.

    Args:
        sources: the stories.
        server: the language model.
        out: the JSON Lines file to write.
        options: what is made of each story; default: all columns of short stories.
        prices: for the cost in the progress bar.
        language: the language of the stories, for the card.
        progress: show a progress bar.
        dry_run: send nothing and write nothing, but return the questions that would be asked, see
            `Run`; stories stand in for the answers that are missing.
        report: is called with a message if rows will have no twin.

    Raises:
        ServerError: the server can't be used.
        OSError, ValueError: a file can't be read or written; raised before the model is asked.
    """
    chosen = options or TwinOptions()
    recipe, settings = RECIPES[chosen.recipe], _settings(server, chosen)
    files = ModelFiles(out, settings)
    lacking = [one for one in sources if find_column(one.row, *_TWIN) is None]
    if lacking and "twin" not in chosen.made_columns:
        problem = f"{len(lacking):,} of {len(sources):,} stories have no twin"
        report(f"{problem}, which load_window_twins needs; add the twins to the input")

    async def work(ask: Asker, source: SourceStory) -> dict[str, Any]:
        return await recipe.make(ask, source.windows, chosen)

    run = run_jobs(
        server,
        files.answers,
        sources,
        work,
        key=lambda source: digest(source.windows),
        attempts=chosen.attempts,
        prices=prices,
        progress=progress,
        dry_run=dry_run,
    )
    made = recipe.made or ", ".join(chosen.made_columns)
    facts = DatasetFacts(
        name="Narrative twins",
        description=f"Stories, each with text written by a language model: {made}.",
        source=recipe_text("narrative-twins make twins", settings),
        limits=(
            "The rows were not reviewed: the model was asked for twins with the same plot and"
            " distractors with another one, but the plots were not checked. The licence of the"
            " stories also applies to the generated text, and the terms of the model may add"
            " restrictions."
        ),
        language=language,
        tags=["narrative-twins", "synthetic"],
    )

    def load(rows: Sequence[Mapping[str, Any]]) -> Callable[..., Any] | None:
        if any(find_column(row, *_TWIN) is None for row in rows):
            return None
        return load_story_twins if recipe.windows == 1 else load_window_twins

    return files.write([source.row for source in sources], run, facts, load)


def _settings(server: Server, options: TwinOptions) -> dict[str, Any]:
    """All settings that the rows depend on; also shown on the card."""
    settings: dict[str, Any] = {
        "recipe": options.recipe,
        "columns": options.made_columns,
        **model_settings(server, options.templates),
        "attempts": options.attempts,
    }
    if "twin" in options.made_columns:
        settings["word overlap of a twin and its story, at most"] = options.twin_overlap
    if "negative" in options.made_columns:
        overlap = options.distractor_overlap
        settings["word overlap of a distractor and its story, at least"] = overlap
    return settings
