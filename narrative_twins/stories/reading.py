"""Reading of story files: a story that can't be read is yielded with its position and the
problem."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

from narrative_twins.files import STDIN
from narrative_twins.stories import bounded
from narrative_twins.stories.books import reading as books
from narrative_twins.stories.books.reading import book_of
from narrative_twins.stories.bounded import cut_lines, pieces, too_long
from narrative_twins.stories.documents import HEAD, Document, decode, printable_name, why_not_text
from narrative_twins.stories.pdf import pdf_text
from narrative_twins.stories.tables import read_table

InputFormat: TypeAlias = Literal[
    "auto", "text", "jsonl", "json", "csv", "pdf", "html", "epub", "docx"
]

_BLANK = b"\xef\xbb\xbf \t\r\n"  # byte order mark and white space
_BY_SUFFIX: dict[str, InputFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".rejects": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".pdf": "pdf",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".epub": "epub",
    ".docx": "docx",
}
_BOOKS = ("html", "epub", "docx")
_BY_NAME_ONLY = {".rejects", ".html", ".htm", ".xhtml"}
STORY_SUFFIXES = (
    ".txt",
    ".text",
    ".md",
    ".markdown",
    ".fountain",
    *_BY_SUFFIX.keys() - _BY_NAME_ONLY,
)
"""The files of a folder that are read: not pages, which may be an earlier output of this
package."""


def read_stories(
    paths: Iterable[str],
    input_format: InputFormat = "auto",
    named: bool | None = None,
    column: str | None = None,
) -> Iterator[Document]:
    """Read the stories of some files, lazily and in bounded memory.

    A text file, a line of a JSON Lines file, the object of a JSON file and each item of its list
    are one story each, in any form that `Story.parse` accepts; and so are the text of a PDF file, a
    `Book` in HTML, EPUB or Word (docx), see `read_book`, and a row of a table (CSV), see
    `read_table`. If there are several files, a text story gets the file name as id. Of a folder,
    the files with one of `STORY_SUFFIXES` are read. Other kinds of files, such as images and
    archives, are problems, and so are lines and texts of more than `MAX_LINE` bytes and documents
    (JSON, PDF) of more than `MAX_DOCUMENT`.

    Args:
        paths: names of files and folders; `-` is standard input.
        input_format: the format; `"auto"` selects it by suffix: `.jsonl`, `.ndjson`, `.rejects`,
            `.json`, `.csv`, `.tsv`, `.pdf`, `.html`, `.htm`, `.xhtml`, `.epub`, `.docx`, otherwise
            text. Standard input is JSON Lines if its first non-blank line starts with `{` or is a
            JSON list.
        named: whether a text story gets the file name as id; None if there are several files.
        column: the column of the stories in tables; default as `read_table` finds it.
    """
    paths = files_of(paths)
    for path in paths:
        # A file name need not be valid text.
        name = "standard input" if path == STDIN else printable_name(path)
        if path == STDIN and sys.stdin is None:
            yield Document(name, None, "is closed; name a file")
            continue
        if os.path.isdir(path):
            yield Document(
                name,
                None,
                f"is a folder without a story; put files in it ({', '.join(STORY_SUFFIXES)})",
            )
            continue
        try:
            with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as file:
                yield from stories_in(
                    file, name, input_format, len(paths) > 1 if named is None else named, column
                )
        except OSError as error:
            yield Document(name, None, f"can't be read ({error.strerror}); check the name")


def files_of(paths: Iterable[str], suffixes: tuple[str, ...] = STORY_SUFFIXES) -> list[str]:
    """The paths, with each folder replaced by the files in it that end in one of the suffixes, in
    the order of their names: not those in its folders, and no hidden ones. A folder without such
    files stays."""
    found: list[str] = []
    for path in paths:
        names = (
            sorted(os.listdir(path))
            if path != STDIN and os.path.isdir(path) and os.access(path, os.R_OK)
            else []
        )
        inside = [
            os.path.join(path, name)
            for name in names
            if name.lower().endswith(suffixes)
            and name[0] != "."
            and os.path.isfile(os.path.join(path, name))
        ]
        found += inside or [path]
    return found


def count_stories(paths: Iterable[str], input_format: InputFormat = "auto") -> int:
    """The approximate number of stories that `read_stories` yields; 0 if it can't be known without
    parsing a file."""
    count = 0
    for path in files_of(paths):
        kind = (
            _BY_SUFFIX.get(Path(path).suffix.lower(), "text")
            if input_format == "auto"
            else input_format
        )
        if (
            path == STDIN
            or kind == "json"
            or path.lower().endswith(".zip")
            or not os.path.isfile(path)
        ):
            return 0
        if kind in ("jsonl", "csv"):
            with open(path, "rb") as file:
                lines = sum(1 for line in cut_lines(file) if line.strip())
                # The first line of a table names its columns.
                count += lines if kind == "jsonl" else max(0, lines - 1)
        else:
            count += 1
    return count


def stories_in(
    file: BinaryIO | Iterable[bytes],
    name: str,
    input_format: InputFormat = "auto",
    named: bool = False,
    column: str | None = None,
) -> Iterator[Document]:
    """Read the stories of an open file called `name`, see `read_stories`; `named` makes its name
    the id of a text."""
    lines = cut_lines(file)
    if input_format == "auto":
        input_format = _BY_SUFFIX.get(Path(name).suffix.lower(), "text")
        if input_format == "text" and name == "standard input":
            input_format, lines = _guess_format(lines)
    limit = bounded.MAX_LINE
    if input_format in ("json", "pdf", *_BOOKS):
        limit = books.MAX_FILE if input_format in _BOOKS else bounded.MAX_DOCUMENT
        lines = pieces(file, limit)
    if input_format != "pdf" and input_format not in _BOOKS:
        first = next(lines, b"")
        lines = chain([first], lines)
        if problem := why_not_text(name, first[:HEAD]):
            yield Document(name, None, problem)
            return
    if input_format == "jsonl":
        for number, line in enumerate(lines, start=1):
            where = f"{name}, line {number}"
            if len(line) > limit:
                yield Document(where, None, too_long("is a line", limit))
            elif line.strip(_BLANK):
                yield _parse_json(where, line)
        return
    if input_format == "csv":
        yield from read_table(name, lines, column)
        return
    data = _up_to(lines, limit)
    if len(data) > limit and input_format not in _BOOKS:
        yield Document(name, None, too_long("is a document", limit))
        return
    if input_format == "json":
        document = _parse_json(name, data)
        items = document.content if isinstance(document.content, list) else None
        yield from (
            [document]
            if items is None
            else (Document(f"{name}, item {i}", item) for i, item in enumerate(items))
        )
        return
    if input_format == "text":
        text = decode(name, data)
    else:
        text = _decoded(
            name,
            (
                partial(book_of, name, data, input_format)
                if input_format in _BOOKS
                else partial(pdf_text, data)
            ),
        )
    if text.problem is None and named:
        text = text._replace(content={"id": name, "text": text.content})
    yield text


def _up_to(parts: Iterable[bytes], limit: int) -> bytes:
    """The parts of a file in one, until they have more bytes than the limit."""
    data = bytearray()
    for part in parts:
        data += part
        if len(data) > limit:
            break
    return bytes(data)


def _guess_format(lines: Iterator[bytes]) -> tuple[InputFormat, Iterator[bytes]]:
    """The format of standard input by its first non-blank line, and an iterator over all its
    lines."""
    seen: list[bytes] = []
    for line in lines:
        seen.append(line)
        if line.strip(_BLANK):
            break
    first = seen[-1].strip(_BLANK) if seen else b""
    is_json_list = first.startswith(b"[") and _parse_json("", first).problem is None
    return "jsonl" if first.startswith(b"{") or is_json_list else "text", chain(seen, lines)


def _decoded(name: str, read: Callable[[], Any]) -> Document:
    try:
        return Document(name, read())
    except ValueError as error:
        return Document(name, None, str(error))


def _parse_json(name: str, data: bytes) -> Document:
    document = decode(name, data)
    if document.problem is not None:
        return document
    try:
        return Document(name, json.loads(document.content))
    except (ValueError, RecursionError) as error:
        hint = (
            "a line of JSON Lines must be a complete value; a file with a single JSON document must"
            " end in .json"
        )
        return Document(name, None, f"is not valid JSON ({error}); {hint}")


def story_digest(
    name: str | int | None, sentences: Sequence[str], windows: Iterable[Sequence[int]]
) -> str:
    """A digest of a story, its id and windows, by which a resumed run recognizes the stories it has
    scored."""
    content = json.dumps([name, list(sentences), [list(window) for window in windows]]).encode(
        "ascii"
    )
    return hashlib.sha256(content).hexdigest()
