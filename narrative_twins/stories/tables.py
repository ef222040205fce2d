"""Stories in the rows of tables (CSV)."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from narrative_twins.stories import bounded
from narrative_twins.stories.documents import Document
from narrative_twins.stories.rocstories import is_roc_story, read_roc_story

TEXT_COLUMNS = ("text", "story", "content", "synopsis", "plot", "summary")
"""Columns that are taken for the stories if no other is named, the first that a table has."""


_ESCAPED = re.compile("[\udc80-\udcff]")


def read_table(name: str, lines: Iterable[bytes], column: str | None = None) -> Iterator[Document]:
    """The stories of a table, one in each row: the five sentences of ROCStories, or the text in a
    column, with the id in the column `id`, if there is one. Columns are separated by commas, or by
    semicolons or tabs if the first line has no comma.

    Args:
        name: the table, for messages.
        lines: its lines, in UTF-8.
        column: the column of the stories; default the only one, or one of `TEXT_COLUMNS`.
    """
    # Bytes that are not UTF-8 become lone surrogates, so that the other rows can be read.
    texts = codecs.iterdecode(_checked(lines), "utf-8-sig", "surrogateescape")
    bounded.allow_long_cells()
    number = 0
    try:
        # Empty lines may come before the names of the columns.
        blank, first = next(((i, line) for i, line in enumerate(texts) if line.strip()), (0, ""))
        delimiter = next((mark for mark in ",;\t" if mark in first), ",")
        rows = csv.DictReader(chain([first], texts), delimiter=delimiter)
        columns = list(rows.fieldnames or ())
        is_roc = column is None and is_roc_story(dict.fromkeys(columns))
        chosen = (
            column if is_roc or column in columns else _guess(columns) if column is None else None
        )
        if columns and chosen is None and not is_roc:
            yield Document(name, None, _no_column(columns, column))
            return
        for row in rows:
            number = blank + rows.line_num
            where = f"{name}, line {number}"
            if (byte := _foreign_byte(row.values())) is not None:
                yield Document(
                    where,
                    None,
                    f"can't be read as CSV in UTF-8 (byte 0x{byte:02x}); convert the table",
                )
            elif is_roc:
                yield Document(where, read_roc_story(row))
            elif (text := row[chosen or ""]) is None:
                yield Document(where, None, f"the row ends before the column {chosen!r}")
            else:
                yield Document(where, {"id": row.get("id") or None, "text": text})
    except (ValueError, csv.Error) as error:
        cure = "convert it, or close its quotation marks"
        yield Document(name, None, f"can't be read as CSV after line {number} ({error}); {cure}")


def _checked(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines; raises ValueError for one that is cut."""
    for line in lines:
        if len(line) > bounded.MAX_LINE:
            raise ValueError(f"a line has more than {bounded.MAX_LINE:,} bytes")
        yield line


def _foreign_byte(cells: Iterable[object]) -> int | None:
    """The first byte of a row that is not UTF-8."""
    found = (_ESCAPED.search(cell) for cell in cells if isinstance(cell, str))
    return next((ord(match[0]) - 0xDC00 for match in found if match), None)


def _guess(columns: Sequence[str]) -> str | None:
    """The column of the stories; None if that is not certain. In a table with one sentence a row,
    none is."""
    if len(columns) == 1:
        return columns[0]
    lowered = {column.strip().lower(): column for column in columns}
    return (
        None
        if "sentence" in lowered
        else next((lowered[name] for name in TEXT_COLUMNS if name in lowered), None)
    )


def _no_column(columns: Sequence[str], asked: str | None) -> str:
    found = ", ".join(columns[:20])
    if asked is not None:
        return f"has no column {asked!r} (its columns: {found}); name one of them with --column"
    return f"has no column of stories that is known (its columns: {found}); name it with --column"
