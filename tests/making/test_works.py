"""Files of works: archives that expand, names that control a terminal, and folders with files that
never end."""

from __future__ import annotations

import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from narrative_twins.making import works
from narrative_twins.making.works import read_documents
from narrative_twins.stories.reading import LimitedFile


def peak_memory(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["summaries/1.json", "rows.jsonl"])
def test_archive_that_expands_is_bounded_while_it_is_read(tmp_path, monkeypatch, name):
    """Ten thousand times its size: a document, or a line, is only read up to the limit."""
    monkeypatch.setattr(works, "MAX_LINE", 100_000)
    monkeypatch.setattr(LimitedFile.__init__, "__defaults__", (100_000, None))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "rows.jsonl" if "json" == name[-4:] else "other.jsonl",
            b'{"story": ["A."], "twins": []}\n',
        )
        with archive.open(name, "w") as file:
            for _ in range(100):
                file.write(b" " * 1_000_000)
    found = []
    assert (
        peak_memory(lambda: found.extend(read_documents([str(tmp_path / "bomb.zip")]))) < 5_000_000
    )
    problems = [document.problem for document in found if document.problem]
    assert len(problems) == 1 and "has more than 100,000 bytes" in problems[0]


def test_archive_is_bounded_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(works, "MAX_ARCHIVE", 1_000)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(50):
            archive.writestr(f"{number:02}.json", json.dumps({"a": "x" * 90}))
    found = list(read_documents([str(tmp_path / "many.zip")]))
    read = [document for document in found if not document.problem]
    assert (
        len(read) == 10
        and len(found) == 50
        and all("more than" in found[n].problem for n in range(10, 50))
    )


def test_names_in_archives_are_printable(tmp_path):
    with zipfile.ZipFile(tmp_path / "names.zip", "w") as archive:
        archive.writestr("a\x1b[31m\n.json", "{")
    (document,) = read_documents([str(tmp_path / "names.zip")])
    assert document.name.isprintable() and "a\ufffd[31m\ufffd.json" in document.name


def test_pipes_and_devices_in_folders_are_left_out(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "work.json").write_text("{}")
    assert [Path(document.name).name for document in read_documents([str(tmp_path)])] == [
        "work.json"
    ]
