"""Reading of files whose lines or documents may be endless, in bounded memory."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import IO, BinaryIO

MAX_LINE = 64_000_000
"""Bytes of a line, of a cell of a table, or of a text; a few kilobytes of a compressed file can
hold gigabytes."""
MAX_DOCUMENT = 1_000_000_000
"""Bytes of a JSON or PDF document, which is read as a whole."""

_PIECE = 1 << 20


class LimitedFile:
    """The lines of a binary file. Raises `ValueError` for a line, or in the whole file, that is too
    long, before it is in memory.

    Args:
        file: the file.
        line: maximum bytes of a line.
        total: maximum bytes of the file; None for no limit.
    """

    def __init__(self, file: IO[bytes], line: int = MAX_LINE, total: int | None = None) -> None:
        self.file, self.line, self.total, self.count = file, line, total, 0

    def __iter__(self) -> Iterator[bytes]:
        while line := self.file.readline(self.line + 1):
            self.count += len(line)
            if len(line) > self.line:
                raise ValueError(f"a line has more than {self.line:,} bytes; is it JSON Lines?")
            if self.total is not None and self.count > self.total:
                raise ValueError(f"it has more than {self.total:,} bytes; unpack it first")
            yield line


def cut_lines(file: BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a binary file, or those that are given. Of a line of a file with more than
    `MAX_LINE` bytes only these and one more, by which it is recognized, are in memory; the rest of
    it is skipped before the next line.
    """
    readline = getattr(file, "readline", None)
    if readline is None:
        yield from file
        return
    while line := readline(MAX_LINE + 1):
        yield line
        piece = line
        while len(line) > MAX_LINE and piece and not piece.endswith(b"\n"):
            piece = readline(_PIECE)


def pieces(file: BinaryIO | Iterable[bytes], limit: int) -> Iterator[bytes]:
    """A binary file in pieces, until it has more than `limit` bytes; or the lines that are
    given."""
    read = getattr(file, "read", None)
    if read is None:
        yield from file
        return
    count = 0
    while count <= limit and (piece := read(_PIECE)):
        count += len(piece)
        yield piece


def too_long(what: str, limit: int) -> str:
    """The problem of a line or document that exceeds a limit."""
    return (
        f"{what} of more than {limit:,} bytes, which is not read; divide it into stories or lines"
    )


def allow_long_cells() -> None:
    """Let tables have cells as long as lines; by default the library `csv` refuses a chapter of a
    book."""
    csv.field_size_limit(MAX_LINE)
