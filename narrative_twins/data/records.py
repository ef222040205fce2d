"""Reading of data files row by row: JSON Lines, JSON and CSV (plain or gzipped), Parquet, Arrow."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from narrative_twins.data.rows import RowError
from narrative_twins.data.tables import read_table
from narrative_twins.stories.reading import MAX_DOCUMENT, LimitedFile, allow_long_cells

Entry: TypeAlias = tuple[str, str | None, Any]
"""A row of a file: its location in the file, its key in a JSON object of rows (or None), and its
content."""

_BATCH = 1000
"""Rows of a Parquet file in memory."""
_FILE_ERRORS = (
    OSError,
    EOFError,
    zlib.error,
    csv.Error,
    ValueError,
    RecursionError,
    pyarrow.ArrowException,
)
"""Raised for files that are missing, incomplete or in another format than their name says."""


class Record(NamedTuple):
    """A row of a file, with its location for error messages and its id."""

    where: str
    id: str
    row: Mapping[str, Any]


def read_records(path: str) -> Iterator[Record]:
    """Read the rows of a data file, lazily if its format allows it.

    The id of a row is its `"id"`, else its key in a JSON object of rows, else `FILE:NUMBER`. Raises
    RowError if the format is unknown, the file can't be read, or a row is not an object of columns.
    """
    suffix = _suffix(path)
    if suffix is None:
        raise RowError(path, f"unknown format; use {', '.join(_READERS)}")
    try:
        for number, (location, key, row) in enumerate(_READERS[suffix](path)):
            where = f"{path}, {location}"
            if not isinstance(row, Mapping):
                problem = f"is {type(row).__name__}; a row must be an object of columns"
                raise RowError(where if key is None else f"{where}, id {key!r}", problem)
            ids = (row.get("id"), key, f"{Path(path).name}:{number}")
            id_ = next(id_ for id_ in ids if id_ is not None)
            if isinstance(id_, bool) or not isinstance(id_, (str, int)):
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


def read_parquet(paths: Sequence[str]) -> pyarrow.Table:
    """The rows of Parquet files in memory."""
    return pyarrow.concat_tables(map(pyarrow.parquet.read_table, paths))


def is_data_file(path: str) -> bool:
    """Whether a file has the name of a supported format."""
    return _suffix(path) is not None


def _suffix(path: str) -> str | None:
    """The suffix by which a format is known, if it is known."""
    return next((suffix for suffix in _READERS if path.lower().endswith(suffix)), None)


def _unreadable(path: str, error: BaseException) -> RowError:
    kind = str(_suffix(path))[1:]
    return RowError(path, f"can't be read as {kind} ({error}); the file may be incomplete")


@contextmanager
def _lines(path: str, *limits: int) -> Iterator[Iterable[bytes]]:
    """The lines of a file; compressed ones, which may expand to gigabytes, in the limits of
    `LimitedFile`."""
    if path.lower().endswith(".gz"):
        with gzip.open(path) as packed:
            yield LimitedFile(packed, *limits)  # type: ignore[arg-type]
    else:
        with open(path, "rb") as file:
            yield file


def _json_lines(path: str) -> Iterator[Entry]:
    with _lines(path) as lines:
        filled = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
        for row, (number, line) in enumerate(filled):
            location = f"row {row} (line {number})"
            try:
                yield location, None, json.loads(line)
            except (ValueError, RecursionError) as error:
                fix = "each line of a .jsonl must be a row; name one JSON document .json"
                problem = f"is not valid JSON ({error}); {fix}"
                raise RowError(f"{path}, {location}", problem) from None


def _json(path: str) -> Iterator[Entry]:
    with _lines(path, MAX_DOCUMENT, MAX_DOCUMENT) as lines:
        rows = json.loads(b"".join(lines))
    if not isinstance(rows, (Mapping, list)):
        problem = f"contains {type(rows).__name__}; a list of rows is needed, or an object by id"
        raise RowError(path, problem)
    keyed = rows.items() if isinstance(rows, Mapping) else ((None, row) for row in rows)
    for number, (key, row) in enumerate(keyed):
        yield f"row {number}", key, row


def _parquet(path: str) -> Iterator[Entry]:
    with pyarrow.parquet.ParquetFile(path) as file:
        yield from _rows_of(file.iter_batches(_BATCH))


def _arrow(path: str) -> Iterator[Entry]:
    with pyarrow.memory_map(path) as file:
        try:
            batches: Iterable[pyarrow.RecordBatch] = pyarrow.ipc.open_stream(file)
        except pyarrow.ArrowInvalid:  # the other format of Arrow, with an index of batches
            reader = pyarrow.ipc.open_file(file)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        yield from _rows_of(batches)


def _rows_of(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[Entry]:
    for number, row in enumerate(row for batch in batches for row in batch.to_pylist()):
        yield f"row {number}", None, row


def _csv(path: str) -> Iterator[Entry]:
    allow_long_cells()
    with _lines(path) as lines:
        table = csv.DictReader(codecs.iterdecode(lines, "utf-8-sig"))
        # `line_num` is that of the row's last line, since a cell can have several.
        rows = (
            (f"{path}, row {number} (line {table.line_num})", row)
            for number, row in enumerate(table)
        )
        for where, id_, row in read_table(path, table.fieldnames or (), rows):
            yield where.removeprefix(f"{path}, "), id_, row


_Reader: TypeAlias = Callable[[str], Iterator[Entry]]
_TEXT_READERS: dict[str, _Reader] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
}
_READERS = (
    _TEXT_READERS
    | {f"{suffix}.gz": reader for suffix, reader in _TEXT_READERS.items()}
    | {".parquet": _parquet, ".arrow": _arrow}
)
DATA_PATTERNS = [f"*{suffix}" for suffix in _READERS]
"""Patterns of the file names that are supported."""
