"""Data files, read row by row: JSON Lines and JSON (plain or gzipped), Parquet, CSV."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow
import pyarrow.parquet

from narrative_twins.data.rows import RowError
from narrative_twins.data.tripod import is_second_annotation, read_synopsis

Found: TypeAlias = tuple[str, str | None, Any]
"""Where in its file a row stands, the key it is filed under, and its content."""


class Record(NamedTuple):
    """A row as a file has it, with its id and what to call it in an error."""

    where: str
    id: str
    row: Mapping[str, Any]


def read_records(path: str) -> Iterator[Record]:
    """The rows of a data file, lazily where its format allows.

    The id of a row is its `"id"`, or the key it has in a JSON object of rows, or else the file's name and its number.

    Raises:
        RowError: the file is in no known format or can't be read, or a row is no object of columns.
    """
    if not is_data_file(path):
        raise RowError(path, f"is in no known format; {', '.join(_READERS)} are read, each gzipped too")
    try:
        for number, (place, key, row) in enumerate(_READERS[_suffix(path)](path)):
            where = f"{path}, {place}"
            if not isinstance(row, Mapping):
                where += "" if key is None else f", id {key!r}"
                raise RowError(where, f"is {type(row).__name__}; a row is an object of columns")
            name = next(name for name in (row.get("id"), key, f"{Path(path).name}:{number}") if name is not None)
            if isinstance(name, bool) or not isinstance(name, (str, int)):
                raise RowError(where, f"the id is {type(name).__name__}; an id is a text or a whole number")
            yield Record(f"{where}, id {name!r}", str(name), row)
    except RowError:
        raise
    except (OSError, EOFError, zlib.error, csv.Error, ValueError, RecursionError, pyarrow.ArrowException) as error:
        raise RowError(path, f"can't be read as {_suffix(path)[1:]} ({error}); check that the file is whole") from error


def is_data_file(path: str) -> bool:
    """Whether a file is, by its name, one that can be read."""
    return _suffix(path) in _READERS


def _suffix(path: str) -> str:
    return Path(path.lower().removesuffix(".gz")).suffix


def _open(path: str) -> IO[bytes]:
    return gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _json_lines(path: str) -> Iterator[Found]:
    with _open(path) as file:
        lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        for row, (number, line) in enumerate(lines):
            place = f"row {row} (line {number})"
            try:
                yield place, None, json.loads(line)
            except (ValueError, RecursionError) as error:
                cure = "a line of a .jsonl file is one whole row; a single document is a .json file"
                raise RowError(f"{path}, {place}", f"is not valid JSON ({error}); {cure}") from None


def _json(path: str) -> Iterator[Found]:
    with _open(path) as file:
        rows = json.load(file)
    if not isinstance(rows, (Mapping, list)):
        raise RowError(path, f"holds {type(rows).__name__}; a list of rows is needed, or an object of them by id")
    keyed = rows.items() if isinstance(rows, Mapping) else ((None, row) for row in rows)
    for number, (key, row) in enumerate(keyed):
        yield f"row {number}", key, row


def _parquet(path: str) -> Iterator[Found]:
    with pyarrow.parquet.ParquetFile(path) as file:
        number = 0
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                yield f"row {number}", None, row
                number += 1


def _csv(path: str) -> Iterator[Found]:
    with _open(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        for number, row in enumerate(csv.DictReader(text)):
            if not row.get("synopsis_segmented"):
                raise RowError(f"{path}, row {number}", "no column 'synopsis_segmented'; a .csv file is TRIPOD's table")
            if not is_second_annotation(row):
                yield f"row {number}", row["movie_name"], read_synopsis(row)


_READERS: dict[str, Callable[[str], Iterator[Found]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".parquet": _parquet,
    ".csv": _csv,
}
DATA_PATTERNS = [f"*{suffix}{packed}" for suffix in _READERS for packed in ("", ".gz")]
"""Names of files that can be read, as patterns."""
