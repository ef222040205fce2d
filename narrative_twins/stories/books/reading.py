"""The formats of books, and the reading of one from a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from narrative_twins.extras import check_extra
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.book import printable_name as printable_name
from narrative_twins.stories.books.docx import docx_book
from narrative_twins.stories.books.epub import epub_book
from narrative_twins.stories.books.html import html_book, markdown_book
from narrative_twins.stories.books.plain import pdf_book, plain_book
from narrative_twins.stories.sentences import Span, Splitter
from narrative_twins.stories.story import StoryError, sentence_spans

MAX_FILE = 256_000_000
"""Bytes of the largest EPUB, Word or PDF file that is read as a book, with its pictures."""
MAX_TEXT = 64_000_000
"""Bytes of the largest text, Markdown or HTML file that is read as a book."""

_NO_BOOKS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class BookFormat:
    """A format of books. The command line, the readers of stories and the web page know those of
    `BOOK_FORMATS`.

    Attributes:
        suffixes: of the names of files, in lower case.
        read: from the content of a file to the book; raises a `ValueError` that says what is wrong.
        extra: the extra of this package with the libraries that it needs.
        is_packed: whether files have other content besides text, and so may be larger.
        is_bounded: whether time and memory are bounded for files from strangers, so that the web
            page takes them.
    """

    suffixes: tuple[str, ...]
    read: Callable[[bytes], Book]
    extra: str | None = None
    is_packed: bool = False
    is_bounded: bool = True


BOOK_FORMATS = {
    "text": BookFormat((".txt", ".text", ".fountain"), lambda data: plain_book(decode(data))),
    "markdown": BookFormat((".md", ".markdown"), lambda data: markdown_book(decode(data)), "books"),
    "html": BookFormat((".html", ".htm", ".xhtml"), html_book, "books"),
    "epub": BookFormat((".epub",), epub_book, "books", is_packed=True),
    "docx": BookFormat((".docx",), docx_book, "books", is_packed=True),
    "pdf": BookFormat((".pdf",), pdf_book, "pdf", is_packed=True, is_bounded=False),
}
"""The registry of formats by name. Files of unknown suffixes are text."""


class BookSentence(NamedTuple):
    """A sentence of a book.

    Attributes:
        chapter: the index of its chapter.
        paragraph: the index of its paragraph in the chapter.
        span: its characters in the text of the book.
    """

    chapter: int
    paragraph: int
    span: Span


def read_book(path: str | os.PathLike[str], input_format: str = "auto") -> Book:
    """Read a book from a file.

    - Plain text in UTF-8: a paragraph is the lines up to a blank line, or each line if most are
      longer than `plain.WRAPPED`; the lines of verse are paragraphs of their own. Headings are
      those of `find_headings`. The header and the licence of Project Gutenberg are left out.
    - HTML, and Markdown as the HTML it is converted to: `h1` to `h6` are headings. Navigation,
      asides, notes, captions, page numbers, hidden elements and paragraphs of links are left out.
    - EPUB 2 and 3: the documents in reading order. A chapter without a heading has that of the
      table of contents. Documents that are not linear or, as the book declares, not of the story
      are left out; documents with errors are read as HTML.
    - Word (docx): paragraphs with an outline level, such as those of the styles `Heading 1` to
      `Heading 9`, are headings. Notes, comments, deleted text and text boxes are left out.
    - PDF: its text, as plain text.
    - Breaks between scenes are lines of marks (`* * *`, `#`, `---`) and `<hr>`, and in text more
      blank lines, in other formats an empty paragraph, if these are rare.
    - A table of contents is left out.

    Nothing but the file is opened, and nothing is unpacked to disk. Limits are `MAX_FILE`,
    `MAX_TEXT`, and those of the modules `archive` and `html`.

    Args:
        path: the file.
        input_format: a name in `BOOK_FORMATS`; `"auto"` selects it by suffix, text if that is
            unknown.

    Raises:
        StoryError: the file can't be read, or has no text; the message names it and says what to
            do.
    """
    name = os.fspath(path)
    shown = printable_name(name)
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise StoryError(f"{shown}: can't be read ({error.strerror}); check the name") from None
    try:
        return book_of(name, data, input_format)
    except ValueError as error:
        raise StoryError(f"{shown}: {error}") from error


def book_of(name: str, data: bytes, input_format: str = "auto") -> Book:
    """The book in the content of a file called `name`, see `read_book`; raises a `ValueError` that
    does not name the file."""
    if input_format == "auto":
        if name.lower().endswith(_NO_BOOKS):
            raise ValueError("is a file of stories, not a book; score it without levels")
        input_format = format_of(name)
    form = BOOK_FORMATS.get(input_format)
    if form is None:
        names = ", ".join(["auto", *BOOK_FORMATS])
        raise ValueError(f"has no format {input_format!r}; use one of {names}")
    limit = MAX_FILE if form.is_packed else MAX_TEXT
    if len(data) > limit:
        raise ValueError(f"has more than {limit:,} bytes; divide it into volumes")
    try:
        if form.extra is not None:
            check_extra(form.extra)
        return form.read(data)
    except ImportError as error:
        raise ValueError(f"is {input_format}: {error}; or convert it to plain text") from None


def format_of(name: str) -> str:
    """The format of a file by its suffix: a name in `BOOK_FORMATS`."""
    suffix = os.path.splitext(name)[1].lower()
    return next((key for key, form in BOOK_FORMATS.items() if suffix in form.suffixes), "text")


_OTHER_FILES = {
    b"PAR1": "Parquet",
    b"%PDF-": "PDF",
    b"PK\x03\x04": "a zip archive, such as EPUB or Word",
    b"\x1f\x8b": "gzip",
}
"""The first bytes of files that may be taken for text."""


def decode(data: bytes) -> str:
    """The text of a file in UTF-8; raises a `ValueError` if it is none."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        for start, kind in _OTHER_FILES.items():
            if data.startswith(start):
                raise ValueError(f"is {kind}, which is not read here under this name") from None
        where = f"byte {error.start} (0x{data[error.start]:02x})"
        likely = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "WINDOWS-1252"
        raise ValueError(
            f"is not UTF-8 at {where}; convert it, perhaps with `iconv -f {likely} -t UTF-8`"
        ) from None


def book_sentences(book: Book, splitter: Splitter | None = None) -> list[BookSentence]:
    """The sentences of a book in order. Each is in one paragraph, and no heading is a sentence;
    together they are those of `Story.parse(book, splitter=splitter)`.

    Args:
        book: the book.
        splitter: how a paragraph is split, see `Story.parse`.

    Raises:
        StoryError: the splitter loses text.
    """
    places = [
        (chapter, paragraph, span)
        for chapter, found in enumerate(book.chapters)
        for paragraph, span in enumerate(found.paragraphs)
    ]
    sentences = []
    at = 0
    for span in sentence_spans(book.text, splitter, [span for _, _, span in places]):
        while places[at][2][1] < span[1]:
            at += 1
        sentences.append(BookSentence(*places[at][:2], span))
    return sentences
