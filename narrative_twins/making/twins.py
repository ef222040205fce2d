"""Twins and distractors of stories by a language model, as rows to train on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.rows import (
    NEGATIVE_NAMES,
    STORY_NAMES,
    TWIN_NAMES,
    find_column,
    window_twins,
)
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.by_model import (
    LICENCE,
    REJECT,
    Generated,
    model_settings,
    rows_by_model,
)
from narrative_twins.making.generated import Report, logger, recipe_text
from narrative_twins.making.recipes import RECIPES, TwinOptions
from narrative_twins.prompting.chat import ATTEMPTS, Chat, Server
from narrative_twins.stories.story import Story, StoryError


def source_row(content: Any, options: TwinOptions) -> dict[str, Any]:
    """The row that a story in any form that `Story.parse` takes, or a data row with a `story`,
    becomes part of: the columns to keep, and its sentences as `story`, in windows if the recipe has
    several; may raise `StoryError` or `RowError`."""
    count = RECIPES[options.recipe].windows
    row = dict(content) if isinstance(content, Mapping) else {}
    text = find_column(row, *STORY_NAMES)
    if text is not None:
        content = {"sentences": text, "id": row.get("id")}
    story = Story.parse(content, windows=count)
    if count == 1:
        named = {} if story.id is None else {"id": story.id}
        return {**named, "story": list(story.sentences)}
    if len(story.windows) != count:
        raise StoryError(
            f"the synopsis has {len(story.windows)} windows; give {count}, or a list of sentences"
        )
    left_out = (*STORY_NAMES, *NEGATIVE_NAMES, *REJECT, "text", "sentences")
    # Of what is no data row, only these are columns.
    copied = ("id", "title") if text is None else set(row).difference(left_out)
    columns = {name: value for name, value in row.items() if name in copied}
    columns["story"] = [list(story.sentences[lo:hi]) for lo, hi in story.windows]
    if find_column(columns, *TWIN_NAMES) is not None:
        window_twins(columns, "the row", count)
    return columns


def make_twins(
    rows: Sequence[Mapping[str, Any]],
    server: Server,
    out: str,
    *,
    options: TwinOptions | None = None,
    attempts: int = ATTEMPTS,
    language: str = "en",
    progress: bool = False,
    report: Report = logger.warning,
) -> Generated:
    """Make rows of narrative twins, for `load_story_twins` or `load_window_twins`, and write them,
    see `rows_by_model`.

    Args:
        rows: the stories, see `source_row`.
        server: the language model.
        out: the JSON Lines file to write.
        options: what is made of each story; default: all columns of short stories.
        attempts, progress, report: see `rows_by_model`, which also has the errors.
        language: the language of the stories, for the card.
    """
    options = options or TwinOptions()
    recipe = RECIPES[options.recipe]
    single = len(recipe.columns) == 1
    settings = {
        "recipe": options.recipe,
        "columns": [name for name in recipe.columns if single or name in options.columns],
        **model_settings(server, options.templates, attempts),
        "word overlap of a twin and its story, at most": options.twin_overlap,
        "word overlap of a distractor and its story, at least": options.distractor_overlap,
    }
    facts = DatasetFacts(
        name="Narrative twins",
        description="Stories, each with columns written by a language model:"
        f" {', '.join(settings['columns'])}.",
        source=recipe_text("narrative-twins make twins", settings),
        limits="The rows were not reviewed: the model was asked for twins with the same plot and"
        f" distractors with another one, but the plots were not checked. {LICENCE}",
        language=language,
        tags=["narrative-twins", "synthetic"],
    )

    def ask(chat: Chat, row: Mapping[str, Any]) -> dict[str, Any]:
        windows = [row["story"]] if recipe.windows == 1 else row["story"]
        return recipe.make(chat.ask, windows, options)

    load = load_story_twins if recipe.windows == 1 else load_window_twins
    return rows_by_model(rows, ask, server, out, facts, load, attempts, progress, report)
