"""Reading of story files: all formats, and problems that are reported without stopping."""

from __future__ import annotations

import io
import sys

import pytest

from narrative_twins.stories.reading import count_stories, read_stories


@pytest.fixture
def stdin(monkeypatch):
    def set_stdin(data: bytes):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return set_stdin


def test_text_files(tmp_path):
    first, second = tmp_path / "one.txt", tmp_path / "two"
    first.write_bytes(b"\xef\xbb\xbfNadia ran.\r\nIt rained.")
    second.write_text("Über alles.", encoding="utf-8")
    assert list(read_stories([str(first)])) == [(str(first), "Nadia ran.\r\nIt rained.", None)]
    assert [source.content for source in read_stories([str(first), str(second)])] == [
        {"id": str(first), "text": "Nadia ran.\r\nIt rained."},
        {"id": str(second), "text": "Über alles."},
    ]
    assert count_stories([str(first), str(second)]) == 2


def test_json_lines(tmp_path):
    file = tmp_path / "stories.jsonl"
    file.write_bytes(b'{"text": "A b."}\n\n"C d."\n["E.", "F."]\n{"text": "cut\n\xff\n{"text": "\\u00dc."}')
    found = list(read_stories([str(file)]))
    assert [source.name for source in found] == [f"{file}, line {n}" for n in (1, 3, 4, 5, 6, 7)]
    assert [source.content for source in found] == [{"text": "A b."}, "C d.", ["E.", "F."], None, None, {"text": "Ü."}]
    assert "not valid JSON" in found[3].problem
    assert "not UTF-8 at byte 0 (0xff)" in found[4].problem
    assert count_stories([str(file)]) == 6


def test_json(tmp_path):
    file = tmp_path / "stories.json"
    file.write_text('[{"text": "A b."}, "C d."]')
    assert [tuple(source) for source in read_stories([str(file)])] == [
        (f"{file}, item 0", {"text": "A b."}, None),
        (f"{file}, item 1", "C d.", None),
    ]
    file.write_text('{"text": "A b."}')
    assert [source.content for source in read_stories([str(file)])] == [{"text": "A b."}]
    file.write_text("{")
    assert "not valid JSON" in next(read_stories([str(file)])).problem
    assert count_stories([str(file)]) == 0


def test_tables_of_roc_stories(tmp_path):
    file = tmp_path / "stories.csv"
    header = "storyid,storytitle,sentence1,sentence2,sentence3,sentence4,sentence5"
    rows = [header, 'a,Rain,A b.,"C, d.",E.,F.,"G ""h""."', "b,,A  b.,C.,E.,F.,G."]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    first = {"id": "a", "title": "Rain", "sentences": ["A b.", "C, d.", "E.", "F.", 'G "h".']}
    second = {"id": "b", "title": None, "sentences": ["A b.", "C.", "E.", "F.", "G."]}
    assert list(read_stories([str(file)])) == [(f"{file}, line 2", first, None), (f"{file}, line 3", second, None)]
    assert count_stories([str(file)]) == 2
    assert [source.content for source in read_stories([str(file)], "text")][0].startswith("storyid,")
    file.write_bytes("\n".join([*rows, "c,,\xff"]).encode("latin-1"))
    found = list(read_stories([str(file)]))
    assert "can't be read as CSV in UTF-8 after line " in found[-1].problem and "0xff" in found[-1].problem
    file.write_text("id,story\na,b\n")
    assert "is not a table of ROCStories" in next(read_stories([str(file)])).problem
    file.write_text("")
    assert list(read_stories([str(file)])) == [] and count_stories([str(file)]) == 0


def test_archive_is_not_counted(tmp_path):
    (tmp_path / "all.ZIP").write_bytes(b"PK")
    assert count_stories([str(tmp_path / "all.ZIP")]) == 0


def test_unreadable_files_are_reported_and_skipped(tmp_path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("A b.")
    bad.write_bytes(b"caf\xe9 au lait")
    missing = str(tmp_path / "missing.txt")
    problems = [source.problem for source in read_stories([missing, str(tmp_path), str(bad), str(good)])]
    assert problems[0].startswith("can't be read (No such file")
    assert problems[1].startswith("can't be read (Is a directory")
    assert problems[2].startswith("is not UTF-8 at byte 3 (0xe9); convert it, perhaps with `iconv -f WINDOWS-1252")
    assert problems[3] is None
    assert count_stories([missing]) == 0


@pytest.mark.parametrize(
    ("data", "contents"),
    [
        (b'{"text": "A b."}\n{"text": "C d."}\n', [{"text": "A b."}, {"text": "C d."}]),
        (b'\xef\xbb\xbf{"text": "A b."}\n', [{"text": "A b."}]),
        (b'"Go," she said.\nHe left.\n', ['"Go," she said.\nHe left.\n']),
        (b"", [""]),
        (b'\n \n{"text": "A b."}\n', [{"text": "A b."}]),
        (b'["A b.", "C d."]\n["E f."]\n', [["A b.", "C d."], ["E f."]]),
        (b"[Laughter] He left.\n", ["[Laughter] He left.\n"]),
    ],
)
def test_standard_input(stdin, data, contents):
    stdin(data)
    assert [source.content for source in read_stories(["-"])] == contents
    assert count_stories(["-"]) == 0


def test_format_can_be_given(stdin):
    stdin(b'"A b."\n"C d."\n')
    assert [source.content for source in read_stories(["-"], "jsonl")] == ["A b.", "C d."]
    stdin(b"{curly}\n")
    assert [source.content for source in read_stories(["-"], "text")] == ["{curly}\n"]


def test_standard_input_stays_open(stdin):
    stdin(b"A b.")
    assert [source.content for source in read_stories(["-", "-"])] == [
        {"id": "standard input", "text": "A b."},
        {"id": "standard input", "text": ""},
    ]
