"""Books in PDF files: `pypdf` reads the text of each page; here the pages become one text, without
running headers, footers and page numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import chain

from narrative_twins.books.blocks import Block, wrap_width
from narrative_twins.books.book import Book
from narrative_twins.books.plain_text import plain_book
from narrative_twins.stories.sentences import find_headings

MAX_PDF_TEXT = 64_000_000
"""Characters of the pages of a PDF file together."""
_DIVIDED = re.compile(
    "([^\\W\\d_]+)(?:[-\u2010]\n(?=[^\\W\\d_A-Z])|\u00ad\n)([^\\W\\d_]+[^\\w\\s]*)[ \n]?"
)
"""A word that is divided at the end of a line."""
_COMPOUND = re.compile(r"[^\W\d_]+-[^\W\d_]+")
_ENDS = '.!?…"”’»'
_ROMAN = 10**6  # the key of page numbers in Roman numerals
_EDGE = 3  # lines at the top or bottom of a page that may be a running header, footer or number
_NUMBERED = re.compile(
    r"(?:(?:page|p\.|seite|página) ?)?[-–—\[(. |]{0,4}(\d{1,4}|[ivxlc]{1,7})[-–—\]) |]{0,4}"
    r"(?:(?:of|/|von|de) ?\d{1,4})?",
    re.IGNORECASE,
)
_BESIDE = re.compile(r"^\W*\d{1,4}\b\W*|\W*\b\d{1,4}\W*$")  # a number beside a running header


def pdf_book(data: bytes) -> Book:
    """Return the book in a PDF file. Its text is read as plain text, without page numbers, running
    headers and footers, and with divided words joined. Raises `ValueError` for an invalid file."""
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
                texts[key] = page.extract_text()
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
    text, left_out = _text_of_pages(pages)
    words = set(_COMPOUND.findall(text))

    def joined(word: re.Match[str]) -> str:
        """Join the parts of a divided word; keep the hyphen if other copies of the word have it."""
        hyphen = "-" * (f"{word[1]}-{word[2]}" in words)
        return f"{word[1]}{hyphen}{word[2]}\n"

    text = _DIVIDED.sub(joined, text)
    if not any(map(str.isalnum, text)):
        raise ValueError("is PDF without text, perhaps of scanned pages; recognize the text first")
    return plain_book(text, left_out)


def _text_of_pages(pages: Sequence[str]) -> tuple[str, list[Block]]:
    """Return the text of a PDF file from the text of each page, and a block for each line left out:
    running headers, footers and page numbers. A paragraph ends with its page if the page is short
    and ends a sentence, or if the next page begins with a heading."""
    lines = [[line.strip() for line in page.split("\n") if line.strip()] for page in pages]
    left_out: list[Block] = []
    numbered: dict[int, str | int] = {}  # pages, with what their numbers have in common
    are_chapters = all(page[-1][-1] in _ENDS for page in lines if page)
    for edge in (-1, 0) * _EDGE:
        keys = [
            [*(_edge_key(page[side], at) for side in (edge, -1 - edge) if page), numbered.get(at)]
            for at, page in enumerate(lines)
        ]
        for at, (key, *_) in enumerate(keys):
            is_number = isinstance(key, int)
            near = chain.from_iterable((*keys[max(0, at - 2) : at], *keys[at + 1 : at + 3]))
            # A number at the top of a page that has another at its bottom is a heading, and so are
            # numbers at the top if each page ends with a sentence.
            is_heading = at in numbered or (edge == 0 and are_chapters) if is_number else False
            if key is None or is_heading or (len(lines[at]) == 1 and not (is_number and edge)):
                continue
            if key in near or (is_number and len(pages) == 1):
                reason = "page numbers" if is_number else "running headers"
                place = f"page {at + 1}"
                left_out.append(Block("left out", (lines[at].pop(edge),), 1, reason, (), place))
                numbered |= {at: key} if is_number else {}
    most = max(map(len, lines), default=0)
    longest = wrap_width(len(line) for page in lines for line in page)
    pieces: list[str] = []
    for page, after in zip(lines, [*lines[1:], []], strict=True):
        opening = after[0] if after else ""
        is_new = bool(find_headings(f"{opening}\n\n")) or opening.isdecimal()
        is_short = bool(page) and (len(page) * 4 < most * 3 or len(page[-1]) * 4 < longest * 3)
        is_end = bool(page) and page[-1][-1] in _ENDS
        head = [*page[:1], ""] if page and page[0].isdecimal() else page[:1]
        pieces += [*head, *page[1:], *[""] * (is_new or (is_short and is_end))]
    return "\n".join(pieces), left_out


def _edge_key(line: str, page: int) -> str | int | None:
    """Return what a line at the top or bottom of a page shares with such lines of other pages: the
    words of a running header, or a page number minus `page`, the index of the page; else None."""
    number = _NUMBERED.fullmatch(line)
    if number and (number[1].isdecimal() or number[1].islower()):
        return int(number[1]) - page if number[1].isdecimal() else _ROMAN
    words = _BESIDE.sub("", line)
    return words if any(map(str.isalpha, words)) and not find_headings(line) else None
