"""Writing rows to a file, and loading them with a cache of their own."""

import gzip
import json
from functools import partial
from pathlib import Path

import pytest
from datasets import Dataset, disable_progress_bars

disable_progress_bars()


def write(path: Path, rows, features=None) -> str:
    """Write a data file in the format of its name."""
    if path.suffix == ".parquet":
        Dataset.from_list(rows, features=features).to_parquet(str(path))
        return str(path)
    by_line = path.name.removesuffix(".gz").endswith(("jsonl", "ndjson"))
    text = "\n".join(map(json.dumps, rows)) if by_line else json.dumps(rows)
    content = text.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


@pytest.fixture
def cached(tmp_path):
    """A loading function with a cache."""
    return lambda function: partial(function, cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def load(cached, tmp_path):
    """Load the split `train` of rows, which are written to a file."""

    def load(function, rows, name: str = "rows.jsonl", **settings) -> list[dict]:
        return cached(function)(write(tmp_path / name, rows), "train", **settings).to_list()

    return load
