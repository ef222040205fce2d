"""Books in plain text, as Project Gutenberg has them, and in PDF files, by `pypdf`."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from narrative_twins.stories.books.book import Book, Part, is_break, is_verse, make_book, wrap_width
from narrative_twins.stories.sentences import Span, find_headings, heading_level

WRAPPED = 120
"""Characters of the longest lines of hard-wrapped text. If most text is in longer lines, each line
is a paragraph."""
MAX_PDF_TEXT = 64_000_000
"""Characters of the pages of a PDF file together."""
_FRONT = 10  # blocks in which Project Gutenberg names who made the file.
_LICENCE = 40_000  # characters that the licence may have; it has about half as many.
_FLAGS = re.IGNORECASE | re.MULTILINE
GUTENBERG_BEGINS = re.compile(
    r"^[ \t]*(?:\*{3} ?START OF (?:THE|THIS) PROJECT GUTENBERG[^*]{0,1000}\*{3}|\*END[* ]*THE SMALL"
    r" PRINT!).*$",
    _FLAGS,
)
GUTENBERG_ENDS = re.compile(
    r"^[ \t]*(?:\*{3} ?END OF (?:THE|THIS) PROJECT GUTENBERG|\*{3} ?START: FULL LICENSE|"
    r"End of (?:the |this )?Project Gutenberg(?:'s|’s)? )",
    _FLAGS,
)
_CREDIT = re.compile(
    r"(?:Produced by|E-text prepared by|This e-?text was (?:produced|prepared)|Transcribed"
    r" (?:from|by))\b",
    re.IGNORECASE,
)
_TITLE = re.compile(r"^Title:[ \t]*(\S.*(?:\n[ \t]+\S.*){0,4})", re.MULTILINE)
_PICTURE = re.compile(r"\[Illustration[^\]]*\]")
_CONTENTS = re.compile(r"(?:table of )?contents[.:]?", re.IGNORECASE)
_DIVIDED = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_A-Z])")  # a word, at the end of a line


Kind: TypeAlias = Literal["heading", "paragraph", "break"]


class _Block(NamedTuple):
    """Lines without a blank line or a heading between them: their spans, and the number of blank
    lines before."""

    lines: list[Span]
    kind: Kind
    gap: int


def plain_book(text: str) -> Book:
    """The book in a plain text, see `read_book`; raises a `ValueError` if it has no paragraphs."""
    begins = list(GUTENBERG_BEGINS.finditer(text, 0, _LICENCE))
    start = begins[-1].end() if begins else 0
    # The last line of the book may also be in its middle, for example in a list of books.
    end = next(
        (
            found
            for found in GUTENBERG_ENDS.finditer(text, start)
            if found[0].lstrip()[0] == "*" or len(text) - found.end() < _LICENCE
        ),
        None,
    )
    title = _TITLE.search(text, 0, start)
    text = text[start : end.start() if end else len(text)]
    parts = _parts(text, is_gutenberg=bool(begins or end))
    return make_book(text, parts, " ".join(title[1].split()) if title else None)


def pdf_book(data: bytes) -> Book:
    """The book in a PDF file: its text without page numbers, with divided words joined, read as
    plain text. Raises a `ValueError` that says what is wrong with the file."""
    from pypdf import PdfReader

    known: dict[str, str] = {}  # a page may be listed again and again
    pages: list[str] = []
    size = 0
    try:
        reader = PdfReader(io.BytesIO(data))
        is_locked = reader.is_encrypted and not reader.decrypt("")
        for page in () if is_locked else reader.pages:
            key = str(page.indirect_reference)
            if key not in known:
                known[key] = _without_number(page.extract_text())
            pages.append(known[key])
            size += len(known[key])
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


def _parts(text: str, is_gutenberg: bool) -> Iterator[Part]:
    blocks = list(_blocks(text))
    width = wrap_width(stop - start for block in blocks for start, stop in block.lines)
    gaps = Counter(
        block.gap for before, block in pairwise(blocks) if before.kind == block.kind == "paragraph"
    )
    usual = max(gaps, key=lambda gap: (gaps[gap], -gap), default=0)
    larger = sum(count for gap, count in gaps.items() if gap > usual)
    are_rare = larger * 4 <= sum(gaps.values())  # larger gaps are breaks
    last = max((at for at, block in enumerate(blocks) if block.kind == "heading"), default=0)
    in_contents = False
    before: _Block | None = None
    for at, block in enumerate(blocks):
        before, follows = block, before is not None and before.kind == "paragraph"
        span = block.lines[0][0], block.lines[-1][1]
        words = text[slice(*span)]
        if block.kind != "paragraph":
            in_contents = False
            yield Part(block.kind, span, heading_level(words) if block.kind == "heading" else 1)
            continue
        if _PICTURE.fullmatch(words) or (is_gutenberg and at < _FRONT and _CREDIT.match(words)):
            continue
        in_contents |= at < last and _CONTENTS.fullmatch(words) is not None
        if in_contents:
            yield Part("other", span)
            continue
        if follows and are_rare and block.gap > usual:
            yield Part("break", (span[0], span[0]))
        lines = [text[start:stop] for start, stop in block.lines]
        for line in block.lines if is_verse(lines, width) else [span]:
            yield Part("paragraph", line)


def _blocks(text: str) -> Iterator[_Block]:
    headings = {start for start, _ in find_headings(text)}
    long = sum(len(line) for line in text.split("\n") if len(line) > WRAPPED)
    by_line = long * 2 > len(text)
    lines: list[Span] = []
    position = gap = opening = 0
    for line in text.split("\n"):
        stripped = line.strip()
        start = position + len(line) - len(line.lstrip())
        span = start, start + len(stripped)
        position += len(line) + 1
        kind: Kind = "break" if is_break(stripped) else "paragraph"
        kind = "heading" if start in headings else kind
        if lines and (not stripped or by_line or kind != "paragraph"):
            yield _Block(lines, "paragraph", opening)
            lines = []
        if not stripped:
            gap += 1
            continue
        if kind != "paragraph":
            yield _Block([span], kind, gap)
        else:
            opening = opening if lines else gap
            lines.append(span)
        gap = 0
    if lines:
        yield _Block(lines, "paragraph", opening)
