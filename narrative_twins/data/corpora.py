"""The corpora that come with the package, with the rows and columns of their files."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet
from datasets import Dataset, DatasetDict

from narrative_twins.data.sources import corpus_files

CORPORA = ("stories", "synopses", "everyday", "prose")
"""The names of the corpora."""


def corpus_rows(name: str) -> DatasetDict:
    """The rows of a corpus by split, read into memory, without the `datasets` cache."""
    tables = {
        split: map(pyarrow.parquet.read_table, paths) for split, paths in corpus_files(name).items()
    }
    return DatasetDict(
        {split: Dataset(pyarrow.concat_tables(parts)) for split, parts in tables.items()}
    )
