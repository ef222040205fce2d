"""No text is lost in silence: what is in no paragraph of a book is left out with a reason."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins.books.blocks import letters_of
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
