"""Works, and how they are told: a story and the tellings among which its twin is looked for."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from narrative_twins.data.rows import RowError, check_list, find, require
from narrative_twins.files import STDIN
from narrative_twins.stories.reading import Document, read_stories, stories_in
from narrative_twins.stories.story import Story, StoryError, check_unicode

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_ROUNDED = 0.001
"""By so much a cosine in half precision may be above 1."""
_BROKEN = (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""What an archive raises that is damaged, locked by a password, or packed in a way that is not known."""


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


def read_documents(paths: Iterable[str]) -> Iterator[Document]:
    """What stands in some files: each row of JSON Lines (`.jsonl`, `.ndjson`), each document or item of JSON.

    A folder or `.zip` is read through, its files of these kinds in the order of their names; where some of them are in
    a folder `summaries`, as in `Tell me again!`, these alone. `-` is standard input, in JSON Lines. What is none of
    these, or can't be read, keeps its place with what is wrong.
    """
    for path in paths:
        if path == STDIN:
            yield from read_stories([path], "jsonl")
        elif os.path.isdir(path):
            found = (one.relative_to(path).as_posix() for one in Path(path).rglob("*") if not one.is_dir())
            names = _summaries(found)
            yield from read_stories([str(Path(path) / name) for name in names]) if names else [_nothing(path)]
        elif not os.path.exists(path) or path.lower().endswith(_SUFFIXES):
            yield from read_stories([path])
        elif path.lower().endswith(".zip"):
            yield from _zipped(path)
        else:
            kinds = f"{', '.join(_SUFFIXES)}, .zip and folders of these"
            yield Document(path, None, f"is none of what is read, {kinds}; unpack or convert it")


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
    return Work(id_of(story) if name is None else checked_text(str(name), "id", where), title, story, candidates)


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
        RowError: it is something else, or no text that can be written.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise RowError(where, f"'{column}' is {type(value).__name__}; a text is needed, or leave it out")
    return checked_text(value, column, where)


def checked_text(text: str, column: str, where: str) -> str:
    """A text that can be written.

    Raises:
        RowError: it can't.
    """
    try:
        check_unicode(text, f"'{column}'")
    except StoryError as error:
        raise RowError(where, error.problem) from None
    return text


def optional_share(value: Any, column: str, where: str) -> float | None:
    """A number from -1 to 1, or None, which not-a-number is taken for. What is outside by rounding is taken inside.

    Raises:
        RowError: it is something else.
    """
    if value is None or value != value:
        return None
    # A percentage would pass for very similar.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1 + _ROUNDED:
        raise RowError(where, f"'{column}' is {value!r}; a similarity of at most 1 is needed, or leave it out")
    return max(-1.0, min(1.0, float(value)))


def id_of(story: list[str]) -> str:
    """What a story is called that has no id: its digest."""
    return hashlib.sha256("\n".join(story).encode()).hexdigest()[:12]


def _summaries(names: Iterable[str]) -> list[str]:
    """The names of files that may hold works, in order."""
    found = sorted(name for name in names if name.lower().endswith(_SUFFIXES))
    return [name for name in found if "summaries" in PurePosixPath(name).parts[:-1]] or found


def _nothing(path: str) -> Document:
    return Document(path, None, f"has no file that ends in one of {', '.join(_SUFFIXES)}; check what is in it")


def _zipped(path: str) -> Iterator[Document]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = _summaries(archive.namelist())
            for name in names:
                yield from _member(archive, name, f"{path}, {name}")
            if not names:
                yield _nothing(path)
    except _BROKEN as error:
        yield Document(path, None, f"can't be read ({error}); check that the file is whole")


def _member(archive: zipfile.ZipFile, name: str, where: str) -> Iterator[Document]:
    """What stands in a file of an archive."""
    try:
        data = archive.read(name)
    except _BROKEN as error:
        yield Document(where, None, f"can't be read ({error}); check that the archive is whole and has no password")
    else:
        yield from stories_in(io.BytesIO(data), where)
