"""Reading of data files row by row: JSON Lines, JSON and CSV (plain or gzipped), and Parquet. A CSV
file is a table of `label_tables.py`."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import pyarrow
import pyarrow.parquet

from narrative_twins.data.label_tables import Entry, read_table
from narrative_twins.data.rows import RowError
from narrative_twins.stories.reading import check_cells, read_json, rows_in, table_rows
from narrative_twins.stories.story import plain_id
from narrative_twins.text import one_line

_BATCH = 1000
"""The number of rows of a Parquet file that are held in memory."""
_FIRST_BYTES = 1_000_000
"""Maximum bytes of a line by which JSON Lines are recognized in a file named `.json`."""
_FILE_ERRORS = (
    *(OSError, EOFError, zlib.error, csv.Error, ValueError, OverflowError),
    pyarrow.ArrowException,
)
"""The errors of files that are missing, incomplete or in another format than their name says, and
of values that Python can't represent."""


class Record(NamedTuple):
    """A row of a data file: its location for error messages (`where`), its `id`, and its columns
    (`row`; a RowError for an unreadable row in `read_records(path, strict=False)`)."""

    where: str
    id: str
    row: Any


def read_records(path: str, strict: bool = True) -> Iterator[Record]:
    """Yield the rows of a data file, one at a time if the format allows it. The id of a row is its
    column `id` (`"3"` for 3.0), else its key in a JSON object of rows, else `FILE:NUMBER`.

    Raises RowError if the format is unknown, the file can't be read, or a row is not an object of
    columns; if `strict`, also for an id that is neither text nor a whole number, and for an
    unreadable row or Parquet row group. If not `strict`, an unreadable row or row group is a record
    whose `row` is a RowError.
    """
    suffix = _suffix(path)
    if suffix is None:
        raise RowError(path, f"unknown format; use {', '.join(_READERS)}")
    with _readable(path), gzip.open(path) if suffix.endswith(".gz") else open(path, "rb") as file:
        for number, entry in enumerate(_READERS[suffix](path, cast(IO[bytes], file))):
            yield _record(f"{Path(path).name}:{number}", *entry, strict)


def _record(default_id: str, where: str, key: str | None, row: Any, strict: bool) -> Record:
    """Return the record of a row, see `read_records`; `key` is its key in a JSON object of rows."""
    if isinstance(row, RowError):
        if strict:
            raise row
        return Record(where, "", row)
    if not isinstance(row, Mapping):
        problem = f"is {type(row).__name__}; a row must be an object of columns"
        raise RowError(where if key is None else f"{where}, id {key!r}", problem)
    ids = map(plain_id, (row.get("id"), key, default_id))
    id_ = next(id_ for id_ in ids if id_ is not None)
    if strict and (isinstance(id_, bool) or not isinstance(id_, (str, int))):
        problem = f"the id is {type(id_).__name__}; it must be a string or an integer"
        raise RowError(where, problem)
    return Record(f"{where}, id {id_!r}", str(id_), row)


def count_rows(path: str) -> int:
    """Return the number of rows of a Parquet file; raise RowError if it can't be read."""
    with _readable(path):
        return int(pyarrow.parquet.read_metadata(path).num_rows)


def is_data_file(path: str) -> bool:
    """Return whether the name of a file has the suffix of a supported format."""
    return _suffix(path) is not None


def _suffix(path: str) -> str | None:
    """Return the suffix of a path, such as `.csv.gz`, or None if its format is unknown."""
    return next((suffix for suffix in _READERS if path.lower().endswith(suffix)), None)


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Raise errors of reading the file `path` within the `with` block as RowError."""
    try:
        yield
    except RowError:
        raise
    except _FILE_ERRORS as error:
        problem = f"can't be read as {str(_suffix(path))[1:]} ({error})"
        raise RowError(path, f"{problem}; the file may be incomplete") from error


def _json_lines(path: str, file: IO[bytes]) -> Iterator[Entry]:
    """Yield the rows of a JSON Lines file."""
    for where, row, problem, *_ in rows_in(file, path, "jsonl"):
        if problem is not None:
            raise RowError(where, problem)
        yield where, None, row


def _json(path: str, file: IO[bytes]) -> Iterator[Entry]:
    """Yield the rows of a JSON file: a list of rows, an object of rows by id, or a single row. A
    file that is named `.json` and contains JSON Lines is read, too."""
    first, second = (file.readline(_FIRST_BYTES).strip() for _ in range(2))
    file.seek(0)
    if first.startswith(b"{") and first.endswith(b"}") and second.startswith(b"{"):
        yield from _json_lines(path, file)
        return
    rows = read_json(file)
    keyed: Iterable[tuple[str | None, Any]]
    if isinstance(rows, list):
        keyed = ((None, row) for row in rows)
    elif not isinstance(rows, Mapping):
        problem = f"contains {type(rows).__name__}; a list of rows is needed, or an object by id"
        raise RowError(path, problem)
    elif any(isinstance(row, Mapping) for row in rows.values()):
        keyed = rows.items()
    else:
        keyed = [(None, rows)] if rows else []  # a single row
    for number, (key, row) in enumerate(keyed):
        yield f"{path}, row {number}", key, row


def _csv(path: str, file: IO[bytes]) -> Iterator[Entry]:
    """Yield the rows of a CSV table, read by the function in `TABLES` that fits its columns."""
    columns, rows = table_rows(file)
    reader = read_table(path, columns)
    yield from reader((f"{path}, line {number}", check_cells(row)) for number, row in rows)


def _parquet(path: str, file: IO[bytes]) -> Iterator[Entry]:
    """Yield the rows of a Parquet file. An unreadable row or row group is yielded as a RowError."""
    with pyarrow.parquet.ParquetFile(file) as table:
        first = 0
        for group in range(table.num_row_groups):
            try:
                yield from _batch_rows(path, table.iter_batches(_BATCH, [group]), count(first))
            except _FILE_ERRORS as error:
                where = f"{path}, row group {group}"
                problem = f"can't be read ({one_line(error)}); it may be incomplete"
                bad = error if isinstance(error, RowError) else RowError(where, problem)
                yield where, None, bad
            first += table.metadata.row_group(group).num_rows


def _batch_rows(
    path: str, batches: Iterable[pyarrow.RecordBatch], number: Iterator[int]
) -> Iterator[Entry]:
    """Yield the rows of batches of a Parquet file, an unreadable row as a RowError. `number` yields
    the number of each row in the file."""
    for batch in batches:
        names = batch.schema.names
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise RowError(path, f"has several columns {twice!r}; rename or remove all but one")
        try:
            rows = batch.to_pylist()
        except _FILE_ERRORS:  # of one of the rows, such as a text that is not UTF-8
            rows = [_row_or_problem(batch.slice(at, 1)) for at in range(len(batch))]
        for where, row in ((f"{path}, row {next(number)}", row) for row in rows):
            yield where, None, RowError(where, row) if isinstance(row, str) else row


def _row_or_problem(batch: pyarrow.RecordBatch) -> Any:
    """Return the row in a batch of one row; if it is unreadable, the reason as a text."""
    try:
        return batch.to_pylist()[0]
    except _FILE_ERRORS as error:
        return f"can't be read ({error})"


_TEXT_READERS = {".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json, ".csv": _csv}
_READERS = (
    _TEXT_READERS
    | {f"{suffix}.gz": reader for suffix, reader in _TEXT_READERS.items()}
    | {".parquet": _parquet}
)
DATA_PATTERNS = [f"*{suffix}" for suffix in _READERS]
"""Glob patterns of the names of supported files."""
