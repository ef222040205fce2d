"""Rows that a language model has made, the stories that it has not, and the files that they are
written to."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from narrative_twins.files import AtomicFile, ResumableFile, digest, read_settings, run_path
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.llm.prompts import Template
from narrative_twins.llm.running import Rejected, Run
from narrative_twins.llm.server import Server
from narrative_twins.making.facts import (
    card_path,
    facts_beside,
    facts_path,
    public_name,
    remove_card,
    write_beside,
    write_facts,
)

REJECT = ("step", "reason", "attempts", "answer")
"""Columns that are added to a rejected story."""


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


class Estimate(NamedTuple):
    """The numbers of questions and tokens of a run in which all answers are valid, and the number
    of stories that would be rejected without another question."""

    questions: int
    prompt_tokens: int
    completion_tokens: int
    aside: int


class RowFiles:
    """The files of such a run: `OUT` has the rows and `OUT.rejects` the rejected stories; facts and
    card are beside.

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
            AtomicFile(str(file)) for file in (f"{out}.rejects", facts_path(out), card_path(out))
        ]
        self._keep_edits = read_settings(run_path(self._rows.path)) == self._rows.settings

    def write(self, made: MadeRows, load: Callable[..., Any] | None) -> None:
        """Write the rows and rejected stories, neither if empty, then the facts and the card of the
        rows; no card without `load`, the function that loads the rows, since they do not load
        then."""
        _write_if_any(self._rows, made.rows)
        _write_if_any(self._rejects, made.rejects)
        if not made.rejects and os.path.isfile(self._rejects.path):
            # All stories that an earlier run rejected have a row now.
            os.unlink(self._rejects.path)
        if not made.rows:
            return
        if load is not None:
            write_beside(self.out, made.facts, load, self._keep_edits)
        else:
            write_facts(self.out, made.facts, self._keep_edits)
            remove_card(self.out)


def rejected_row(row: Mapping[str, Any], reason: Rejected) -> dict[str, Any]:
    """The row of a rejected story: its own columns, and why it was rejected."""
    values = reason.step, reason.reason, reason.attempts, reason.answer
    return {**row, **dict(zip(REJECT, values, strict=True))}


def rejected_text(rejects: Sequence[Mapping[str, Any]]) -> str:
    """The number of rejected stories in words, with the steps at which they were rejected."""
    steps = Counter(str(reject["step"]) for reject in rejects).most_common()
    reasons = "; ".join(f"{count} at {step}" for step, count in steps)
    return f"{len(rejects):,} were rejected{f' ({reasons})' if reasons else ''}"


def model_settings(server: Server) -> dict[str, Any]:
    """The settings of a language model that its answers depend on, for a card."""
    fields = {"temperature": server.temperature, "seed": server.seed, **server.fields}
    return {
        "language model": public_name(server.model),
        "fields of a request": {name: value for name, value in fields.items() if value is not None},
    }


def prompt_settings(templates: Mapping[str, Template]) -> dict[str, Any]:
    """The prompts of a run, for a card: by digest, since the name of a user's prompt is a local
    path."""
    return {
        "prompts": {name: digest(template.text)[:12] for name, template in templates.items()},
        "prompts of the user": [
            name for name, template in templates.items() if template.name != name
        ],
    }


def _write_if_any(file: AtomicFile, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        with file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
