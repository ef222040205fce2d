"""Story files in, result files out: every unreadable piece is reported where it stands, files are written whole."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, NamedTuple, TextIO, TypeAlias

STDIN = "-"
"""The name that stands for standard input, and for standard output where a result goes."""

InputFormat: TypeAlias = Literal["auto", "text", "jsonl", "json"]

_BY_SUFFIX: dict[str, InputFormat] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"}


class Source(NamedTuple):
    """A story as found in a file: what to call it, and its content or else what is wrong."""

    name: str
    content: Any
    problem: str | None = None


def read_stories(paths: Iterable[str], form: InputFormat = "auto") -> Iterator[Source]:
    """Stories of some files, lazily.

    A text file is one story; a line of a JSON Lines file, the object of a JSON file and each item of its list is one,
    in any form `Story.parse` takes. `"auto"` goes by the file's suffix (`.jsonl`, `.ndjson`, `.json`, else text), on
    standard input by whether it begins with a brace. Several text files give stories named by their files.
    """
    paths = list(paths)
    for path in paths:
        name = "standard input" if path == STDIN else path
        try:
            with sys.stdin.buffer if path == STDIN else open(path, "rb") as file:
                yield from _read(file, name, form, named=len(paths) > 1)
        except OSError as error:
            yield Source(name, None, f"can't be read ({error.strerror}); check the name")


def count_stories(paths: Iterable[str], form: InputFormat = "auto") -> int:
    """How many stories `read_stories` will come upon, nearly; 0 where reading alone can tell."""
    count = 0
    for path in paths:
        kind = _BY_SUFFIX.get(Path(path).suffix.lower(), "text") if form == "auto" else form
        if path == STDIN or kind == "json" or not os.path.isfile(path):
            return 0
        if kind == "jsonl":
            with open(path, "rb") as file:
                count += sum(1 for line in file if line.strip())
        else:
            count += 1
    return count


def _read(file: BinaryIO, name: str, form: InputFormat, named: bool) -> Iterator[Source]:
    lines = iter(file)
    if form == "auto":
        form = _BY_SUFFIX.get(Path(name).suffix.lower(), "text")
        if form == "text" and name == "standard input":
            first = next(lines, b"")
            form = "jsonl" if first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else "text"
            lines = _again(first, lines)
    if form == "jsonl":
        for number, line in enumerate(lines, start=1):
            if line.strip(b"\xef\xbb\xbf \t\r\n"):
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


def _again(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _decoded(name: str, data: bytes) -> Source:
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        where = f"byte {error.start} (0x{data[error.start]:02x})"
        return Source(name, None, f"is not UTF-8 at {where}; convert it, as `iconv -f WINDOWS-1252 -t UTF-8` does")


def _parsed(name: str, data: bytes) -> Source:
    source = _decoded(name, data)
    if source.problem is not None:
        return source
    try:
        return Source(name, json.loads(source.content))
    except (json.JSONDecodeError, RecursionError) as error:
        return Source(name, None, f"is not valid JSON ({error}); a line holds one whole JSON value")


class WholeFile:
    """A text file that appears under its name only when it is complete; until then it is `NAME.part`.

    Each `write` reaches the disk as one piece, so that a part file never ends inside one. The part file of a broken run
    is removed unless `keep` is set; with `resume` an earlier one is continued.

    Args:
        path: the file, or `-` for standard output, which is written as it comes.
        keep: leave the part file behind if something goes wrong.
        resume: continue the part file (or the finished file) instead of beginning anew.
    """

    def __init__(self, path: str, keep: bool = False, resume: bool = False) -> None:
        self.path, self.keep, self.resume = path, keep, resume
        self.part = f"{path}.part"
        self._stream: TextIO | None = None
        self._descriptor = -1

    def __enter__(self) -> WholeFile:
        if self.path == STDIN:
            self._stream = sys.stdout
            return self
        if self.resume and not os.path.exists(self.part) and os.path.exists(self.path):
            os.replace(self.path, self.part)
        mode = os.O_APPEND if self.resume else os.O_TRUNC
        self._descriptor = os.open(self.part, os.O_WRONLY | os.O_CREAT | mode, 0o666)
        return self

    def write(self, text: str) -> None:
        """Write one piece: a line, a row, a section."""
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()
            return
        data = text.encode("utf-8")
        while data:
            data = data[os.write(self._descriptor, data) :]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            return
        os.close(self._descriptor)
        if kind is None:
            os.replace(self.part, self.path)
        elif not self.keep:
            os.unlink(self.part)


def whole_lines(path: str) -> list[str]:
    """The lines of a JSON Lines file, finished or not; a line cut short at its end (by a loss of power) is taken off
    the file."""
    part = f"{path}.part"
    found = part if os.path.exists(part) else path
    if not os.path.exists(found):
        return []
    with open(found, "rb+") as file:
        data = file.read()
        end = data.rfind(b"\n") + 1
        file.truncate(end)
    # Not splitlines: other line breaks may stand inside a JSON text.
    return data[:end].decode("utf-8").split("\n")[:-1]
