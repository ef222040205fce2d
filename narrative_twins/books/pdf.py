"""Books in PDF files: `pypdf` reads the text of each page; here the pages become one text, without
running headers, footers and page numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from itertools import chain

from narrative_twins.books.blocks import Block, wrap_width
from narrative_twins.books.book import Book
from narrative_twins.books.plain_text import plain_book
from narrative_twins.stories.headings import find_headings

MAX_PDF_TEXT = 64_000_000
"""Characters of the pages of a PDF file together."""
_DIVIDED = re.compile(
    "([^\\W\\d_]+)(?:[-\u2010]\n(?=[^\\W\\d_A-Z])|\u00ad\n)([^\\W\\d_]+[^\\w\\s]*)[ \n]?"
)
"""A word that is divided at the end of a line."""
_COMPOUND = re.compile(r"[^\W\d_]+-[^\W\d_]+")
_ENDS = '.!?…"”’»'
_ROMAN = 10**6  # the key of page numbers in Roman numerals
_MARGIN = 3  # lines at the top or bottom of a page that may be a running header, footer or number
_NUMBERED = re.compile(
    r"(?:(?:page|p\.|seite|página) ?)?[-–—\[(. |]{0,4}(\d{1,4}|[ivxlc]{1,7})[-–—\]) |]{0,4}"
    r"(?:(?:of|/|von|de) ?\d{1,4})?",
    re.IGNORECASE,
)
_BESIDE = re.compile(r"^\W*\d{1,4}\b\W*|\W*\b\d{1,4}\W*$")  # a number beside a running header


def pdf_book(data: bytes) -> Book:
    """Return the book in a PDF file. Its text is read as plain text, without page numbers, running
    headers and footers, and with divided words joined. Raises `ValueError` for an invalid file."""
    pages = _pages_of(data)
    left_out = _without_margins(pages)
    text = _with_words_joined("\n".join(_text_lines(pages)))
    if not any(map(str.isalnum, text)):
        raise ValueError("is PDF without text, perhaps of scanned pages; recognize the text first")
    return plain_book(text, left_out)


def _pages_of(data: bytes) -> list[list[str]]:
    """Return the lines with text of each page of a PDF file."""
    from pypdf import PdfReader

    texts: dict[str, str] = {}  # a page may be listed again and again
    pages: list[list[str]] = []
    size = 0
    try:
        reader = PdfReader(io.BytesIO(data))
        is_locked = reader.is_encrypted and not reader.decrypt("")
        for page in () if is_locked else reader.pages:
            key = str(page.indirect_reference)
            if key not in texts:
                texts[key] = page.extract_text()
            pages.append([line.strip() for line in texts[key].split("\n") if line.strip()])
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
    return pages


def _without_margins(pages: list[list[str]]) -> list[Block]:
    """Remove running headers, footers and page numbers, which are like those of pages nearby, from
    the lines of the pages. Return a block for each line that is removed."""
    left_out: list[Block] = []
    numbers: dict[int, int] = {}  # the keys of page numbers that are removed, by page
    are_chapters = all(page[-1][-1] in _ENDS for page in pages if page)
    for side in (-1, 0) * _MARGIN:
        keys = [[*_margin_keys(page, at, side), numbers.get(at)] for at, page in enumerate(pages)]
        for at, (key, *_) in enumerate(keys):
            is_number = isinstance(key, int)
            near = chain.from_iterable((*keys[max(0, at - 2) : at], *keys[at + 1 : at + 3]))
            if key is None or not (key in near or (is_number and len(pages) == 1)):
                continue
            # A number at the top of a page that has another at its bottom is a heading, and so are
            # numbers at the top if each page ends with a sentence.
            if is_number and (at in numbers or (side == 0 and are_chapters)):
                continue
            if len(pages[at]) == 1 and not (is_number and side):
                continue
            numbers |= {at: key} if isinstance(key, int) else {}
            reason, line = "page numbers" if is_number else "running headers", pages[at].pop(side)
            left_out.append(Block("left out", (line,), reason=reason, place=f"page {at + 1}"))
    return left_out


def _margin_keys(page: Sequence[str], at: int, side: int) -> Iterator[str | int | None]:
    """Yield the keys of two lines of the page with the index `at`: of its first line if `side` is 0
    or its last if -1, and of the other one. Yield nothing for an empty page."""
    return (_margin_key(page[edge], at) for edge in (side, -1 - side) if page)


def _margin_key(line: str, page: int) -> str | int | None:
    """Return what a line at the top or bottom of a page shares with such lines of other pages: the
    words of a running header, or a page number minus `page`, the index of the page; else None."""
    number = _NUMBERED.fullmatch(line)
    if number and (number[1].isdecimal() or number[1].islower()):
        return int(number[1]) - page if number[1].isdecimal() else _ROMAN
    words = _BESIDE.sub("", line)
    return words if any(map(str.isalpha, words)) and not find_headings(line) else None


def _text_lines(pages: Sequence[list[str]]) -> Iterator[str]:
    """Yield the lines of the pages as one text, with an empty line after each paragraph that ends
    with its page, and after a number that is the heading of a page."""
    most = max(map(len, pages), default=0)
    width = wrap_width(len(line) for page in pages for line in page)
    for page, after in zip(pages, [*pages[1:], []], strict=True):
        for at, line in enumerate(page):
            yield line
            if at == 0 and line.isdecimal():
                yield ""
        is_short = bool(page) and (len(page) * 4 < most * 3 or len(page[-1]) * 4 < width * 3)
        if _is_heading(after[:1]) or (is_short and page[-1][-1] in _ENDS):
            yield ""


def _is_heading(first: Sequence[str]) -> bool:
    """Return whether the first line of a page, if there is one, is a heading or a number."""
    return any(line.isdecimal() or find_headings(f"{line}\n\n") for line in first)


def _with_words_joined(text: str) -> str:
    """Return a text with each word joined that is divided at the end of a line. A word keeps its
    hyphen if other copies of the word have it."""
    compounds = set(_COMPOUND.findall(text))

    def joined(word: re.Match[str]) -> str:
        """Return the two parts of a word as one."""
        hyphen = "-" * (f"{word[1]}-{word[2]}" in compounds)
        return f"{word[1]}{hyphen}{word[2]}\n"

    return _DIVIDED.sub(joined, text)
