"""Stories in the rows of Parquet files and of data sets on the Hub, beside those in story files.

`datasets` and pyarrow take seconds to import, so functions import them when such a source is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from narrative_twins.files import STDIN
from narrative_twins.stories.books.reading import printable_name
from narrative_twins.stories.reading import (
    STORY_SUFFIXES,
    Document,
    InputFormat,
    count_stories,
    files_of,
    read_stories,
)

SUFFIXES = (*STORY_SUFFIXES, ".parquet")


def read_inputs(
    paths: Sequence[str], input_format: InputFormat = "auto", column: str | None = None
) -> Iterator[Document]:
    """As `read_stories`, but a path may also be a Parquet file, the Hub id of a data set or a path
    on the Hub, with a story in each row, in any form that `Story.parse` accepts; all splits of a
    data set, in the order of their files.
    """
    paths = files_of(paths, SUFFIXES)
    for path in paths:
        if input_format == "auto" and (_is_parquet(path) or is_on_hub(path)):
            yield from _rows(path)
        else:
            yield from read_stories([path], input_format, named=len(paths) > 1, column=column)


def count_inputs(paths: Sequence[str], input_format: InputFormat = "auto") -> int:
    """As `count_stories`, for `read_inputs`."""
    paths = files_of(paths, SUFFIXES)
    files = [
        path
        for path in paths
        if input_format != "auto" or not (_is_parquet(path) or is_on_hub(path))
    ]
    tables = [path for path in paths if path not in files]
    if any(not os.path.isfile(path) for path in tables):
        return 0
    if not tables:
        return count_stories(files, input_format)

    from narrative_twins.data.records import count_rows
    from narrative_twins.data.rows import RowError

    try:
        rows = sum(map(count_rows, tables))
    except RowError:  # it is reported when the file is read
        return 0
    stories = count_stories(files, input_format)
    return 0 if files and not stories else rows + stories


def _rows(path: str) -> Iterator[Document]:
    from narrative_twins.data.records import read_records
    from narrative_twins.data.rows import RowError
    from narrative_twins.data.sources import source_files

    try:
        for record in (
            record
            for files in source_files(path).values()
            for file in files
            for record in read_records(file)
        ):
            yield Document(printable_name(record.where), record.row)
    except RowError as error:
        yield Document(printable_name(error.where), None, error.problem)
    except (OSError, ValueError) as error:
        yield Document(
            printable_name(path), None, f"can't be loaded: {' '.join(str(error).split())}"
        )


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet") and not path.startswith("hf://")


def is_on_hub(path: str) -> bool:
    """Whether a path is meant for the Hub: `hf://...`, or an id. A file in a folder that exists, or
    whose name ends in a suffix such as `.txt`, is a local file whose name is wrong."""
    if path.startswith("hf://"):
        return True
    local = path == STDIN or os.path.exists(path) or os.path.isdir(os.path.dirname(path))
    if local or "/" not in path or Path(path).suffix[1:].isalpha():
        return False

    from narrative_twins.data.sources import HUB_ID

    return bool(HUB_ID.fullmatch(path))
