"""Books in plain text, as Project Gutenberg has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from narrative_twins.books.blocks import METADATA, Block, wrap_width
from narrative_twins.books.book import Book
from narrative_twins.books.chapters import book_of_blocks
from narrative_twins.stories.front_matter import split_front_matter

WRAPPED = 120
"""Characters of the longest wrapped lines. If most text is in longer lines, each is a paragraph."""


def plain_book(text: str, more: Iterable[Block] = ()) -> Book:
    """Return the book in a plain text, see `read_book`. `more` has blocks that were cut out of the
    text, such as page numbers. Raises a `ValueError` if the text has no paragraphs."""
    metadata, title, text = split_front_matter(text)
    groups = list(_paragraphs(text))
    # Some files have two blank lines between all paragraphs, so only more than usual are a break.
    gaps = Counter(gap for gap, _ in groups[1:])
    usual = max(gaps, key=lambda gap: (gaps[gap], -gap), default=0)
    blocks = [Block("paragraph", (metadata,)).left_out(METADATA), *more]
    for gap, lines in groups:
        blocks += [Block("blank")] * (gap > usual) + [Block("paragraph", tuple(lines))]
    return book_of_blocks(
        blocks, title, width=wrap_width(len(line) for _, x in groups for line in x)
    )


def _paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the paragraphs of a text, each as the number of blank lines before it, and its lines.
    Blank lines divide paragraphs; if most text is in long lines, each line is a paragraph."""
    rows = text.split("\n")
    by_line = sum(len(row) for row in rows if len(row) > WRAPPED) * 2 > len(text)
    gap = 0
    for is_text, group in groupby(map(str.strip, rows), bool):
        lines = list(group)
        if not is_text:
            gap = len(lines)
        elif by_line:
            yield from zip([gap, *[0] * len(lines)], ([line] for line in lines), strict=False)
        else:
            yield gap, lines
