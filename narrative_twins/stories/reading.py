"""Reading of story files in bounded memory. Rows that can't be read are yielded as problems."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, zip_longest
from typing import IO, Any, TypeAlias

from narrative_twins.stories.front_matter import split_front_matter
from narrative_twins.stories.groups import grouped
from narrative_twins.stories.json_rows import rows_in_json
from narrative_twins.stories.rows import Document, RowColumns, story_in_row

Lines: TypeAlias = IO[bytes] | Iterable[bytes]
"""A binary file, or its lines."""
Row: TypeAlias = dict[Any, Any]
"""The cells of a row of a table by column; the key None has the cells after the last column."""

MAX_LINE = 64_000_000
"""Bytes of a line, a cell or a text; a few kilobytes of a compressed file can hold gigabytes."""
MAX_DOCUMENT = 1_000_000_000
"""Bytes of a JSON document, which is read as a whole."""

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


def stories_in(
    file: Lines, name: str, form: str, columns: RowColumns | None = None
) -> Iterator[Document]:
    """Yield the stories of an open file, lazily and in bounded memory, see `rows_in`.

    One story is a complete text file, without front matter, or a row; with `columns.group` all rows
    of a group, which are held in memory until the file has been read.

    Args:
        file: the file, open in binary, or its lines.
        name: the name of the file in messages.
        form: the format: a name in `ROWS`; any other name is text.
        columns: which columns of rows are read.
    """
    columns = columns or RowColumns()
    rows = rows_in(file, name, form, columns)
    if form in ("csv", "jsonl") and columns.story != "":
        rows = (row._replace(name=f"{row.name} (row {row.row})") for row in rows)
    if form not in ROWS:
        yield from rows
    elif columns.group is not None:
        yield from grouped(rows, columns, name)
    else:
        yield from (story_in_row(row, columns, form == "csv") for row in rows)


def rows_in(
    file: Lines, name: str, form: str, columns: RowColumns | None = None
) -> Iterator[Document]:
    """Yield the rows of an open file, numbered from 0, lazily and in bounded memory: a complete
    text file; a line of a JSON Lines file that is not blank; a row of a table (CSV); of a
    JSON file what `rows_in_json` yields. A line or text of more than `MAX_LINE` bytes, or a JSON
    file of more than `MAX_DOCUMENT`, becomes a problem. A table without one of the `columns` is a
    single problem."""
    readers = {"csv": _table, "jsonl": _json_lines, "json": _json_document}
    yield from readers.get(form, _text)(name, file, columns or RowColumns())


def _json_lines(name: str, file: Lines, columns: RowColumns) -> Iterator[Document]:
    """Yield the lines of a JSON Lines file that are not blank, see `rows_in`."""
    lines = enumerate(cut_lines(file), start=1)
    full = ((number, line) for number, line in lines if line.strip(_BLANK))
    for row, (number, line) in enumerate(full):
        yield document_of(f"{name}, line {number}", _json_line, line, row=row)


def _json_document(name: str, file: Lines, columns: RowColumns) -> Iterator[Document]:
    """Yield the rows of a JSON file, see `rows_in`."""
    within = partial(rows_in_json, column=columns.story, say=columns.say)
    document = document_of(name, lambda: [*within(read_json(file))])
    for row, (place, content) in enumerate(document.content or ()):
        yield Document(f"{name}, {place}" if place else name, content, row=row)
    if document.problem is not None:
        yield document


def _text(name: str, file: Lines, columns: RowColumns) -> Iterator[Document]:
    """Yield a text file as one document, without front matter."""
    yield document_of(name, lambda: split_front_matter(decode(_read_all(file, MAX_LINE))).story)


def cut_lines(file: Lines) -> Iterator[bytes]:
    """Yield the lines of a file. A line of more than `MAX_LINE` bytes is cut after `MAX_LINE` + 1
    bytes, and its rest is skipped. Lines from a list or iterator are yielded unchanged."""
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
    """Decode the bytes of a text file in UTF-8. Line breaks of Windows and of the old Macintosh
    become line feeds. Raises a `ValueError` if the bytes are not UTF-8."""
    _check_encoding(data)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        return text if "\n" in text else text.replace("\r", "\n")
    except UnicodeDecodeError as error:
        where = f"byte {error.start} (0x{data[error.start]:02x})"
        fix = (
            "convert it, perhaps with `iconv -f WINDOWS-1252 -t UTF-8`; encodings elsewhere are"
            " WINDOWS-1251 (Cyrillic), GB18030 (Chinese), SHIFT_JIS (Japanese) and EUC-KR (Korean)"
        )
        kind = next((kind for start, kind in _OTHER_FILES.items() if data.startswith(start)), "")
        raise ValueError(
            f"is {kind}, which is not read here under this name"
            if kind
            else f"is not UTF-8 at {where}; {fix}"
        ) from None


def _check_encoding(data: bytes) -> None:
    """Raise a `ValueError` if the first two bytes of a file look like UTF-16."""
    little, big = data[1:2] == b"\0", data[:1] == b"\0"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or little != big:
        kind = "UTF-16" if not little != big else "UTF-16LE" if little else "UTF-16BE"
        raise ValueError(f"is {kind}; convert it to UTF-8, perhaps with `iconv -f {kind} -t UTF-8`")


def read_json(file: Lines) -> Any:
    """Return the value of a JSON document. Raises a `ValueError` if it is invalid or too long."""
    return _parsed_json(_read_all(file, MAX_DOCUMENT))


def table_rows(file: Lines) -> tuple[list[str], Iterator[tuple[int, Row]]]:
    """Return the names of the columns of a table (CSV), and an iterator over its rows: pairs of the
    number of the last line, and the cells by column. Check each row by `check_cells`.

    Cells are separated by commas; if the first line has no comma, by the semicolon, tab or `|` in
    it; or by the mark that a first line such as `sep=;` names. Quotation marks in a quoted cell are
    doubled or follow a backslash, whichever gives one cell for each column. Any other line is
    unquoted: its quotation marks are text. In a table of one column, such a line is one cell.

    Raises a `ValueError` for UTF-16 or a line that is too long, and a `csv.Error` for a cell that
    is too long, also while rows are read.
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
    """Yield the rows of a table as pairs of the number of the last line, and the cells by column.
    `texts` has the lines below the header, `mark` separates cells, `number` lines came before."""
    waiting: deque[str] = deque()  # lines that were read to see whether a cell continues

    def quoted(line: str, **dialect: Any) -> tuple[list[str], int]:
        """Read the row that begins with `line`, with options of `csv.reader`. Return its cells
        (none if it is invalid), and the number of its further lines, which go into `waiting`."""
        taken: list[str] = []

        def lines() -> Iterator[str]:
            """Yield `line` and the lines after it, and note the latter in `taken`."""
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
    """Return a row of `table_rows` unchanged. Raises a `ValueError` if a cell is not UTF-8, or if
    the row has more cells than the table has columns."""
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


def document_of(name: str, read: Callable[..., Any], *args: Any, row: int = 0) -> Document:
    """Return a `Document` with the content `read(*args)`, or with its `ValueError` as problem."""
    try:
        return Document(name, read(*args), row=row)
    except ValueError as error:
        return Document(name, None, str(error), row)


def guess_format(lines: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """Guess the format of a file from its first non-blank line. Return `"jsonl"` or `"text"`, and
    an iterator over all lines of the file."""
    seen = []
    first = b""
    for line in lines:
        seen.append(line)
        if first := line.strip(_BLANK):
            break
    # "[Laughter] He left." is text.
    is_list = first.startswith(b"[") and document_of("", _json_line, first).problem is None
    return "jsonl" if is_list or first.startswith(b"{") else "text", chain(seen, lines)


def _table(name: str, file: Lines, columns: RowColumns) -> Iterator[Document]:
    """Yield the rows of a table (CSV); last, a problem if the table can't be read to its end."""
    number, row = 0, -1
    try:
        names, rows = table_rows(file)
        columns.check_table(names)
        for row, (number, cells) in enumerate(rows):
            yield document_of(f"{name}, line {number}", check_cells, cells, row=row)
    except csv.Error as error:
        problem = f"can't be read as CSV after line {number} ({error}); close its quotation marks"
        yield Document(name, None, problem, row + 1)
    except ValueError as error:
        yield Document(name, None, str(error), row + 1)


def _json_line(line: bytes) -> Any:
    """Return the value of a line of JSON. Raises a `ValueError` if it is invalid or too long."""
    if len(line) > MAX_LINE:
        raise ValueError(f"is a line {_too_long(MAX_LINE)}")
    return _parsed_json(line)


def _parsed_json(data: bytes) -> Any:
    """Return the value of JSON in UTF-8. Raises a `ValueError` if the JSON is invalid."""
    text = decode(data)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"is not valid JSON ({error}); a line of JSON Lines must be a complete value; a file"
            " with a single JSON document must end in .json"
        ) from None


def _read_all(file: Lines, limit: int) -> bytes:
    """Return the content of a file. Raises a `ValueError` if it has more than `limit` bytes."""
    read = getattr(file, "read", None)
    data = bytearray()
    for part in iter(partial(read, _PIECE), b"") if read else file:
        data += part
        if len(data) > limit:
            raise ValueError(f"is a document {_too_long(limit)}")
    return bytes(data)


def _checked_line(line: bytes) -> bytes:
    """Return a line of a table. Raises a `ValueError` if it is too long."""
    if len(line) > MAX_LINE:
        raise ValueError(f"has a line {_too_long(MAX_LINE)}; close its quotation marks")
    return line


def _too_long(limit: int) -> str:
    """Return the end of a message about a line or file that has more than `limit` bytes."""
    return f"of more than {limit:,} bytes, which is not read; divide it into stories or lines"
