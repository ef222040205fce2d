"""Makes twins and distractors of stories by a language model, and writes the rows, rejected stories and card."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.rows import STORY_NAMES, RowError, find_column
from narrative_twins.data.shapes import window_twins
from narrative_twins.files import AtomicFile, ResumableFile, read_settings, run_path
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.llm.answers import digest
from narrative_twins.llm.running import ChatLike, Prices, Rejected, Run, run_jobs
from narrative_twins.llm.server import Server
from narrative_twins.making.facts import (
    card_path,
    facts_beside,
    facts_path,
    public_name,
    recipe_text,
    remove_card,
    write_beside,
    write_facts,
)
from narrative_twins.making.twins.recipes import SECTIONS, Recipe, ask
from narrative_twins.stories.story import Story, StoryError

_TWIN = ("twin", "translated_narrative_twin")
_NEGATIVE = ("negative", "negative_narrative")
_REJECT = ("step", "reason", "attempts", "answer")
"""Columns that are added to a rejected story."""


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
        """Parse a story in any form that `Story.parse` takes, or a data row with a `story`; may raise `StoryError`."""
        row = dict(content) if isinstance(content, Mapping) else {}
        given = find_column(row, *STORY_NAMES)
        if given is not None:
            content = {"sentences": given, "id": row.get("id")}
        story = Story.parse(content, windows=SECTIONS if recipe.name == "synopses" else 1)
        if recipe.name == "stories":
            named = {} if story.id is None else {"id": story.id}
            return cls({**named, "story": list(story.sentences)}, [list(story.sentences)])
        if len(story.windows) != SECTIONS:
            raise StoryError(f"the synopsis has {len(story.windows)} windows; give {SECTIONS}, or a list of sentences")
        windows = [list(story.sentences[lo:hi]) for lo, hi in story.windows]
        copied = {
            name: value
            for name, value in row.items()
            if name not in (*STORY_NAMES, *_NEGATIVE, *_REJECT, "text", "sentences")
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
        """Whether the new row will have no twin: it is a synopsis without a twin, and none is made."""
        return len(self.windows) > 1 and find_column(self.row, *_TWIN) is None


@dataclass(frozen=True)
class TwinsResult:
    """The result of `make_twins`.

    Attributes:
        rows: the new rows, in the order of the stories.
        rejects: the rejected stories, with the step, the reason, the number of attempts and the last answer.
        run: the numbers of new answers and their tokens.
        facts: the facts for the card.
    """

    rows: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    run: Run
    facts: DatasetFacts


def make_twins(
    sources: Sequence[SourceStory],
    server: Server,
    out: str,
    *,
    recipe: Recipe | None = None,
    prices: Prices | None = None,
    language: str = "en",
    progress: bool = False,
) -> TwinsResult:
    """Make rows of narrative twins, and write them.

    Every answer is saved at once in `OUT.answers`, so the same call resumes an interrupted run. `OUT` gets the rows,
    for `load_story_twins` or `load_window_twins`, and `OUT.rejects` the rejected stories; neither is written if empty.
    The facts and the card of the rows are written beside them, see `narrative_twins.making.facts`; without a card if
    rows have no twin, since these do not load. The model is asked only once about equal stories.

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
    # Problems with files are raised here, before the model is asked.
    facts_beside(out)
    settings = _settings(server, recipe)
    rows_file = ResumableFile(out, settings)
    rejects_file, *_ = [AtomicFile(str(file)) for file in (f"{out}.rejects", facts_path(out), card_path(out))]
    keep_edits = read_settings(run_path(rows_file.path)) == rows_file.settings
    unique = {digest(source.windows): source for source in sources}

    async def work(chat: ChatLike, source: SourceStory) -> dict[str, Any]:
        return await ask(chat, source.windows, recipe)

    run = run_jobs(server, f"{out}.answers", list(unique.values()), work, prices=prices, progress=progress)
    results = dict(zip(unique, run.results, strict=True))
    rows: list[dict[str, Any]] = []
    rejects: list[dict[str, Any]] = []
    for source in sources:
        _add_result(source, results[digest(source.windows)], rows, rejects)
    made = TwinsResult(rows, rejects, run, _facts(settings, recipe, len(sources), rows, rejects, language))
    _write_if_any(rows_file, rows)
    _write_if_any(rejects_file, rejects)
    if not rejects and os.path.isfile(rejects_file.path):
        # All stories that an earlier run rejected have a row now.
        os.unlink(rejects_file.path)
    if any(find_column(row, *_TWIN) is None for row in rows):
        write_facts(out, made.facts, keep_edits)
        remove_card(out)
    elif rows:
        load = load_window_twins if recipe.name == "synopses" else load_story_twins
        write_beside(out, made.facts, load, keep_edits)
    return made


def _add_result(source: SourceStory, made: Any, rows: list[dict[str, Any]], rejects: list[dict[str, Any]]) -> None:
    """Add a story to the rows or the rejected stories."""
    if isinstance(made, Rejected):
        values = made.step, made.reason, made.attempts, made.answer
        rejects.append({**source.row, **dict(zip(_REJECT, values, strict=True))})
    else:
        rows.append({**source.row, **made})


def _write_if_any(file: AtomicFile, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        with file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _facts(
    settings: Mapping[str, Any],
    recipe: Recipe,
    stories: int,
    rows: Sequence[Mapping[str, Any]],
    rejects: Sequence[Mapping[str, Any]],
    language: str,
) -> DatasetFacts:
    made = "distractors in five sections" if recipe.name == "synopses" else ", ".join(recipe.columns)
    aside = Counter(str(reject["step"]) for reject in rejects)
    reasons = "; ".join(f"{count} at {step}" for step, count in aside.most_common())
    return DatasetFacts(
        name="Narrative twins",
        description=(
            f"Stories, each with text written by a language model: {made}. Of {stories:,} stories {len(rows):,} have a "
            f"row and {len(rejects):,} were rejected{f' ({reasons})' if reasons else ''}."
        ),
        source=recipe_text("narrative-twins make twins", settings),
        limits=(
            "The rows were not reviewed: the model was asked for twins with the same plot and distractors with another "
            "one, but the plots were not checked. The licence of the stories also applies to the generated text, and "
            "the terms of the model may add restrictions."
        ),
        language=language,
        tags=["narrative-twins", "synthetic"],
    )


def _settings(server: Server, recipe: Recipe) -> dict[str, Any]:
    """All settings that the rows depend on; also shown on the card."""
    fields = {"temperature": server.temperature, "seed": server.seed, **server.fields}
    settings: dict[str, Any] = {
        "recipe": recipe.name,
        "columns": list(recipe.columns) if recipe.name == "stories" else ["negative"],
        "language model": public_name(server.model),
        "fields of a request": {name: value for name, value in fields.items() if value is not None},
        # By digest, since the name of a user's prompt is a local path.
        "prompts": {name: digest(template.text)[:12] for name, template in recipe.templates.items()},
        "prompts of the user": [name for name, template in recipe.templates.items() if template.name != name],
        "attempts": recipe.attempts,
    }
    if recipe.name == "stories":
        settings["word overlap of a twin and its story, at most"] = recipe.twin_overlap
    if recipe.name == "synopses" or "negative" in recipe.columns:
        settings["word overlap of a distractor and its story, at least"] = recipe.distractor_overlap
    return settings
