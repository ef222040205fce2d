"""Twins and distractors of many stories, by a language model: rows to train on, what was set aside, and the card."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrative_twins.data.loading import load_story_twins, load_window_twins
from narrative_twins.data.rows import STORY_NAMES, RowError, find
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
"""What stands beside a story that was set aside."""


@dataclass(frozen=True)
class SourceStory:
    """A story to make something of.

    Attributes:
        row: the columns that stay beside what is made; `story` is one.
        windows: its sentences, those of a short story in one window.
    """

    row: Mapping[str, Any]
    windows: list[list[str]]

    @classmethod
    def parse(cls, content: Any, recipe: Recipe) -> SourceStory:
        """A story in any form that `Story.parse` takes, or a row of data with a `story`.

        Raises:
            StoryError: it is none, or the twin that it comes with does not fit it.
        """
        row = dict(content) if isinstance(content, Mapping) else {}
        given = find(row, *STORY_NAMES)
        if given is not None:
            content = {"sentences": given, "id": row.get("id")}
        story = Story.parse(content, windows=SECTIONS if recipe.name == "synopses" else 1)
        if recipe.name == "stories":
            named = {} if story.id is None else {"id": story.id}
            return cls({**named, "story": list(story.sentences)}, [list(story.sentences)])
        if len(story.windows) != SECTIONS:
            raise StoryError(f"it is in {len(story.windows)} windows; a synopsis has {SECTIONS}, or comes uncut")
        windows = [list(story.sentences[lo:hi]) for lo, hi in story.windows]
        kept = {
            name: value
            for name, value in row.items()
            if name not in (*STORY_NAMES, *_NEGATIVE, *_REJECT, "text", "sentences")
        }
        if given is None:
            kept = {name: kept[name] for name in ("id", "title") if name in kept}
        row = {**kept, "story": windows}
        if find(row, *_TWIN) is not None:
            try:
                window_twins(row, "the row", SECTIONS)
            except RowError as error:
                raise StoryError(error.problem) from None
        return cls(row, windows)

    @property
    def twinless(self) -> bool:
        """Whether its row will have no twin, since it came without and none is made."""
        return len(self.windows) > 1 and find(self.row, *_TWIN) is None


@dataclass(frozen=True)
class Made:
    """What came of a run.

    Attributes:
        rows: in the order of the stories, those that were set aside left out.
        rejects: of these the story, the step, the reason and the last answer.
        run: what was paid for.
        facts: the card.
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
) -> Made:
    """Make rows of narrative twins, and write them.

    Every answer is in `OUT.answers` before the next is asked for, so a run that was broken off goes on where it was,
    by the same call. `OUT` then has the rows, if there are any, for `load_story_twins` or `load_window_twins`;
    `OUT.rejects` the stories that were set aside, if there are any. Beside the rows are their facts and their card, see
    `narrative_twins.making.facts`; there is no card while rows are without a twin, since these do not load. Equal
    stories are asked for once.

    Args:
        sources: the stories.
        server: the language model.
        out: the file of JSON Lines to write.
        recipe: what is made of each story; default the one for short stories.
        prices: for the progress bar.
        language: of the stories, for the card.
        progress: show a progress bar.

    Raises:
        ServerError: the server can't be used.
        OSError, ValueError: something can't be written or read; said before anything is asked.
    """
    recipe = recipe or Recipe()
    # What can't be read or written is said before anything is asked.
    facts_beside(out)
    settings = _settings(server, recipe)
    rows_file = ResumableFile(out, settings)
    rejects_file, *_ = [AtomicFile(str(file)) for file in (f"{out}.rejects", facts_path(out), card_path(out))]
    keep_edits = read_settings(run_path(rows_file.path)) == rows_file.settings
    different = {digest(source.windows): source for source in sources}

    async def work(chat: ChatLike, source: SourceStory) -> dict[str, Any]:
        return await ask(chat, source.windows, recipe)

    run = run_jobs(server, f"{out}.answers", list(different.values()), work, prices=prices, progress=progress)
    results = dict(zip(different, run.results, strict=True))
    rows: list[dict[str, Any]] = []
    rejects: list[dict[str, Any]] = []
    for source in sources:
        _file(source, results[digest(source.windows)], rows, rejects)
    made = Made(rows, rejects, run, _facts(settings, recipe, len(sources), rows, rejects, language))
    _write(rows_file, rows)
    _write(rejects_file, rejects)
    if not rejects and os.path.isfile(rejects_file.path):
        # What an earlier run set aside has a row now.
        os.unlink(rejects_file.path)
    if any(find(row, *_TWIN) is None for row in rows):
        write_facts(out, made.facts, keep_edits)
        remove_card(out)
    elif rows:
        load = load_window_twins if recipe.name == "synopses" else load_story_twins
        write_beside(out, made.facts, load, keep_edits)
    return made


def _file(source: SourceStory, made: Any, rows: list[dict[str, Any]], rejects: list[dict[str, Any]]) -> None:
    """Put a story with the rows, or with those that are set aside."""
    if isinstance(made, Rejected):
        why = made.step, made.reason, made.attempts, made.answer
        rejects.append({**source.row, **dict(zip(_REJECT, why, strict=True))})
    else:
        rows.append({**source.row, **made})


def _write(file: AtomicFile, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, if there are any."""
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
        what=(
            f"Stories with what a language model made of each: {made}. Of {stories:,} stories {len(rows):,} have a row "
            f"and {len(rejects):,} were set aside{f' ({reasons})' if reasons else ''}."
        ),
        source=recipe_text("narrative-twins make twins", settings),
        limits=(
            "Nobody has read the rows: that a twin tells the same plot, and a distractor another, is what the model "
            "was asked for and not what was checked. The licence of the stories holds for what was made of them, and "
            "the terms of the model may say more."
        ),
        language=language,
        tags=["narrative-twins", "synthetic"],
    )


def _settings(server: Server, recipe: Recipe) -> dict[str, Any]:
    """All that the rows depend on, for the card too."""
    asked = {"temperature": server.temperature, "seed": server.seed, **server.fields}
    settings: dict[str, Any] = {
        "recipe": recipe.name,
        "columns": list(recipe.columns) if recipe.name == "stories" else ["negative"],
        "language model": public_name(server.model),
        "fields of a request": {name: value for name, value in asked.items() if value is not None},
        # By digest: the file name of a prompt may contain a path of this machine.
        "prompts": {name: digest(template.text)[:12] for name, template in recipe.templates.items()},
        "prompts of the user": [name for name, template in recipe.templates.items() if template.name != name],
        "attempts": recipe.attempts,
    }
    if recipe.name == "stories":
        settings["word overlap of a twin and its story, at most"] = recipe.twin_overlap
    if recipe.name == "synopses" or "negative" in recipe.columns:
        settings["word overlap of a distractor and its story, at least"] = recipe.distractor_overlap
    return settings
