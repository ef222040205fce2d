"""Reading of data files row by row: JSON Lines, JSON and CSV (plain or gzipped), Parquet, Arrow."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from narrative_twins.data.rows import RowError
from narrative_twins.data.tables import Entry, read_table
from narrative_twins.stories.reading import check_cells, read_json, stories_in, table_rows
from narrative_twins.stories.story import whole

_BATCH = 1000
"""Rows of a Parquet file in memory."""
_FIRST_BYTES = 1_000_000
"""Maximum bytes of a line by which JSON Lines are recognized in a file named `.json`."""
_FILE_ERRORS = (OSError, EOFError, zlib.error, csv.Error, ValueError, pyarrow.ArrowException)
"""Raised for files that are missing, incomplete or in another format than their name says."""


class Record(NamedTuple):
    """A row of a file, with its location for error messages and its id."""

    where: str
    id: str
    row: Mapping[str, Any]


def read_records(path: str, check_ids: bool = True) -> Iterator[Record]:
    """Read the rows of a data file, lazily if its format allows it.

    The id of a row is its `"id"`, else its key in a JSON object of rows, else `FILE:NUMBER`. A
    whole number may be a float, as pandas makes it of numbers with a gap, NaN. Raises RowError if
    the format is unknown, the file can't be read, a row is not an object of columns, or, unless the
    caller checks ids itself, its id is neither text nor a whole number.
    """
    suffix = _suffix(path)
    if suffix is None:
        raise RowError(path, f"unknown format; use {', '.join(_READERS)}")
    try:
        with gzip.open(path) if suffix.endswith(".gz") else open(path, "rb") as file:
            entries = _READERS[suffix](path, cast(IO[bytes], file))
            for number, (where, key, row) in enumerate(entries):
                if not isinstance(row, Mapping):
                    problem = f"is {type(row).__name__}; a row must be an object of columns"
                    raise RowError(where if key is None else f"{where}, id {key!r}", problem)
                ids = (row.get("id"), key, f"{Path(path).name}:{number}")
                id_ = next(id_ for id_ in map(whole, ids) if id_ is not None)
                if check_ids and (isinstance(id_, bool) or not isinstance(id_, (str, int))):
                    problem = f"the id is {type(id_).__name__}; it must be a string or an integer"
                    raise RowError(where, problem)
                yield Record(f"{where}, id {id_!r}", str(id_), row)
    except RowError:
        raise
    except _FILE_ERRORS as error:
        raise _unreadable(path, error) from error


def count_rows(path: str) -> int:
    """The number of rows of a Parquet file; raises RowError if it can't be read."""
    try:
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    except _FILE_ERRORS as error:
        raise _unreadable(path, error) from error


def is_data_file(path: str) -> bool:
    """Whether a file has the name of a supported format."""
    return _suffix(path) is not None


def _suffix(path: str) -> str | None:
    """The suffix by which a format is known, if it is known."""
    return next((suffix for suffix in _READERS if path.lower().endswith(suffix)), None)


def _unreadable(path: str, error: BaseException) -> RowError:
    kind = str(_suffix(path))[1:]
    return RowError(path, f"can't be read as {kind} ({error}); the file may be incomplete")


def _json_lines(path: str, file: IO[bytes]) -> Iterator[Entry]:
    for where, row, problem in stories_in(file, path, "jsonl", column=""):
        if problem is not None:
            raise RowError(where, problem)
        yield where, None, row


def _json(path: str, file: IO[bytes]) -> Iterator[Entry]:
    """Rows of a JSON document; or JSON Lines, which `Dataset.to_json` writes under any name."""
    first, second = (file.readline(_FIRST_BYTES).strip() for _ in range(2))
    file.seek(0)
    if first.startswith(b"{") and first.endswith(b"}") and second.startswith(b"{"):
        yield from _json_lines(path, file)
        return
    rows = read_json(file)
    if isinstance(rows, Mapping) and not any(isinstance(row, Mapping) for row in rows.values()):
        rows = [rows] if rows else []  # a single line
    if not isinstance(rows, (Mapping, list)):
        problem = f"contains {type(rows).__name__}; a list of rows is needed, or an object by id"
        raise RowError(path, problem)
    keyed = rows.items() if isinstance(rows, Mapping) else ((None, row) for row in rows)
    for number, (key, row) in enumerate(keyed):
        yield f"{path}, row {number}", key, row


def _csv(path: str, file: IO[bytes]) -> Iterator[Entry]:
    columns, rows = table_rows(file)
    reader = read_table(path, columns)
    yield from reader((f"{path}, line {number}", check_cells(row)) for number, row in rows)


def _parquet(path: str, file: IO[bytes]) -> Iterator[Entry]:
    with pyarrow.parquet.ParquetFile(file) as table:
        yield from _rows_of(path, table.iter_batches(_BATCH))


def _arrow(path: str, file: IO[bytes]) -> Iterator[Entry]:
    try:
        batches: Iterable[pyarrow.RecordBatch] = pyarrow.ipc.open_stream(file)
    except pyarrow.ArrowInvalid:  # the other format of Arrow, with an index of batches
        reader = pyarrow.ipc.open_file(file)
        batches = map(reader.get_batch, range(reader.num_record_batches))
    yield from _rows_of(path, batches)


def _rows_of(path: str, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[Entry]:
    number = count()
    for batch in batches:
        names = batch.schema.names
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise RowError(path, f"has several columns {twice!r}; rename or remove all but one")
        yield from ((f"{path}, row {next(number)}", None, row) for row in batch.to_pylist())


_TEXT_READERS = {".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json, ".csv": _csv}
_READERS = (
    _TEXT_READERS
    | {f"{suffix}.gz": reader for suffix, reader in _TEXT_READERS.items()}
    | {".parquet": _parquet, ".arrow": _arrow}
)
DATA_PATTERNS = [f"*{suffix}" for suffix in _READERS]
"""Patterns of the file names that are supported."""
