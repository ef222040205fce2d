"""Works: a story and other tellings of it, one of which may become its twin; and the files that
works are read from."""

from __future__ import annotations

import hashlib
import lzma
import os
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from narrative_twins.data.rows import RowError, check_list, find_column, require_column
from narrative_twins.files import STDIN
from narrative_twins.stories.books.reading import printable_name
from narrative_twins.stories.reading import (
    MAX_LINE,
    Document,
    LimitedFile,
    read_stories,
    stories_in,
)
from narrative_twins.stories.story import Story, StoryError, check_unicode, shown_value

_SUFFIXES = (".json", ".jsonl", ".ndjson")
MAX_ARCHIVE = 20_000_000_000
"""Bytes of all documents of an archive; the largest known corpus has a tenth of it."""
_TOLERANCE = 0.001
"""How far a cosine in half precision may be outside of -1 to 1."""
_ARCHIVE_ERRORS = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""Raised for archives that are damaged, password-protected, or compressed by an unsupported
method."""


class Candidate(NamedTuple):
    """Another telling of the story's plot, which may become the twin.

    Attributes:
        sentences: the sentences of the telling.
        language: the language it was translated from, if known.
        similarity: its similarity to the story, at most 1, if measured.
    """

    sentences: list[str]
    language: str | None = None
    similarity: float | None = None


class Work(NamedTuple):
    """A work: the sentences of its story (empty if it has none), and other tellings of it."""

    id: str
    title: str | None
    story: list[str]
    candidates: list[Candidate]


def read_documents(paths: Iterable[str]) -> Iterator[Document]:
    """Yield each row of JSON Lines files (`.jsonl`, `.ndjson`), and each document or list item of
    JSON files.

    Folders and `.zip` archives are searched for these files, in order of their names; if some are
    in a folder `summaries`, as in `Tell me again!`, only those are read. `-` is standard input, in
    JSON Lines. A file that is none of these or can't be read yields a document with a problem.
    """
    for path in paths:
        if path == STDIN:
            yield from read_stories([path], "jsonl")
        elif os.path.isdir(path):
            found = (
                file.relative_to(path).as_posix()
                for file in Path(path).rglob("*")
                if file.is_file()
            )
            names = _work_files(found)
            yield from (
                read_stories([str(Path(path) / name) for name in names])
                if names
                else [_no_works(path)]
            )
        elif not os.path.exists(path) or path.lower().endswith(_SUFFIXES):
            yield from read_stories([path])
        elif path.lower().endswith(".zip"):
            yield from _zipped(path)
        else:
            kinds = f"{', '.join(_SUFFIXES)}, .zip or a folder of these"
            yield Document(
                path, None, f"has an unsupported format; unpack or convert it to {kinds}"
            )


def plain_work(row: Mapping[str, Any], where: str) -> Work:
    """A work from a row with a `story`, a list of `twins`, and optionally an `id` and a `title`.

    A telling is a text or a list of sentences; a twin may also be an object with `text` or
    `sentences`, and optionally `language` and `similarity`. The default id is the digest of the
    story. Missing and invalid columns raise RowError.
    """
    story = sentences_of(require_column(row, where, "story"), "story", where)
    twins = check_list(require_column(row, where, "twins"), "twins", where, "tellings")
    name = row.get("id")
    if isinstance(name, bool) or not isinstance(name, (str, int, type(None))):
        raise RowError(where, f"'id' is {type(name).__name__}; a text or an integer is needed")
    candidates = []
    for number, twin in enumerate(twins):
        column = f"twins[{number}]"
        known = twin if isinstance(twin, Mapping) else {}
        candidates.append(
            Candidate(
                sentences_of(twin, column, where),
                optional_text(known.get("language"), f"{column}.language", where),
                optional_similarity(known.get("similarity"), f"{column}.similarity", where),
            )
        )
    title = optional_text(find_column(row, "title"), "title", where)
    return Work(
        id_of(story) if name is None else checked_text(str(name), "id", where),
        title,
        story,
        candidates,
    )


def sentences_of(content: Any, column: str, where: str) -> list[str]:
    """The sentences of a telling; raises RowError if it is invalid or empty."""
    try:
        return list(Story.parse(content, windows=1).sentences)
    except StoryError as error:
        raise RowError(where, f"'{column}': {error.problem}") from None


def optional_text(value: Any, column: str, where: str) -> str | None:
    """A text or None; raises RowError for another type or for a text that is not valid Unicode."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise RowError(
            where, f"'{column}' is {type(value).__name__}; a text is needed, or leave it out"
        )
    return checked_text(value, column, where)


def checked_text(text: str, column: str, where: str) -> str:
    """The text; raises RowError if it is not valid Unicode."""
    try:
        check_unicode(text, f"'{column}'")
    except StoryError as error:
        raise RowError(where, error.problem) from None
    return text


def optional_similarity(value: Any, column: str, where: str) -> float | None:
    """A number from -1 to 1 (rounding errors are clipped), or None, also for NaN; raises RowError
    for other values."""
    if value is None or value != value:
        return None
    # Percentages are refused too.
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or abs(value) > 1 + _TOLERANCE
    ):
        problem = (
            f"'{column}' is {shown_value(value)}; a similarity of at most 1 is needed, or leave"
            " it out"
        )
        raise RowError(where, problem)
    return max(-1.0, min(1.0, float(value)))


def id_of(story: list[str]) -> str:
    """The default id of a story: a digest of its sentences."""
    return hashlib.sha256("\n".join(story).encode()).hexdigest()[:12]


def _work_files(names: Iterable[str]) -> list[str]:
    """The names of files that may hold works, sorted."""
    found = sorted(name for name in names if name.lower().endswith(_SUFFIXES))
    return [name for name in found if "summaries" in PurePosixPath(name).parts[:-1]] or found


def _no_works(path: str) -> Document:
    return Document(
        path, None, f"has no file that ends in one of {', '.join(_SUFFIXES)}; check its content"
    )


def _zipped(path: str) -> Iterator[Document]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = _work_files(archive.namelist())
            left = MAX_ARCHIVE
            for name in names:
                left -= yield from _member(archive, name, f"{path}, {printable_name(name)}", left)
            if not names:
                yield _no_works(path)
    except _ARCHIVE_ERRORS as error:
        yield Document(path, None, f"can't be read ({error}); check that the file is complete")


def _member(
    archive: zipfile.ZipFile, name: str, where: str, left: int
) -> Generator[Document, None, int]:
    """Yield the documents in a file of an archive, of which `left` bytes may be read; returns how
    many it has."""
    whole = not name.lower().endswith((".jsonl", ".ndjson"))
    lines = None
    try:
        with archive.open(name) as file:
            lines = LimitedFile(file, total=min(left, MAX_LINE) if whole else left)
            yield from stories_in(lines, where)
    except _ARCHIVE_ERRORS as error:
        yield Document(
            where,
            None,
            f"can't be read ({error}); check that the archive is complete and has no password",
        )
    return 0 if lines is None else lines.count
