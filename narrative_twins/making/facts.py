"""The facts and the card beside a data file: how its rows were made, and how many of what was dropped."""

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

_OF_THE_RUN = ("what", "source", "language")
"""Facts that a run knows itself; edits of them after an earlier run are not kept."""


def facts_path(data: str) -> Path:
    """The file of facts of a data file: `twins.facts.yaml` of `twins.jsonl`."""
    return Path(data).with_suffix(".facts.yaml")


def card_path(data: str) -> Path:
    """The card of a data file: `twins.card.md` of `twins.jsonl`."""
    return Path(data).with_suffix(".card.md")


def write_facts(data: str, facts: DatasetFacts, keep_edits: bool) -> DatasetFacts:
    """Write facts beside a data file, as `read_facts` reads them; `push_dataset` takes these.

    Args:
        data: the data file.
        facts: of its rows.
        keep_edits: the earlier facts are of rows that were made with the same settings, so what a person edited in
            them stays, except for the description, source and language of the rows. Otherwise edited facts are renamed
            to `NAME.facts.yaml.old`, with a warning.

    Returns:
        The facts as they are written.

    Raises:
        ValueError: the earlier file can't be read.
    """
    path, earlier = facts_path(data), facts_beside(data)
    if earlier is not None:
        edited = replace(earlier, **{name: getattr(facts, name) for name in _OF_THE_RUN})
        if keep_edits:
            facts = edited
        elif edited != facts:
            os.replace(path, f"{path}.old")
            logger.warning(
                "%s was about rows that were made with other settings, and is now %s.old; copy what is still true",
                path,
                path,
            )
    with AtomicFile(str(path)) as file:
        file.write(facts_text(facts))
    return facts


def write_beside(data: str, facts: DatasetFacts, load: Callable[..., Any], keep_edits: bool) -> None:
    """Write the facts of a complete data file, and the card that pushing would make. This also checks that the rows
    load.

    Args:
        data: the data file.
        facts, keep_edits: see `write_facts`.
        load: loads the file, for example `load_window_twins`.

    Raises:
        RowError: a row does not load; the facts are written, the card is not.
    """
    facts = write_facts(data, facts, keep_edits)
    remove_card(data)
    with tempfile.TemporaryDirectory() as cache, _no_bars():
        card = str(card_of_rows(load({"train": data}, cache_dir=cache), facts))
    with AtomicFile(str(card_path(data))) as file:
        file.write(card)


def facts_beside(data: str) -> DatasetFacts | None:
    """The facts of a data file, where there are any.

    Raises:
        ValueError: the file can't be read.
    """
    path = facts_path(data)
    return read_facts(DatasetFacts, path) if path.exists() else None


def remove_card(data: str) -> None:
    """Take away the card of an earlier run."""
    card_path(data).unlink(missing_ok=True)


def recipe_text(command: str, settings: Mapping[str, object]) -> str:
    """The settings of a run in Markdown, for the card."""
    lines = [f"- {name}: {_words(value)}" for name, value in settings.items() if value not in (None, [], {})]
    return "\n".join([f"Made by `{command}` (narrative_twins {metadata.version('narrative_twins')}):", "", *lines])


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def public_name(source: str) -> str:
    """The name of a model or file for a card: of a path only its last part, since cards are shared."""
    return Path(source).resolve().name if os.path.exists(source) else source


@contextmanager
def _no_bars() -> Iterator[None]:
    """Loading a file that was just written needs no progress bar."""
    off = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not off:
            datasets.enable_progress_bars()
