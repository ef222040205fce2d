"""Rows that are made, and the files that they are written to: rows, rejected stories, and the facts
and the dataset card that say how the rows were made and what was dropped."""

from __future__ import annotations

import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import datasets

from narrative_twins.files import AtomicFile, ResumableFile, digest
from narrative_twins.hub.cards import card_of_rows
from narrative_twins.hub.facts import DatasetFacts, facts_text, read_facts
from narrative_twins.llm.prompts import Template
from narrative_twins.llm.running import Rejected, Run
from narrative_twins.llm.server import Server, estimate_tokens

logger = logging.getLogger(__name__)

REJECT = ("step", "reason", "attempts", "answer")
"""Columns that are added to a rejected story."""

_WRITTEN_BY_RUNS = ("description", "source", "language")
"""Facts that each run writes; user edits of them are not kept."""


@dataclass(frozen=True)
class MadeRows:
    """The result of a run that makes rows by a language model.

    Attributes:
        rows: the new rows, in the order of the stories.
        rejects: the rejected stories, with the step, the reason, the number of attempts and the
            last answer.
        run: the numbers of new answers and their tokens.
        facts: the facts for the card.
    """

    rows: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    run: Run
    facts: DatasetFacts


class PlannedQuestion(NamedTuple):
    """A question that would be asked.

    Attributes:
        story: the digest of the story.
        step: what it asks for.
        prompt: its text.
        answer_tokens: an estimate of the length of the answer.
        is_stand_in: whether the prompt contains the story in place of an answer that is still
            missing.
    """

    story: str
    step: str
    prompt: str
    answer_tokens: int
    is_stand_in: bool = False


class Plan(NamedTuple):
    """The questions about a story that are not answered yet, in order, and whether the story would
    be rejected whatever their answers are."""

    questions: list[PlannedQuestion]
    is_rejected: bool = False


class Estimate(NamedTuple):
    """The numbers of questions and tokens of a run in which all answers are valid, and the number
    of stories that would be rejected without another question."""

    questions: int
    prompt_tokens: int
    completion_tokens: int
    aside: int

    @classmethod
    def of(cls, plans: Iterable[Plan]) -> Estimate:
        """Estimate a run by the plans of its stories; equal questions are asked once."""
        plans = list(plans)
        asked = {(q.story, q.step): q for plan in plans for q in plan.questions}.values()
        return cls(
            len(asked),
            sum(estimate_tokens(question.prompt) for question in asked),
            sum(question.answer_tokens for question in asked),
            sum(plan.is_rejected for plan in plans),
        )


class RowFiles:
    """The files of a run: `OUT` has the rows and `OUT.rejects` the rejected stories; facts and card
    are next to them.

    Args:
        out: the JSON Lines file of the rows.
        settings: all settings that the rows depend on.

    Raises:
        OSError, ValueError: a file can't be read or written; raised before the model is asked.
    """

    def __init__(self, out: str, settings: Mapping[str, Any]) -> None:
        facts_beside(out)
        self.out = out
        self._rows = ResumableFile(out, settings)
        self._rejects, *_ = [
            AtomicFile(str(file), follow=False)
            for file in (f"{out}.rejects", facts_path(out), card_path(out))
        ]
        self._keep_edits = self._rows.repeats_complete_run

    def write(self, made: MadeRows, load: Callable[..., Any] | None) -> None:
        """Write the rows and rejected stories, neither if empty, then the facts and the card of the
        rows; no card without `load`, the function that loads the rows, since they do not load
        then."""
        if made.rows:
            with self._rows as rows:
                for row in made.rows:
                    rows.write_row(row)
        if made.rejects:
            with self._rejects as rejects:
                for row in made.rejects:
                    rejects.write_row(row)
        elif os.path.isfile(self._rejects.path):
            # All stories that an earlier run rejected have a row now.
            os.unlink(self._rejects.path)
        if made.rows:
            write_beside(self.out, made.facts, load, self._keep_edits)


def facts_path(data: str) -> Path:
    """The file of facts of a data file: `twins.facts.yaml` of `twins.jsonl`."""
    return Path(data).with_suffix(".facts.yaml")


def card_path(data: str) -> Path:
    """The card of a data file: `twins.card.md` of `twins.jsonl`."""
    return Path(data).with_suffix(".card.md")


def facts_beside(data: str) -> DatasetFacts | None:
    """The facts of a data file, None if there are none; raises `ValueError` if their file can't be
    read."""
    path = facts_path(data)
    return read_facts(DatasetFacts, path) if path.exists() else None


def write_beside(
    data: str, facts: DatasetFacts, load: Callable[..., Any] | None, keep_edits: bool
) -> None:
    """Write the facts of a complete data file, for `read_facts` and `push_dataset`, and the card
    for the Hub; this also checks that the rows load.

    Args:
        data: the data file.
        facts: the facts of its rows.
        load: the function that loads the file, for example `load_window_twins`; None for rows that
            do not load: the card of an earlier run is removed, and none is written.
        keep_edits: the rows were made with the same settings as before, so user edits of the
            earlier facts are kept, except for the description, source and language of the rows.
            Otherwise edited facts are renamed to `NAME.facts.yaml.old`, with a warning.

    Raises:
        ValueError: the earlier file can't be read, or a row does not load (`RowError`); then the
            facts are written, the card is not.
    """
    path, earlier = facts_path(data), facts_beside(data)
    if earlier is not None:
        edited = replace(earlier, **{name: getattr(facts, name) for name in _WRITTEN_BY_RUNS})
        if keep_edits:
            facts = edited
        elif edited != facts:
            os.replace(path, f"{path}.old")
            logger.warning(
                "%s describes rows made with other settings, so it is now %s.old; copy what is"
                " still true",
                path,
                path,
            )
    with AtomicFile(str(path), follow=False) as file:
        file.write(facts_text(facts))
    card_path(data).unlink(missing_ok=True)
    if load is not None:
        with tempfile.TemporaryDirectory() as cache, _no_progress_bars():
            card = str(card_of_rows(load({"train": data}, cache_dir=cache), facts))
        with AtomicFile(str(card_path(data)), follow=False) as file:
            file.write(card)


def rejected_row(row: Mapping[str, Any], reason: Rejected) -> dict[str, Any]:
    """The row of a rejected story: its own columns, and why it was rejected."""
    return {**row, **{name: getattr(reason, name) for name in REJECT}}


def rejected_text(rejects: Sequence[Mapping[str, Any]]) -> str:
    """The number of rejected stories in words, with the steps at which they were rejected."""
    steps = Counter(str(reject["step"]) for reject in rejects).most_common()
    reasons = "; ".join(f"{count} at {step}" for step, count in steps)
    return f"{len(rejects):,} were rejected{f' ({reasons})' if reasons else ''}"


def model_settings(server: Server, templates: Mapping[str, Template]) -> dict[str, Any]:
    """The settings of a language model that its answers depend on, and the prompts, for a card:
    prompts by digest, since the name of a user's prompt is a local path."""
    fields = {"temperature": server.temperature, "seed": server.seed, **server.fields}
    return {
        "language model": public_name(server.model),
        "fields of a request": {name: value for name, value in fields.items() if value is not None},
        "prompts": {name: digest(template.text)[:12] for name, template in templates.items()},
        "prompts of the user": [
            name for name, template in templates.items() if template.name != name
        ],
    }


def recipe_text(command: str, settings: Mapping[str, object]) -> str:
    """The settings of a run in Markdown, for the card; empty ones are skipped."""
    version = metadata.version("narrative_twins")
    lines = [f"Made by `{command}` (narrative_twins {version}):", ""]
    for name, value in settings.items():
        if value not in (None, [], {}):
            lines.append(f"- {name}: {_as_text(value)}")
    return "\n".join(lines)


def _as_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_as_text(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_as_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def public_name(source: str) -> str:
    """The name of a model or file for a card; only the last part of a local path, since cards are
    published."""
    return Path(source).resolve().name if os.path.exists(source) else source


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Disables the progress bars of `datasets`."""
    disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not disabled:
            datasets.enable_progress_bars()
