"""No text is lost in silence: what is in no paragraph of a book is left out with a reason."""

from __future__ import annotations

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
BOTH, TYPED = "Chapter 1 | A b. // Chapter 2 | C d.", ("Chapter 1", "A b.", "Chapter 2", "C d.")
EBOOK = "*** START OF THE PROJECT GUTENBERG EBOOK A ***\n\n{}\n\n*** END OF THE PROJECT GUTENBERG EBOOK A ***"
PARAGRAPHS = "".join(map("<p>{}</p>".format, TYPED))
LIST, BARN = "I. The Barn\nII. The Mill\nEpilogue", "I. THE BARN\n\nA b.\n\nII. THE MILL\n\nC d."
GROUP = "<header><hgroup><h2>{}</h2><p>The {}</p></hgroup></header><p>A b.</p>"
PART = "<section epub:type='{0}'><h2>X</h2><p>{0}.</p></section>"
HEADER = ["R. VALE THE SALT ROAD", "It rained on", "the mill. Ada"]

# Documents, with their chapters and the reasons of what is left out, headings aside.
CASES = [
    (
        "txt",
        f"THE ROAD\n\nCONTENTS\n\n{LIST}\n\n{BARN}\n\nEPILOGUE\n\nE f.",
        "I. THE BARN | A b. // II. THE MILL | C d. // EPILOGUE | E f.",
        "title page, contents, contents",
    ),
    (
        "txt",
        "A b.\n\nContents:\n\nA lamp. C d.\n\nChapter 2\n\nE f.",
        "- | A b. | Contents: | A lamp. C d. // Chapter 2 | E f.",
        "",
    ),
    (
        "txt",
        "Contents\n\nThe sea, 3\nThe land, 5\n\n" + BARN,
        "I. THE BARN | A b. // II. THE MILL | C d.",
        "contents, contents",
    ),
    (
        "txt",
        "He waited—and the lamp went out\n\nChapter 1\n\nA b.",
        "- | He waited—and the lamp went out // Chapter 1 | A b.",
        "",
    ),
    (
        "txt",
        "THE BOATS\n\nby Nobody\n\nChapter 1\n\nA b.",
        "Chapter 1 | A b.",
        "title page, title page",
    ),
    (
        "txt",
        "CHAPTER  I.\n\nA b.\n\nChapter\xa0CI\n\nC d.",
        "CHAPTER I. | A b. // Chapter CI | C d.",
        "",
    ),
    (
        "txt",
        "I\n\nTHE BARN\n\nA b.\n\nII\n\nTHE MILL\n\nC d.",
        "I THE BARN | A b. // II THE MILL | C d.",
        "",
    ),
    (
        "txt",
        "4. The Gull\n\nA b.\n\n5. The Sea\n\nC d.",
        "4. The Gull | A b. // 5. The Sea | C d.",
        "",
    ),
    ("txt", "A b.\n\n1. Milk\n\n2. Bread\n\nC d.", "- | A b. | 1. Milk | 2. Bread | C d.", ""),
    ("txt", "\r\r".join(TYPED), BOTH, ""),
    (
        "txt",
        EBOOK.format(
            "Produced by Ada\n\nA b.[1]\n\n[Footnote 1: X]\n\n[1] X.\n\n[Illustration:\nX]"
            "\n\n[Transcriber's Note: X]\n\n<<THIS ELECTRONIC VERSION>>\n\nC d."
        ),
        "- | A b.[1] | C d.",
        "licence, licence, notes, notes, pictures, notes, licence, licence",
    ),
    (
        "txt",
        "The Project Gutenberg Etext of X\n\nCHAPTER I\n\nA b.\n\nEnd of the Project Gutenberg Etext of X"
        "\n\n*END THE SMALL PRINT! FOR*Ver.1*END*",
        "CHAPTER I | A b.",
        "licence, licence",
    ),
    ("txt", "A b.\n\nEnde dieses Projekt Gutenberg Etextes X", "- | A b.", "licence"),
    ("md", "\n\n".join(TYPED), BOTH, ""),
    (
        "md",
        "A <em>b</em>.[^1]\n\n[^1]: A note.\n\n1984. That was it.\n\n- Feed the [goat](#g)",
        "- | A b. | 1984. That was it. | Feed the goat",
        "notes, notes",
    ),
    ("html", PARAGRAPHS, BOTH, ""),
    (
        "html",
        "<table><tr><td><p>A b.<a href='#n'>[1]</a> C.</p></td></tr></table><li>E (see <a href='#m'>m</a>). F g.<dd><a href='#m'>Ada</a> ran",
        "- | A b. C. | E (see m). F g. | Ada ran",
        "notes",
    ),
    (
        "html",
        "<div class='drop'>T</div><p>he barn.</p><p>\n<span class='dropcap'>T</span>\nhe mill.</p><p><img alt='T'/>he sea.</p>",
        "- | The barn. | The mill. | The sea.",
        "",
    ),
    (
        "html",
        "<p>A woke.<sup>1</sup> C d.<sup>2</sup> On the 2<sup>nd</sup>.</p>",
        "- | A woke. C d. On the 2nd.",
        "notes, notes",
    ),
    ("epub", epub(PLAIN, ncx="<ncx>Salt & Rope"), "- | A b. | C d.", ""),
    (
        "epub",
        epub(PLAIN, ncx=points("Part One@a.xhtml", "I@b.xhtml")),
        "Part One | A b. // I | C d.",
        "",
    ),
    (
        "epub",
        epub(
            {"p.xhtml": xhtml("<p>Part One</p>")} | PLAIN,
            ncx=points("Part One@p.xhtml", "I@a.xhtml"),
        ),
        "Part One I | A b. | C d.",
        "",
    ),
    (
        "epub",
        epub(
            {
                "a.xhtml": xhtml(
                    "<h1>Contents</h1><p><a href='#a'>One</a></p><h2>Chapter 1</h2><p>A b.</p>"
                ),
                "b.xhtml": TWO,
            },
            guide="<reference type='toc' href='a.xhtml'/>",
        ),
        BOTH,
        "contents, contents",
    ),
    (
        "epub",
        epub(
            {"a.xhtml": xhtml(f"<h1>Salt</h1>{PARAGRAPHS}")},
            guide="<reference type='cover' href='a.xhtml'/>",
        ),
        BOTH,
        "",
    ),
    ("epub", epub({"a.xhtml": ONE, "b.xhtml": TWO}).replace(b"x", b"x"), BOTH, ""),
    (
        "epub",
        epub(
            {"t\\A.xhtml": ONE, "/OEBPS/b.xhtml": TWO},
            more={"OEBPS/T/a.xhtml": ONE, "OEBPS/b.xhtml": TWO},
        ),
        BOTH,
        "",
    ),
    (
        "epub",
        epub(
            {
                "a.xhtml": xhtml(
                    "".join(map(PART.format, ("dedication", "imprint", "colophon")))
                    + GROUP.format("I", "Barn")
                )
            }
        ),
        "I The Barn | A b.",
        "dedication, imprint, colophon",
    ),
    ("docx", docx("".join(map(word_paragraph, TYPED))), BOTH, ""),
    (
        "docx",
        docx(
            f"<w:p>{MARK.format(DROP)}<w:r><w:t>R</w:t></w:r></w:p>" + word_paragraph("una woke.")
        ),
        "- | Runa woke.",
        "",
    ),
    (
        "docx",
        docx(
            f"{WORD[10]}<w:p>{RUN.format('<w:rPr><w:vanish/></w:rPr>')}<w:r><w:t>A b.</w:t></w:r></w:p>"
        ),
        "- | XA b.",
        "hidden",
    ),
    (
        "docx",
        docx(
            "".join(
                word_paragraph(text, "Title" * (at % 2 == 0) or None)
                for at, text in enumerate(("One", "A b.", "Two", "C d."))
            )
        ),
        "One | A b. // Two | C d.",
        "",
    ),
    (
        "pdf",
        pdf(HEADER, [HEADER[0], "ran. It was", "- 2 -"], ["Road | 3", "late.", "Page 3 of 9"]),
        "- | It rained on\nthe mill. Ada\nran. It was\nRoad | 3\nlate.",
        "page numbers, page numbers, running headers, running headers",
    ),
    (
        "pdf",
        pdf(["1", "A b.", "1"], ["2", "C d.", "2"]),
        "1 | A b. // 2 | C d.",
        "page numbers, page numbers",
    ),
    (
        "pdf",
        pdf(["1", "A b. It", "was."], ["E f. It", "was", "late."], ["2", "G h."]),
        "1 | A b. It\nwas. | E f. It\nwas\nlate. // 2 | G h.",
        "",
    ),
    (
        "pdf",
        pdf(
            ["THE ROAD"],
            ["Contents", "Chapter 1 .... 3", "Chapter 2 .... 4"],
            ["Chapter 1", "A b."],
            ["Chapter 2", "C d."],
        ),
        BOTH,
        "title page, contents, contents",
    ),
]


@pytest.mark.parametrize(("suffix", "content", "chapters", "reasons"), CASES)
def test_what_is_read_and_what_is_left_out(suffix, content, chapters, reasons):
    if suffix == "pdf":
        pytest.importorskip("pypdf")
    book = book_of(f"a.{suffix}", content if isinstance(content, bytes) else content.encode())
    assert outline(book) == chapters
    assert ", ".join(b.reason for b in book.left_out if b.reason != HEADING) == reasons
