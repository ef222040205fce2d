"""Makes twins and distractors of stories by a language model, and writes the rows, rejected stories
and card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.rows import STORY_NAMES, RowError, find_column, window_twins
from narrative_twins.files import digest
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.llm.answers import KnownAnswers
from narrative_twins.llm.running import Prices, Rejected, run_jobs
from narrative_twins.llm.server import Server
from narrative_twins.making.facts import recipe_text
from narrative_twins.making.made import (
    REJECT,
    MadeRows,
    RowFiles,
    model_settings,
    prompt_settings,
    rejected_row,
    rejected_text,
)
from narrative_twins.making.twins.recipes import SECTIONS, Recipe, ask
from narrative_twins.stories.story import Story, StoryError

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
    def parse(cls, content: Any, recipe: Recipe) -> SourceStory:
        """Parse a story in any form that `Story.parse` takes, or a data row with a `story`; may
        raise `StoryError`."""
        row = dict(content) if isinstance(content, Mapping) else {}
        given = find_column(row, *STORY_NAMES)
        if given is not None:
            content = {"sentences": given, "id": row.get("id")}
        story = Story.parse(content, windows=SECTIONS if recipe.name == "synopses" else 1)
        if recipe.name == "stories":
            named = {} if story.id is None else {"id": story.id}
            return cls({**named, "story": list(story.sentences)}, [list(story.sentences)])
        if len(story.windows) != SECTIONS:
            raise StoryError(
                f"the synopsis has {len(story.windows)} windows; give {SECTIONS}, or a list of"
                " sentences"
            )
        windows = [list(story.sentences[lo:hi]) for lo, hi in story.windows]
        copied = {
            name: value
            for name, value in row.items()
            if name not in (*STORY_NAMES, *_NEGATIVE, *REJECT, "text", "sentences")
        }
        if given is None:
            copied = {name: copied[name] for name in ("id", "title") if name in copied}
        row = {**copied, "story": windows}
        if find_column(row, *_TWIN) is not None:
            try:
                window_twins(row, "the row", SECTIONS)
            except RowError as error:
                raise StoryError(error.problem) from None
        return cls(row, windows)

    @property
    def lacks_twin(self) -> bool:
        """Whether the new row will have no twin: it is a synopsis without a twin, and none is
        made."""
        return len(self.windows) > 1 and find_column(self.row, *_TWIN) is None


def make_twins(
    sources: Sequence[SourceStory],
    server: Server,
    out: str,
    *,
    recipe: Recipe | None = None,
    prices: Prices | None = None,
    language: str = "en",
    progress: bool = False,
) -> MadeRows:
    """Make rows of narrative twins, and write them.

    Every answer is saved at once in `OUT.answers`, so the same call resumes an interrupted run.
    `OUT` gets the rows, for `load_story_twins` or `load_window_twins`, and `OUT.rejects` the
    rejected stories; neither is written if empty. The facts and the card of the rows are written
    beside them, see `narrative_twins.making.facts`; without a card if rows have no twin, since
    these do not load. The model is asked only once about equal stories.

    Args:
        sources: the stories.
        server: the language model.
        out: the JSON Lines file to write.
        recipe: what is made of each story; default: the recipe for short stories.
        prices: for the cost in the progress bar.
        language: the language of the stories, for the card.
        progress: show a progress bar.

    Raises:
        ServerError: the server can't be used.
        OSError, ValueError: a file can't be read or written; raised before the model is asked.
    """
    recipe = recipe or Recipe()
    settings = _settings(server, recipe)
    # Problems with files are raised here, before the model is asked.
    files = RowFiles(out, settings)
    unique = {digest(source.windows): source for source in sources}

    async def work(chat: KnownAnswers, source: SourceStory) -> dict[str, Any]:
        return await ask(chat, source.windows, recipe)

    run = run_jobs(
        server, f"{out}.answers", list(unique.values()), work, prices=prices, progress=progress
    )
    results = dict(zip(unique, run.results, strict=True))
    rows: list[dict[str, Any]] = []
    rejects: list[dict[str, Any]] = []
    for source in sources:
        _add_result(source, results[digest(source.windows)], rows, rejects)
    made = MadeRows(
        rows, rejects, run, _facts(settings, recipe, len(sources), rows, rejects, language)
    )
    lacks_twin = any(find_column(row, *_TWIN) is None for row in rows)
    load = load_window_twins if recipe.name == "synopses" else load_story_twins
    files.write(made, None if lacks_twin else load)
    return made


def _add_result(
    source: SourceStory, made: Any, rows: list[dict[str, Any]], rejects: list[dict[str, Any]]
) -> None:
    """Add a story to the rows or the rejected stories."""
    if isinstance(made, Rejected):
        rejects.append(rejected_row(source.row, made))
    else:
        rows.append({**source.row, **made})


def _facts(
    settings: Mapping[str, Any],
    recipe: Recipe,
    stories: int,
    rows: Sequence[Mapping[str, Any]],
    rejects: Sequence[Mapping[str, Any]],
    language: str,
) -> DatasetFacts:
    made = (
        "distractors in five sections" if recipe.name == "synopses" else ", ".join(recipe.columns)
    )
    return DatasetFacts(
        name="Narrative twins",
        description=(
            f"Stories, each with text written by a language model: {made}. Of {stories:,} stories"
            f" {len(rows):,} have a row and {rejected_text(rejects)}."
        ),
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


def _settings(server: Server, recipe: Recipe) -> dict[str, Any]:
    """All settings that the rows depend on; also shown on the card."""
    settings: dict[str, Any] = {
        "recipe": recipe.name,
        "columns": list(recipe.columns) if recipe.name == "stories" else ["negative"],
        **model_settings(server),
        **prompt_settings(recipe.templates),
        "attempts": recipe.attempts,
    }
    if recipe.name == "stories":
        settings["word overlap of a twin and its story, at most"] = recipe.twin_overlap
    if recipe.name == "synopses" or "negative" in recipe.columns:
        settings["word overlap of a distractor and its story, at least"] = recipe.distractor_overlap
    return settings
