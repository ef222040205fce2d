"""Files of any content: every reader tells what is wrong in bounded memory, and the other stories
are read."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from narrative_twins.data.records import read_records
from narrative_twins.data.rows import RowError
from narrative_twins.stories import reading
from narrative_twins.stories.reading import count_stories, read_stories, stories_in
from narrative_twins.stories.story import Story

from support.command import run
from support.json_values import values
from support.names import OUTPUTS, named_by_bytes
from support.readers import GOOD, GOOD_ROW, READERS, memory_below

any_json = values(st.text(st.characters(codec=None), max_size=8))  # also lone surrogates
documents = (
    st.binary(max_size=200)
    | any_json.map(lambda value: json.dumps(value).encode())
    | st.lists(any_json.map(json.dumps), max_size=4).map(lambda lines: "\n".join(lines).encode())
    | st.lists(st.lists(st.text(max_size=5), max_size=4).map(",".join), max_size=4).map(
        lambda lines: "\n".join(["id,text", *lines]).encode("utf-8", "surrogatepass")
    )
)
HOSTILE = {
    "deep": b"[" * 5_000,
    "deep and closed": b"[" * 10_000 + b"]" * 10_000,
    "deep objects": b'{"text":' * 10_000,
    "not a number": b'{"text": NaN}\n{"windows": Infinity, "sentences": ["A."]}\n{"id": NaN}',
    "surrogates": b'{"text": "A \\ud800 b."}\n{"id": "\\udfff", "sentences": ["A."]}\n{"\\ud800": 1}',
    "huge integers": b'{"id": %b}\n{"windows": %b, "text": "A."}' % (b"9" * 5_000, b"9" * 4_000),
    "huge number": b'{"text": "A.", "windows": 1e999}',
    "zeros": b'{"text": "A\\u0000."}\n{"text": "A\0."}\n\0',
    "unclosed quotation mark": b'id,text\n1,"A b.\n2,C d.\n',
    "unclosed text": b'{"text": "' + b"a" * 10_000,
    "line ends": b"id,text\r1,A b.\r2,C d.",
    "same columns": b"text,text\nA b.,C d.",
    "not UTF-8": b'{"text": "\xff"}\n\xfe\xff',
}


# Kinds of files in which a document is packed: see the tests of books.
PACKED = ("rows-parquet", "book-epub", "book-docx")
FUZZED = [f for f in (Path(__file__).parent / "fuzz").iterdir() if f.suffix != ".md"]
"""Inputs in the forms that are read, and those that made a reader fail."""


@pytest.mark.parametrize("kind", READERS)
def test_hostile_documents(kind):
    assert len(FUZZED) >= 10
    for data in [*HOSTILE.values(), *(file.read_bytes() for file in FUZZED)]:
        READERS[kind](data)
        if kind.endswith(".gz"):
            READERS[kind](gzip.compress(data))


@pytest.mark.parametrize("kind", [kind for kind in READERS if kind not in PACKED])
@settings(max_examples=25)
@given(data=documents)
@example(data=b"")
@example(data=b"\n")
def test_any_document(kind, data):
    READERS[kind](gzip.compress(data) if kind.endswith(".gz") else data)


@pytest.fixture
def short(monkeypatch) -> int:
    """Limits of a few kilobytes instead of megabytes."""
    monkeypatch.setattr(reading, "MAX_LINE", 10_000)
    monkeypatch.setattr(reading, "MAX_DOCUMENT", 20_000)
    return 10_000


def found_in(file: Path, data: bytes) -> list[object]:
    """For each story its sentences, or its problem."""
    file.write_bytes(data)
    assert count_stories([str(file)]) >= 0
    return [
        problem or Story.parse(content).sentences
        for _, content, problem in read_stories([str(file)])
    ]


def test_a_line_that_is_too_long_is_skipped(short, tmp_path):
    long = json.dumps({"text": "A b. " * short}).encode() + b"\n"
    fits = json.dumps({"text": "A " * (short // 2 - 20) + "b."}).encode() + b"\n"
    found = found_in(tmp_path / "stories.jsonl", GOOD + long + fits + long + GOOD)
    assert found[0] == found[4] == ("Nadia ran.", "It rained.")
    assert found[1] == found[3] and len(found[2]) == 1
    assert found[1].startswith(f"is a line of more than {short:,} bytes, which is not read")


@pytest.mark.parametrize(("suffix", "limit"), [("txt", 10_000), ("json", 20_000)])
def test_a_document_that_is_too_long_is_refused(suffix, limit, short, tmp_path):
    (found,) = found_in(tmp_path / f"story.{suffix}", json.dumps("A b. " * limit).encode())
    assert found.startswith(f"is a document of more than {limit:,} bytes, which is not read")
    fits = json.dumps("A b. " * (limit // 6)).encode()
    assert len(found_in(tmp_path / f"story.{suffix}", fits)[0]) > 100


def test_a_cell_that_is_too_long_ends_a_table(tmp_path, request):
    file = tmp_path / "stories.csv"
    file.write_bytes(b"text\n" + GOOD_ROW + b"A" * 200_000 + b"\n" + GOOD_ROW)
    _, long, last = read_stories([str(file)])
    assert len(long.content["text"]) == 200_000, "longer than `csv` allows by default"
    assert last.content["text"] == GOOD_ROW.decode().strip()
    request.getfixturevalue("short")
    for cell in (b"A b. " * 4_000, b'"' + b"A b.\n" * 4_000):
        found = found_in(file, b"text\n" + GOOD_ROW + cell)
        assert found[0] == ("Nadia ran.", "It rained.")
        problems = ("can't be read as CSV after line 2 (", "has a line of more than 10,000 bytes")
        assert found[-1].startswith(problems) and "quotation marks" in found[-1]


class Endless(io.RawIOBase):
    """A file without a line break, of many bytes."""

    left = 50_000_000

    def readable(self):
        return True

    def readinto(self, buffer):
        count = min(len(buffer), self.left)
        buffer[:count] = b"x" * count
        self.left -= count
        return count


@pytest.mark.parametrize("suffix", ["jsonl", "txt", "json", "csv"])
def test_endless_files_are_read_in_bounded_memory(suffix, short):
    with memory_below(10_000_000):
        found = stories_in(io.BufferedReader(Endless()), f"stories.{suffix}")
        assert next(found).problem is not None
        # JSON Lines could have another line, so the rest of this one is read, and dropped.
        assert list(found) == []


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_compressed_rows_are_bounded(suffix, tmp_path, short):
    """A few kilobytes that unpack to 20 MB."""
    path = tmp_path / f"rows.{suffix}.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"story_id,sentence,label\n" if suffix == "csv" else b'"')
        for _ in range(20):
            file.write(b" " * 1_000_000)
    with memory_below(10_000_000), pytest.raises(RowError, match="of more than [12]0,000 bytes"):
        list(read_records(str(path)))


@pytest.mark.parametrize("command", [*OUTPUTS, "--model"])
def test_names_that_are_not_utf_8(command, tmp_path, bert_folder):
    story, missing = named_by_bytes(tmp_path)
    options = "--operations", "deletion", "-q", "--model"
    if command == "--model":
        (tmp_path / "m\udcff").symlink_to(bert_folder)
        done = run("score", story, *options, tmp_path / "m\udcff")
        assert done.code == 1 and "m\ufffd' can't be loaded: its name is not UTF-8" in done.err
        return
    option = () if command == "extract" else options[:2]
    for out in OUTPUTS[command]:
        done = run(command, story, "-o", tmp_path / out, *option, *options[2:], bert_folder)
        assert (done.code, (tmp_path / out).exists()) == (0, True), done.err
        done = run(command, missing, "-o", tmp_path / f"2{out}", *option, *options[2:], bert_folder)
        assert done.code and "no\ufffd.txt" in done.err
