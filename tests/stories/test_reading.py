"""Reading of story files: all formats; and whatever is in a file, its problem is reported in
bounded memory, and the other stories are read."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StoryError
from narrative_twins.stories import reading
from narrative_twins.stories.reading import stories_in
from narrative_twins.stories.rows import RowColumns

from support.json_values import values
from support.memory import memory_below


def read(name, data, column=None):
    """The stories in a file with this name and content."""
    form = name.rpartition(".")[2].replace("tsv", "csv")
    file = io.BytesIO(data.encode() if isinstance(data, str) else data)
    return list(stories_in(file, name, form, RowColumns(column)))


def contents(*args):
    return [document.problem or document.content for document in read(*args)]


def test_json_lines():
    data = b'{"text": "A b."}\n\n"C d."\n["E.", "F."]\n{"text": "cut\n\xff\n{"text": "\\u00dc."}'
    stories = contents("a.jsonl", data)
    assert stories[:3] + stories[5:] == [{"text": "A b."}, "C d.", ["E.", "F."], {"text": "Ü."}]
    assert "not valid JSON" in stories[3] and "not UTF-8 at byte 0 (0xff)" in stories[4]
    names = [document.name for document in read("a.jsonl", data)]
    assert names == [f"a.jsonl, line {n} (row {row})" for row, n in enumerate((1, 3, 4, 5, 6, 7))]


def test_json():
    assert contents("a.json", '[{"text": "A b."}, "C d."]') == [{"text": "A b."}, "C d."]
    assert read("a.json", "[1]")[0].name == "a.json, item 0"
    assert contents("a.json", '{"text": "A b."}') == [{"text": "A b."}]
    assert "not valid JSON" in contents("a.json", "{")[0]


def test_tables_of_roc_stories():
    header = "storyid,storytitle,sentence1,sentence2,sentence3,sentence4,sentence5"
    rows = [header, 'a,Rain,A b.,"C, d.",E.,F.,"G ""h""."', "b,,A  b.,C.,E.,F.,G."]
    first = {"id": "a", "title": "Rain", "sentences": ["A b.", "C, d.", "E.", "F.", 'G "h".']}
    second = {"id": "b", "title": None, "sentences": ["A b.", "C.", "E.", "F.", "G."]}
    assert contents("a.csv", "\ufeff" + "\r\n".join(rows)) == [first, second]
    data = "\n".join([*rows, "c,,\xff", rows[1]]).encode("latin-1")
    problem = "is not CSV in UTF-8 (byte 0xff); convert the table"
    assert contents("a.csv", data) == [first, second, problem, first]


HAS_NO = "has no {} (its columns: id, ours, theirs); name"
CELLS = "has 3 cells for 2 columns; put cells in quotation marks"
IN_COLUMNS = "id,ours,theirs\na,It rained.,It snowed.\nb\n"
# Files, a column, and the texts of the stories or what is wrong with them.
TABLES = [
    ("a.csv", "", None),
    ("a.csv", "verse\nIt rained.\n\n", None, "It rained."),
    ("a.csv", "\n\nid,text\na,A b.\n", None, "A b."),
    ("a.csv", "id,text,,\na,A b.,,\n", None, "A b."),
    ("a.csv", IN_COLUMNS, "theirs", "It snowed.", "the row has nothing in the column 'theirs'"),
    ("a.csv", IN_COLUMNS, None, HAS_NO.format("column of stories that is known")),
    ("a.csv", IN_COLUMNS, "plot", HAS_NO.format("column 'plot'")),
    ("a.csv", "text,id,text\nA b.,a,C d.\n", None, "has several columns 'text'; rename or remove"),
    ("a.csv", "story,index,sentence\na,1,b", None, "has no column"),
    *(("a.csv", f'id{m}Title{m}Text\na{m}X{m}"A,\nb; c."', None, "A,\nb; c.") for m in ",;\t"),
    # Names of columns, and ids, are the same in every format.
    *((f"a.{form}", json.dumps({"id": 3.0, "Plot": "A."}), None, "A.") for form in ("json", "jsonl")),
    ("a.jsonl", '{"id": 1, "line": "A."}', None, "the row has no column of stories that is known (its"),
    # No text is lost in silence.
    ("a.csv", 'text\nRuna woke, and left.\n"No," he said.\n', None, "Runa woke, and left.", '"No," he said.'),
    ("a.csv", 'id,text\n1,"She said \\"go, you\\"."\n2,A\\, b\n', None, 'She said "go, you".', "A, b"),
    ("a.csv", "id|text\n1|She, so; go\n", None, "She, so; go"),
    ("a.csv", "sep=;\nid;text\n1;She, so\n", None, "She, so"),
    ("a.csv", 'id,text\n1,"Never. He ran.\n2,Otto.\n3,"Go!" he said.\n', None, '"Never. He ran.', "Otto.", '"Go!" he said.'),
    ("a.csv", 'id\ttext\n1\t"Never.\n2\tShe said "\n3\tx\n', None, '"Never.', 'She said "', "x"),
    ("a.csv", 'id,text\r1,"He ran, too."\r2,x\r', None, "He ran, too.", "x"),
    ("a.csv", 'id,text\n1,"He ran,\nand ""she"", too."\n2,x\n', None, 'He ran,\nand "she", too.', "x"),
    ("a.csv", "id,text\n1,He ran, too.\n2,x,,\n", None, CELLS, "x"),
    ("a.csv", 'id,text\n1,"He\nran",x\n2,x\n', None, CELLS, "x"),
]  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_rows_of_tables(case):
    name, data, column, *expected = case
    for story, wanted in zip(contents(name, data, column), expected, strict=True):
        assert story.startswith(wanted) if isinstance(story, str) else story["text"] == wanted
        assert isinstance(story, str) or story.get("id") in (None, "a", "1", "2", "3", 3.0)


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
KEYS = (b"text", b"sentences", b"windows", b"id")
HOSTILE = [
    b"",
    b"[" * 5_000,
    b"[" * 10_000 + b"]" * 10_000,
    b"".join(b'{"text":"A","%s":%s}\n' % (key, b"[" * 800 + b"]" * 800) for key in KEYS),
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
    for document in read(f"stories.{suffix}", data):
        if document.problem is not None:
            assert document.content is None and "\n" not in document.name
            continue
        try:
            stories.append(Story.parse(document.content).sentences)
        except StoryError as error:
            assert str(error)
    return stories


FORMS = pytest.mark.parametrize("form", ["txt", "jsonl", "json", "csv"])


@FORMS
@settings(max_examples=25)
@given(data=documents)
def test_any_bytes_are_stories_or_problems(form, data):
    parsed(data, form)
    if form == "jsonl" and b"\0" not in data[:1024]:
        # Whatever comes before, a story on a line of its own is read.
        stories = parsed(GOOD + data + b"\n" + GOOD, form)
        assert stories[0] == stories[-1] == ("Nadia ran.", "It rained.")


@FORMS
def test_files_that_are_made_to_break_a_reader_are_stories_or_problems(form):
    for data in HOSTILE:
        test_any_bytes_are_stories_or_problems.hypothesis.inner_test(form, data)


@pytest.fixture
def short(monkeypatch) -> int:
    """Limits of a few kilobytes instead of megabytes."""
    monkeypatch.setattr(reading, "MAX_LINE", 10_000)
    monkeypatch.setattr(reading, "MAX_DOCUMENT", 20_000)
    return 10_000


def test_a_line_that_is_too_long_is_skipped_and_a_document_refused(short):
    long = json.dumps({"text": "A b. " * short}).encode() + b"\n"
    fits = json.dumps({"text": "A " * (short // 2 - 20) + "b."}).encode() + b"\n"
    stories = contents("stories.jsonl", GOOD + long + fits + long + GOOD)
    assert stories[0] == stories[4] == json.loads(GOOD) and stories[2] == json.loads(fits)
    assert stories[1] == stories[3]
    assert stories[1].startswith(f"is a line of more than {short:,} bytes, which is not read")

    for form, limit in (("txt", short), ("json", 2 * short)):
        (problem,) = contents(f"a.{form}", json.dumps("A b. " * limit))
        assert problem.startswith(f"is a document of more than {limit:,} bytes, which is not read")
        assert len(contents(f"a.{form}", json.dumps("A b. " * (limit // 6)))[0]) > 100


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
    documents = read("a.csv", file.getvalue())
    if not any(document.problem for document in documents):
        texts = "".join(f"{d.content['id'] or ''}{d.content['text']}" for d in documents)
        assert letters(texts) == letters("".join(map("".join, rows)))
    if dialect in DIALECTS[:2] and mark != "\t":
        assert [d.content["text"] for d in documents] == [text for _, text in rows]


@given(rows_of_cells, st.sampled_from(",\t"))
def test_hand_made_tables_keep_the_letters_of_their_texts(rows, mark):
    lines = [mark.join(cell.replace("\n", " ") for cell in row) for row in [("id", "text"), *rows]]
    documents = read("a.csv", "\n".join(lines))
    count = sum(
        len(letters(f"{d.content['id']}{d.content['text']}")) for d in documents if not d.problem
    )
    if not any(document.problem for document in documents):
        assert count == sum(len(letters(cell)) for row in rows for cell in row)


def test_utf_16_is_named_and_the_mark_of_utf_8_is_read():
    for name in ("a.csv", "a.txt", "a.jsonl"):
        text = "text\nRuna woke." if name == "a.csv" else '{"text": "Runa woke."}'
        for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
            problem = contents(name, text.encode(encoding))[0]
            assert problem.startswith("is UTF-16") and "iconv -f UTF-16" in problem
        assert "Runa woke." in str(contents(name, text.encode("utf-8-sig")))


def test_a_cell_that_is_too_long_ends_a_table(request):
    row = b"Nadia ran. It rained.\n"
    _, long, last = contents("a.csv", b"text\n" + row + b"A" * 200_000 + b"\n" + row)
    assert len(long["text"]) == 200_000, "longer than `csv` allows by default"
    assert last["text"] == row.decode().strip()
    request.getfixturevalue("short")
    for cell in (b"A b. " * 4_000, b'"' + b"A b.\n" * 4_000):
        stories = contents("a.csv", b"text\n" + row + cell)
        assert stories[0]["text"] == row.decode().strip()
        problems = ("can't be read as CSV after line 2 (", "has a line of more than 10,000 bytes")
        assert stories[-1].startswith(problems) and "quotation marks" in stories[-1]


@FORMS
def test_files_without_a_line_break_are_read_in_bounded_memory(form, short):
    file = io.BytesIO(b"x" * 50_000_000)
    with memory_below(10_000_000):
        stories = stories_in(file, "stories", form)
        assert next(stories).problem is not None
        # JSON Lines could have another line, so the rest of this one is read, and dropped.
        assert list(stories) == []
