"""Reading of story files: all formats; and whatever is in a file, its problem is reported in
bounded memory, and the other stories are read."""

import csv
import io
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StoryError
from narrative_twins.stories import reading
from narrative_twins.stories.reading import count_stories, read_stories, stories_in

from support.json_values import values
from support.memory import memory_below


@pytest.fixture
def contents(tmp_path):
    """The stories in a file with this name and content, which is counted, too, unless `count` is
    False."""

    def read(name, data, count=None, **options):
        file = tmp_path / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        documents = list(read_stories([str(file)], **options))
        assert all(document.name.startswith(str(file)) for document in documents)
        if count is not False:
            assert count_stories([str(file)]) == (len(documents) if count is None else count)
        return [document.problem or document.content for document in documents]

    return read


def test_text_files(contents, tmp_path):
    rows = [("one.txt", "\ufeffNadia ran.\r\nIt rained."), ("two", "Über alles."), ("3.md", "# A")]
    for name, text in rows:
        assert contents(name, text) == [text.removeprefix("\ufeff").replace("\r\n", "\n")]
    files = [str(tmp_path / name) for name, _ in rows[:2]]
    assert [document.content for document in read_stories(files)][1] == {
        "id": files[1],
        "text": "Über alles.",
    }


def test_json_lines(contents, tmp_path):
    data = b'{"text": "A b."}\n\n"C d."\n["E.", "F."]\n{"text": "cut\n\xff\n{"text": "\\u00dc."}'
    stories = contents("a.jsonl", data)
    assert stories[:3] + stories[5:] == [{"text": "A b."}, "C d.", ["E.", "F."], {"text": "Ü."}]
    assert "not valid JSON" in stories[3] and "not UTF-8 at byte 0 (0xff)" in stories[4]
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


TABLE = "id,ours,theirs\na,It rained.,It snowed.\nb\n"
HAS_NO = "has no {} (its columns: id, ours, theirs); name"


@pytest.mark.parametrize(
    ("table", "column", "expected"),
    [
        ("", None, []),
        ("verse\nIt rained.\n\n", None, [{"id": None, "text": "It rained."}]),
        ("\n\nid,text\na,A b.\n", None, [{"id": "a", "text": "A b."}]),
        ("id,text,,\na,A b.,,\n", None, [{"id": "a", "text": "A b."}]),
        (TABLE, "theirs", [{"id": "a", "text": "It snowed."}, "the row ends before the column"]),
        (TABLE, None, [HAS_NO.format("column of stories that is known")]),
        (TABLE, "plot", [HAS_NO.format("column 'plot'")]),
        ("text,id,text\nA b.,a,C d.\n", None, ["has several columns 'text'; rename or remove"]),
        ("story,index,sentence\na,1,b", None, ["has no column"]),
    ],
)
def test_columns_of_tables(contents, table, column, expected):
    stories = contents("a.csv", table, 2 if table is TABLE else None, column=column)
    for story, wanted in zip(stories, expected, strict=True):
        assert story.startswith(wanted) if isinstance(wanted, str) else story == wanted


@pytest.mark.parametrize("mark", ",;\t")
def test_marks_between_columns(contents, mark):
    text = "It rained,\nagain; and again."
    table = f'id{mark}Title{mark}Text\na{mark}Rain{mark}"{text}"\n'
    assert contents("a.csv", table, 2) == [{"id": "a", "text": text}]


def test_folders(tmp_path):
    for name in ("b.txt", "a.md", "c.jsonl", "d.rejects", ".hidden.txt", "notes.png", "page.html"):
        (tmp_path / name).write_text('"It rained."')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "e.txt").write_text("It rained.")
    names = [document.name for document in read_stories([str(tmp_path)])]
    assert names == [str(tmp_path / name) for name in ("a.md", "b.txt", "c.jsonl, line 1")]
    assert count_stories([str(tmp_path)]) == 3


def test_unreadable_files_are_reported_and_skipped(tmp_path):
    rows = {
        "bad.txt": (b"caf\xe9 au lait", "is not UTF-8 at byte 3 (0xe9); convert it, perhaps with"),
        "missing.txt": (None, "can't be read (No such file"),
        "parquet.txt": (b"PAR1\x15\x80", "is Parquet, which is not read here under this name"),
        "zip.txt": (b"PK\x03\x04\xff", "is a zip archive, such as EPUB or Word, which is not read"),
        "empty": (None, "is a folder without a story"),
        "good.txt": (b"A b.", ""),
    }
    (tmp_path / "empty").mkdir()
    for name, (data, _) in rows.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
    documents = read_stories([f"{tmp_path}/{name}" for name in rows])
    for document, (_, problem) in zip(documents, rows.values(), strict=True):
        assert (document.problem or "").startswith(problem), document
    assert document.content["text"] == "A b."


@pytest.mark.parametrize(
    ("data", "form", "contents"),
    [
        (
            '\ufeff{"text": "A b."}\n{"text": "C d."}\n',
            "auto",
            [{"text": "A b."}, {"text": "C d."}],
        ),
        ('"Go," she said.\nHe left.\n', "auto", ['"Go," she said.\nHe left.\n']),
        ("", "auto", [""]),
        ('\n \n{"text": "A b."}\n', "auto", [{"text": "A b."}]),
        ('["A b.", "C d."]\n["E f."]\n', "auto", [["A b.", "C d."], ["E f."]]),
        ("[Laughter] He left.\n", "auto", ["[Laughter] He left.\n"]),
        ('"A b."\n"C d."\n', "jsonl", ["A b.", "C d."]),
        ("{curly}\n", "text", ["{curly}\n"]),
    ],
)
def test_standard_input(monkeypatch, data, form, contents):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode()), encoding="utf-8"))
    assert [source.content for source in read_stories(["-"], form)] == contents
    assert count_stories(["-"]) == 0
    (again,) = read_stories(["-"], "text", named=True)
    assert again.content == {"id": "standard input", "text": ""}, "standard input stays open"


# Whatever is in a file

GOOD = b'{"text": "Nadia ran. It rained."}\n'
any_json = values(st.text(st.characters(codec=None), max_size=8))  # also lone surrogates
documents = (
    st.binary(max_size=200)
    | st.lists(any_json.map(json.dumps), max_size=4).map(lambda lines: "\n".join(lines).encode())
    | st.lists(st.lists(st.text(max_size=5), max_size=4).map(",".join), max_size=4).map(
        lambda lines: "\n".join(["id,text", *lines]).encode("utf-8", "surrogatepass")
    )
)
HOSTILE = [
    b"",
    b"[" * 5_000,
    b"[" * 10_000 + b"]" * 10_000,
    b'{"text":' * 10_000,
    b'{"text": NaN}\n{"windows": Infinity, "sentences": ["A."]}\n{"id": NaN}',
    b'{"text": "A \\ud800 b."}\n{"id": "\\udfff", "sentences": ["A."]}\n{"\\ud800": 1}',
    b'{"id": %b}\n{"windows": %b, "text": "A."}' % (b"9" * 5_000, b"9" * 4_000),
    b'{"text": "A.", "windows": 1e999}',
    b'{"text": "A\\u0000."}\n{"text": "A\0."}\n\0',
    b'id,text\n1,"A b.\n2,C d.\n',
    b'{"text": "' + b"a" * 10_000,
    b"id,text\r1,A b.\r2,C d.",
    b"\r\n0  ",
    b'{"text": "\xff"}\n\xfe\xff',
    b"PK\x03\x04",
]


def parsed(data: bytes, suffix: str) -> list[tuple[str, ...]]:
    """The sentences of the stories in a file; what is none has a problem."""
    stories = []
    for document in stories_in(io.BytesIO(data), f"stories.{suffix}"):
        if document.problem is not None:
            assert document.content is None and "\n" not in document.name
            continue
        try:
            stories.append(Story.parse(document.content).sentences)
        except StoryError as error:
            assert str(error)
    return stories


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "json", "csv"])
@settings(max_examples=25)
@given(data=documents)
def test_any_bytes_are_stories_or_problems(suffix, data):
    parsed(data, suffix)
    if suffix == "jsonl" and b"\0" not in data[:1024]:
        # Whatever comes before, a story on a line of its own is read.
        stories = parsed(GOOD + data + b"\n" + GOOD, suffix)
        assert stories[0] == stories[-1] == ("Nadia ran.", "It rained.")


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "json", "csv"])
def test_files_that_are_made_to_break_a_reader_are_stories_or_problems(suffix):
    for data in HOSTILE:
        test_any_bytes_are_stories_or_problems.hypothesis.inner_test(suffix, data)


@pytest.fixture
def short(monkeypatch) -> int:
    """Limits of a few kilobytes instead of megabytes."""
    monkeypatch.setattr(reading, "MAX_LINE", 10_000)
    monkeypatch.setattr(reading, "MAX_DOCUMENT", 20_000)
    return 10_000


def test_a_line_that_is_too_long_is_skipped(short, contents):
    long = json.dumps({"text": "A b. " * short}).encode() + b"\n"
    fits = json.dumps({"text": "A " * (short // 2 - 20) + "b."}).encode() + b"\n"
    stories = contents("stories.jsonl", GOOD + long + fits + long + GOOD)
    assert stories[0] == stories[4] == json.loads(GOOD) and stories[2] == json.loads(fits)
    assert stories[1] == stories[3]
    assert stories[1].startswith(f"is a line of more than {short:,} bytes, which is not read")


@pytest.mark.parametrize(("suffix", "limit"), [("txt", 10_000), ("json", 20_000)])
def test_a_document_that_is_too_long_is_refused(suffix, limit, short, contents):
    count = int(suffix == "txt")
    (problem,) = contents(f"a.{suffix}", json.dumps("A b. " * limit), count)
    assert problem.startswith(f"is a document of more than {limit:,} bytes, which is not read")
    assert len(contents(f"a.{suffix}", json.dumps("A b. " * (limit // 6)), count)[0]) > 100


TABLES = {
    "unquoted.csv": (
        'text\nRuna woke, and left.\n"No," he said.\n',
        'Runa woke, and left.|"No," he said.',
    ),
    "escaped.csv": ('id,text\n1,"She said \\"go, you\\"."\n2,A\\, b\n', 'She said "go, you".|A, b'),
    "pipes.csv": ("id|text\n1|She, so; go\n", "She, so; go"),
    "excel.csv": ("sep=;\nid;text\n1;She, so\n", "She, so"),
    "open.csv": (
        'id,text\n1,"Never. He ran.\n2,Otto.\n3,"Go!" he said.\n',
        '"Never. He ran.|Otto.|"Go!" he said.',
    ),
    "open.tsv": ('id\ttext\n1\t"Never.\n2\tShe said "\n3\tx\n', '"Never.|She said "|x'),
    "old.csv": ('id,text\r1,"He ran, too."\r2,x\r', "He ran, too.|x"),
    "lines.csv": ('id,text\n1,"He ran,\nand ""she"", too."\n2,x\n', 'He ran,\nand "she", too.|x'),
    "more.csv": (
        "id,text\n1,He ran, too.\n2,x,,\n",
        "has 3 cells for 2 columns; put cells in quotation marks|x",
    ),
    "more_lines.csv": (
        'id,text\n1,"He\nran",x\n2,x\n',
        "has 3 cells for 2 columns; put cells in quotation marks|x",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_no_text_of_a_table_is_lost_in_silence(contents, name):
    table, expected = TABLES[name]
    for document, text in zip(contents(name, table, False), expected.split("|"), strict=True):
        assert text == document["text"] if isinstance(document, dict) else document.startswith(text)


cells = st.text("aB \"'\\,;\t|.\n", min_size=1, max_size=12).map(lambda text: f"x{text}y")
rows_of_cells = st.lists(
    st.tuples(cells, cells | cells.map(lambda text: f'"{text}')), min_size=1, max_size=5
)
DIALECTS = [
    {},
    {"quoting": csv.QUOTE_ALL},
    {"escapechar": "\\", "doublequote": False, "quoting": csv.QUOTE_ALL},
    {"escapechar": "\\", "quoting": csv.QUOTE_NONE},
]


def letters(text):
    return [char for char in text if char.isalnum()]


@given(rows_of_cells, st.sampled_from(DIALECTS), st.sampled_from(",;\t|"))
def test_tables_of_any_dialect_keep_the_letters_of_their_texts(rows, dialect, mark):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=mark, lineterminator="\n", **dialect)
    writer.writerows([("id", "text"), *rows])
    documents = list(
        stories_in([f"{line}\n".encode() for line in file.getvalue().split("\n")], "a.csv")
    )
    if not any(document.problem for document in documents):
        read = "".join(f"{d.content['id'] or ''}{d.content['text']}" for d in documents)
        assert letters(read) == letters("".join(map("".join, rows)))
    if dialect in DIALECTS[:2] and mark != "\t":
        assert [d.content["text"] for d in documents] == [text for _, text in rows]


@given(rows_of_cells, st.sampled_from(",\t"))
def test_hand_made_tables_keep_the_letters_of_their_texts(rows, mark):
    lines = [mark.join(cell.replace("\n", " ") for cell in row) for row in [("id", "text"), *rows]]
    documents = list(stories_in([f"{line}\n".encode() for line in lines], "a.csv"))
    read = sum(
        len(letters(f"{d.content['id']}{d.content['text']}")) for d in documents if not d.problem
    )
    if not any(document.problem for document in documents):
        assert read == sum(len(letters(cell)) for row in rows for cell in row)


def test_names_of_columns_and_ids_are_the_same_in_every_format(contents):
    row = {"id": 3.0, "Plot": "Runa woke."}
    assert contents("a.jsonl", json.dumps(row)) == [{"id": 3.0, "text": "Runa woke."}]
    assert contents("a.json", json.dumps([row]), 0) == [{"id": 3.0, "text": "Runa woke."}]
    assert contents("a.csv", "id,Plot\n3,Runa woke.") == [{"id": "3", "text": "Runa woke."}]
    (problem,) = contents("a.jsonl", '{"id": 1, "line": "Runa woke."}')
    assert "its columns: id, line" in problem and "--column" in problem


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.jsonl"])
def test_utf_16_is_named_and_the_mark_of_utf_8_is_read(contents, name):
    text = "text\nRuna woke." if name == "a.csv" else '{"text": "Runa woke."}'
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        problem = contents(name, text.encode(encoding), False)[0]
        assert problem.startswith("is UTF-16") and "iconv -f UTF-16" in problem
    assert "Runa woke." in str(contents(name, text.encode("utf-8-sig"), False))


def test_a_cell_that_is_too_long_ends_a_table(contents, request):
    row = b"Nadia ran. It rained.\n"
    _, long, last = contents("a.csv", b"text\n" + row + b"A" * 200_000 + b"\n" + row)
    assert len(long["text"]) == 200_000, "longer than `csv` allows by default"
    assert last["text"] == row.decode().strip()
    request.getfixturevalue("short")
    for cell in (b"A b. " * 4_000, b'"' + b"A b.\n" * 4_000):
        stories = contents("a.csv", b"text\n" + row + cell, count=False)
        assert stories[0]["text"] == row.decode().strip()
        problems = ("can't be read as CSV after line 2 (", "has a line of more than 10,000 bytes")
        assert stories[-1].startswith(problems) and "quotation marks" in stories[-1]


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
        stories = stories_in(io.BufferedReader(Endless()), f"stories.{suffix}")
        assert next(stories).problem is not None
        # JSON Lines could have another line, so the rest of this one is read, and dropped.
        assert list(stories) == []
