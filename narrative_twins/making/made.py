"""The files of made rows: the rows, rejected stories, and the facts and the dataset card that say
how the rows were made and what was dropped."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import datasets

from narrative_twins.files import STDIN, AtomicFile, ResumableFile, digest, read_settings, run_path
from narrative_twins.hub.cards import card_of_rows
from narrative_twins.hub.facts import DatasetFacts, facts_text, read_facts
from narrative_twins.llm.chat import Rejected, Server
from narrative_twins.llm.prompts import Template
from narrative_twins.llm.running import Run

logger = logging.getLogger(__name__)

Report = Callable[[str], None]

FACTS, CARD = ".facts.yaml", ".card.md"
"""Suffixes of the facts and the card of a data file, in place of `.jsonl`."""

REJECT = ("step", "reason", "attempts", "answer")
"""Columns that are added to a rejected story."""

_WRITTEN_BY_RUNS = ("description", "source", "language")
"""Facts that each run writes; user edits of them are not kept."""


class RowsFile(ResumableFile):
    """The JSON Lines file of the rows of a run, which can be resumed. The facts and the card of the
    rows are next to it: `twins.facts.yaml` and `twins.card.md` of `twins.jsonl`.

    Args:
        out: the file, or `-` for standard output.
        settings: all settings that the rows depend on.
        resume: resume an earlier run, if there is one.

    Raises:
        ResumeError: the settings of the earlier run differ or are missing.
        OSError, ValueError: a file can't be written, or the facts of an earlier run can't be read.
    """

    def __init__(self, out: str, settings: Mapping[str, Any], resume: bool = False) -> None:
        super().__init__(out, settings, resume, sync=True)
        # Whether the complete file, if there is one, was made with the same settings.
        self._out, self._repeats = out, read_settings(run_path(self.path)) == self.settings
        if out != STDIN:
            facts_of(out)
            self._facts, self._card = (
                AtomicFile(str(Path(out).with_suffix(suffix)), follow=False)
                for suffix in (FACTS, CARD)
            )

    def describe(
        self, facts: DatasetFacts, load: Callable[..., Any], report: Report = logger.warning
    ) -> None:
        """Write the facts, for `read_facts` and `push_dataset`, and the card for the Hub, when the
        rows are complete.

        User edits of earlier facts are kept if the rows were made with the same settings as before,
        except for the description, source and language. Otherwise edited facts are renamed to
        `NAME.facts.yaml.old`, with a warning. Rows that do not load get no card.

        Args:
            facts: the facts of the rows.
            load: the function that loads the rows, for example `load_window_twins`.
            report: is called with each problem.
        """
        path, earlier = self._facts.path, facts_of(self._out)
        if earlier is not None:
            edited = replace(earlier, **{name: getattr(facts, name) for name in _WRITTEN_BY_RUNS})
            if self._repeats:
                facts = edited
            elif edited != facts:
                os.replace(path, f"{path}.old")
                report(
                    f"{path} describes rows made with other settings, so it is now {path}.old; copy"
                    " what is still true"
                )
        with self._facts as file:
            file.write(facts_text(facts))
        Path(self._card.path).unlink(missing_ok=True)
        shows_bars = not datasets.are_progress_bars_disabled()
        datasets.disable_progress_bars()
        try:
            with tempfile.TemporaryDirectory() as cache:
                card = card_of_rows(load({"train": self._out}, cache_dir=cache), facts)
        except ValueError as error:
            report(f"no card was written, since the rows can't be trained on: {error}")
        else:
            with self._card as file:
                file.write(str(card))
        finally:
            if shows_bars:
                datasets.enable_progress_bars()


def facts_of(data: str) -> DatasetFacts | None:
    """The facts of a data file, None if there are none; raises `ValueError` if their file can't be
    read."""
    path = Path(data).with_suffix(FACTS)
    return read_facts(DatasetFacts, path) if path.exists() else None


@dataclass(frozen=True)
class MadeRows:
    """What a run that asks a language model made.

    Attributes:
        rows: the new rows, in the order of the stories.
        rejects: the rejected stories, with the step, the reason, the number of attempts and the
            last answer.
        run: the numbers of new answers and their tokens; of a dry run, those of the answers that
            are missing.
    """

    rows: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    run: Run


class ModelFiles:
    """The files of a run that asks a language model: `OUT` has the rows, `OUT.rejects` the rejected
    stories, and `OUT.answers` all answers, so that the same call resumes an interrupted run. Facts
    and card are next to them, see `RowsFile`.

    Raises:
        OSError, ValueError: see `RowsFile`; raised before the model is asked.
    """

    def __init__(self, out: str, settings: Mapping[str, Any]) -> None:
        self.answers, self._rows = f"{out}.answers", RowsFile(out, settings)
        self._rejects = AtomicFile(f"{out}.rejects", follow=False)

    def write(
        self,
        stories: Sequence[Mapping[str, Any]],
        run: Run,
        facts: DatasetFacts,
        load: Callable[..., Any],
        report: Report = logger.warning,
    ) -> MadeRows:
        """Write the rows and rejected stories, neither if empty, then the facts and the card; of a
        dry run, nothing.

        Args:
            stories: the stories as rows.
            run: whose results are the new columns of each story, or `Rejected`.
            facts: the facts of the rows, to whose description the numbers of rows are added.
            load, report: see `RowsFile.describe`.
        """
        made = MadeRows([], [], run)
        for story, result in zip(stories, run.results, strict=True):
            if isinstance(result, Rejected):
                made.rejects.append({**story, **{name: getattr(result, name) for name in REJECT}})
            else:
                made.rows.append({**story, **result})
        if run.missing is not None:
            return made
        for file, rows in ((self._rows, made.rows), (self._rejects, made.rejects)):
            if rows:
                with file:
                    file.write("".join(f"{json.dumps(r, ensure_ascii=False)}\n" for r in rows))
        if not made.rejects:
            # All stories that an earlier run rejected have a row now.
            Path(self._rejects.path).unlink(missing_ok=True)
        if made.rows:
            steps = Counter(reject["step"] for reject in made.rejects).most_common()
            reasons = "; ".join(f"{count} at {step}" for step, count in steps)
            counts = (
                f"Of {len(stories):,} stories {len(made.rows):,} have a row and"
                f" {len(made.rejects):,} were rejected{f' ({reasons})' if reasons else ''}."
            )
            facts = replace(facts, description=f"{facts.description} {counts}")
            self._rows.describe(facts, load, report)
        return made


def model_settings(server: Server, templates: Mapping[str, Template]) -> dict[str, Any]:
    """The settings of a language model that its answers depend on, and the prompts, for a card:
    prompts by digest, since the name of a user's prompt is a local path."""
    fields = {"temperature": server.temperature, "seed": server.seed, **server.fields}
    own = [name for name, template in templates.items() if template.name != name]
    return {
        "language model": public_name(server.model),
        "fields of a request": {name: value for name, value in fields.items() if value is not None},
        "prompts": {name: digest(template.text)[:12] for name, template in templates.items()},
        "prompts of the user": own,
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
