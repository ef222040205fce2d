"""Books in plain text, as Project Gutenberg has them, and in PDF files, by `pypdf`."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from narrative_twins.books.blocks import (
    CONTENTS,
    GUTENBERG_BEGINS,
    GUTENBERG_ENDS,
    Block,
    Book,
    book_of_blocks,
    is_break,
    wrap_width,
)
from narrative_twins.stories.sentences import Span, find_headings, heading_level

WRAPPED = 120
"""Characters of the longest lines of hard-wrapped text. If most text is in longer lines, each line
is a paragraph."""
MAX_PDF_TEXT = 64_000_000
"""Characters of the pages of a PDF file together."""
_FRONT = 10  # blocks in which Project Gutenberg names who made the file
_LICENCE = 40_000  # characters that the licence may have; it has about half as many
_CREDIT = re.compile(
    r"(?:Produced by|E-text prepared by|This e-?text was (?:produced|prepared)|Transcribed"
    r" (?:from|by))\b",
    re.IGNORECASE,
)
_TITLE = re.compile(r"^Title:[ \t]*(\S.*(?:\n[ \t]+\S.*){0,4})", re.MULTILINE)
_PICTURE = re.compile(r"\[Illustration[^\]]*\]")
_CONTENTS = re.compile(r"(?:table of )?contents[.:]?", re.IGNORECASE)
_DIVIDED = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_A-Z])")  # a word, at the end of a line


def plain_book(text: str) -> Book:
    """The book in a plain text, see `read_book`; raises a `ValueError` if it has no paragraphs."""
    begins = list(GUTENBERG_BEGINS.finditer(text, 0, _LICENCE))
    start = begins[-1].end() if begins else 0
    # The last line of the book may also be in its middle, for example in a list of books.
    ends = (
        end
        for end in GUTENBERG_ENDS.finditer(text, start)
        if end[0].lstrip()[0] == "*" or len(text) - end.end() < _LICENCE
    )
    end = next(ends, None)
    title = _TITLE.search(text, 0, start)
    text = text[start : end.start() if end else len(text)]
    groups = list(_groups(text))
    width = wrap_width(stop - lo for _, block in groups for lo, stop in block.spans)
    blocks = _blocks(text, groups, is_gutenberg=bool(begins or end))
    return book_of_blocks(blocks, " ".join(title[1].split()) if title else None, width, text)


def pdf_book(data: bytes) -> Book:
    """The book in a PDF file: its text without page numbers, with divided words joined, read as
    plain text. Raises a `ValueError` that says what is wrong with the file."""
    from pypdf import PdfReader

    texts: dict[str, str] = {}  # a page may be listed again and again
    pages: list[str] = []
    size = 0
    try:
        reader = PdfReader(io.BytesIO(data))
        is_locked = reader.is_encrypted and not reader.decrypt("")
        for page in () if is_locked else reader.pages:
            key = str(page.indirect_reference)
            if key not in texts:
                texts[key] = _without_number(page.extract_text())
            pages.append(texts[key])
            size += len(texts[key])
            if size > MAX_PDF_TEXT:
                break
    except MemoryError:
        raise
    except Exception as error:  # what damaged files raise is not documented
        kind = type(error).__name__
        raise ValueError(f"can't be read as PDF ({kind}: {error}); convert it to text") from error
    if is_locked:
        raise ValueError("is encrypted; save it without a password")
    if size > MAX_PDF_TEXT:
        raise ValueError(f"has more than {MAX_PDF_TEXT:,} characters; divide it into volumes")
    # A sentence may continue on the next page.
    text = _DIVIDED.sub("", "\n".join(filter(None, pages)))
    if not any(map(str.isalnum, text)):
        raise ValueError("is PDF without text, perhaps of scanned pages; recognize the text first")
    return plain_book(text)


def is_of_gutenberg(text: str) -> bool:
    """Whether a text has the header of Project Gutenberg."""
    return GUTENBERG_BEGINS.search(text, 0, _LICENCE) is not None


def _without_number(page: str) -> str:
    """The text of a page without a first or last line that is only a number."""
    lines = page.strip().split("\n")
    for at in (0, -1):
        if lines and lines[at].strip().isdecimal():
            del lines[at]
    return "\n".join(lines)


def _groups(text: str) -> Iterator[tuple[int, Block]]:
    """The blocks of a text, which blank lines, headings and marks divide, each with the number of
    blank lines before it."""
    headings = {start for start, _ in find_headings(text)}
    long = sum(len(line) for line in text.split("\n") if len(line) > WRAPPED)
    by_line = long * 2 > len(text)
    spans: list[Span] = []
    position = gap = opening = 0

    def block(kind: Any, *spans: Span) -> Block:
        lines = tuple(text[slice(*span)] for span in spans)
        level = heading_level(lines[0]) if kind == "heading" else 1
        return Block(kind, lines, level, spans=spans)

    for line in text.split("\n"):
        stripped = line.strip()
        start = position + len(line) - len(line.lstrip())
        position += len(line) + 1
        kind = "break" if is_break(stripped) else "paragraph"
        kind = "heading" if start in headings else kind
        if spans and (not stripped or by_line or kind != "paragraph"):
            yield opening, block("paragraph", *spans)
            spans = []
        if not stripped:
            gap += 1
            continue
        span = start, start + len(stripped)
        if kind != "paragraph":
            yield gap, block(kind, span)
        else:
            opening = opening if spans else gap
            spans.append(span)
        gap = 0
    if spans:
        yield opening, block("paragraph", *spans)


def _blocks(text: str, groups: list[tuple[int, Block]], is_gutenberg: bool) -> Iterator[Block]:
    """The blocks with breaks where more blank lines than elsewhere are, if these are few, and with
    what is left out."""
    gaps = Counter(
        gap
        for (_, before), (gap, block) in pairwise(groups)
        if before.kind == block.kind == "paragraph"
    )
    usual = max(gaps, key=lambda gap: (gaps[gap], -gap), default=0)
    larger = sum(count for gap, count in gaps.items() if gap > usual)
    are_rare = larger * 4 <= sum(gaps.values())
    last = max((at for at, (_, block) in enumerate(groups) if block.kind == "heading"), default=0)
    in_contents = follows = False
    for at, (gap, block) in enumerate(groups):
        is_paragraph = block.kind == "paragraph"
        words = text[block.spans[0][0] : block.spans[-1][1]]
        in_contents = is_paragraph and (
            in_contents or (at < last and _CONTENTS.fullmatch(words) is not None)
        )
        if is_paragraph and _PICTURE.fullmatch(words):
            yield block._replace(kind="left out", reason="picture")
        elif is_paragraph and is_gutenberg and at < _FRONT and _CREDIT.match(words):
            yield block._replace(kind="left out", reason="credit")
        elif in_contents:
            yield block._replace(kind="left out", reason=CONTENTS)
        else:
            if follows and is_paragraph and are_rare and gap > usual:
                yield Block("break")
            yield block
        follows = is_paragraph
