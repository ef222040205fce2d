"""Files of stories and books: formats by name, folders, standard input, rows, and files that can't be
read."""

import gzip
import io
import sys

import pyarrow
import pyarrow.parquet
import pytest
from backports import zstd

from narrative_twins import Story, StoryError
from narrative_twins.books import book_table
from narrative_twins.books import reading as books_reading
from narrative_twins.books.plain_text import plain_book
from narrative_twins.books.reading import BookFormat, book_of, read_book
from narrative_twins.books.story_files import count_story_files, read_story_files, skipped_files
from narrative_twins.data.file_formats import read_records
from narrative_twins.data.rows import RowError

from support.books import WRITERS, WrittenChapter, archive, outline, pdf, tei
from support.memory import memory_below

ONE = [WrittenChapter("Chapter 1", ["It rained."], [])]


def test_without_the_libraries(monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    for name in ("book.html", "book.md", "book3.epub", "book.docx", "book.xml"):
        with pytest.raises(ValueError, match=r"^is [a-z]+: .*(lxml|markdown_it).*; or "):
            book_of(name, WRITERS[name](None, ONE))
    assert book_of("book.txt", b"It rained.").text == "It rained."


def test_formats_are_selected_by_suffix_or_by_name(tmp_path):
    (tmp_path / "book").write_bytes(WRITERS["book3.epub"]("Rain", ONE))
    (tmp_path / "book.HTM").write_text("<p>It rained.")
    (tmp_path / "tales.jsonl").write_text("{}")
    (tmp_path / "tale.fb2").write_text("<FictionBook>")
    for name, form, expected in (
        ("book", "epub", "Chapter 1 | It rained."),
        ("book.HTM", "auto", "- | It rained."),
        ("book.HTM", "text", "- | <p>It rained."),
        ("none.txt", "auto", r"none.txt: can't be read (No such file"),
        ("tales.jsonl", "auto", "tales.jsonl: is no book but 'jsonl'"),
        ("tale.fb2", "auto", "is .fb2, which is not read; convert it to EPUB, for example by"),
        ("book", "doc", "no book but 'doc'; use one of the formats text, markdown, html"),
    ):
        try:
            assert outline(read_book(tmp_path / name, form)) == expected
        except StoryError as error:
            assert expected in str(error)
    (fb2,) = read_story_files([str(tmp_path / "tale.fb2")])
    assert fb2.content is None and "convert it to EPUB" in fb2.problem


def test_a_play_has_the_same_sentences_as_text_and_in_tei():
    text = (
        "ACT I\n\nScene 1\n\n[Enter Runa.]\n\nRUNA.\nWho is there? Speak!\n\nOTTO\nThe sea was grey,\n"
        "The sky was wide.\n\nRUNA. [Aside.] Only he. It rained.\n\nScene 2\n\nOTTO\nOnly me."
    )
    speech = "<sp><speaker>{}</speaker>{}</sp>".format
    scenes = [
        "<stage>Enter Runa.</stage>"
        + speech("RUNA.", "<p>Who is there? Speak!</p>")
        + speech("OTTO", "<l>The sea was grey,</l><l>The sky was wide.</l>")
        + speech("RUNA.", "<stage>Aside.</stage><p>Only he. It rained.</p>"),
        speech("OTTO", "<p>Only me.</p>"),
    ]
    scene = "<div type='scene'><head>Scene {}</head>{}</div>".format
    act = f"<div><head>ACT I</head>{''.join(scene(n, s) for n, s in enumerate(scenes, 1))}</div>"
    as_text, as_tei = (
        book_table(book_of(name, data))
        for name, data in (("play.txt", text.encode()), ("play.xml", tei(act)))
    )
    assert as_tei.sentences.texts == as_text.sentences.texts and len(as_tei.sentences) == 8
    assert [unit.text for unit in as_tei.chapters] == [unit.text for unit in as_text.chapters]


def test_a_file_that_tei_includes_is_not_read(tmp_path):
    (tmp_path / "secret.xml").write_text("<p>It snowed.</p>")
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="secret.xml"/>'
    (tmp_path / "a.tei").write_bytes(tei(f"<p>It rained.</p>{include}"))
    book = read_book(tmp_path / "a.tei")
    assert outline(book) == "- | It rained."
    assert book.problems == ("includes secret.xml, which is another file",)


PLAYS = [
    "RUNA\nWho is there?\n\nOTTO\n(softly)\nOnly me. It rained.\n\nOTTO (V.O.)\nIt was cold.",
    "RUNA.\n\nWho is there?\n\nOTTO.\n\nOnly me. It rained.\n\nRUNA.\n\nCome in.\n\nOTTO.\n\nSo.",
]


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("name", ["play.fountain", "play.txt", "play.html"])
def test_names_of_speakers_are_no_sentences_in_any_format(name, play):
    page = play.replace("\n\n", "<p>").replace("\n", "<br>") if name.endswith("html") else play
    sentences = book_table(book_of(name, page.encode())).sentences.texts
    assert sentences == list(Story.parse(play).sentences) and not set(sentences) & {"RUNA", "OTTO."}


def test_a_page_of_pdf_that_is_listed_many_times_is_read_once(monkeypatch):
    page = pytest.importorskip("pypdf").PageObject
    extract, calls = page.extract_text, []
    monkeypatch.setattr(page, "extract_text", lambda self: calls.append(1) or extract(self))
    repeated = pdf(["It rained."]).replace(b"[5 0 R]", b"[" + b"5 0 R " * 50 + b"]")
    assert book_of("a.pdf", repeated).text.count("It rained.") == 50 and len(calls) == 1
    monkeypatch.setattr("narrative_twins.books.pdf.MAX_PDF_TEXT", 100)
    with pytest.raises(ValueError, match="has more than 100 characters"):
        book_of("a.pdf", repeated)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(ValueError, match="^is pdf: .*pypdf"):
        book_of("a.pdf", repeated)


def test_a_row_or_a_group_of_rows_that_cannot_be_read_never_ends_a_file(tmp_path):
    texts = pyarrow.array([b"A b.", b"caf\xe9", b"C d.", b"E f.", b"G h.", b"I j."])
    texts = pyarrow.StringArray.from_buffers(6, *texts.buffers()[1:])
    path, options = tmp_path / "a.parquet", {"row_group_size": 2, "compression": "none"}
    pyarrow.parquet.write_table(
        pyarrow.table({"text": texts}), path, use_dictionary=False, **options
    )
    data = path.read_bytes()
    at = data.index(b"C d.")
    path.write_bytes(data[: at - 30] + b"\xff" * 30 + data[at:])
    documents = [(d.name[len(str(path)) + 2 :], d.problem) for d in read_story_files([str(path)])]
    places = ["row 0", "row 1", "row group 1", "row 4", "row 5"]
    assert [name.split(", id")[0] for name, _ in documents] == places
    assert [bool(problem) for _, problem in documents] == [False, True, True, False, False]
    with pytest.raises(RowError, match=r"a\.parquet, row 1: can't be read \('utf-8' codec"):
        list(read_records(str(path)))


def test_a_format_of_books_is_added_in_one_place(monkeypatch, tmp_path):
    """A record in `BOOK_FORMATS`, which files of stories and the command line know."""
    from test_interface import usage

    shout = BookFormat((".shout",), lambda data: plain_book(data.decode().upper()))
    monkeypatch.setitem(books_reading.BOOK_FORMATS, "shout", shout)
    (tmp_path / "tale.shout").write_text("It rained.")
    (document,) = read_story_files([str(tmp_path)])
    assert Story.parse(document.content).sentences == ("IT RAINED.",)
    assert read_book(tmp_path / "tale.shout").text == "IT RAINED."
    assert "shout" in usage()["score"]


FOLDER = {
    "a.md": (b"# A", "# A"),
    "b.txt": (b"\xef\xbb\xbfNadia ran.\r\nIt rained.", "Nadia ran.\nIt rained."),
    "c.jsonl": (b'"A b."\n\n"C d."', "A b.|C d."),
    "d.rejects": (b"A b.", ""),
    ".hidden.txt": (b"A b.", ""),
    "page.html": (b"A b.", ""),
    "bad.txt": (b"caf\xe9 au lait", "is not UTF-8 at byte 3 (0xe9); convert it, perhaps with"),
    "parquet.txt": (b"PAR1\x15\x80", "is Parquet, which is not read here under this name"),
    "zip.txt": (b"PK\x03\x04\xff", "is a zip archive, such as EPUB or Word, which is not read"),
}


def test_folders_and_files_that_cannot_be_read(tmp_path):
    for name, (data, _) in FOLDER.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "e.txt").write_text("A b.")
    names = sorted(name for name, (_, expected) in FOLDER.items() if expected)
    paths, documents = [str(tmp_path), f"{tmp_path}/none.txt"], []
    for document in read_story_files(paths):
        content = document.content["text"] if type(document.content) is dict else document.content
        documents.append((document.problem or content, document.name))
    *texts, (missing, _) = documents
    expected = [text for name in names for text in FOLDER[name][1].split("|")]
    assert all(text.startswith(each) for (text, _), each in zip(texts, expected, strict=True))
    assert texts[0][1] == str(tmp_path / "a.md") and missing.startswith("can't be read (No such")
    assert [name for _, name in texts if ", line" in name] == [
        f"{tmp_path / 'c.jsonl'}, line {line} (row {row})" for row, line in enumerate((1, 3))
    ]
    assert count_story_files(paths[:1]) == len(texts) and count_story_files(paths) == 0
    (empty,) = read_story_files([str(tmp_path / "sub" / "..") + "/sub/e.txt"], named=False)
    assert empty.content == "A b."
    (tmp_path / "sub" / "e.txt").unlink()
    (empty,) = read_story_files([str(tmp_path / "sub")])
    assert empty.problem.startswith("is a folder without a story; put files in it (.jsonl")


def test_compressed_files_are_read_and_files_that_are_not_read_are_named(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'"A b."\n"C d."\n'))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"It rained. " * 1000)[:60])
    (tmp_path / "c.txt.zst").write_bytes(b"(\xb5/\xfd")
    (tmp_path / "d.zip").write_bytes(archive({"tale.md": "Runa woke.", "__MACOSX/._tale.md": "x"}))
    (tmp_path / "e.zip").write_bytes(archive({"a.txt": "A b.", "b.txt": "C d."}))
    (tmp_path / "f.srt").write_text("A b.")
    (tmp_path / ".hidden").write_text("A b.")
    documents = list(read_story_files([str(tmp_path)]))
    assert [d.content for d in documents if not d.problem] == [
        "A b.",
        "C d.",
        {"id": str(tmp_path / "d.zip"), "text": "Runa woke."},
    ]
    problems = [d.problem for d in documents if d.problem]
    assert "damaged" in problems[0] and "get it again" in problems[0]
    assert "damaged" in problems[1]
    assert skipped_files([str(tmp_path), "-", "none"]) == (
        "2 files in folders not read: e.zip, f.srt; name a file to read it"
    )
    (many,) = read_story_files([str(tmp_path / "e.zip")])
    assert "has 2 files inside; unpack it" in many.problem
    assert read_book(tmp_path / "d.zip").text == "Runa woke."
    assert count_story_files([str(tmp_path)]) == 0


def test_zstandard_is_read_where_its_library_is(tmp_path, monkeypatch):
    (tmp_path / "a.txt.zst").write_bytes(zstd.compress("Runa woke. \u00dcber.".encode()))
    assert read_book(tmp_path / "a.txt.zst").text == "Runa woke. \u00dcber."
    (bomb := tmp_path / "b.txt.zst").write_bytes(zstd.compress(b" " * 5_000_000))
    monkeypatch.setattr(books_reading, "MAX_FILE", 1_000)
    with pytest.raises(StoryError, match="has more than 1,000 bytes"):
        read_book(bomb)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(
        StoryError, match="needs pip install backports.zstd; or unpack it by unzstd"
    ):
        read_book(bomb)


def test_what_is_unpacked_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(books_reading, "MAX_FILE", 1_000)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b" " * 50_000_000))
    with memory_below(5_000_000), pytest.raises(StoryError, match="has more than 1,000 bytes"):
        read_book(tmp_path / "a.txt.gz")


STANDARD_INPUT = [
    ('\ufeff{"text": "A b."}\n{"text": "C d."}\n', [{"text": "A b."}, {"text": "C d."}]),
    ('"Go," she said.\nHe left.\n', ['"Go," she said.\nHe left.\n']),
    ("", [""]),
    ('\n \n{"text": "A b."}\n', [{"text": "A b."}]),
    ('["A b.", "C d."]\n["E f."]\n', [["A b.", "C d."], ["E f."]]),
    ("[Laughter] He left.\n", ["[Laughter] He left.\n"]),
    ('"A b."\n"C d."\n', ["A b.", "C d."], "jsonl"),
    ("{curly}\n", ["{curly}\n"], "text"),
]


@pytest.mark.parametrize("case", STANDARD_INPUT)
def test_standard_input(monkeypatch, case):
    data, contents, *form = case
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode()), encoding="utf-8"))
    assert [source.content for source in read_story_files(["-"], *form)] == contents
    assert count_story_files(["-"]) == 0
    (again,) = read_story_files(["-"], "text", named=True)
    assert again.content == {"id": "standard input", "text": ""}, "standard input stays open"
