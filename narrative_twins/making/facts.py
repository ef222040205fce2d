"""What is said of rows that were made: the recipe and the counts, in a card and in a file of facts beside them."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets

from narrative_twins.files import WholeFile, part_of
from narrative_twins.hub.cards import card_of_rows
from narrative_twins.hub.facts import DatasetFacts, facts_text, read_facts

logger = logging.getLogger(__name__)

_OF_THE_RUN = ("what", "source", "language")
"""Facts that a run knows better than whoever edited them after an earlier one."""


def facts_path(data: str) -> Path:
    """The file of facts of a data file: `twins.facts.yaml` of `twins.jsonl`."""
    return Path(data).with_suffix(".facts.yaml")


def card_path(data: str) -> Path:
    """The card of a data file: `twins.card.md` of `twins.jsonl`."""
    return Path(data).with_suffix(".card.md")


def write_facts(data: str, facts: DatasetFacts) -> DatasetFacts:
    """Write facts beside a data file, as `read_facts` reads them; `push_dataset` takes these.

    What a person put into the file after an earlier run of the same recipe (the `source`) stays: all but what the rows
    are, their source and language. After another recipe it would be said of other rows: then a file that a person put
    something into is put aside as `NAME.facts.yaml.old`, with a warning.

    Returns:
        The facts as they are written.

    Raises:
        ValueError: the file that is there can't be read.
    """
    path, earlier = facts_path(data), facts_beside(data)
    if earlier is not None:
        edited = replace(earlier, **{name: getattr(facts, name) for name in _OF_THE_RUN})
        if earlier.source == facts.source:
            facts = edited
        elif edited != facts:
            os.replace(path, f"{path}.old")
            logger.warning(
                "%s was of rows of another recipe and is now %s.old; copy from it what is still true", path, path
            )
    _write(path, facts)
    _begun_path(data).unlink(missing_ok=True)
    return facts


def begin_facts(data: str, facts: DatasetFacts) -> None:
    """Write the facts of rows that are being made, beside the part file of the data file: whoever goes on with it has
    to know the recipe. They go away when `write_facts` writes those of the data file.

    Raises:
        ValueError: the file that is there can't be read.
    """
    path = _begun_path(data)
    if path.exists() and read_facts(DatasetFacts, path).source != facts.source:
        # Its rows are aside as well.
        os.replace(path, f"{path}.old")
    _write(path, facts)


def write_beside(data: str, facts: DatasetFacts, load: Callable[..., Any]) -> None:
    """Write the facts of a data file that is whole, and the card that pushing would make; so its rows are also seen to
    load.

    Args:
        data: the data file.
        facts: of it, see `write_facts`.
        load: loads it, such as `load_window_twins`.

    Raises:
        RowError: a row does not load; there are facts then and no card.
    """
    facts = write_facts(data, facts)
    remove_card(data)
    with tempfile.TemporaryDirectory() as cache, _no_bars():
        card = str(card_of_rows(load({"train": data}, cache_dir=cache), facts))
    with WholeFile(str(card_path(data))) as file:
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


def in_list(made_by: str, settings: Mapping[str, object]) -> str:
    """A recipe in Markdown."""
    return "\n".join([f"Made by {made_by}:", "", *(f"- {name}: {value}" for name, value in settings.items())])


def name_of(source: str) -> str:
    """A model or file as a card may name it: of a folder on this machine only the name is anybody's business."""
    return Path(source).resolve().name if os.path.exists(source) else source


def check_recipe(data: str, recipe: str) -> None:
    """Refuse to go on with a data file, or with the part file of one, that was begun by another recipe.

    Raises:
        ValueError: names the first setting that differs, or says that there are no facts to know the recipe by.
    """
    path = _begun_path(data) if os.path.exists(part_of(data)) else facts_path(data)
    if not path.exists():
        raise ValueError(f"can't resume {data}: {path} is not there, which says how it was begun; start anew")
    begun, asked = read_facts(DatasetFacts, path).source.splitlines(), recipe.splitlines()
    if begun != asked:
        lines = (line for line in begun if line not in asked)
        raise ValueError(
            f"can't resume {data}: it was begun with other options ({next(lines, 'fewer of them')}); go on with the "
            "same options, or write to another file"
        )


def _begun_path(data: str) -> Path:
    return Path(f"{part_of(data)}.facts.yaml")


def _write(path: Path, facts: DatasetFacts) -> None:
    with WholeFile(str(path)) as file:
        file.write(facts_text(facts))


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
