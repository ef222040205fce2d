"""Results that were saved by `score` and `report`, read again: no encoder is needed to look at
them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from html.parser import HTMLParser
from itertools import chain
from typing import Any, BinaryIO, cast

from narrative_twins.files import STDIN
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.html import DATA
from narrative_twins.show.report import page_paths
from narrative_twins.stories.documents import printable_name
from narrative_twins.stories.reading import InputFormat, stories_in

_READABLE = (
    "saved scores are the JSON Lines, JSON or HTML that `narrative-twins score` writes, or a"
    " report's folder"
)
_BOM = b"\xef\xbb\xbf"


def read_results(paths: Iterable[str | os.PathLike[str]]) -> Iterator[StorySalience]:
    """Read the results in some files, lazily and in order. Stories without an id are numbered
    through all files.

    Args:
        paths: files from `narrative-twins score` with `--format jsonl`, `json` or `html`, or lines
            of `StorySalience.to_dict` as JSON; folders from `narrative-twins report`; `-` for
            standard input.

    Raises:
        ValueError: a file has no scores, or what is not a result; has the file and the line.
        OSError: a file can't be read.
    """
    index = 0
    for path in [os.fspath(path) for path in paths]:
        pages = page_paths(path) if path != STDIN and os.path.isdir(path) else [path]
        for page in pages:
            for where, data in _results_in(page):
                try:
                    result = StorySalience.from_dict(data, index)
                except ValueError as error:
                    raise ValueError(f"{where}: {error}; {_READABLE}") from None
                yield result
                index += 1


def _results_in(path: str) -> Iterator[tuple[str, Any]]:
    """The results in a file as data, each with its place for messages. The kind of the file is that
    of its content."""
    name = "standard input" if path == STDIN else printable_name(path)
    if path == STDIN and sys.stdin is None:
        raise ValueError("standard input is closed; name a file")
    with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as file:
        lines = iter(file)
        seen = list[bytes]()
        while not b"".join(seen).strip(_BOM + b" \t\r\n") and (line := next(lines, b"")):
            seen.append(line)
        start = b"".join(seen).strip(_BOM + b" \t\r\n")[:1]
        if start == b"<":
            yield from _results_of_page(name, chain(seen, lines))
        elif start in (b"[", b"{"):
            form: InputFormat = (
                "json" if start == b"[" or path.lower().endswith(".json") else "jsonl"
            )
            for document in stories_in(cast(BinaryIO, chain(seen, lines)), name, form):
                if document.problem is not None:
                    raise ValueError(f"{document.name}: {document.problem}")
                yield document.name, document.content
        else:
            raise ValueError(f"{name} has no scores that can be read; {_READABLE}")


def _results_of_page(name: str, lines: Iterable[bytes]) -> Iterator[tuple[str, Any]]:
    parser, count = _DataParser(), 0
    for number, line in enumerate(lines, start=1):
        try:
            parser.feed(line.decode("utf-8", "replace"))
        except AssertionError as error:  # of older releases of Python, for malformed declarations
            raise ValueError(
                f"{name}, line {number}: it is not valid HTML ({error}); {_READABLE}"
            ) from None
        for text in parser.found:
            try:
                data = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{name}, line {number}: its data are damaged ({error})") from None
            count += 1
            yield f"{name}, line {number}", data
        parser.found.clear()
    if not count:
        raise ValueError(f"{name} is a page without scores as data; {_READABLE}")


class _DataParser(HTMLParser):
    """Collects the data of results in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name == DATA and value is not None]
