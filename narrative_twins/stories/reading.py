"""Story files in: every unreadable piece is reported with its place."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

from narrative_twins.files import STDIN

InputFormat: TypeAlias = Literal["auto", "text", "jsonl", "json"]


_BLANK = b"\xef\xbb\xbf \t\r\n"


_BY_SUFFIX: dict[str, InputFormat] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".rejects": "jsonl", ".json": "json"}


class Document(NamedTuple):
    """A story as found in a file: what to call it, and its content or else what is wrong."""

    name: str
    content: Any
    problem: str | None = None


def read_stories(paths: Iterable[str], form: InputFormat = "auto") -> Iterator[Document]:
    """Stories of some files, lazily.

    A text file is one story; a line of a JSON Lines file, the object of a JSON file and each item of its list is one,
    in any form `Story.parse` takes. `"auto"` goes by the file's suffix (`.jsonl`, `.ndjson`, `.json`, else text), on
    standard input by whether it begins with a JSON object, or a line that is a JSON list. Several text files give
    stories named by their files.
    """
    paths = list(paths)
    for path in paths:
        # The name of a file need not be text.
        name = "standard input" if path == STDIN else os.fsencode(path).decode("utf-8", "replace")
        try:
            with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as file:
                yield from stories_in(file, name, form, named=len(paths) > 1)
        except OSError as error:
            yield Document(name, None, f"can't be read ({error.strerror}); check the name")


def count_stories(paths: Iterable[str], form: InputFormat = "auto") -> int:
    """How many stories `read_stories` will come upon, nearly; 0 where reading alone can tell."""
    count = 0
    for path in paths:
        kind = _BY_SUFFIX.get(Path(path).suffix.lower(), "text") if form == "auto" else form
        if path == STDIN or kind == "json" or path.lower().endswith(".zip") or not os.path.isfile(path):
            return 0
        if kind == "jsonl":
            with open(path, "rb") as file:
                count += sum(1 for line in file if line.strip())
        else:
            count += 1
    return count


def stories_in(file: BinaryIO, name: str, form: InputFormat = "auto", named: bool = False) -> Iterator[Document]:
    """What stands in an open file, as `read_stories` has it.

    Args:
        file: read to its end.
        name: of it; tells its form by its suffix.
        form: as in `read_stories`.
        named: a text has this name as its id.
    """
    lines = iter(file)
    if form == "auto":
        form = _BY_SUFFIX.get(Path(name).suffix.lower(), "text")
        if form == "text" and name == "standard input":
            form, lines = _guess(lines)
    if form == "jsonl":
        for number, line in enumerate(lines, start=1):
            if line.strip(_BLANK):
                yield _parsed(f"{name}, line {number}", line)
        return
    whole = b"".join(lines)
    if form == "json":
        document = _parsed(name, whole)
        items = document.content if isinstance(document.content, list) else None
        yield from (
            [document] if items is None else (Document(f"{name}, item {i}", item) for i, item in enumerate(items))
        )
        return
    text = _decoded(name, whole)
    if text.problem is None and named:
        text = text._replace(content={"id": name, "text": text.content})
    yield text


def _guess(lines: Iterator[bytes]) -> tuple[InputFormat, Iterator[bytes]]:
    """The form of standard input by its first line that is not blank, and all of its lines."""
    seen: list[bytes] = []
    for line in lines:
        seen.append(line)
        if line.strip(_BLANK):
            break
    first = seen[-1].strip(_BLANK) if seen else b""
    listed = first.startswith(b"[") and _parsed("", first).problem is None
    return "jsonl" if first.startswith(b"{") or listed else "text", chain(seen, lines)


def _decoded(name: str, data: bytes) -> Document:
    try:
        return Document(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        where = f"byte {error.start} (0x{data[error.start]:02x})"
        likely = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "WINDOWS-1252"
        return Document(name, None, f"is not UTF-8 at {where}; convert it, perhaps by `iconv -f {likely} -t UTF-8`")


def _parsed(name: str, data: bytes) -> Document:
    """A JSON document, or what is wrong with it."""
    document = _decoded(name, data)
    if document.problem is not None:
        return document
    try:
        return Document(name, json.loads(document.content))
    except (ValueError, RecursionError) as error:
        cure = "JSON Lines hold one whole value a line; a single document is read from a file that ends in .json"
        return Document(name, None, f"is not valid JSON ({error}); {cure}")


def story_digest(name: str | int | None, sentences: Sequence[str], windows: Iterable[Sequence[int]]) -> str:
    """A digest of a story with its id and windows, by which a resumed run recognizes the stories it has scored."""
    content = json.dumps([name, list(sentences), [list(window) for window in windows]]).encode("ascii")
    return hashlib.sha256(content).hexdigest()
