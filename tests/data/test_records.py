"""Compressed data files."""

from __future__ import annotations

import gzip

import pytest

from narrative_twins.data import records
from narrative_twins.data.records import read_records
from narrative_twins.data.rows import RowError
from narrative_twins.stories.bounded import LimitedFile


def test_compressed_rows_are_read(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": "a"}\n\n{"id": "b"}\n'))
    assert [record.id for record in read_records(str(path))] == ["a", "b"]
    path = tmp_path / "rows.json.gz"
    path.write_bytes(gzip.compress(b'{"a": {"x": 1}, "b": {"x": 2}}'))
    assert [record.id for record in read_records(str(path))] == ["a", "b"]


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_compressed_rows_that_expand_are_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(LimitedFile.__init__, "__defaults__", (100_000, None))
    monkeypatch.setattr(records, "MAX_DOCUMENT", 100_000)
    path = tmp_path / f"rows.{suffix}.gz"
    path.write_bytes(gzip.compress(b" " * 10_000_000))
    with pytest.raises(RowError, match=f"rows.{suffix}.gz.*a line has more than 100,000 bytes"):
        list(read_records(str(path)))
