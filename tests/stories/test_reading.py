"""Reading of story files: all formats, and problems that are reported without stopping."""

from __future__ import annotations

import io
import sys

import pytest

from narrative_twins.stories.reading import count_stories, read_stories


@pytest.fixture
def contents(tmp_path):
    """The stories in a file with this name and content, which is counted, too."""

    def read(name, data, count=None, **options):
        file = tmp_path / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        found = list(read_stories([str(file)], **options))
        assert all(document.name.startswith(str(file)) for document in found)
        assert count_stories([str(file)]) == (len(found) if count is None else count)
        return [document.problem or document.content for document in found]

    return read


@pytest.fixture
def stdin(monkeypatch):
    def set_stdin(data: bytes):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return set_stdin


def test_text_files(contents, tmp_path):
    assert contents("one.txt", b"\xef\xbb\xbfNadia ran.\r\nIt rained.") == [
        "Nadia ran.\r\nIt rained."
    ]
    assert contents("two", "Über alles.") == ["Über alles."]
    files = [str(tmp_path / name) for name in ("one.txt", "two")]
    assert [document.content for document in read_stories(files)][1] == {
        "id": files[1],
        "text": "Über alles.",
    }
    assert contents("three.md", "# Title\n\nIt *rained*.") == ["# Title\n\nIt *rained*."]


def test_json_lines(contents, tmp_path):
    found = contents(
        "a.jsonl",
        b'{"text": "A b."}\n\n"C d."\n["E.", "F."]\n{"text": "cut\n\xff\n{"text": "\\u00dc."}',
    )
    assert found[:3] + found[5:] == [{"text": "A b."}, "C d.", ["E.", "F."], {"text": "Ü."}]
    assert "not valid JSON" in found[3] and "not UTF-8 at byte 0 (0xff)" in found[4]
    names = [document.name for document in read_stories([str(tmp_path / "a.jsonl")])]
    assert names == [f"{tmp_path / 'a.jsonl'}, line {n}" for n in (1, 3, 4, 5, 6, 7)]


def test_json(contents, tmp_path):
    assert contents("a.json", '[{"text": "A b."}, "C d."]', 0) == [{"text": "A b."}, "C d."]
    assert next(read_stories([str(tmp_path / "a.json")])).name == f"{tmp_path / 'a.json'}, item 0"
    assert contents("a.json", '{"text": "A b."}', 0) == [{"text": "A b."}]
    assert "not valid JSON" in contents("a.json", "{", 0)[0]


def test_tables_of_roc_stories(contents):
    header = "storyid,storytitle,sentence1,sentence2,sentence3,sentence4,sentence5"
    rows = [header, 'a,Rain,A b.,"C, d.",E.,F.,"G ""h""."', "b,,A  b.,C.,E.,F.,G."]
    first = {"id": "a", "title": "Rain", "sentences": ["A b.", "C, d.", "E.", "F.", 'G "h".']}
    second = {"id": "b", "title": None, "sentences": ["A b.", "C.", "E.", "F.", "G."]}
    assert contents("a.csv", "\ufeff" + "\r\n".join(rows)) == [first, second]
    data = "\n".join([*rows, "c,,\xff", rows[1]]).encode("latin-1")
    problem = "is not CSV in UTF-8 (byte 0xff); convert the table"
    assert contents("a.csv", data) == [first, second, problem, first]
    assert contents("a.csv", "") == []


def test_columns_of_tables(contents):
    assert contents("a.csv", "verse\nIt rained.\n\n") == [{"id": None, "text": "It rained."}]
    assert contents("a.csv", "\n\nid,text\na,A b.\n") == [{"id": "a", "text": "A b."}]
    for mark in ",;\t":
        text = '"It rained,\nagain; and again."'
        table = f"id{mark}Title{mark}Text\na{mark}Rain{mark}{text}\n"
        assert contents("a.csv", table, 2) == [{"id": "a", "text": "It rained,\nagain; and again."}]
    table = "id,ours,theirs\na,It rained.,It snowed.\nb\n"
    assert contents("a.csv", table, column="theirs") == [
        {"id": "a", "text": "It snowed."},
        "the row ends before the column 'theirs'",
    ]
    for column, known in ((None, "column of stories that is known"), ("plot", "column 'plot'")):
        (problem,) = contents("a.csv", table, 2, column=column)
        assert problem.startswith(f"has no {known} (its columns: id, ours, theirs); name")
    twice = "text,id,text\nA b.,a,C d.\n"
    assert contents("a.csv", twice) == ["has several columns 'text'; rename or remove all but one"]
    assert contents("a.csv", "id,text,,\na,A b.,,\n") == [{"id": "a", "text": "A b."}]
    assert "has no column" in contents("a.csv", "story,index,sentence\na,1,b")[0]


def test_folders(tmp_path):
    for name in ("b.txt", "a.md", "c.jsonl", "d.rejects", ".hidden.txt", "notes.png", "page.html"):
        (tmp_path / name).write_text('"It rained."')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "e.txt").write_text("It rained.")
    found = [document.name for document in read_stories([str(tmp_path)])]
    assert found == [f"{tmp_path}/{name}" for name in ("a.md", "b.txt", "c.jsonl, line 1")]
    assert count_stories([str(tmp_path)]) == 3


def test_unreadable_files_are_reported_and_skipped(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"caf\xe9 au lait")
    (tmp_path / "good.txt").write_text("A b.")
    (tmp_path / "empty").mkdir()
    names = ("missing.txt", "bad.txt", "empty", "good.txt")
    missing, bad, folder, good = read_stories([f"{tmp_path}/{name}" for name in names])
    assert missing.problem.startswith("can't be read (No such file")
    assert bad.problem.startswith("is not UTF-8 at byte 3 (0xe9); convert it, perhaps with `iconv")
    assert folder.problem.startswith("is a folder without a story") and good.problem is None


@pytest.mark.parametrize(
    ("start", "kind"), [(b"PAR1\x15\x80", "Parquet"), (b"PK\x03\x04\xff", "a zip archive")]
)
def test_a_file_that_is_no_text_is_named(tmp_path, start, kind):
    (tmp_path / "s.txt").write_bytes(start)
    (bad,) = read_stories([str(tmp_path / "s.txt")])
    assert bad.problem.startswith(f"is {kind}") and "under this name" in bad.problem


@pytest.mark.parametrize(
    ("data", "contents"),
    [
        (b'\xef\xbb\xbf{"text": "A b."}\n{"text": "C d."}\n', [{"text": "A b."}, {"text": "C d."}]),
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
    found = list(read_stories(["-", "-"], "text"))
    assert found[0].content == {"id": "standard input", "text": "{curly}\n"}
    assert found[1].content["text"] == "", "standard input stays open"
