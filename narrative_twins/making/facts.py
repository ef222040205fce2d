"""The facts and the dataset card beside a data file: how its rows were made, and what was
dropped."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import datasets

from narrative_twins.files import AtomicFile
from narrative_twins.hub.cards import card_of_rows
from narrative_twins.hub.facts import DatasetFacts, facts_text, read_facts

logger = logging.getLogger(__name__)

_WRITTEN_BY_RUNS = ("description", "source", "language")
"""Facts that each run writes; user edits of them are not kept."""


def facts_path(data: str) -> Path:
    """The file of facts of a data file: `twins.facts.yaml` of `twins.jsonl`."""
    return Path(data).with_suffix(".facts.yaml")


def card_path(data: str) -> Path:
    """The card of a data file: `twins.card.md` of `twins.jsonl`."""
    return Path(data).with_suffix(".card.md")


def write_facts(data: str, facts: DatasetFacts, keep_edits: bool) -> DatasetFacts:
    """Write facts beside a data file, for `read_facts` and `push_dataset`; returns the facts as
    written.

    Args:
        data: the data file.
        facts: the facts of its rows.
        keep_edits: the rows were made with the same settings as before, so user edits of the
            earlier facts are kept, except for the description, source and language of the rows.
            Otherwise edited facts are renamed to `NAME.facts.yaml.old`, with a warning.

    Raises:
        ValueError: the earlier file can't be read.
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
    with AtomicFile(str(path)) as file:
        file.write(facts_text(facts))
    return facts


def write_beside(
    data: str, facts: DatasetFacts, load: Callable[..., Any], keep_edits: bool
) -> None:
    """Write the facts of a complete data file, and the card for the Hub; this also checks that the
    rows load.

    Args:
        data: the data file.
        facts, keep_edits: see `write_facts`.
        load: the function that loads the file, for example `load_window_twins`.

    Raises:
        RowError: a row does not load; the facts are written, the card is not.
    """
    facts = write_facts(data, facts, keep_edits)
    remove_card(data)
    with tempfile.TemporaryDirectory() as cache, _no_progress_bars():
        card = str(card_of_rows(load({"train": data}, cache_dir=cache), facts))
    with AtomicFile(str(card_path(data))) as file:
        file.write(card)


def facts_beside(data: str) -> DatasetFacts | None:
    """The facts of a data file, None if there are none; raises `ValueError` if their file can't be
    read."""
    path = facts_path(data)
    return read_facts(DatasetFacts, path) if path.exists() else None


def remove_card(data: str) -> None:
    """Remove the card of an earlier run."""
    card_path(data).unlink(missing_ok=True)


def recipe_text(command: str, settings: Mapping[str, object]) -> str:
    """The settings of a run in Markdown, for the card; empty ones are skipped."""
    lines = [
        f"- {name}: {_as_text(value)}"
        for name, value in settings.items()
        if value not in (None, [], {})
    ]
    return "\n".join(
        [
            f"Made by `{command}` (narrative_twins {metadata.version('narrative_twins')}):",
            "",
            *lines,
        ]
    )


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
