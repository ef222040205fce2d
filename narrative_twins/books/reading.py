"""The formats of books, and the reading of a file as a book."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import IO, NamedTuple

from narrative_twins.books.book import Book
from narrative_twins.books.compressed import open_plain, plain_name, unreadable
from narrative_twins.books.docx import docx_book
from narrative_twins.books.epub import epub_book
from narrative_twins.books.html import html_book
from narrative_twins.books.markdown import markdown_book
from narrative_twins.books.odt import odt_book
from narrative_twins.books.pdf import pdf_book
from narrative_twins.books.plain_text import plain_book
from narrative_twins.books.tei import tei_book
from narrative_twins.extras import check_extra
from narrative_twins.stories.reading import ROWS, decode
from narrative_twins.stories.story import StoryError
from narrative_twins.text import for_terminal
from narrative_twins.writing import STDIN

FORMATS_OF_ROWS = ROWS | {"parquet": (".parquet",)}
MAX_FILE = 256_000_000
"""Bytes of the largest file that is read as a book, with its pictures."""
NOT_READ = {
    **dict.fromkeys(
        (".fb2", ".mobi", ".azw", ".azw3", ".lit", ".doc", ".rtf"),
        "convert it to EPUB, for example by ebook-convert of Calibre",
    ),
    **dict.fromkeys(
        (".srt", ".vtt", ".ass"), "convert it to text without time codes, for example by ffmpeg"
    ),
}
"""Suffixes of files that would be read as text with all their markup, and what to do instead."""


class BookFormat(NamedTuple):
    """A format of books. Commands, readers of stories and the web page take all `BOOK_FORMATS`.

    Attributes:
        suffixes: the suffixes of file names, in lower case.
        read: returns the book in the content of a file; raises `ValueError` for an invalid one.
        extra: the extra of this package with the libraries for the format; None without one.
    """

    suffixes: tuple[str, ...]
    read: Callable[[bytes], Book]
    extra: str | None = None


BOOK_FORMATS = {
    "text": BookFormat((".txt", ".text", ".fountain"), lambda data: plain_book(decode(data))),
    "markdown": BookFormat((".md", ".markdown"), lambda data: markdown_book(decode(data)), "books"),
    "html": BookFormat((".html", ".htm", ".xhtml"), html_book, "books"),
    "epub": BookFormat((".epub",), epub_book, "books"),
    "docx": BookFormat((".docx",), docx_book, "books"),
    "odt": BookFormat((".odt", ".ott"), odt_book, "books"),
    "pdf": BookFormat((".pdf",), pdf_book, "books"),
    "tei": BookFormat((".xml", ".tei"), tei_book, "books"),
}
"""The registry of formats by name. Files of unknown suffixes are text."""


def read_book(path: str | os.PathLike[str], input_format: str = "auto") -> Book:
    """Read a book from a file.

    - Plain text in UTF-8: a paragraph is the lines up to a blank line, or each line if most text is
      in lines longer than `WRAPPED` of `plain_text`. Headings are found by `find_headings`. The
      header and the licence of Project Gutenberg are left out.
    - HTML, and Markdown as the HTML it is converted to: `h1` to `h6` are headings. Navigation,
      asides, notes, captions, page numbers, hidden elements and paragraphs of links are left out.
    - EPUB 2 and 3: the documents in reading order. A chapter without a heading gets its heading
      from the table of contents. Left out are documents that are not in the reading order, and
      covers, indexes and the like, as the book declares them.
    - Word (docx): paragraphs with an outline level, such as in the styles `Heading 1` to
      `Heading 9`, are headings. Notes, comments, deleted text and text boxes are left out.
    - OpenDocument (odt): headings as marked; the same is left out as in Word.
    - TEI: chapters are divisions, with acts and scenes in plays. Header, front and back matter,
      cast list and notes are left out; a speech is a paragraph with the name of the speaker.
    - PDF: its text, as plain text. Two columns that are drawn line by line are read across.
    - Breaks between scenes are lines of marks (`* * *`, `#`, `---`) and `<hr>`. So are, where they
      are rare, more blank lines than usual in text, and empty paragraphs in other formats.

    No other file is opened, and nothing is unpacked to disk. Limits are `MAX_FILE`, and in the
    modules `zip_archive`, `markup` and `pdf`.

    Args:
        path: the file.
        input_format: a name in `BOOK_FORMATS`; `"auto"` selects by suffix, text if unknown.

    Raises:
        StoryError: the file can't be read or has no text; the message says what to do.
    """
    name = os.fspath(path)
    try:
        with opened(name) as file:
            return book_of(plain_name(name), file.read(MAX_FILE + 1), input_format)
    except OSError as error:
        raise StoryError(f"{for_terminal(name)}: {unreadable(error)}") from error
    except ValueError as error:
        raise StoryError(f"{for_terminal(name)}: {error}") from error


def opened(path: str) -> AbstractContextManager[IO[bytes]]:
    """Open a file for reading bytes, unpacked; `-` is standard input, which is not closed."""
    return nullcontext(sys.stdin.buffer) if path == STDIN else open_plain(path)


def book_of(name: str, data: bytes, input_format: str = "auto") -> Book:
    """Return the book in `data`, the content of the file `name`, as `read_book` does. Raises a
    `ValueError` whose message does not repeat the name."""
    if input_format == "auto":
        if (suffix := os.path.splitext(name)[1].lower()) in NOT_READ:
            raise ValueError(f"is {suffix}, which is not read; {NOT_READ[suffix]}")
        input_format = book_format(name)
    if input_format not in BOOK_FORMATS:
        names = ", ".join(BOOK_FORMATS)
        raise ValueError(f"is no book but {input_format!r}; use one of the formats {names}")
    if len(data) > MAX_FILE:
        raise ValueError(f"has more than {MAX_FILE:,} bytes; divide it into volumes")
    form = BOOK_FORMATS[input_format]
    try:
        if form.extra is not None:
            check_extra(form.extra)
        return form.read(data)
    except ImportError as error:  # says what to install
        raise ValueError(f"is {input_format}: {error}; or convert it to plain text") from None


def book_format(name: str) -> str:
    """Return the format of a file by its suffix: a name in `BOOK_FORMATS` or `FORMATS_OF_ROWS`."""
    suffix = os.path.splitext(name)[1].lower()
    formats = {key: form.suffixes for key, form in BOOK_FORMATS.items()} | FORMATS_OF_ROWS
    return next((key for key, suffixes in formats.items() if suffix in suffixes), "text")
