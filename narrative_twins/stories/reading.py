"""Reading of story files in bounded memory: a story that can't be read is yielded with its place
and the problem."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import IO, Any, NamedTuple, TypeAlias

from narrative_twins.stories.story import CONTENTS

Lines: TypeAlias = IO[bytes] | Iterable[bytes]
"""A binary file, or lines of one."""
Row: TypeAlias = dict[Any, Any]
"""The cells of a row of a table by column; None has the cells that no column has."""

MAX_LINE = 64_000_000
"""Bytes of a line, of a cell of a table, or of a text; a few kilobytes of a compressed file can
hold gigabytes."""
MAX_DOCUMENT = 1_000_000_000
"""Bytes of a JSON document, which is read as a whole."""

TEXT_COLUMNS = ("text", "story", "content", "synopsis", "plot", "summary")
"""Columns that are taken for the stories if no other is named, the first that a table has."""
_ROC_SENTENCES = tuple(f"sentence{number}" for number in range(1, 6))
"""The columns of the sentences of ROCStories (Mostafazadeh et al., 2016); the others are `storyid`
and `storytitle`."""

ROWS = {"jsonl": (".jsonl", ".ndjson", ".rejects"), "json": (".json",), "csv": (".csv", ".tsv")}
"""The formats of files with a story in each row, with their suffixes. All other files are text."""
_OTHER_FILES = {
    b"PAR1": "Parquet",
    b"%PDF-": "PDF",
    b"PK\x03\x04": "a zip archive, such as EPUB or Word",
    b"\x1f\x8b": "gzip",
}
"""The first bytes of files that may be taken for text."""
_BLANK = b"\xef\xbb\xbf \t\r\n"  # byte order mark and white space
_PIECE = 1 << 20
_LINES = re.compile(r"[^\r\n]*(?:\r|\n)|[^\r\n]+")  # also of old files of the Macintosh
_ESCAPED = re.compile("[\udc80-\udcff]")


class Document(NamedTuple):
    """A story in a file: its name for messages, and its content, or the problem if it can't be
    read."""

    name: str
    content: Any
    problem: str | None = None


def stories_in(file: Lines, name: str, form: str, column: str | None = None) -> Iterator[Document]:
    """Read the stories of an open file called `name`, lazily and in bounded memory.

    A text, a line of a JSON Lines file, the object of a JSON file and each item of its list are one
    story each, in any form that `Story.parse` accepts; and so is a row of a table (CSV), with the
    id in the column `id`, if there is one. Lines and texts of more than `MAX_LINE` bytes, and JSON
    documents of more than `MAX_DOCUMENT`, are problems.

    Args:
        file: the file.
        name: for messages.
        form: a name in `ROWS`; all others are text.
        column: see `story_in_column`.
    """
    if form == "csv":
        yield from _table(name, file, column)
    elif form == "jsonl":
        for number, line in enumerate(cut_lines(file), start=1):
            if line.strip(_BLANK):
                yield document_of(f"{name}, line {number}", _json_row, line, column)
    elif form == "json":
        document = document_of(name, read_json, file)
        if isinstance(document.content, list):
            for at, item in enumerate(document.content):
                yield document_of(f"{name}, item {at}", story_in_column, item, column)
        elif document.problem is None:
            yield document_of(name, story_in_column, document.content, column)
        else:
            yield document
    else:
        yield document_of(name, lambda: decode(_whole(file, MAX_LINE)))


def cut_lines(file: Lines) -> Iterator[bytes]:
    """The lines of a file. Of a line with more than `MAX_LINE` bytes only these and one more, by
    which it is recognized, are in memory; the rest of it is skipped before the next line."""
    readline = getattr(file, "readline", None)
    if readline is None:
        yield from file
        return
    while line := readline(MAX_LINE + 1):
        yield line
        piece = line
        while len(line) > MAX_LINE and piece and not piece.endswith(b"\n"):
            piece = readline(_PIECE)


def decode(data: bytes) -> str:
    """The text of a file in UTF-8, with the line breaks of Windows and old ones of the Macintosh as
    line feeds, so that its sentences are the same everywhere; raises a `ValueError` if it is
    none."""
    _check_encoding(data)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        return text if "\n" in text else text.replace("\r", "\n")
    except UnicodeDecodeError as error:
        where = f"byte {error.start} (0x{data[error.start]:02x})"
        fix = "convert it, perhaps with `iconv -f WINDOWS-1252 -t UTF-8`"
        kind = next((kind for start, kind in _OTHER_FILES.items() if data.startswith(start)), "")
        raise ValueError(
            f"is {kind}, which is not read here under this name"
            if kind
            else f"is not UTF-8 at {where}; {fix}"
        ) from None


def _check_encoding(data: bytes) -> None:
    """Raise a `ValueError` for UTF-16, whose first letter has a zero byte if there is no mark."""
    little, big = data[1:2] == b"\0", data[:1] == b"\0"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or little != big:
        kind = "UTF-16" if not little != big else "UTF-16LE" if little else "UTF-16BE"
        raise ValueError(f"is {kind}; convert it to UTF-8, perhaps with `iconv -f {kind} -t UTF-8`")


def read_json(file: Lines) -> Any:
    """The value of a JSON document; raises a `ValueError` if it is invalid or too long."""
    return _parsed_json(_whole(file, MAX_DOCUMENT))


def table_rows(file: Lines) -> tuple[list[str], Iterator[tuple[int, Row]]]:
    """The columns of a table (CSV), and its rows, each with the number of its last line; check each
    by `check_cells`.

    Columns are separated by commas, or by semicolons, tabs or `|` if the first line has no comma,
    or as its line `sep=` says. A row is read in the first of these forms that gives a cell for each
    column: with cells in quotation marks, doubled or after a backslash within them, and as a line
    without them, so that a cell may begin with a quotation mark of its text. In a table of one
    column, any line that is not in quotation marks is a cell.

    Raises, also while rows are read, a `ValueError` for a line that is too long or for UTF-16, and
    `csv.Error`.
    """
    # By default the library refuses a chapter of a book.
    csv.field_size_limit(MAX_LINE)
    lines = map(_checked_line, cut_lines(file))
    start = next(lines, b"")
    _check_encoding(start)
    decoded = codecs.iterdecode(chain([start], lines), "utf-8-sig", "surrogateescape")
    texts = chain.from_iterable(_LINES.findall(line.replace("\r\n", "\n")) for line in decoded)
    # Empty lines may come before the names of the columns.
    number, first = next(((i, line) for i, line in enumerate(texts, 1) if line.strip()), (0, ""))
    mark = next((mark for mark in ",;\t|" if mark in first), "\x1f")
    if said := re.fullmatch(r"(?i)sep=([,;\t|])\s*", first):  # of Excel
        mark, first, number = said[1], next(texts, ""), number + 1
    head = csv.reader(chain([first], texts), delimiter=mark)
    columns = next(head, [])
    return columns, _rows_of(texts, columns, mark, number + head.line_num - 1)


def _rows_of(
    texts: Iterator[str], columns: list[str], mark: str, number: int
) -> Iterator[tuple[int, Row]]:
    """The rows in the lines after the names of the columns; `number` lines came before."""
    waiting: deque[str] = deque()  # lines that were read to see whether a cell continues

    def quoted(line: str, **dialect: Any) -> tuple[list[str], int]:
        """The cells of the row that begins with a line, none if it has another dialect, and how
        many further lines it has, which still wait."""
        taken: list[str] = []

        def lines() -> Iterator[str]:
            yield line
            while further := waiting.popleft() if waiting else next(texts, ""):
                taken.append(further)
                yield further

        try:
            cells = next(csv.reader(lines(), delimiter=mark, strict=True, **dialect))
        except csv.Error as error:
            if "field limit" in str(error):
                raise
            cells = []
        while len(cells) > len(columns) and not cells[-1].strip():
            cells.pop()
        waiting.extendleft(reversed(taken))
        # Texts rarely have a tab in each line, so these are rows, one of which begins with a mark.
        if taken and mark == "\t" and {each.count(mark) for each in taken} == {len(columns) - 1}:
            cells = []
        return cells, len(taken)

    while line := waiting.popleft() if waiting else next(texts, ""):
        number += 1
        if not line.strip():
            continue
        row, further = in_marks = quoted(line)
        if len(row) != len(columns) and "\\" in line:
            row, further = quoted(line, escapechar="\\", doublequote=False)
        if len(row) != len(columns):
            row, further = in_marks if in_marks[0] else (line.rstrip("\r\n").split(mark), 0)
        for _ in range(further):
            waiting.popleft()
        number += further
        cells: Row = dict(zip_longest(columns, row[: len(columns)]))
        more = {None: row[len(columns) :]} if len(row) > len(columns) else {}
        yield number, cells | more


def check_cells(row: Row) -> dict[str, Any]:
    """A row of `table_rows`; raises a `ValueError` if it is not UTF-8, or has more cells than there
    are columns."""
    cells = "".join(cell for cell in row.values() if isinstance(cell, str))
    problem = ""
    if byte := _ESCAPED.search(cells):
        problem = f"is not CSV in UTF-8 (byte 0x{ord(byte[0]) - 0xDC00:02x}); convert the table"
    elif more := row.pop(None, None):
        problem = (
            f"has {len(row) + len(more)} cells for {len(row)} columns; put cells in quotation marks"
            " and double those in their text"
        )
    if problem:
        raise ValueError(problem)
    return row


def story_in_column(row: Any, column: str | None) -> Any:
    """The story in a column of a row, with the id of the row; the row itself for `""`. By default,
    the row itself if it is in a form that `Story.parse` accepts, the five sentences of ROCStories,
    or else the first of `TEXT_COLUMNS` that it has. Raises a `ValueError` if the row has no such
    column."""
    if column == "" or (column is None and not isinstance(row, Mapping)):
        return row
    if column is None:
        if not CONTENTS.isdisjoint(row):
            return row
        if row.keys() >= {"storyid", *_ROC_SENTENCES}:
            return _roc_story(row)
        column = _story_column([name for name in row if isinstance(name, str)], None, "the row ")
    if not isinstance(row, Mapping) or column not in row:
        columns = ", ".join(map(str, row)) if isinstance(row, Mapping) else "no columns"
        raise ValueError(
            f"the row has no column {column!r} (it has {columns[:500]}); name one of them with"
            " --column"
        )
    if (story := row[column]) is None:
        raise ValueError(f"the row has nothing in the column {column!r}")
    story_id = None if row.get("id") == "" else row.get("id")  # an empty cell
    return {"id": story_id, "text" if isinstance(story, str) else "sentences": story}


def _roc_story(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of ROCStories with `id`, `title` and `sentences`; white space is normalized. What is
    missing is None, or an empty sentence."""
    title, *sentences = (
        " ".join((row.get(name) or "").split()) for name in ("storytitle", *_ROC_SENTENCES)
    )
    return {"id": row["storyid"] or None, "title": title or None, "sentences": sentences}


def document_of(name: str, read: Callable[..., Any], *args: Any) -> Document:
    """What a reader finds, or its `ValueError` as the problem."""
    try:
        return Document(name, read(*args))
    except ValueError as error:
        return Document(name, None, str(error))


def guess_format(lines: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """The format of standard input by its first non-blank line, and all its lines."""
    seen = []
    first = b""
    for line in lines:
        seen.append(line)
        if first := line.strip(_BLANK):
            break
    # "[Laughter] He left." is text.
    is_list = first.startswith(b"[") and document_of("", _json_line, first).problem is None
    return "jsonl" if is_list or first.startswith(b"{") else "text", chain(seen, lines)


def _table(name: str, file: Lines, column: str | None) -> Iterator[Document]:
    number = 0
    try:
        columns, rows = table_rows(file)
        if column is not None or not {"storyid", *_ROC_SENTENCES} <= set(columns):
            column = _story_column(columns, column)
            if columns.count(column) > 1:
                raise ValueError(f"has several columns {column!r}; rename or remove all but one")
        for number, row in rows:
            yield document_of(f"{name}, line {number}", _cells_row, row, column)
    except csv.Error as error:
        problem = f"can't be read as CSV after line {number} ({error}); close its quotation marks"
        yield Document(name, None, problem)
    except ValueError as error:
        yield Document(name, None, str(error))


def _story_column(columns: Sequence[str], asked: str | None, where: str = "") -> str:
    """The column of the stories. In a table with one sentence per row, there is none."""
    if asked in columns or not columns:
        return asked or ""
    by_name = {column.strip().lower(): column for column in columns}
    usual = [by_name[name] for name in TEXT_COLUMNS if name in by_name]
    if asked is None and len(columns) == 1:
        return columns[0]
    if asked is None and usual and "sentence" not in by_name:
        return usual[0]
    what = f"no column {asked!r}" if asked else "no column of stories that is known"
    names = ", ".join(columns[:20])
    raise ValueError(f"{where}has {what} (its columns: {names}); name one of them with --column")


def _cells_row(row: Row, column: str | None) -> Any:
    return story_in_column(check_cells(row), column)


def _json_row(line: bytes, column: str | None) -> Any:
    return story_in_column(_json_line(line), column)


def _json_line(line: bytes) -> Any:
    if len(line) > MAX_LINE:
        raise ValueError(f"is a line {_too_long(MAX_LINE)}")
    return _parsed_json(line)


def _parsed_json(data: bytes) -> Any:
    text = decode(data)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"is not valid JSON ({error}); a line of JSON Lines must be a complete value; a file"
            " with a single JSON document must end in .json"
        ) from None


def _whole(file: Lines, limit: int) -> bytes:
    """The content of a file; raises a `ValueError` if it has more bytes than the limit."""
    read = getattr(file, "read", None)
    data = bytearray()
    for part in iter(partial(read, _PIECE), b"") if read else file:
        data += part
        if len(data) > limit:
            raise ValueError(f"is a document {_too_long(limit)}")
    return bytes(data)


def _checked_line(line: bytes) -> bytes:
    if len(line) > MAX_LINE:
        raise ValueError(f"has a line {_too_long(MAX_LINE)}; close its quotation marks")
    return line


def _too_long(limit: int) -> str:
    return f"of more than {limit:,} bytes, which is not read; divide it into stories or lines"
