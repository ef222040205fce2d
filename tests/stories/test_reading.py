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
    file.write_bytes(
        b'{"text": "A b."}\n\n"C d."\n["E.", "F."]\n{"text": "cut\n\xff\n{"text": "\\u00dc."}'
    )
    found = list(read_stories([str(file)]))
    assert [source.name for source in found] == [f"{file}, line {n}" for n in (1, 3, 4, 5, 6, 7)]
    assert [source.content for source in found] == [
        {"text": "A b."},
        "C d.",
        ["E.", "F."],
        None,
        None,
        {"text": "Ü."},
    ]
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
    assert list(read_stories([str(file)])) == [
        (f"{file}, line 2", first, None),
        (f"{file}, line 3", second, None),
    ]
    assert count_stories([str(file)]) == 2
    assert [source.content for source in read_stories([str(file)], "text")][0].startswith(
        "storyid,"
    )
    file.write_bytes("\n".join([*rows, "c,,\xff", rows[1]]).encode("latin-1"))
    found = list(read_stories([str(file)]))
    assert found[2].problem == "can't be read as CSV in UTF-8 (byte 0xff); convert the table"
    assert found[2].name == f"{file}, line 4" and found[3].content == first
    file.write_text("")
    assert list(read_stories([str(file)])) == [] and count_stories([str(file)]) == 0


def test_tables_with_a_column_of_stories(tmp_path):
    file = tmp_path / "stories.csv"
    for header, delimiter in (
        ("id,Title,Text", ","),
        ("id;Title;Text", ";"),
        ("id\tTitle\tText", "\t"),
    ):
        row = delimiter.join(["a", "Rain", '"It rained,\nagain; and again."'])
        file.write_text(f"{header}\n{row}\n")
        assert [source.content for source in read_stories([str(file)])] == [
            {"id": "a", "text": "It rained,\nagain; and again."}
        ]
    file.write_text("verse\nIt rained.\n\n")
    assert [source.content for source in read_stories([str(file)])] == [
        {"id": None, "text": "It rained."}
    ]
    file.write_text("\n\nid,text\na,It rained.\n")
    assert list(read_stories([str(file)])) == [
        (f"{file}, line 4", {"id": "a", "text": "It rained."}, None)
    ]
    file.write_text("id,ours,theirs\na,It rained.,It snowed.\nb\n")
    found = list(read_stories([str(file)], column="theirs"))
    assert found[0] == (f"{file}, line 2", {"id": "a", "text": "It snowed."}, None)
    assert found[1].problem == "the row ends before the column 'theirs'"


@pytest.mark.parametrize(
    ("header", "column", "problem"),
    [
        (
            "id,ours",
            None,
            "has no column of stories that is known (its columns: id, ours); name it with --column",
        ),
        ("story,index,sentence", None, "has no column of stories that is known"),
        (
            "id,text",
            "plot",
            "has no column 'plot' (its columns: id, text); name one of them with --column",
        ),
    ],
)
def test_tables_without_a_column_of_stories(tmp_path, header, column, problem):
    (tmp_path / "stories.csv").write_text(f"{header}\n{'a,' * header.count(',')}b\n")
    (found,) = read_stories([str(tmp_path / "stories.csv")], column=column)
    assert found.content is None and found.problem.startswith(problem)


def test_folders(tmp_path):
    for name in ("b.txt", "a.md", "c.jsonl", "d.rejects", ".hidden.txt", "notes.png", "page.html"):
        (tmp_path / name).write_text('"It rained."')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "e.txt").write_text("It rained.")
    names = [source.name for source in read_stories([str(tmp_path), "-"], named=False)][:3]
    assert names == [
        str(tmp_path / "a.md"),
        str(tmp_path / "b.txt"),
        f"{tmp_path / 'c.jsonl'}, line 1",
    ]
    assert count_stories([str(tmp_path)]) == 3


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        (
            "tale.odt",
            b"PK\x03\x04\x14\0",
            "is a document (OpenDocument); open it in its program and save it as plain text",
        ),
        ("tales.zip", b"PK\x03\x04\x14\0", "is a ZIP archive; unpack it"),
        ("tale.txt.gz", b"\x1f\x8b\x08", "is compressed by gzip; unpack it"),
        ("tale.png", b"\x89PNG\r\n", "is an image"),
        ("tale.doc", b"\xd0\xcf\x11\xe0\xa1", "is a document of an office program"),
        ("tale.rtf", b"{\\rtf1 It rained.}", "is rich text (RTF)"),
        ("tale.txt", b"%PDF-1.4\n", "is PDF; name it .pdf"),
        ("tale.csv", b"PAR1 \0", "is Parquet; name it .parquet"),
        ("tale", b"\0\x01\x02", "is a binary file, not text"),
        (
            "tale.txt",
            "It rained.".encode("utf-16"),
            "is not UTF-8 at byte 0 (0xff); convert it, perhaps with `iconv -f U",
        ),
    ],
)
def test_files_that_are_no_text_are_refused(tmp_path, name, data, problem):
    (tmp_path / name).write_bytes(data)
    (found,) = read_stories([str(tmp_path / name)])
    assert found.content is None and found.problem.startswith(problem)


def pdf(*pages: list[str]) -> bytes:
    """A PDF file with these lines on its pages."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for page in pages:
        lines = " ".join(f"({line}) Tj 0 -20 Td" for line in page)
        content = f"BT /F1 12 Tf 50 700 Td {lines} ET".encode()
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        resources = b"/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(
            b"<< /Type /Page /Parent 2 0 R %s /Contents %d 0 R >>" % (resources, len(objects))
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d /MediaBox [0 0 600 800] >>" % (
        b" ".join(kids),
        len(kids),
    )
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + trailer


def test_pdf(tmp_path):
    pytest.importorskip("pypdf")
    file = tmp_path / "tale.pdf"
    file.write_bytes(pdf(["It rained on the win-", "dow. The dog", "1"], ["2", "slept."]))
    assert list(read_stories([str(file)])) == [
        (str(file), "It rained on the window. The dog\nslept.", None)
    ]
    for data, problem in (
        (pdf([]), "is PDF without text"),
        (b"%PDF-1.4\n", "can't be read as PDF"),
        (b"It rained.", "can't be read as PDF"),
    ):
        file.write_bytes(data)
        (found,) = read_stories([str(file)])
        assert found.content is None and found.problem.startswith(problem)


def test_pdf_without_its_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    (tmp_path / "tale.pdf").write_bytes(pdf(["It rained."]))
    (found,) = read_stories([str(tmp_path / "tale.pdf")])
    assert (
        found.problem.startswith("is PDF; ")
        and "pypdf" in found.problem
        and "pdftotext" in found.problem
    )


def test_archive_is_not_counted(tmp_path):
    (tmp_path / "all.ZIP").write_bytes(b"PK")
    assert count_stories([str(tmp_path / "all.ZIP")]) == 0


def test_unreadable_files_are_reported_and_skipped(tmp_path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("A b.")
    bad.write_bytes(b"caf\xe9 au lait")
    missing = str(tmp_path / "missing.txt")
    (empty := tmp_path / "empty").mkdir()
    problems = [
        source.problem for source in read_stories([missing, str(empty), str(bad), str(good)])
    ]
    assert problems[0].startswith("can't be read (No such file")
    assert problems[1].startswith("is a folder without a story")
    assert problems[2].startswith(
        "is not UTF-8 at byte 3 (0xe9); convert it, perhaps with `iconv -f WINDOWS-1252"
    )
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
