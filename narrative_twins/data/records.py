"""Reading of data files row by row: JSON Lines, JSON and CSV (plain or gzipped), Parquet, Arrow."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from narrative_twins.data import sentence_table
from narrative_twins.data.rows import RowError
from narrative_twins.data.tripod import is_second_annotation, read_synopsis
from narrative_twins.stories.bounded import MAX_DOCUMENT, LimitedFile, allow_long_cells
from narrative_twins.stories.rocstories import is_roc_story, read_roc_story

Entry: TypeAlias = tuple[str, str | None, Any]
"""A row of a file: its location for error messages, its key in a JSON object of rows (or None), and
its content."""


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
                where += "" if key is None else f", id {key!r}"
                raise RowError(
                    where, f"is {type(row).__name__}; a row must be an object of columns"
                )
            id_ = next(
                id_
                for id_ in (row.get("id"), key, f"{Path(path).name}:{number}")
                if id_ is not None
            )
            if isinstance(id_, bool) or not isinstance(id_, (str, int)):
                raise RowError(
                    where, f"the id is {type(id_).__name__}; it must be a string or an integer"
                )
            yield Record(f"{where}, id {id_!r}", str(id_), row)
    except RowError:
        raise
    except (
        OSError,
        EOFError,
        zlib.error,
        csv.Error,
        ValueError,
        RecursionError,
        pyarrow.ArrowException,
    ) as error:
        raise RowError(
            path, f"can't be read as {suffix[1:]} ({error}); the file may be incomplete"
        ) from error


def count_rows(path: str) -> int:
    """The number of rows of a Parquet file; raises RowError if it can't be read."""
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            return int(file.metadata.num_rows)
    except (OSError, pyarrow.ArrowException) as error:
        raise RowError(
            path, f"can't be read as parquet ({error}); the file may be incomplete"
        ) from error


def is_data_file(path: str) -> bool:
    """Whether a file has the name of a supported format."""
    return _suffix(path) is not None


def _suffix(path: str) -> str | None:
    """The suffix by which a format is known, if it is known."""
    return next((suffix for suffix in _READERS if path.lower().endswith(suffix)), None)


def _open(path: str) -> IO[bytes]:
    return gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _lines(path: str, file: IO[bytes]) -> Iterable[bytes]:
    """The lines of a file; those of a compressed one have a maximum length."""
    return LimitedFile(file) if path.lower().endswith(".gz") else file


def _json_lines(path: str) -> Iterator[Entry]:
    with _open(path) as file:
        lines = (
            (number, line)
            for number, line in enumerate(_lines(path, file), start=1)
            if line.strip()
        )
        for row, (number, line) in enumerate(lines):
            location = f"row {row} (line {number})"
            try:
                yield location, None, json.loads(line)
            except (ValueError, RecursionError) as error:
                fix = (
                    "each line of a .jsonl file must be a row; if the file is one JSON document,"
                    " name it .json"
                )
                raise RowError(
                    f"{path}, {location}", f"is not valid JSON ({error}); {fix}"
                ) from None


def _json(path: str) -> Iterator[Entry]:
    with _open(path) as file:
        compressed = path.lower().endswith(".gz")
        rows = json.loads(
            b"".join(LimitedFile(file, MAX_DOCUMENT, MAX_DOCUMENT)) if compressed else file.read()
        )
    if not isinstance(rows, (Mapping, list)):
        raise RowError(
            path,
            f"contains {type(rows).__name__}; a list of rows is needed, or an object of rows by id",
        )
    keyed = rows.items() if isinstance(rows, Mapping) else ((None, row) for row in rows)
    for number, (key, row) in enumerate(keyed):
        yield f"row {number}", key, row


def _parquet(path: str) -> Iterator[Entry]:
    with pyarrow.parquet.ParquetFile(path) as file:
        number = 0
        for batch in file.iter_batches(1000):  # rows in memory at once
            for row in batch.to_pylist():
                yield f"row {number}", None, row
                number += 1


def _arrow(path: str) -> Iterator[Entry]:
    with pyarrow.memory_map(path) as file:
        try:
            batches: Iterable[pyarrow.RecordBatch] = pyarrow.ipc.open_stream(file)
        except pyarrow.ArrowInvalid:  # the other format of Arrow, with an index of batches
            reader = pyarrow.ipc.open_file(file)
            batches = map(reader.get_batch, range(reader.num_record_batches))
        for number, row in enumerate(row for batch in batches for row in batch.to_pylist()):
            yield f"row {number}", None, row


def _csv(path: str) -> Iterator[Entry]:
    allow_long_cells()
    with _open(path) as file:
        if path.lower().endswith(".gz"):
            text: Iterable[str] = codecs.iterdecode(LimitedFile(file), "utf-8-sig")
        else:
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        table = csv.DictReader(text)
        if set(sentence_table.COLUMNS) <= set(table.fieldnames or ()):
            # `line_num` is that of the row's last line, since a cell can have several.
            rows = (
                (f"{path}, row {number} (line {table.line_num})", row)
                for number, row in enumerate(table)
            )
            for where, story_id, story in sentence_table.read_table(rows):
                yield where.removeprefix(f"{path}, "), story_id, story
            return
        for number, row in enumerate(table):
            if is_roc_story(row):
                yield f"row {number}", None, read_roc_story(row)
                continue
            if not row.get("synopsis_segmented"):
                found = ", ".join(map(repr, filter(None, table.fieldnames or ())))
                problem = f"no column 'synopsis_segmented'; the columns are {found[:500]}"
                columns = f"the columns {', '.join(sentence_table.COLUMNS)} separated by commas"
                needed = f"a .csv must be TRIPOD's or ROCStories' table, or have {columns}"
                raise RowError(f"{path}, row {number}", f"{problem}; {needed}")
            if not is_second_annotation(row):
                yield f"row {number}", row["movie_name"], read_synopsis(row)


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
