"""No text is lost in silence: what is in no paragraph of a book is left out with a reason."""

import re
from collections import Counter
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins.books.blocks import HEADING, letters_of
from narrative_twins.books.reading import book_of

from support.books import docx, epub, outline, pdf, word_paragraph, xhtml

# Pieces of documents, by format; X is a sentence.
TEXT = (
    "X|Chapter 1|CHAPTER II. The Mill|Contents|CONTENTS\n\nChapter 1|I\n\nTHE MILL|2. The Sea 5"
    "|[Footnote 1: X]|[1] X|* * *|[Illustration: X]|<<copyright X>>|The Mill\nThe Sea|X [1] X"
    "|*** START OF THE PROJECT GUTENBERG EBOOK A ***|*** END OF THE PROJECT GUTENBERG EBOOK A ***"
    "|End of Project Gutenberg's Mill|*END*THE SMALL PRINT!|Produced by X|T|he sea.|PART ONE"
)
HTML = (
    "<p>X</p>|<h1>The Mill</h1>|<h2>Contents</h2>|<h2>Chapter 1</h2>|<p>Chapter 2</p>|<nav>X</nav>"
    "|<hgroup><h2>I</h2><p>The Sea</p></hgroup>|<ul><li>X <a href='#a'>far</a> X</li></ul>|<hr/>"
    "|<p><a href='#a'>Chapter 1</a></p>|<table><tr><td><a href='#a'>I</a></td><td>Sea</td></tr></table>"
    "|<p>X<a href='#n'>1</a></p>|<p>X<sup>2</sup></p>|<p hidden='hidden'>X</p>|<aside>X</aside>"
    "|<div class='drop'>T</div><p>he sea.</p>|<p>X<span class='pagenum'>7</span></p>|<p>X<br/>X</p>"
    "|<section epub:type='dedication'><h2>For</h2><p>X</p></section>|<svg><text>X</text></svg>|X"
    "|<p>*** END OF THE PROJECT GUTENBERG EBOOK A ***</p>|<figure><figcaption>X</figcaption></figure>"
)
DROP = "<w:framePr w:dropCap='drop'/>"
RUN, MARK = "<w:r>{}<w:t>X</w:t></w:r>", "<w:pPr>{}</w:pPr>"
WORD = [
    *map(word_paragraph, ("X", "Chapter 1", "Contents", "I", "* * *", "")),
    *(word_paragraph("X", style) for style in ("Heading2", "Title", "toc 1")),
    f"<w:p>{RUN.format('<w:rPr><w:vanish/></w:rPr>')}</w:p>",
    f"<w:p>{MARK.format('<w:rPr><w:del/></w:rPr>')}{RUN.format('')}</w:p>",
    f"<w:p>{MARK.format(DROP)}{RUN.format('')}</w:p>",
    "<w:p><w:del><w:r><w:delText>X</w:delText></w:r></w:del></w:p>",
    f"<w:p><w:r><w:pict><w:p>{RUN.format('')}</w:p></w:pict></w:r>{RUN.format('')}</w:p>",
]
PAGE = "X|Chapter 1|1|2|The Mill 3|- 1 -|Page 1 of 2|Contents|3|The sea-|side"
PIECES = {"txt": TEXT, "md": f"{TEXT}|# The Mill|[^1]: X|- X|X[^1]|7. X|> X", "html": HTML}
PIECES |= {"epub": HTML, "docx": "|".join(WORD), "pdf": PAGE}


def made(suffix: str, parts: list[str]) -> bytes:
    """A document of some pieces; each third piece begins a new file or page."""
    groups = [parts[at : at + 3] for at in range(0, len(parts), 3)]
    if suffix == "epub":
        files = {f"c{at}.xhtml": xhtml("".join(group)) for at, group in enumerate(groups)}
        guide = "<reference type='toc' href='c0.xhtml'/><reference type='cover' href='c1.xhtml'/>"
        spine = "".join(f"<itemref idref='i{at}'/>" for at in range(1, len(files)))
        return epub(files, guide=guide, spine=f"<itemref idref='i0' linear='no'/>{spine}")
    if suffix == "pdf":
        return pdf(*groups)
    if suffix == "docx":
        return docx("".join(parts))
    return ("" if suffix == "html" else "\n\n").join(parts).encode()


@pytest.mark.parametrize("suffix", PIECES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_all_letters_are_scored_or_left_out_with_a_reason(suffix, data):
    pieces, said = (
        st.sampled_from(PIECES[suffix].split("|")),
        st.sampled_from(["It rained.", "Ada"]),
    )
    parts = [
        re.sub("X", lambda _: data.draw(said), piece)
        for piece in data.draw(st.lists(pieces, min_size=1, max_size=15))
    ]
    try:
        book = book_of(f"a.{suffix}", made(suffix, parts))
    except ValueError as error:
        assert "no text" in str(error) or "without text" in str(error)
        return
    text = "".join(parts)
    text = text if suffix in ("txt", "md") else unescape(re.sub(r"<[^>]*>", "", text))
    scored = "".join(letters_of(book.text[slice(*span)]) for span in book.paragraphs)
    left_out = "".join(letters_of(block.text) for block in book.left_out)
    assert Counter(scored + left_out) == Counter(letters_of(text))
    assert all(block.reason and block.place for block in book.left_out)


def points(*entries: str) -> str:
    """A table of contents of EPUB 2, of entries inside each other: a text and a file."""
    point = "<navPoint><navLabel><text>{}</text></navLabel><content src='{}'/>"
    opened = "".join(point.format(*entry.split("@")) for entry in entries)
    return f"<ncx><navMap>{opened}{'</navPoint>' * len(entries)}</navMap></ncx>"


ONE, TWO = xhtml("<h2>Chapter 1</h2><p>A b.</p>"), xhtml("<h2>Chapter 2</h2><p>C d.</p>")
PLAIN = {"a.xhtml": xhtml("<p>A b.</p>"), "b.xhtml": xhtml("<p>C d.</p>")}
TYPED = ("Chapter 1", "A b.", "Chapter 2", "C d.")
PARAGRAPHS = "".join(map("<p>{}</p>".format, TYPED))
LISTED = "<h1>Contents</h1><p><a href='#a'>One</a></p><h2>Chapter 1</h2><p>A b.</p>"
GROUP = "<header><hgroup><h2>I</h2><p>The Barn</p></hgroup></header><p>A b.</p>"
PART = "<section epub:type='{0}'><h2>X</h2><p>{0}.</p></section>"
FRONT = "".join(map(PART.format, ("dedication", "imprint", "colophon")))
GUIDE, HEADER = "<reference type='{}' href='a.xhtml'/>", "R. VALE THE SALT ROAD"
VANISHED = RUN.format("<w:rPr><w:vanish/></w:rPr>")

# Documents (a line feed is \n or ¶), their chapters, and why the rest is left out, headings aside.
TEXTS = r"""
txt: THE ROAD¶CONTENTS¶I. The Barn\nII. The Mill\nEpilogue¶I. THE BARN¶A b.¶II. THE MILL¶C d.¶EPILOGUE¶E.
= I. THE BARN | A b. // II. THE MILL | C d. // EPILOGUE | E. = title page, contents, contents
txt: A b.¶Contents:¶A lamp. C d.¶Chapter 2¶E f.
= - | A b. | Contents: | A lamp. C d. // Chapter 2 | E f.
txt: Contents¶The sea, 3\nThe land, 5¶Chapter 1¶A b. = Chapter 1 | A b. = contents, contents
txt: He waited—and the lamp went out¶Chapter 1¶A b.
= - | He waited—and the lamp went out // Chapter 1 | A b.
txt: The Sea Gives\n— Old saying¶Chapter 1¶A b. = - | The Sea Gives | — Old saying // Chapter 1 | A b.
txt: THE BOATS¶by Nobody¶Chapter 1¶A b. = Chapter 1 | A b. = title page, title page
txt: CHAPTER  I.¶A b.¶Chapter~CI¶C d. = CHAPTER I. | A b. // Chapter CI | C d.
txt: I¶THE BARN¶A b.¶II¶THE MILL¶C d. = I THE BARN | A b. // II THE MILL | C d.
txt: 4. The Gull¶A b.¶5. The Sea¶C d. = 4. The Gull | A b. // 5. The Sea | C d.
txt: A b.¶1. Milk¶2. Bread¶C d. = - | A b. | 1. Milk | 2. Bread | C d.
txt: Chapter 1\r\rA b.\r\rChapter 2\r\rC d. = Chapter 1 | A b. // Chapter 2 | C d.
txt: *** START OF THE PROJECT GUTENBERG EBOOK A ***¶Produced by Ada¶A b.[1]¶[Footnote 1: X [2]]¶[1] X.
¶[Illustration:\nX]¶[Transcriber's Note: X]¶<<THIS ELECTRONIC VERSION>>¶C d.
= - | A b.[1] | C d. = licence, notes, notes, pictures, notes, licence
txt: The Project Gutenberg Etext of X¶CHAPTER I¶A b.¶End of the Project Gutenberg Etext of X
¶*END*THE SMALL PRINT! FOR*Ver.1*END* = CHAPTER I | A b. = licence, licence
txt: He [Illustration] ran.¶[Illustration: X\nY] A b. [Footnote 1: X] So.
= - | He ran. | A b. So. = pictures, pictures, notes
txt: THE ROAD¶BY ADA¶CLINTON, MASS.¶It rained.¶Chapter 1¶A b.
= - | CLINTON, MASS. | It rained. // Chapter 1 | A b. = title page, title page
txt: CONTENTS.¶EPOCH THE FIRST.\nADA.¶CHAPTER I. The Sea 1\n   II. The Mill by the 5\n      Road
¶EPOCH THE FIRST.¶CHAPTER I.¶The Sea.¶A b.¶CHAPTER II.¶The Mill by the Road.¶C d.
= EPOCH THE FIRST. CHAPTER I. The Sea. | A b. // CHAPTER II. The Mill by the Road. | C d.
 = contents, contents, contents, contents, contents
txt: A b.¶Ende dieses Projekt Gutenberg Etextes X = - | A b. = licence
md: 4. The Gull¶A b.¶5. The Sea¶C d. = 4. The Gull | A b. // 5. The Sea | C d.
md: A <em>b</em>.[^1]¶[^1]: A note.¶1984. That was it.¶- Feed the [goat](#g)
= - | A b. | 1984. That was it. | Feed the goat = notes, notes
html: <p class='speaker'>Ada.</p><p><span class='stagedir'>Rising.</span> Who?</p>
= - | Ada. | [Rising.] Who?
html: <p>Chapter 1</p><p>A b.</p><p>CHAPTER II.<br>The Mill</p><p>C d.
= Chapter 1 | A b. // CHAPTER II. The Mill | C d.
html: <table><td><p>A b.<a href='#n'>[1]</a> C.</p></table><li>E (see <a href='#m'>m</a>). F g.
<dd><a href='#m'>Ada</a> ran = - | A b. C. | E (see m). F g. | Ada ran = notes
html: <div class='drop'>T</div><p>he barn.</p><p>\n<span class='dropcap'>T</span>\nhe mill.</p><p>
<img alt='T'/>he sea.<p><b class='initial'>A</b> barn. = - | The barn. | The mill. | The sea. | A barn.
html: <p>A woke.<sup>1</sup> C d.<sup>2</sup> On the 2<sup>nd</sup>. = - | A woke. C d. On the 2nd. = notes, notes
"""


def texts():
    for case in re.split(r"\n(?=[a-z]+: )", TEXTS.strip()):
        suffix, rest = case.replace("\n", "").split(": ", 1)
        content, chapters, *reasons = re.split(r" ?= (?=\S)", rest, maxsplit=2)
        for mark, meant in (("¶", "\n\n"), (r"\n", "\n"), (r"\r", "\r"), ("~", "\xa0")):
            content = content.replace(mark, meant)
        yield suffix, content, chapters, "".join(reasons)


def word(*texts: str, style: str | None = None) -> str:
    return "".join(word_paragraph(text, style) for text in texts)


CHAPTERS = "Chapter 1 | A b. // Chapter 2 | C d."
FILES = [
    (
        CHAPTERS,
        "",
        epub(
            {"t\\A.xhtml": ONE, "/OEBPS/b.xhtml": TWO},
            more={"OEBPS/T/a.xhtml": ONE, "OEBPS/b.xhtml": TWO},
        ),
    ),
    (
        CHAPTERS,
        "contents, contents",
        epub({"a.xhtml": xhtml(LISTED), "b.xhtml": TWO}, guide=GUIDE.format("toc")),
    ),
    (
        CHAPTERS,
        "",
        epub({"a.xhtml": xhtml(f"<h1>Salt</h1>{PARAGRAPHS}")}, guide=GUIDE.format("cover")),
    ),
    (
        "Salt | A b. | C d.",
        "",
        epub(
            {"a.xhtml": xhtml("<h1>Salt</h1><p>A b.</p><p>C d.</p>")}, guide=GUIDE.format("cover")
        ),
    ),
    (
        CHAPTERS,
        "",
        epub({"a.xhtml": ONE, "b.xhtml": TWO}).replace(b"application/xhtml+xml", b"text/xml"),
    ),
    (
        CHAPTERS,
        "",
        epub(
            {"a.xhtml": ONE, "b.xhtml": TWO},
            spine="<itemref idref='i0'/><itemref idref='x'/><itemref idref='i1'/>",
        ),
    ),
    ("- | A b. | C d.", "", epub(PLAIN, ncx="<ncx>Salt & Rope")),
    ("Part One | A b. // I | C d.", "", epub(PLAIN, ncx=points("Part One@a.xhtml", "I@b.xhtml"))),
    (
        "Part One I | A b. | C d.",
        "",
        epub(
            {"p.xhtml": xhtml("<p>Part One</p>")} | PLAIN,
            ncx=points("Part One@p.xhtml", "I@a.xhtml"),
        ),
    ),
    ("I The Barn | A b.", "dedication, imprint, colophon", epub({"a.xhtml": xhtml(FRONT + GROUP)})),
    (CHAPTERS, "", docx(word(*TYPED))),
    (
        "- | Runa woke.",
        "",
        docx(f"<w:p>{MARK.format(DROP)}<w:r><w:t>R</w:t></w:r></w:p>{word('una woke.')}"),
    ),
    ("- | XA b.", "hidden", docx(f"{WORD[10]}<w:p>{VANISHED}<w:r><w:t>A b.</w:t></w:r></w:p>")),
    (
        "One | A b. // Two | C d.",
        "",
        docx(word("One", style="Title") + word("A b.") + word("Two", style="Title") + word("C d.")),
    ),
    (
        "- | It rained on\nthe mill. Ada\nran. It was\nlate.",
        "page numbers, page numbers, running headers, running headers, running headers",
        pdf(
            [HEADER, "It rained on", "the mill. Ada", "1"],
            [HEADER, "ran. It was", "- 2 -"],
            [f"{HEADER} | 3", "late."],
        ),
    ),
    (
        "1 | A b. // 2 | C d.",
        "page numbers, page numbers",
        pdf(["1", "A b.", "1"], ["2", "C d.", "2"]),
    ),
    (
        "1 | A b. It\nwas. | E f. It\nwas\nlate. // 2 | G h.",
        "",
        pdf(["1", "A b. It", "was."], ["E f. It", "was", "late."], ["2", "G h."]),
    ),
    (
        CHAPTERS,
        "title page, contents, contents",
        pdf(
            ["THE ROAD"],
            ["Contents", "Chapter 1 .... 3", "Chapter 2 .... 4"],
            ["Chapter 1", "A b."],
            ["Chapter 2", "C d."],
        ),
    ),
]
FILES = [
    ("pdf" if data[:4] == b"%PDF" else "docx" if b"word/" in data else "epub", data, *case)
    for *case, data in FILES
]


@pytest.mark.parametrize(("suffix", "content", "chapters", "reasons"), [*texts(), *FILES])
def test_what_is_read_and_what_is_left_out(suffix, content, chapters, reasons):
    if suffix == "pdf":
        pytest.importorskip("pypdf")
    book = book_of(f"a.{suffix}", content if isinstance(content, bytes) else content.encode())
    assert outline(book) == chapters
    assert ", ".join(b.reason for b in book.left_out if b.reason != HEADING) == reasons
