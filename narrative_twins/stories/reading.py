"""Story files in: every unreadable piece is reported with its place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

from narrative_twins.files import STDIN

InputFormat: TypeAlias = Literal["auto", "text", "jsonl", "json"]


_BLANK = b"\xef\xbb\xbf \t\r\n"


_BY_SUFFIX: dict[str, InputFormat] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".rejects": "jsonl", ".json": "json"}


class Source(NamedTuple):
    """A story as found in a file: what to call it, and its content or else what is wrong."""

    name: str
    content: Any
    problem: str | None = None


def read_stories(paths: Iterable[str], form: InputFormat = "auto") -> Iterator[Source]:
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
            yield Source(name, None, f"can't be read ({error.strerror}); check the name")


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


def stories_in(file: BinaryIO, name: str, form: InputFormat = "auto", named: bool = False) -> Iterator[Source]:
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
        source = _parsed(name, whole)
        items = source.content if isinstance(source.content, list) else None
        yield from [source] if items is None else (Source(f"{name}, item {i}", item) for i, item in enumerate(items))
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


def _decoded(name: str, data: bytes) -> Source:
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        where = f"byte {error.start} (0x{data[error.start]:02x})"
        likely = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "WINDOWS-1252"
        return Source(name, None, f"is not UTF-8 at {where}; convert it, perhaps by `iconv -f {likely} -t UTF-8`")


def _parsed(name: str, data: bytes) -> Source:
    """A JSON document, or what is wrong with it."""
    source = _decoded(name, data)
    if source.problem is not None:
        return source
    try:
        return Source(name, json.loads(source.content))
    except (ValueError, RecursionError) as error:
        cure = "JSON Lines hold one whole value a line; a single document is read from a file that ends in .json"
        return Source(name, None, f"is not valid JSON ({error}); {cure}")
