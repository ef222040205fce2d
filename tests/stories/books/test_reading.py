"""Books of all formats: what is written is read back, and what is not of the story is left out."""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrative_twins import Story, StoryError
from narrative_twins.stories.books.reading import book_of, book_sentences, read_book
from narrative_twins.stories.reading import count_stories, read_stories

from support.books import (
    WRITERS,
    WrittenChapter,
    docx,
    epub,
    epub3_file,
    shown,
    word_paragraph,
    xhtml,
)
from support.strategies import sentence


@st.composite
def books(draw):
    """A title and chapters, of which the first may have no heading."""
    # The last two words keep a paragraph from looking like verse or a heading in any format.
    paragraphs = st.lists(
        st.lists(sentence, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=5
    )
    chapters = []
    for number in range(draw(st.integers(1, 4))):
        texts = draw(paragraphs)
        breaks = draw(st.sets(st.integers(1, len(texts) - 1))) if len(texts) > 1 else set()
        title = draw(st.sampled_from(["", ": The Mill", ". Über & <Unter>"]))
        heading = None if not number and draw(st.booleans()) else f"Chapter {number + 1}{title}"
        chapters.append(WrittenChapter(heading, texts, sorted(breaks)))
    return draw(st.sampled_from([None, "The Old Mill", "Die Mühle & der Fluß <1>"])), chapters


@pytest.mark.parametrize("name", WRITERS)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(book=books())
def test_what_is_written_is_read_back(name, book):
    title, chapters = book
    found = book_of(name, WRITERS[name](title, chapters))
    assert shown(found) == [tuple(chapter) for chapter in chapters]
    assert found.title == (None if name == "book.txt" else title)
    spans = [edge for place in book_sentences(found) for edge in place.span]
    assert spans == sorted(spans)
    story = Story.parse(found)
    assert [found.text[slice(*span)] for span in story.spans] == list(story.sentences)
    assert [place.span for place in book_sentences(found)] == list(story.spans)


def html(body: str) -> list[tuple[str | None, list[str], list[int]]]:
    """The chapters in the body of an HTML page."""
    return shown(book_of("book.html", f"<html><body>{body}</body></html>".encode()))


@pytest.mark.parametrize(
    ("body", "chapters"),
    [
        (
            "It rained.<p>Nadia <b>r</b>an.<p>\n She\n  slept.&nbsp;",
            [(None, ["It rained.", "Nadia ran.", "She slept."], [])],
        ),
        (
            "<h1>Rain</h1><h2>1</h2><p>A b.</p><h2>2</h2><p>C d.</p>",
            [("1", ["A b."], []), ("2", ["C d."], [])],
        ),
        (
            "<h1>Part One</h1><h2>I</h2>A b.<h2>II</h2>C d.",
            [("Part One I", ["A b."], []), ("II", ["C d."], [])],
        ),
        ("<h2>Chapter <br> 1</h2><h2> </h2><div>A b.</div>", [("Chapter 1", ["A b."], [])]),
        (f"<h2>{'It rained. ' * 40}</h2>", [(None, [("It rained. " * 40).strip()], [])]),
        ("<p>A b.<hr><p>C d.<p>* * *</p>E f.<hr>", [(None, ["A b.", "C d.", "E f."], [1, 2])]),
        (
            "<p>A b.<p>C d.<p>E f.<p>G h.<p> &nbsp; </p><p>I j.",
            [(None, ["A b.", "C d.", "E f.", "G h.", "I j."], [4])],
        ),
        ("<p>A b.</p><p></p><p>C d.</p><p></p><p>E f.</p>", [(None, ["A b.", "C d.", "E f."], [])]),
        (
            "<p>The sea was grey,<br>The sky was wide.</p>",
            [(None, ["The sea was grey,", "The sky was wide."], [])],
        ),
        (
            "<p>The sea was grey<br>and wide.<br><br>A b.",
            [(None, ["The sea was grey\nand wide.", "A b."], [])],
        ),
        ("<pre>The sea\nwas grey.\n\nA b.</pre>", [(None, ["The sea\nwas grey.", "A b."], [])]),
        (
            (
                "<p>A b.<script>x()</script><style>p {}</style><p hidden>No.<p style='display:"
                " none'>No."
            ),
            [(None, ["A b."], [])],
        ),
        (
            "<nav>No.</nav><aside>No.</aside><svg><text>No.</text></svg><p>A b.</p>",
            [(None, ["A b."], [])],
        ),
        (
            (
                "<p>A <span class='pagenum'>[Pg 3]</span>b<a href='#f1'>[1]</a>.<a"
                " href='#f2'><sup>*</sup></a>"
            ),
            [(None, ["A b."], [])],
        ),
        (
            "<p>He lives at <a href='#x'>the mill</a> and <a href='http://x/#1'>2</a>.",
            [(None, ["He lives at the mill and 2."], [])],
        ),
        ("<p><ruby>東京<rt>とうきょう</rt></ruby>。", [(None, ["東京。"], [])]),
        ("<h2>Contents</h2><p>1. The sea</p><h2>1</h2><p>A b.", [("1", ["A b."], [])]),
        (
            (
                "<h1>Rain</h1><p><a href='#c1'>Chapter 1</a> 3</p><table><tr><td><a"
                " href='#c2'>II</a><td>The Sea</table><ul><li><a href='x.html#y'>Chapter 3</a>, on"
                " the sea</ul><h2><a href='#toc'>Chapter 1</a></h2><p>A b."
            ),
            [("Chapter 1", ["A b."], [])],
        ),
        (
            (
                "<p>A b.</p><section epub:type='footnotes'><p>No.</section><div"
                " role='doc-endnotes'>No.</div>"
            ),
            [(None, ["A b."], [])],
        ),
        (
            (
                "<section id='pg-header'><p>Header.</section><pre>*** START OF THE PROJECT"
                " GUTENBERG EBOOK X ***</pre><p>A b.</p><p>*** END OF THE PROJECT GUTENBERG EBOOK X"
                " ***</p><p>Terms.</p>"
            ),
            [(None, ["A b."], [])],
        ),
        (
            "<font><i><p>A b.</i></font><table><tr><td>C<td>d.<tr><td>E</table>",
            [(None, ["A b.", "C d.", "E"], [])],
        ),
    ],
)
def test_html(body, chapters):
    assert html(body) == chapters


def test_markdown():
    text = (
        "---\ntitle: 'The Sea'\nauthor: Nobody\n---\n# Chapter 1 #\n\nIt *rained*\non the"
        " <sea>.\n\n***\n\n    Nadia [ran](#x).\n> She said:\n> stop.\n\n- One.\n- Two.\n\n<!-- No."
        " -->\n\n#\n\nShe slept.\n\nChapter 2\n---------\nThe sea was grey,\nThe sky was"
        " wide.\n\n```\nA line.\n```\n\nHe met\nTom on the long way home that evening, and then they\n"
        "went on to the sea together, as they always did.\n"
    )
    for newline in ("\n", "\r\n"):
        book = book_of("book.md", text.replace("\n", newline).encode())
        assert book.title == "The Sea"
        first, second = shown(book)
        paragraphs = ["It rained\non the <sea>.", "Nadia ran.", "She said:\nstop.", "One.", "Two."]
        assert first == ("Chapter 1", [*paragraphs, "She slept."], [1, 5])
        assert second[0] == "Chapter 2" and second[2] == []
        assert second[1][:3] == ["The sea was grey,", "The sky was wide.", "A line."]
        assert second[1][3].startswith("He met\nTom on"), "wrapped prose is no verse"


def test_word():
    style = '<w:style w:styleId="{}"><w:name w:val="{}"/><w:basedOn w:val="{}"/></w:style>'
    styles = style.format("T1", "Title", "N") + style.format("Mine", "my chapter", "Heading2")
    styles += (
        style.format("V1", "toc 1", "N") + style.format("A", "a", "B") + style.format("B", "b", "A")
    )
    outline = '<w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr><w:r><w:t>Part One</w:t></w:r></w:p>'
    body = [
        word_paragraph("The Sea", "T1"),
        word_paragraph("Chapter 1 ..... 3", "V1"),
        outline,
        word_paragraph("Chapter 1", "Mine"),
        word_paragraph(
            "It",
            run="<w:tab/><w:t>rained</w:t><w:noBreakHyphen/><w:t>on.</w:t><w:delText>No.</w:delText>",
        ),
        '<w:p><w:pPr><w:pBdr><w:bottom w:val="single"/></w:pBdr></w:pPr></w:p>',
        word_paragraph(
            "Nadia",
            "A",
            "<w:br/><w:t>ran.</w:t><w:br w:type='page'/><w:pict><w:p><w:t>No.</w:t></w:p></w:pict>",
        ),
        f"<w:moveFrom>{word_paragraph('No.')}</w:moveFrom>",
        f"<w:tbl><w:tr><w:tc>{word_paragraph('A b.')}</w:tc></w:tr></w:tbl>",
    ]
    book = book_of("book.docx", docx("".join(body), styles=styles))
    assert book.title == "The Sea"
    assert shown(book) == [("Part One Chapter 1", ["It rained-on.", "Nadia\nran.", "A b."], [1])]


def test_documents_of_an_epub_that_are_not_the_story_are_left_out():
    files = {
        "cover.xhtml": xhtml("<p>Cover.</p>"),
        "title.xhtml": xhtml(
            '<section epub:type="titlepage"><h1>The Sea</h1><p>Nobody.</p></section>'
        ),
        "nav.xhtml": xhtml(
            '<nav epub:type="toc"><ol><li><a href="c.xhtml">One</a></li></ol></nav><p>No.</p><nav'
            ' epub:type="landmarks"><ol><li><a epub:type="copyright-page"'
            ' href="rights.xhtml">R</a></li></ol></nav>'
        ),
        "rights.xhtml": xhtml("<p>All rights.</p>"),
        "c.xhtml": xhtml(
            '<p>It rained<a epub:type="noteref" href="#n">a</a>.</p><p epub:type="footnote">No.</p>'
        ),
        "notes.xhtml": xhtml("<p>A note.</p>"),
    }
    spine = "".join(
        f'<itemref idref="i{n}"{" linear=" + chr(34) + "no" + chr(34) if n == 5 else ""}/>'
        for n in range(6)
    )
    data = epub(
        files, "The Sea", "3.0", spine=spine, guide='<reference type="cover" href="cover.xhtml"/>'
    )
    assert shown(book_of("book.epub", data)) == [("One", ["It rained."], [])]


def test_headings_from_the_contents_of_an_epub():
    points = [
        "c.xhtml|Part One|",
        "c.xhtml#a|Chapter 1: The Sea|",
        "c.xhtml#b|Chapter 2|",
        "c.xhtml#d|Chapter 3|",
    ]
    points += ["c.xhtml#mid|Nothing|", "gone.xhtml|Gone|", "http://x/|Web|", "../../x|Out|"]
    entries = "".join(
        f'<navPoint><navLabel><text>{label}</text></navLabel><content src="{src}"/></navPoint>'
        for src, label, _ in (point.split("|") for point in points)
    )
    body = (
        "<h1>Part One</h1><div id='a'><p class='n'>CHAPTER 1</p><p>The Sea</p><p>It"
        " rained.</p></div><p>So.</p><p id='b'>It snowed <i id='mid'>here</i>.</p><a"
        " id='d'/><h3>Chapter Three</h3><p>End.</p>"
    )
    data = epub({"c.xhtml": xhtml(body)}, ncx=f"<ncx><navMap>{entries}</navMap></ncx>")
    assert shown(book_of("book.epub", data)) == [
        ("CHAPTER 1 The Sea", ["It rained.", "So."], []),
        ("Chapter 2", ["It snowed here."], []),
        ("Chapter Three", ["End."], []),
    ]


def test_documents_of_an_epub_with_errors_are_read_as_html():
    doctype = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://127.0.0.1:9/xhtml11.dtd">'
    files = {
        "a.xhtml": xhtml("<h2>1</h2><p>It rained &mdash; so.</p>", doctype=doctype),
        "b.xhtml": xhtml("<h2>2</h2><p>Nadia &nbsp;ran<br>home.</i></p>"),
        "c.xhtml": (
            xhtml("<h2>3</h2><p>Caf\u00e9.</p>").replace("utf-8", "iso-8859-1").encode("latin-1")
        ),
        "d.xhtml": xhtml("<h2>4</h2><p>Über.</p>").encode("utf-16"),
    }
    assert shown(book_of("book.epub", epub(files))) == [
        ("1", ["It rained — so."], []),
        ("2", ["Nadia \xa0ran\nhome."], []),
        ("3", ["Café."], []),
        ("4", ["Über."], []),
    ]


@pytest.mark.parametrize("name", ["book.html", "book.md", "book3.epub", "book.docx"])
def test_without_the_libraries(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    data = WRITERS[name](None, [WrittenChapter("Chapter 1", ["It rained."], [])])
    with pytest.raises(ValueError, match=r"^is [a-z]+: .*(lxml|markdown_it).*; or "):
        book_of(name, data)
    monkeypatch.setattr("narrative_twins.extras.version", lambda name: "0.1")
    with pytest.raises(ValueError, match=r"pip install 'narrative_twins\[books\]' \(lxml must be"):
        book_of(name, data)
    # Plain text needs none, nor do stories in Markdown.
    assert book_of("book.txt", b"It rained.").text == "It rained."


def test_formats_are_selected_by_suffix_or_by_name(tmp_path):
    chapters = [WrittenChapter("Chapter 1", ["It rained."], [])]
    (tmp_path / "book").write_bytes(epub3_file("Rain", chapters))
    assert read_book(str(tmp_path / "book"), "epub").title == "Rain"
    (tmp_path / "book.HTM").write_text("<p>It rained.")
    assert shown(read_book(tmp_path / "book.HTM")) == [(None, ["It rained."], [])]
    assert shown(read_book(tmp_path / "book.HTM", "text")) == [(None, ["<p>It rained."], [])]
    (tmp_path / "tales.jsonl").write_text("{}")
    for name, problem in (
        ("none.txt", r"can't be read \(No such file"),
        ("tales.jsonl", "is a file of stories"),
    ):
        with pytest.raises(StoryError, match=rf"{name}: {problem}"):
            read_book(tmp_path / name)
    with pytest.raises(StoryError, match="no format 'doc'; use one of auto, text, markdown, html"):
        read_book(tmp_path / "book", "doc")


@pytest.mark.parametrize("name", ["book.html", "book2.epub", "book.docx"])
def test_books_are_stories(tmp_path, name):
    chapters = [
        WrittenChapter("The Storm", ["It rained. Nadia ran", "home."], []),
        WrittenChapter("Home", ["So."], []),
    ]
    (tmp_path / name).write_bytes(WRITERS[name]("Rain", chapters))
    (tmp_path / "other.txt").write_text("A b.")
    (found,) = read_stories([str(tmp_path / name)])
    assert found.problem is None and found.name == str(tmp_path / name)
    # Headings of any words are known, and sentences end where paragraphs do.
    assert Story.parse(found.content).sentences == ("It rained.", "Nadia ran", "home.", "So.")
    assert Story.parse(found.content, splitter="paragraphs").sentences == (
        "It rained. Nadia ran",
        "home.",
        "So.",
    )
    if name == "book.html":
        return  # of folders, pages are not read
    first, _ = read_stories([str(tmp_path)])
    assert Story.parse(first.content).id == str(tmp_path / name)
    assert count_stories([str(tmp_path)]) == 2
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    (bad,) = read_stories([str(tmp_path / name)])
    assert bad.content is None and bad.problem is not None
