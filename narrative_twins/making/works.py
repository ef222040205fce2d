"""Works, and how they are told: a story and the tellings among which its twin is looked for."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from narrative_twins.data.rows import RowError, check_list, find, require
from narrative_twins.files import STDIN, Source, parsed, read_stories
from narrative_twins.story import Story, StoryError


class Candidate(NamedTuple):
    """A telling that may become the twin.

    Attributes:
        sentences: of it.
        language: it was translated from, where that is known.
        similarity: with the story, from 0 to 1, where somebody measured it.
    """

    sentences: list[str]
    language: str | None = None
    similarity: float | None = None


class Work(NamedTuple):
    """A work: its story, as sentences, and the other tellings of it. A work may lack its story: no sentences."""

    id: str
    title: str | None
    story: list[str]
    candidates: list[Candidate]


def sources(paths: Iterable[str]) -> Iterator[Source]:
    """What stands in some files: each row of JSON Lines, each document or item of JSON.

    A folder or `.zip` is read through, its `.json` and `.jsonl` files in the order of their names; where some of them
    are in a folder `summaries`, as in `Tell me again!`, these alone. `-` is standard input, in JSON Lines.
    """
    for path in paths:
        if os.path.isdir(path):
            names = _summaries(found.relative_to(path).as_posix() for found in Path(path).rglob("*"))
            yield from read_stories([str(Path(path) / name) for name in names])
        elif path.lower().endswith(".zip") and os.path.isfile(path):
            yield from _zipped(path)
        else:
            yield from read_stories([path], "jsonl" if path == STDIN else "auto")


def plain_work(row: Mapping[str, Any], where: str) -> Work:
    """A work from a row with a `story`, a list of `twins`, and perhaps an `id` and a `title`.

    A telling is a text or a list of sentences; a twin may also be an object of `text` or `sentences`, and perhaps
    `language` and `similarity`. Without an id, the story's digest is one.

    Raises:
        RowError: it is no such row.
    """
    story = sentences_of(require(row, where, "story"), "story", where)
    twins = check_list(require(row, where, "twins"), "twins", where, "tellings")
    name = row.get("id")
    if isinstance(name, bool) or not isinstance(name, (str, int, type(None))):
        raise RowError(where, f"the id is {type(name).__name__}; an id is a text or a whole number")
    candidates = []
    for number, twin in enumerate(twins):
        column = f"twins[{number}]"
        known = twin if isinstance(twin, Mapping) else {}
        candidates.append(
            Candidate(
                sentences_of(twin, column, where),
                optional_text(known.get("language"), f"{column}.language", where),
                optional_share(known.get("similarity"), f"{column}.similarity", where),
            )
        )
    title = optional_text(find(row, "title"), "title", where)
    return Work(_digest(story) if name is None else str(name), title, story, candidates)


def sentences_of(content: Any, column: str, where: str) -> list[str]:
    """The sentences of a telling.

    Raises:
        RowError: it is none, or has none.
    """
    try:
        return list(Story.parse(content, windows=1).sentences)
    except StoryError as error:
        raise RowError(where, f"'{column}': {error.problem}") from None


def optional_text(value: Any, column: str, where: str) -> str | None:
    """A text or None.

    Raises:
        RowError: it is something else.
    """
    if value is not None and not isinstance(value, str):
        raise RowError(where, f"'{column}' is {type(value).__name__}; a text is needed, or leave it out")
    return value


def optional_share(value: Any, column: str, where: str) -> float | None:
    """A number up to 1, or None, which not-a-number is taken for.

    Raises:
        RowError: it is something else.
    """
    if value is None or value != value:
        return None
    # A percentage would pass for very similar.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1 <= value <= 1:
        raise RowError(where, f"'{column}' is {value!r}; a similarity of at most 1 is needed, or leave it out")
    return float(value)


def _digest(story: list[str]) -> str:
    return hashlib.sha256("\n".join(story).encode()).hexdigest()[:12]


def _summaries(names: Iterable[str]) -> list[str]:
    """The names of files that may hold works, in order."""
    found = sorted(name for name in names if name.lower().endswith((".json", ".jsonl")))
    return [name for name in found if "summaries" in PurePosixPath(name).parts[:-1]] or found


def _zipped(path: str) -> Iterator[Source]:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in _summaries(archive.namelist()):
                lines = archive.read(name).splitlines() if name.lower().endswith("l") else [archive.read(name)]
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield parsed(f"{path}, {name}" + (f", line {number}" if len(lines) > 1 else ""), line)
    except (OSError, zipfile.BadZipFile) as error:
        yield Source(path, None, f"can't be read ({error}); check that the file is whole")
