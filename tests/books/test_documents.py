"""What is read of documents of every format, chapter by chapter, and what is left out with a reason:
no text is lost in silence."""

import re
from collections import Counter
from collections.abc import Mapping
from html import unescape
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import Story
from narrative_twins.books import book_table
from narrative_twins.books.blocks import HEADING, letters_of
from narrative_twins.books.reading import book_of

from support.books import (
    WRITERS,
    WrittenChapter,
    docx,
    epub,
    odt,
    outline,
    pdf,
    tei,
    word_paragraph,
    xhtml,
)
from support.strategies import sentence

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
OPEN = (
    "<text:p>X</text:p>|<text:h text:outline-level='1'>X</text:h>|<text:h>X</text:h>|<text:p/>"
    "|<text:p text:style-name='Title'>X</text:p>|<text:p>Chapter 2</text:p>|<text:p>* * *</text:p>"
    "|<text:p>X<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>X"
    "</text:p></text:note-body></text:note><text:s text:c='3'/>X<text:line-break/>X</text:p>"
    "|<text:table-of-content><text:index-body><text:p>X</text:p></text:index-body></text:table-of-content>"
    "|<text:list><text:list-item><text:p>X</text:p></text:list-item></text:list>"
    "|<text:p><draw:frame><draw:text-box><text:p>X</text:p></draw:text-box></draw:frame>X</text:p>"
    "|<text:p>X<office:annotation><text:p>X</text:p></office:annotation></text:p>"
    "|<text:p>X<text:span text:style-name='gone'>X</text:span></text:p>"
    "|<text:tracked-changes><text:deletion><text:p>X</text:p></text:deletion></text:tracked-changes>"
    "|<table:table><table:table-row><table:table-cell><text:p>X</text:p></table:table-cell>"
    "</table:table-row></table:table>|<text:p><text:ruby><text:ruby-base>X</text:ruby-base>"
    "<text:ruby-text>X</text:ruby-text></text:ruby></text:p>"
)
TEI = (
    "<p>X</p>|<div><head>X</head><head>X</head><p>X</p></div>|<div><div><head>X</head></div></div>|<p/>"
    "|<sp><speaker>RUNA</speaker><stage>X</stage><p>X</p><p>X</p></sp>|<lg><l>X</l><l>X</l></lg>"
    "|<sp><speaker>Otto</speaker><lg><l>X</l><stage>X</stage><l>X</l></lg></sp>|<stage>X</stage>"
    "|<p>X<note>X</note><choice><sic>X</sic><corr>X</corr></choice> <hi>X</hi><lb/><pb/>X</p>"
    "|<quote><l>X</l></quote>|<list><item>X</item></list>|<castList><castItem>X</castItem></castList>"
    "|<table><row><cell>X</cell></row></table>|<fw>X</fw>|<figure><figDesc>X</figDesc></figure>"
    "|<milestone unit='section'/>|<p>X <ref target='#a'>1</ref></p>|<p>Chapter 2</p>|<opener>X</opener>"
)
GONE = "<style:style style:name='gone'><style:text-properties text:display='none'/></style:style>"
PAGE = "X|Chapter 1|1|2|The Mill 3|- 1 -|Page 1 of 2|Contents|3|The sea-|side"
PIECES = {"txt": TEXT, "md": f"{TEXT}|# The Mill|[^1]: X|- X|X[^1]|7. X|> X", "html": HTML}
PIECES |= {"epub": HTML, "docx": "|".join(WORD), "odt": OPEN, "xml": TEI, "pdf": PAGE}


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
    if suffix == "xml":
        return tei("".join(parts))
    if suffix == "odt":
        return odt("".join(parts), styles=GONE)
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


# Documents (a line feed is \n or ¶), the title if there is one, the chapters, and why the rest is left
# out, headings aside.
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
txt: Chapter 1\nChapter 2\nChapter 3¶For Ada.¶Chapter 1¶A b.¶Chapter 2¶C d.¶Chapter 3¶E f.
= - | For Ada. // Chapter 1 | A b. // Chapter 2 | C d. // Chapter 3 | E f. = contents, contents, contents
txt: PART ONE¶CHAPTER 1¶The Sea¶A b.¶CHAPTER 2¶C d.¶PART TWO¶CHAPTER 1¶E f.
= PART ONE CHAPTER 1 The Sea | A b. // CHAPTER 2 | C d. // PART TWO CHAPTER 1 | E f.
txt: A b.¶Chapter 1\nC d.\n = - | A b. // Chapter 1 | C d.
txt: THE BOATS¶by Nobody\n = - | THE BOATS | by Nobody
txt: It rained all day and all night over the sea, and the boats that were out\nhad no light.
¶    The sea was grey,\n    “And wide the sky,”\n    _Sang they all._¶He came to the harbour of the town that nobody
 has seen by day, and\nNadia ran.¶It rained all day and all night over the sea, and the boats that were out\nhad none.
= - | It rained all day and all night over the sea, and the boats that were out\nhad no light. | The sea was grey,
 | “And wide the sky,” | _Sang they all._ | He came to the harbour of the town that nobody has seen by day, and\nNadia ran.
 | It rained all day and all night over the sea, and the boats that were out\nhad none.
txt: A 0.¶A 1.¶A 2.\n\n\nA 3.¶A 4.\n\n\n\nA 5. = - | A 0. | A 1. | A 2. | A 3. | A 4. | A 5.
txt: \n\nA 0.¶A 1.¶A 2.\n\n\nA 3.¶A 4.¶A 5.¶A 6.\n\n\n\nA 7.¶A 8.¶A 9.\n\n\n\nChapter 1\n\n\n\nIt rained.
= - | A 0. | A 1. | A 2. | * A 3. | A 4. | A 5. | A 6. | * A 7. | A 8. | A 9. // Chapter 1 | It rained.
md: A <em>b</em>.[^1]¶[^1]: A note.¶1984. That was it.¶- Feed the [goat](#g)
= - | A b. | 1984. That was it. | Feed the goat = notes, notes
md: ---\ntitle: 'The Sea'\n---\n# Chapter 1 #¶It *rained*\non the <sea>.¶***¶    Nadia [ran](#x).\n> She said:\n> stop.
¶- One.\n- Two.¶<!-- No. -->¶#¶She slept.¶Chapter 2\n---------\nThe sea was grey,\nThe sky was wide.¶```\nA line.\n```
= The Sea: Chapter 1 | It rained\non the <sea>. | * Nadia ran. | She said:\nstop. | One. | Two. | * She slept.
 // Chapter 2 | The sea was grey, | The sky was wide. | A line. = metadata
txt: ---\ntitle: Salt\n---¶A b. = Salt: - | A b. = metadata
md: He met\nTom on the long way home that evening, and then they\nwent on to the sea together, as they always did.
= - | He met\nTom on the long way home that evening, and then they\nwent on to the sea together, as they always did.
html: <p class='speaker'>Ada.</p><p><span class='stagedir'>Rising.</span> Who?</p>
= - | Ada. | [Rising.] Who?
html: <p>Chapter 1</p><p>A b.</p><p>CHAPTER II.<br>The Mill</p><p>C d.
= Chapter 1 | A b. // CHAPTER II. The Mill | C d.
html: <table><td><p>A b.<a href='#n'>[1]</a> C.</p></table><li>E (see <a href='#m'>m</a>). F g.
<dd><a href='#m'>Ada</a> ran = - | A b. C. | E (see m). F g. | Ada ran = notes
html: <div class='drop'>T</div><p>he barn.</p><p>\n<span class='dropcap'>T</span>\nhe mill.</p><p>
<img alt='T'/>he sea.<p><b class='initial'>A</b> barn. = - | The barn. | The mill. | The sea. | A barn.
html: <p>A woke.<sup>1</sup> C d.<sup>2</sup> On the 2<sup>nd</sup>. = - | A woke. C d. On the 2nd. = notes, notes
html: It rained.<p>Nadia <b>r</b>an.<p>\n She\n  slept.&nbsp; = - | It rained. | Nadia ran. | She slept.
html: <title>Salt</title><h1>Rain</h1><h2>1</h2><p>A b.</p><h2>2</h2><p>C d. = Salt: Rain 1 | A b. // 2 | C d.
html: <h1>Part One</h1><h2>I</h2>A b.<h2>II</h2>C d.<h2></h2>E f. = Part One I | A b. // II | C d. | * E f.
html: <h2>Chapter <br> 1</h2><h2> </h2><div>A b.</div> = Chapter 1 | A b.
html: <p>A b.<hr><p>C d.<p>* * *</p>E f.<hr> = - | A b. | * C d. | * E f.
html: <p>A b.<p>C d.<p>E f.<p>G h.<p> &nbsp; </p><p>I j. = - | A b. | C d. | E f. | G h. | * I j.
html: <p>A b.</p><p></p><p>C d.</p><p></p><p>E f.</p> = - | A b. | C d. | E f.
html: <p>The sea was grey,<br>The sky was wide.</p> = - | The sea was grey, | The sky was wide.
html: <p>The sea was grey<br>and wide.<br><br>A b. = - | The sea was grey\nand wide. | A b.
html: <pre>The sea\nwas grey.\n\nA b.</pre> = - | The sea\nwas grey. | A b.
html: <p>A b.<script>x()</script><style>p {}</style><p hidden>No.<p style='display: none'>No. = - | A b. = hidden, hidden
html: <nav>No.</nav><aside>No.</aside><svg><text>No.</text></svg><p>A<!-- No -->b.
= - | Ab. = navigation, asides, pictures
html: <p>A <span class='pagenum'>[Pg 3]</span>b<a href='#f1'>[1]</a>.<a href='#f2'><sup>*</sup>
= - | A b. = page numbers, notes
html: <p>He lives at <a href='#x'>the mill</a> and <a href='http://x/#1'>2</a>. = - | He lives at the mill and 2.
html: <p><ruby>東京<rt>とうきょう</rt></ruby>。 = - | 東京。 = ruby
html: <h2>Contents</h2><p>1. The sea</p><h2>1</h2><p>A b. = 1 | A b. = contents, contents
html: <h1>Rain</h1><p><a href='#c1'>Chapter 1</a> 3</p><table><tr><td><a href='#c2'>II</a><td>The Sea</table><ul><li>
<a href='x.html#y'>Chapter 3</a>, on the sea</ul><h2><a href='#toc'>Chapter 1</a></h2><p>A b.<h2>II</h2><p>C d.
<h2>Chapter 3</h2><p>E f. = Rain: Chapter 1 | A b. // II | C d. // Chapter 3 | E f. = contents, contents, contents
html: <p>A b.</p><section epub:type='footnotes'><p>No.</section><div role='doc-endnotes'>No. = - | A b. = notes, notes
html: <section id='pg-header'><p>Header.</section><pre>*** START OF THE PROJECT GUTENBERG EBOOK X ***</pre><p>A b.</p>
<p>*** END OF THE PROJECT GUTENBERG EBOOK X ***</p><p>Terms.</p> = - | A b. = licence
html: <font><i><p>A b.</i></font><table><tr><td>C<td>d.<tr><td>E</table> = - | A b. | C d. | E
"""


def texts():
    for case in re.split(r"\n(?=[a-z]+: )", TEXTS.strip()):
        suffix, rest = case.replace("\n", "").split(": ", 1)
        parts = [part.replace(r"\n", "\n") for part in re.split(r" ?= (?=\S)", rest, maxsplit=2)]
        content, chapters, *reasons = parts
        for mark, meant in (("¶", "\n\n"), (r"\r", "\r"), ("~", "\xa0")):
            content = content.replace(mark, meant)
        yield suffix, content.encode(), chapters, "".join(reasons)


def pages(*bodies: str, more: Mapping[str, str] = MappingProxyType({}), **options: str) -> bytes:
    """An EPUB with these bodies of documents, `a.xhtml`, `b.xhtml` and so on."""
    files = {f"{name}.xhtml": xhtml(body) for name, body in zip("abcdef", bodies, strict=False)}
    return epub(files | more, **options)


def points(*entries: str) -> str:
    """A table of contents of EPUB 2, of entries inside each other: a text and a file."""
    point = "<navPoint><navLabel><text>{}</text></navLabel><content src='{}'/>"
    opened = "".join(point.format(*entry.split("@")) for entry in entries)
    return f"<ncx><navMap>{opened}{'</navPoint>' * len(entries)}</navMap></ncx>"


def word(*texts: str, style: str | None = None) -> str:
    return "".join(word_paragraph(text, style) for text in texts)


CHAPTERS, PLAIN = "Chapter 1 | A b. // Chapter 2 | C d.", ("<p>A b.</p>", "<p>C d.</p>")
ONE, TWO = "<h2>Chapter 1</h2><p>A b.</p>", "<h2>Chapter 2</h2><p>C d.</p>"
TYPED = ("Chapter 1", "A b.", "Chapter 2", "C d.")
SALT = f"<h1>Salt</h1>{''.join(map('<p>{}</p>'.format, TYPED))}"
LISTED = "<h1>Contents</h1><p><a href='#a'>One</a></p><h2>Chapter 1</h2><p>A b.</p>"
GROUP = "<header><hgroup><h2>I</h2><p>The Barn</p></hgroup></header><p>A b.</p>"
PART = "<section epub:type='{0}'><h2>X</h2><p>{0}.</p></section>"
FRONT = "".join(map(PART.format, ("dedication", "imprint", "colophon")))
GUIDE, HEADER = "<reference type='{}' href='a.xhtml'/>", "R. VALE THE SALT ROAD"
SPINE = "".join(map("<itemref idref='{}'/>".format, ("i0", "x", "i1")))
NAMES = {"OEBPS/T/a.xhtml": xhtml(ONE), "OEBPS/b.xhtml": xhtml(TWO)}
LINK = '<nav epub:type="{}"><ol><li><a epub:type="{}" href="{}">One</a></li></ol></nav>'
NAV = LINK.format("toc", "", "c.xhtml") + LINK.format("landmarks", "copyright-page", "b.xhtml")
STORY = '<p>A b<a epub:type="noteref" href="#n">a</a>.</p><p epub:type="footnote">No.</p>'
ENTRIES = """a.xhtml|Part One,a.xhtml#a|Chapter 1: The Sea,a.xhtml#b|Chapter 2,a.xhtml#d|Chapter 3
,a.xhtml#mid|Nothing,gone.xhtml|Gone,http://x/|Web,../../x|Out"""
POINT = '<navPoint><navLabel><text>{1}</text></navLabel><content src="{0}"/></navPoint>'
POINTS = "".join(POINT.format(*entry.strip().split("|")) for entry in ENTRIES.split(","))
LABELLED = (
    "<h1>Part One</h1><div id='a'><p class='n'>CHAPTER 1</p><p>The Sea</p><p>A b.</p></div><p>So.</p>"
    "<p id='b'>C <i id='mid'>d</i>.</p><a id='d'/><h3>Chapter Three</h3><p>End.</p>"
)
DOCTYPE = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://127.0.0.1:9/xhtml11.dtd">'
WITH_ERRORS = {
    "a.xhtml": xhtml("<h2>1</h2><p>A b &mdash; so &x; on.</p>", doctype=DOCTYPE),
    "b.xhtml": xhtml("<h2>2</h2><p>Nadia &nbsp;ran<br>home.</i></p>"),
    "c.xhtml": xhtml("<h2>3</h2><p>Café.</p>").replace("utf-8", "iso-8859-1").encode("latin-1"),
    "d.xhtml": xhtml("<h2>4</h2><p>Über.</p>").encode("utf-16"),
}
VANISHED = RUN.format("<w:rPr><w:vanish/></w:rPr>")
STYLE = '<w:style w:styleId="{}"><w:name w:val="{}"/><w:basedOn w:val="{}"/></w:style>'
STYLES = ("T1 Title N", "Mine my Heading2", "V1 toc_1 N", "A a B", "B b A")
STYLES = "".join(STYLE.format(*style.split()).replace("_", " ") for style in STYLES)
MARKS = "<w:tab/><w:t>rained</w:t><w:noBreakHyphen/><w:t>on.</w:t><w:delText>No.</w:delText>"
BREAKS = "<w:br/><w:t>ran.</w:t><w:br w:type='page'/><w:pict><w:p><w:t>No.</w:t></w:p></w:pict>"
CHANGED = '<w:pPrChange><w:pPr><w:pStyle w:val="Heading2"/></w:pPr></w:pPrChange>'
LEVEL, BORDER = '<w:outlineLvl w:val="0"/>', '<w:pBdr><w:bottom w:val="single"/></w:pBdr>'
STYLED = [
    word_paragraph("The Sea", "T1"),
    word_paragraph("Chapter 1 ..... 3", "V1"),
    f"<w:p>{MARK.format(LEVEL)}<w:r><w:t>Part One</w:t></w:r></w:p>",
    word_paragraph("Chapter 1", "Mine"),
    word_paragraph("It", run=MARKS),
    f"<w:p>{MARK.format(BORDER)}</w:p>",
    word_paragraph("Nadia", "A", BREAKS),
    f"<w:moveFrom>{word('No.')}</w:moveFrom><w:tbl><w:tr><w:tc>{word('A b.')}</w:tc></w:tr></w:tbl>",
    f"<w:p>{MARK.format(CHANGED)}<w:r><w:t>End.</w:t></w:r></w:p>",
]
PARTS = points("Part One@a.xhtml", "I@b.xhtml")
NUMBERS = "page numbers, page numbers"
# Files, with their titles and chapters, and why the rest is left out.
FILES = [
    (epub({"t\\A.xhtml": ONE, "/OEBPS/b.xhtml": TWO}, more=NAMES), CHAPTERS),
    (pages(LISTED, TWO, guide=GUIDE.format("toc")), CHAPTERS, "contents, contents"),
    (pages(SALT, guide=GUIDE.format("cover")), f"Salt: {CHAPTERS}"),
    (pages(f"<h1>Salt</h1>{''.join(PLAIN)}", guide=GUIDE.format("cover")), "Salt | A b. | C d."),
    (pages(ONE, TWO).replace(b"application/xhtml+xml", b"text/xml"), CHAPTERS),
    (pages(ONE, TWO, spine=SPINE), CHAPTERS),
    (pages(*PLAIN, ncx="<ncx>Salt & Rope"), "- | A b. | C d."),
    (pages(*PLAIN, ncx=PARTS), "Part One | A b. // I | C d."),
    (pages("<p>Part One</p>", *PLAIN, ncx=PARTS), "Part One I | A b. | C d."),
    (pages(FRONT + GROUP), "I The Barn | A b.", "dedication, imprint, colophon"),
    (
        pages(
            "<p>Cover.</p>",
            "<p>All rights.</p>",
            STORY,
            "<p>A note.</p>",
            more={"nav.xhtml": xhtml(f"{NAV}<p>No.</p>")},
            guide=GUIDE.format("cover"),
            spine="".join(f"<itemref idref='i{n}'/>" for n in (0, 1, 2, 4))
            + "<itemref idref='i3' linear='no'/>",
        ),
        "One | A b.",
        "cover, copyright-page, notes, notes, navigation, navigation, navigation, not in the reading order",
    ),
    (
        pages(LABELLED, ncx=f"<ncx><navMap>{POINTS}</navMap></ncx>"),
        "CHAPTER 1 The Sea | A b. | So. // Chapter 2 | C d. // Chapter Three | End.",
    ),
    (
        epub(WITH_ERRORS),
        "1 | A b — so &x; on. // 2 | Nadia \xa0ran\nhome. // 3 | Café. // 4 | Über.",
    ),
    (
        epub(
            {
                "nav.xhtml": xhtml(LINK.format("landmarks", "toc", "c.xhtml")),
                "c.xhtml": xhtml("<h2>The Gull</h2><p>A b.</p>"),
                "d.xhtml": xhtml("<h2>The Rope</h2><p>C d.</p>"),
            }
        ),
        "The Gull | A b. // The Rope | C d.",
        "navigation",
    ),
    (
        docx(f"<w:p>{MARK.format(DROP)}<w:r><w:t>R</w:t></w:r></w:p>{word('una woke.')}"),
        "- | Runa woke.",
    ),
    (docx(f"{WORD[10]}<w:p>{VANISHED}<w:r><w:t>A b.</w:t></w:r></w:p>"), "- | XA b.", "hidden"),
    (
        docx("".join(map(word_paragraph, ("One", "A b.", "Two", "C d."), ("Title", None) * 2))),
        "One | A b. // Two | C d.",
    ),
    (
        docx("".join(STYLED), styles=STYLES),
        "The Sea: Part One Chapter 1 | It rained-on. | * Nadia\nran. | A b. | End.",
        "navigation, deleted, asides, deleted",
    ),
    (
        tei(f"<div><head>One</head>{PLAIN[0]}</div>", "The Sea: a TEI edition"),
        "The Sea: One | A b.",
        "metadata",
    ),
    (
        tei(
            "<div type='act'><head>ACT 1</head><div type='scene'><head>The Mill</head><head>I</head>"
            "<stage> <hi>Enter</hi> Runa. </stage><sp><speaker>RUNA. </speaker>\n<p>Who?<note>No.</note>"
            " Speak!</p></sp><sp><speaker>Otto.</speaker><stage>\nsoftly\n</stage><p>Only\nme.</p>"
            "<p>A b.</p></sp><sp><speaker>ALL/SOME</speaker><lg><l>The sea was grey,</l><l>The sky was"
            " wide.</l></lg><stage>(They go.)</stage></sp></div><div type='scene'><sp><speaker>RUNA"
            "</speaker><p><w>Who</w>\n<w>ran</w>\n<pc>?</pc> <pc>(</pc> <w>Me</w></p></sp></div></div>"
            "<div type='act' n='Two'><p>So<lb break='no'/>on<lb/>it <choice><orig>raind</orig><reg>rained"
            "</reg></choice>.<ref target='#n'>1</ref></p><milestone rend='star'/><p>E f.</p></div>",
            more="<front><titlePage>No.</titlePage><div type='prologue'><p>Hear.</p></div><castList>No."
            "</castList></front>",
        ),
        "Prologue | Hear. // ACT 1 The Mill I | [Enter Runa.] | RUNA.\nWho? Speak! | Otto: [softly] Only me."
        " | A b. | ALL/SOME: The sea was grey, | The sky was wide. | (They go.) // Scene 2 | RUNA\nWho ran?"
        " (Me // Act Two | Soon it rained. | * E f.",
        "front matter, front matter, notes, other readings, notes",
    ),
    (
        tei("<p><w>It</w><c> </c>\n<w>ran</w>\n<pc>.</pc><c> </c>\n<pc>“</pc>\n<w>Go</w></p>"),
        "- | It ran. “Go",
    ),
    (
        odt(
            "<text:tracked-changes><text:p>No.</text:p></text:tracked-changes>"
            "<text:p text:style-name='P1'>The Sea</text:p><text:p text:style-name='Subtitle'>X</text:p>"
            "<text:table-of-content><text:p>Chapter 1</text:p></text:table-of-content>"
            "<text:h text:outline-level='1'>Chapter 1</text:h><text:p>It<text:s text:c='9999999999'/>"
            "rained\n <text:span>on</text:span>.<text:note><text:note-citation>1</text:note-citation>"
            "<text:note-body><text:p>No.</text:p></text:note-body></text:note></text:p>"
            "<text:p text:style-name='Horizontal_20_Line'/><text:p>Nadia<text:line-break/>ran.</text:p>"
            "<text:p text:style-name='gone'>No.</text:p><text:list><text:list-item><text:p>A b."
            "<draw:frame><draw:text-box><text:p>No.</text:p></draw:text-box></draw:frame></text:p>"
            "</text:list-item></text:list><text:p text:style-name='Heading_20_1'>Chapter 2</text:p>"
            "<text:p>C d.<office:annotation><text:p>No.</text:p></office:annotation></text:p>",
            styles=f"{GONE}<style:style style:name='P1' style:parent-style-name='Title'/>"
            "<style:header><text:p>The Sea</text:p></style:header>",
        ),
        "The Sea: Chapter 1 | It rained on. | * Nadia\nran. | A b. // Chapter 2 | C d.",
        "deleted, navigation, navigation, notes, hidden, asides, asides, running headers",
    ),
    (
        pdf(
            [HEADER, "It rained on", "the mill. Ada", "1"],
            [HEADER, "ran. It was", "- 2 -"],
            [f"{HEADER} | 3", "late."],
        ),
        "- | It rained on\nthe mill. Ada\nran. It was\nlate.",
        "page numbers, page numbers, running headers, running headers, running headers",
    ),
    (
        pdf(["It rained on the win-", "dow. The dog", "1"], ["2", "slept."]),
        "- | It rained on the window.\nThe dog\nslept.",
        NUMBERS,
    ),
    (pdf(["1", "A b.", "1"], ["2", "C d.", "2"]), "1 | A b. // 2 | C d.", NUMBERS),
    (
        pdf(["1", "A b. It", "was."], ["E f. It", "was", "late."], ["2", "G h."]),
        "1 | A b. It\nwas. | E f. It\nwas\nlate. // 2 | G h.",
    ),
    (
        pdf(
            ["THE ROAD"],
            ["Contents", "Chapter 1 .... 3", "Chapter 2 .... 4"],
            *(TYPED[:2], TYPED[2:]),
        ),
        CHAPTERS,
        "title page, contents, contents",
    ),
]
KINDS = {
    b"%PDF": "pdf",
    b"word/": "docx",
    b"content.xml": "odt",
    b"tei-c.org": "xml",
    b"PK": "epub",
}
FILES = [
    (next(kind for mark, kind in KINDS.items() if mark in data), data, *case, "")
    for data, *case in FILES
]


@pytest.mark.parametrize("case", [*texts(), *FILES])
def test_what_is_read_and_what_is_left_out(case):
    suffix, content, chapters, reasons, *_ = case
    if suffix == "pdf":
        pytest.importorskip("pypdf")
    book = book_of(f"a.{suffix}", content)
    title = f"{book.title}: " if book.title else ""
    assert f"{title}{outline(book)}" == chapters
    assert ", ".join(b.reason for b in book.left_out if b.reason != HEADING) == reasons


FRAMES = r"""
*** START OF THE PROJECT GUTENBERG EBOOK A ***|*** END OF THE PROJECT GUTENBERG A ***
***START OF THIS PROJECT GUTENBERG EBOOK\nA***|End of the Project Gutenberg EBook of A
*END*THE SMALL PRINT! FOR PUBLIC DOMAIN*V*END*|End of Project Gutenberg's The Boats
*** START OF THE PROJECT GUTENBERG EBOOK ***|*** START: FULL LICENSE ***
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_licence_of_project_gutenberg_is_left_out(newline):
    for frame in FRAMES.strip().split("\n"):
        start, end = frame.replace(r"\n", "\n").split("|")
        text = (
            f"Project Gutenberg\n\nTitle: The Boats\n  A Tale\n\n{start}\n\nProduced by Nobody\n\n"
        )
        text += f"CHAPTER I.\nThe Sea\n\nIt rained.\n\n{end}\n\nSection 1. Terms of Use."
        book = book_of("boats.txt", text.replace("\n", newline).encode("utf-8-sig"))
        assert book.title == "The Boats A Tale" and "Gutenberg" not in book.text
        assert outline(book) == "CHAPTER I. The Sea | It rained."
    text = "End of Project Gutenberg's earlier volume.\n\n" + "It rained. " * 5_000
    assert outline(book_of("a.txt", text.encode())) == f"- | {text.strip()}".replace("\n\n", " | ")


@pytest.mark.parametrize("mark", ["* * *", "***", "#", "---", "⁂", "      *       *       *"])
def test_lines_of_marks_are_breaks(mark):
    text = f"{mark}\n\nIt rained.\n\n{mark}\n{mark}\n\nIt snowed and\nit hailed.\n{mark}\nA b.\n\n{mark}"
    book = book_of("a.txt", text.encode())
    assert outline(book) == "- | It rained. | * It snowed and\nit hailed. | * A b."


def test_long_lines_are_paragraphs_and_long_headings_too():
    line = "It rained on the boats, and on the harbour too, and nobody went out. " * 2 + "He slept."
    text = f"Chapter 1\n{line} {line}\n{line}\n\n{line} {line}\n{line}\n{line}\n{line}\n"
    expected = ["Chapter 1", f"{line} {line}", line, f"* {line} {line}", line, line, line]
    assert outline(book_of("a.txt", text.encode())).split(" | ") == expected
    assert outline(book_of("a.html", f"<h2>{line * 3}</h2>".encode())) == f"- | {line * 3}"


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
@settings(deadline=None, max_examples=8)
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
