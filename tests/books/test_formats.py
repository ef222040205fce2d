"""Books of all formats: what is written is read back, and what is not of the story is left out."""

import sys

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StoryError
from narrative_twins.books import book_table
from narrative_twins.books import reading as books_reading
from narrative_twins.books.plain import plain_book
from narrative_twins.books.reading import BookFormat, book_of, read_book, read_story_files
from narrative_twins.data.records import read_records
from narrative_twins.data.rows import RowError
from narrative_twins.stories.reading import count_stories

from support.books import WRITERS, WrittenChapter, docx, epub, outline, pdf, word_paragraph, xhtml
from support.strategies import sentence

ONE = [WrittenChapter("Chapter 1", ["It rained."], [])]


@st.composite
def books(draw):
    """A title and chapters, of which the first may have no heading."""
    paragraphs = st.lists(st.lists(sentence, min_size=1, max_size=3), min_size=1, max_size=4)
    chapters = []
    for number in range(draw(st.integers(1, 4))):
        texts = [" ".join(words) for words in draw(paragraphs)]
        breaks = draw(st.sets(st.integers(1, len(texts) - 1))) if len(texts) > 1 else set()
        title = draw(st.sampled_from(["", ": The Mill", ". Über & <Unter>"]))
        heading = None if not number and draw(st.booleans()) else f"Chapter {number + 1}{title}"
        chapters.append(WrittenChapter(heading, texts, sorted(breaks)))
    return draw(st.sampled_from([None, "The Old Mill", "Die Mühle & der Fluß <1>"])), chapters


@pytest.mark.parametrize("name", WRITERS)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=8
)
@given(book=books())
def test_what_is_written_is_read_back(name, book):
    title, chapters = book
    book_read = book_of(name, WRITERS[name](title, chapters))
    assert [book_read.heading(at) for at in range(len(chapters))] == [ch.heading for ch in chapters]
    for chapter, written in zip(book_read.chapters, chapters, strict=True):
        assert [book_read.text[lo:hi] for lo, hi in chapter.paragraphs] == written.paragraphs
        assert sorted(chapter.breaks) == written.breaks
    assert book_read.title == (None if name == "book.txt" else title)
    story = Story.parse(book_read)
    assert [book_read.text[slice(*span)] for span in story.spans] == list(story.sentences)
    assert book_table(book_read).sentences.spans == list(story.spans)


HTML = [
    (
        "It rained.<p>Nadia <b>r</b>an.<p>\n She\n  slept.&nbsp;",
        "- | It rained. | Nadia ran. | She slept.",
    ),
    ("<h1>Rain</h1><h2>1</h2><p>A b.</p><h2>2</h2><p>C d.</p>", "1 | A b. // 2 | C d."),
    (
        "<h1>Part One</h1><h2>I</h2>A b.<h2>II</h2>C d.<h2></h2>E f.",
        "Part One I | A b. // II | C d. | * E f.",
    ),
    ("<h2>Chapter <br> 1</h2><h2> </h2><div>A b.</div>", "Chapter 1 | A b."),
    (f"<h2>{'A b. ' * 80}</h2>", f"- | {'A b. ' * 80}".strip()),
    ("<p>A b.<hr><p>C d.<p>* * *</p>E f.<hr>", "- | A b. | * C d. | * E f."),
    (
        "<p>A b.<p>C d.<p>E f.<p>G h.<p> &nbsp; </p><p>I j.",
        "- | A b. | C d. | E f. | G h. | * I j.",
    ),
    ("<p>A b.</p><p></p><p>C d.</p><p></p><p>E f.</p>", "- | A b. | C d. | E f."),
    ("<p>The sea was grey,<br>The sky was wide.</p>", "- | The sea was grey, | The sky was wide."),
    ("<p>The sea was grey<br>and wide.<br><br>A b.", "- | The sea was grey\nand wide. | A b."),
    ("<pre>The sea\nwas grey.\n\nA b.</pre>", "- | The sea\nwas grey. | A b."),
    (
        "<p>A b.<script>x()</script><style>p {}</style><p hidden>No.<p style='display: none'>No.",
        "- | A b.",
    ),
    ("<nav>No.</nav><aside>No.</aside><svg><text>No.</text></svg><p>A<!-- No -->b.", "- | Ab."),
    (
        "<p>A <span class='pagenum'>[Pg 3]</span>b<a href='#f1'>[1]</a>.<a href='#f2'><sup>*</sup>",
        "- | A b.",
    ),
    (
        "<p>He lives at <a href='#x'>the mill</a> and <a href='http://x/#1'>2</a>.",
        "- | He lives at the mill and 2.",
    ),
    ("<p><ruby>東京<rt>とうきょう</rt></ruby>。", "- | 東京。"),
    ("<h2>Contents</h2><p>1. The sea</p><h2>1</h2><p>A b.", "1 | A b."),
    (
        "<h1>Rain</h1><p><a href='#c1'>Chapter 1</a> 3</p><table><tr><td><a href='#c2'>II</a><td>The"
        " Sea</table><ul><li><a href='x.html#y'>Chapter 3</a>, on the sea</ul><h2><a"
        " href='#toc'>Chapter 1</a></h2><p>A b.<h2>II</h2><p>C d.<h2>Chapter 3</h2><p>E f.",
        "Chapter 1 | A b. // II | C d. // Chapter 3 | E f.",
    ),
    (
        "<p>A b.</p><section epub:type='footnotes'><p>No.</section><div role='doc-endnotes'>No.",
        "- | A b.",
    ),
    (
        "<section id='pg-header'><p>Header.</section><pre>*** START OF THE PROJECT GUTENBERG EBOOK X"
        " ***</pre><p>A b.</p><p>*** END OF THE PROJECT GUTENBERG EBOOK X ***</p><p>Terms.</p>",
        "- | A b.",
    ),
    ("<font><i><p>A b.</i></font><table><tr><td>C<td>d.<tr><td>E</table>", "- | A b. | C d. | E"),
]


def test_html():
    for body, chapters in HTML:
        page = f"<html><body>{body}</body></html>"
        assert outline(book_of("book.html", page.encode())) == chapters


MARKDOWN = """---
title: 'The Sea'
author: Nobody
---
# Chapter 1 #

It *rained*
on the <sea>.

***

    Nadia [ran](#x).
> She said:
> stop.

- One.
- Two.

<!-- No. -->

#

She slept.

Chapter 2
---------
The sea was grey,
The sky was wide.

```
A line.
```

He met
Tom on the long way home that evening, and then they
went on to the sea together, as they always did.
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_markdown(newline):
    book = book_of("book.md", MARKDOWN.replace("\n", newline).encode())
    first, second = outline(book).split(" // ")
    paragraphs = "It rained\non the <sea>. | * Nadia ran. | She said:\nstop. | One. | Two."
    assert book.title == "The Sea" and first == f"Chapter 1 | {paragraphs} | * She slept."
    verse, _, prose = second.partition(" | He met\nTom on")  # wrapped prose is no verse
    assert verse == "Chapter 2 | The sea was grey, | The sky was wide. | A line." and prose


def test_word():
    style = '<w:style w:styleId="{}"><w:name w:val="{}"/><w:basedOn w:val="{}"/></w:style>'
    names = ("T1 Title N", "Mine my Heading2", "V1 toc_1 N", "A a B", "B b A")
    styles = "".join(style.format(*name.split()).replace("_", " ") for name in names)
    outline_of_part = '<w:pPr><w:outlineLvl w:val="0"/></w:pPr><w:r><w:t>Part One</w:t></w:r>'
    changed = '<w:pPrChange><w:pPr><w:pStyle w:val="Heading2"/></w:pPr></w:pPrChange>'
    marks = "<w:tab/><w:t>rained</w:t><w:noBreakHyphen/><w:t>on.</w:t><w:delText>No.</w:delText>"
    pages = "<w:br/><w:t>ran.</w:t><w:br w:type='page'/><w:pict><w:p><w:t>No.</w:t></w:p></w:pict>"
    body = [
        word_paragraph("The Sea", "T1"),
        word_paragraph("Chapter 1 ..... 3", "V1"),
        f"<w:p>{outline_of_part}</w:p>",
        word_paragraph("Chapter 1", "Mine"),
        word_paragraph("It", run=marks),
        '<w:p><w:pPr><w:pBdr><w:bottom w:val="single"/></w:pBdr></w:pPr></w:p>',
        word_paragraph("Nadia", "A", pages),
        f"<w:moveFrom>{word_paragraph('No.')}</w:moveFrom>",
        f"<w:tbl><w:tr><w:tc>{word_paragraph('A b.')}</w:tc></w:tr></w:tbl>",
        f"<w:p><w:pPr>{changed}</w:pPr><w:r><w:t>End.</w:t></w:r></w:p>",
    ]
    book = book_of("book.docx", docx("".join(body), styles=styles))
    assert book.title == "The Sea"
    assert outline(book) == "Part One Chapter 1 | It rained-on. | * Nadia\nran. | A b. | End."


def test_documents_of_an_epub_that_are_not_the_story_are_left_out():
    title = '<section epub:type="titlepage"><h1>The Sea</h1><p>Nobody.</p></section>'
    toc = '<nav epub:type="toc"><ol><li><a href="c.xhtml">One</a></li></ol></nav>'
    link = '<a epub:type="copyright-page" href="rights.xhtml">R</a>'
    landmarks = f'<nav epub:type="landmarks"><ol><li>{link}</li></ol></nav>'
    story = '<p>It rained<a epub:type="noteref" href="#n">a</a>.</p><p epub:type="footnote">No.</p>'
    files = {
        "cover.xhtml": xhtml("<p>Cover.</p>"),
        "title.xhtml": xhtml(title),
        "nav.xhtml": xhtml(f"{toc}<p>No.</p>{landmarks}"),
        "rights.xhtml": xhtml("<p>All rights.</p>"),
        "c.xhtml": xhtml(story),
        "notes.xhtml": xhtml("<p>A note.</p>"),
    }
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(5))
    spine += '<itemref idref="i5" linear="no"/>'
    guide = '<reference type="cover" href="cover.xhtml"/>'
    data = epub(files, "The Sea", "3.0", spine=spine, guide=guide)
    assert outline(book_of("book.epub", data)) == "One | It rained."


def test_headings_from_the_contents_of_an_epub():
    points = (
        "c.xhtml|Part One c.xhtml#a|Chapter_1:_The_Sea c.xhtml#b|Chapter_2 c.xhtml#d|Chapter_3"
        " c.xhtml#mid|Nothing gone.xhtml|Gone http://x/|Web ../../x|Out"
    )
    point = '<navPoint><navLabel><text>{1}</text></navLabel><content src="{0}"/></navPoint>'
    points = points.replace("Part One", "Part_One").split()
    entries = "".join(point.format(*entry.split("|")).replace("_", " ") for entry in points)
    body = (
        "<h1>Part One</h1><div id='a'><p class='n'>CHAPTER 1</p><p>The Sea</p><p>It"
        " rained.</p></div><p>So.</p><p id='b'>It snowed <i id='mid'>here</i>.</p><a"
        " id='d'/><h3>Chapter Three</h3><p>End.</p>"
    )
    data = epub({"c.xhtml": xhtml(body)}, ncx=f"<ncx><navMap>{entries}</navMap></ncx>")
    assert outline(book_of("book.epub", data)) == (
        "CHAPTER 1 The Sea | It rained. | So. // Chapter 2 | It snowed here."
        " // Chapter Three | End."
    )


def test_documents_of_an_epub_with_errors_are_read_as_html():
    doctype = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://127.0.0.1:9/xhtml11.dtd">'
    latin = xhtml("<h2>3</h2><p>Caf\u00e9.</p>").replace("utf-8", "iso-8859-1")
    files = {
        "a.xhtml": xhtml("<h2>1</h2><p>It rained &mdash; so &x; on.</p>", doctype=doctype),
        "b.xhtml": xhtml("<h2>2</h2><p>Nadia &nbsp;ran<br>home.</i></p>"),
        "c.xhtml": latin.encode("latin-1"),
        "d.xhtml": xhtml("<h2>4</h2><p>Über.</p>").encode("utf-16"),
    }
    assert outline(book_of("book.epub", epub(files))) == (
        "1 | It rained — so &x; on. // 2 | Nadia \xa0ran\nhome. // 3 | Café. // 4 | Über."
    )


def test_without_the_libraries(monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    names = ("book.html", "book.md", "book3.epub", "book.docx")
    for name in names:
        with pytest.raises(ValueError, match=r"^is [a-z]+: .*(lxml|markdown_it).*; or "):
            book_of(name, WRITERS[name](None, ONE))
    monkeypatch.setattr("narrative_twins.extras.version", lambda name: "0.1")
    for name in names:
        with pytest.raises(ValueError, match=r"pip install 'narrative_twins\[books\]' \(lxml must"):
            book_of(name, WRITERS[name](None, ONE))
    assert book_of("book.txt", b"It rained.").text == "It rained."


def test_formats_are_selected_by_suffix_or_by_name(tmp_path):
    (tmp_path / "book").write_bytes(WRITERS["book3.epub"]("Rain", ONE))
    assert read_book(str(tmp_path / "book"), "epub").title == "Rain"
    (tmp_path / "book.HTM").write_text("<p>It rained.")
    assert outline(read_book(tmp_path / "book.HTM")) == "- | It rained."
    assert outline(read_book(tmp_path / "book.HTM", "text")) == "- | <p>It rained."
    (tmp_path / "tales.jsonl").write_text("{}")
    (tmp_path / "tale.fb2").write_text("<FictionBook>")
    assert [bad.content for bad in read_story_files([str(tmp_path / "tale.fb2")])] == [None]
    for name, form, problem in (
        ("none.txt", "auto", r"none.txt: can't be read \(No such file"),
        ("tales.jsonl", "auto", "tales.jsonl: is no book but 'jsonl'"),
        ("tale.fb2", "auto", "is .fb2, which is not read; convert it to EPUB, for example by"),
        ("book", "doc", "no book but 'doc'; use one of the formats text, markdown, html"),
    ):
        with pytest.raises(StoryError, match=problem):
            read_book(tmp_path / name, form)


def test_books_are_stories(tmp_path):
    name = "book2.epub"
    chapters = [
        WrittenChapter("The Storm", ["It rained. Nadia ran", "home."], []),
        WrittenChapter("Home", ["So."], []),
    ]
    (tmp_path / name).write_bytes(WRITERS[name]("Rain", chapters))
    (tmp_path / "other.txt").write_text("A b.")
    (document,) = read_story_files([str(tmp_path / name)])
    # Headings of any words are known, and sentences end where paragraphs do.
    assert Story.parse(document.content).sentences == ("It rained.", "Nadia ran", "home.", "So.")
    paragraphs = ("It rained. Nadia ran", "home.", "So.")
    assert Story.parse(document.content, splitter="paragraphs").sentences == paragraphs
    first, _ = read_story_files([str(tmp_path)])
    assert Story.parse(first.content).id == str(tmp_path / name)
    assert count_stories([str(tmp_path / name), str(tmp_path / "other.txt")]) == 2
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    (bad,) = read_story_files([str(tmp_path / name)])
    assert bad.content is None and bad.problem is not None


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


def test_pdf(monkeypatch):
    page = pytest.importorskip("pypdf").PageObject
    data = pdf(["It rained on the win-", "dow. The dog", "1"], ["2", "slept."])
    story = Story.parse(book_of("tale.pdf", data))
    assert story.sentences == ("It rained on the window.", "The dog\nslept.")
    # A page that is listed many times is read once.
    extract, calls = page.extract_text, []
    monkeypatch.setattr(page, "extract_text", lambda self: calls.append(1) or extract(self))
    repeated = pdf(["It rained."]).replace(b"[5 0 R]", b"[" + b"5 0 R " * 50 + b"]")
    assert book_of("a.pdf", repeated).text.count("It rained.") == 50 and len(calls) == 1
    monkeypatch.setattr("narrative_twins.books.plain.MAX_PDF_TEXT", 100)
    with pytest.raises(ValueError, match="has more than 100 characters"):
        book_of("a.pdf", repeated)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(ValueError, match="^is pdf: .*pypdf"):
        book_of("a.pdf", data)


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
