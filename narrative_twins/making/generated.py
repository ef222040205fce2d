"""The facts and the dataset card next to a file of generated rows, which say how the rows were
made: `twins.facts.yaml` and `twins.card.md` of `twins.jsonl`."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import datasets

from narrative_twins.hub.cards import card_of_rows
from narrative_twins.hub.facts import DatasetFacts, facts_text, read_facts
from narrative_twins.writing import atomic_write

logger = logging.getLogger(__name__)

Report = Callable[[str], None]
"""Is called with each problem of a run, for its user."""

FACTS, CARD = ".facts.yaml", ".card.md"
"""Suffixes of the facts and the card of a data file, in place of `.jsonl`."""


def facts_of(data: str) -> DatasetFacts | None:
    """The facts of a data file, None if there are none; raises `ValueError` if their file can't be
    read."""
    path = Path(data).with_suffix(FACTS)
    return read_facts(DatasetFacts, path) if path.exists() else None


def describe_rows(
    out: str, facts: DatasetFacts, load: Callable[..., Any], report: Report = logger.warning
) -> None:
    """Write the facts of rows, for `read_facts` and `push_dataset`, and their card for the Hub.

    User edits of the name, limits, licence and tags in earlier facts are kept, if the rows were
    made with the same settings. Otherwise the earlier facts are renamed to `NAME.facts.yaml.old`.

    Args:
        out: the complete file of the rows.
        facts: the facts; `source` says with which settings the rows were made, see `recipe_text`.
        load: loads the rows, for example `load_window_twins`. Rows that do not load get no card.
        report: is called with each problem.

    Raises:
        OSError, ValueError: a file can't be written, or earlier facts can't be read; call
            `facts_of` before the rows are made.
    """
    path, card = (Path(out).with_suffix(suffix) for suffix in (FACTS, CARD))
    if earlier := facts_of(out):
        if earlier.source.strip() == facts.source.strip():
            facts = replace(earlier, description=facts.description, language=facts.language)
        else:
            os.replace(path, f"{path}.old")
            report(
                f"{path} describes rows made with other settings, so it is now {path}.old; copy"
                " what is still true"
            )
    with atomic_write(path) as file:
        file.write(facts_text(facts))
    card.unlink(missing_ok=True)
    shows_bars = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        with tempfile.TemporaryDirectory() as cache:
            text = str(card_of_rows(load({"train": out}, cache_dir=cache), facts))
    except ValueError as error:
        report(f"no card was written, since the rows can't be trained on: {error}")
    else:
        with atomic_write(card) as file:
            file.write(text)
    finally:
        if shows_bars:
            datasets.enable_progress_bars()


def recipe_text(command: str, settings: Mapping[str, object]) -> str:
    """The settings of a run in Markdown, as the source of its rows; empty ones are skipped."""
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
