"""Books in plain text, as Project Gutenberg has them, and in PDF files, by `pypdf`."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from narrative_twins.stories.books.book import Book, Part, is_break, is_verse, make_book, wrap_width
from narrative_twins.stories.splitting import Span, find_headings, heading_level

if TYPE_CHECKING:
    from pypdf import PdfReader

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


class _Block(NamedTuple):
    """Lines without a blank line or a heading between them: their spans, and the number of blank
    lines before."""

    lines: list[Span]
    kind: str
    gap: int


def plain_book(text: str) -> Book:
    """The book in a plain text, see `read_book`; raises a `ValueError` if it has no paragraphs."""
    text, title, is_gutenberg = cut_licence(text)
    return make_book(text, _parts(text, is_gutenberg), title)


def pdf_book(data: bytes) -> Book:
    """The book in a PDF file: its text without page numbers, with divided words joined, read as
    plain text. Raises a `ValueError` that says what is wrong with the file."""
    from pypdf import PdfReader

    try:
        reader = PdfReader(io.BytesIO(data))
        is_locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if is_locked else list(_pages(reader))
    except Exception as error:  # what damaged files raise is not documented
        kind = type(error).__name__
        raise ValueError(f"can't be read as PDF ({kind}: {error}); convert it to text") from error
    if is_locked:
        raise ValueError("is encrypted; save it without a password")
    if sum(map(len, pages)) > MAX_PDF_TEXT:
        raise ValueError(f"has more than {MAX_PDF_TEXT:,} characters; divide it into volumes")
    # A sentence may continue on the next page.
    text = _DIVIDED.sub("", "\n".join(filter(None, pages)))
    if not any(map(str.isalnum, text)):
        raise ValueError("is PDF without text, perhaps of scanned pages; recognize the text first")
    return plain_book(text)


def is_of_gutenberg(text: str) -> bool:
    """Whether a text has the header of Project Gutenberg."""
    return GUTENBERG_BEGINS.search(text, 0, _LICENCE) is not None


def cut_licence(text: str) -> tuple[str, str | None, bool]:
    """A text without the header and the licence of Project Gutenberg, the title in the header,
    and whether there was any."""
    begins = list(GUTENBERG_BEGINS.finditer(text, 0, _LICENCE))
    start = begins[-1].end() if begins else 0
    # The last line of the book may also be in its middle, for example in a list of books.
    ends = GUTENBERG_ENDS.finditer(text, start)
    end = next(
        (end for end in ends if end[0].lstrip()[0] == "*" or len(text) - end.end() < _LICENCE), None
    )
    title = _TITLE.search(text, 0, start) if begins else None
    kept = text[start : end.start() if end else len(text)]
    return kept, " ".join(title[1].split()) if title else None, bool(begins or end)


def _parts(text: str, is_gutenberg: bool) -> Iterator[Part]:
    blocks = list(_blocks(text))
    width = wrap_width(stop - start for block in blocks for start, stop in block.lines)
    gaps = Counter(
        block.gap
        for before, block in zip(blocks, blocks[1:], strict=False)
        if before.kind == block.kind == "text"
    )
    usual = max(gaps, key=lambda gap: (gaps[gap], -gap), default=0)
    larger = sum(count for gap, count in gaps.items() if gap > usual)
    marks = usual if larger * 4 <= sum(gaps.values()) else None  # larger gaps are breaks
    in_contents = False
    later = [at for at, block in enumerate(blocks) if block.kind == "heading"]
    for at, block in enumerate(blocks):
        span = block.lines[0][0], block.lines[-1][1]
        if block.kind != "text":
            in_contents = False
            is_heading = block.kind == "heading"
            yield (
                Part("heading", span, heading_level(text[slice(*span)]))
                if is_heading
                else Part("break", span)
            )
            continue
        words = text[slice(*span)]
        if _PICTURE.fullmatch(words) or (is_gutenberg and at < _FRONT and _CREDIT.match(words)):
            continue
        in_contents |= bool(_CONTENTS.fullmatch(words)) and bool(later) and at < later[-1]
        if in_contents:
            yield Part("other", span)
            continue
        if at and blocks[at - 1].kind == "text" and marks is not None and block.gap > marks:
            yield Part("break", (span[0], span[0]))
        lines = [text[start:stop] for start, stop in block.lines]
        yield from (
            Part("paragraph", line) for line in (block.lines if is_verse(lines, width) else [span])
        )


def _blocks(text: str) -> Iterator[_Block]:
    headings = {start for start, _ in find_headings(text)}
    long = sum(len(line) for line in text.split("\n") if len(line) > WRAPPED)
    by_line = long * 2 > len(text)
    lines: list[Span] = []
    position = gap = opening = 0
    for line in text.split("\n"):
        stripped = line.strip()
        start = position + len(line) - len(line.lstrip())
        kind = "heading" if start in headings else "break" if is_break(stripped) else "text"
        if lines and (not stripped or by_line or kind != "text"):
            yield _Block(lines, "text", opening)
            lines = []
        if not stripped:
            gap += 1
        elif kind == "text":
            if not lines:
                opening = gap
            lines.append((start, start + len(stripped)))
            gap = 0
        else:
            yield _Block([(start, start + len(stripped))], kind, gap)
            gap = 0
        position += len(line) + 1
    if lines:
        yield _Block(lines, "text", opening)


def _pages(reader: PdfReader) -> Iterator[str]:
    """The texts of the pages that have one, until they are too long."""
    known: dict[str, str] = {}  # a page may be listed again and again
    size = 0
    for page in reader.pages:
        key = str(page.indirect_reference)
        text = known.get(key)
        if text is None:
            text = known[key] = _without_number(page.extract_text())
        if text:
            yield text
        size += len(text)
        if size > MAX_PDF_TEXT:
            return


def _without_number(page: str) -> str:
    """The text of a page without a first or last line that is only a number."""
    lines = page.strip().split("\n")
    for at in (0, -1):
        if lines and lines[at].strip().isdecimal():
            del lines[at]
    return "\n".join(lines)
