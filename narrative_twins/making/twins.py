"""Makes twins and distractors of stories by a language model, and writes the rows, rejected stories
and card."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.rows import STORY_NAMES, RowError, find_column, window_twins
from narrative_twins.files import digest
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.llm.chat import Chat, Server
from narrative_twins.llm.running import Prices, run_jobs
from narrative_twins.making.made import (
    REJECT,
    MadeRows,
    ModelFiles,
    Report,
    model_settings,
    recipe_text,
)
from narrative_twins.making.recipes import RECIPES, TwinOptions
from narrative_twins.stories.story import Story, StoryError

logger = logging.getLogger(__name__)

_TWIN = ("twin", "translated_narrative_twin")
_NEGATIVE = ("negative", "negative_narrative")


def source_row(content: Any, options: TwinOptions) -> dict[str, Any]:
    """The row that a story in any form that `Story.parse` takes, or a data row with a `story`,
    becomes part of: the columns to keep, and its sentences as `story`, in windows if the recipe has
    several; may raise `StoryError`."""
    count = RECIPES[options.recipe].windows
    row = dict(content) if isinstance(content, Mapping) else {}
    given = find_column(row, *STORY_NAMES)
    if given is not None:
        content = {"sentences": given, "id": row.get("id")}
    story = Story.parse(content, windows=count)
    if count == 1:
        named = {} if story.id is None else {"id": story.id}
        return {**named, "story": list(story.sentences)}
    if len(story.windows) != count:
        raise StoryError(
            f"the synopsis has {len(story.windows)} windows; give {count}, or a list of sentences"
        )
    left_out = (*STORY_NAMES, *_NEGATIVE, *REJECT, "text", "sentences")
    copied = {name: value for name, value in row.items() if name not in left_out}
    if given is None:
        copied = {name: copied[name] for name in ("id", "title") if name in copied}
    row = {**copied, "story": [list(story.sentences[lo:hi]) for lo, hi in story.windows]}
    if find_column(row, *_TWIN) is not None:
        try:
            window_twins(row, "the row", count)
        except RowError as error:
            raise StoryError(error.problem) from None
    return row


def make_twins(
    rows: Sequence[Mapping[str, Any]],
    server: Server,
    out: str,
    *,
    options: TwinOptions | None = None,
    prices: Prices | None = None,
    language: str = "en",
    progress: bool = False,
    dry_run: bool = False,
    report: Report = logger.warning,
) -> MadeRows:
    """Make rows of narrative twins, and write them.

    Every answer is saved at once in `OUT.answers`, so the same call resumes an interrupted run.
    `OUT` gets the rows, for `load_story_twins` or `load_window_twins`, and `OUT.rejects` the
    rejected stories; neither is written if empty. The facts and the card of the rows are written
    next to them, see `RowsFile`. The model is asked only once about equal stories.

    Args:
        rows: the stories, see `source_row`.
        server: the language model.
        out: the JSON Lines file to write.
        options: what is made of each story; default: all columns of short stories.
        prices: for the cost in the progress bar.
        language: the language of the stories, for the card.
        progress: show a progress bar.
        dry_run: send nothing and write nothing, but return the questions that would be asked, see
            `Run`; stories stand in for the answers that are missing.
        report: is called with each problem, for example rows that will have no twin.

    Raises:
        ServerError: the server can't be used.
        OSError, ValueError: a file can't be read or written; raised before the model is asked.
    """
    chosen = options or TwinOptions()
    recipe = RECIPES[chosen.recipe]
    single = len(recipe.columns) == 1
    columns = [name for name in recipe.columns if single or name in chosen.columns]
    settings = {
        "recipe": chosen.recipe,
        "columns": columns,
        **model_settings(server, chosen.templates),
        "attempts": chosen.attempts,
    }
    if "twin" in columns:
        settings["word overlap of a twin and its story, at most"] = chosen.twin_overlap
    if "negative" in columns:
        settings["word overlap of a distractor and its story, at least"] = chosen.distractor_overlap
    files = ModelFiles(out, settings)
    lacking = sum(find_column(row, *_TWIN) is None for row in rows)
    if lacking and "twin" not in columns:
        problem = f"{lacking:,} of {len(rows):,} stories have no twin"
        report(f"{problem}, which load_window_twins needs; add the twins to the input")

    async def work(chat: Chat, row: Mapping[str, Any]) -> dict[str, Any]:
        windows = [row["story"]] if recipe.windows == 1 else row["story"]
        return await recipe.make(chat.ask, windows, chosen)

    run = run_jobs(
        server,
        files.answers,
        rows,
        work,
        key=lambda row: digest(row["story"]),
        attempts=chosen.attempts,
        prices=prices,
        progress=progress,
        dry_run=dry_run,
    )
    facts = DatasetFacts(
        name="Narrative twins",
        description="Stories, each with text written by a language model:"
        f" {recipe.made or ', '.join(columns)}.",
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
    load = load_story_twins if recipe.windows == 1 else load_window_twins
    return files.write(rows, run, facts, load, report)
