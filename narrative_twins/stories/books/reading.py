"""Reading of books: long texts with chapters, from files of several formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Literal, NamedTuple, TypeAlias, get_args

from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.docx import docx_book
from narrative_twins.stories.books.epub import epub_book
from narrative_twins.stories.books.html import html_book
from narrative_twins.stories.books.markdown import markdown_book
from narrative_twins.stories.books.plain import plain_book
from narrative_twins.stories.documents import HEAD, OFFICE, decode, printable_name, why_not_text
from narrative_twins.stories.pdf import pdf_text
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import StoryError, sentence_spans
from narrative_twins.stories.windows import Span

BookFormat: TypeAlias = Literal["auto", "text", "markdown", "html", "epub", "docx", "pdf"]

BOOK_SUFFIXES: dict[str, BookFormat] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".epub": "epub",
    ".docx": "docx",
    ".pdf": "pdf",
}
"""The formats of books that are selected by suffix; others are text."""

MAX_FILE = 256_000_000
"""Bytes of the largest EPUB, Word or PDF file that is read as a book, with its pictures."""
MAX_TEXT = 64_000_000
"""Bytes of the largest text, Markdown or HTML file that is read as a book."""

_OTHERS = {".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet"}


_PACKED: Mapping[str, Callable[[bytes], Book]] = {
    "epub": epub_book,
    "docx": docx_book,
    "pdf": lambda data: plain_book(pdf_text(data)),
}


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


def read_book(path: str | os.PathLike[str], input_format: BookFormat = "auto") -> Book:
    """Read a book from a file.

    - Plain text in UTF-8: a paragraph is the lines up to a blank line, or each line if most are
      longer than `plain.WRAPPED`; the lines of verse are paragraphs of their own. Headings are
      those of `find_headings`. The header and the licence of Project Gutenberg are left out.
    - Markdown: its headings; marks of lists and quotations are in no paragraph, those within lines
      stay.
    - HTML, by lxml: `h1` to `h6` are headings. Navigation, asides, notes, captions, page numbers,
      hidden elements and paragraphs that are links only are left out; so are scripts and styles.
    - EPUB 2 and 3: the documents in reading order. A chapter without a heading has that of the
      table of contents. Documents that are not linear, cover, title page, contents, notes and the
      like, by what the book says of them, are left out; documents with errors are read as HTML.
    - Word (docx): paragraphs with an outline level, such as those of the styles `Heading 1` to
      `Heading 9`, are headings. Tables of contents, notes, comments, deleted text and text boxes
      are left out.
    - PDF: its text, as plain text.
    - Breaks between scenes are lines of marks (`* * *`, `#`, `---`) and `<hr>`, and in text more
      blank lines, in other formats an empty paragraph, if these are rare.
    - A table of contents is left out.

    Nothing but the file is opened, and nothing is unpacked to disk. Limits are `MAX_FILE` and
    `MAX_TEXT`, those of `narrative_twins.stories.books.archive` for what is in a ZIP archive, and
    `MAX_DEPTH` in `markup`.

    Args:
        path: the file.
        input_format: its format; `"auto"` selects it by suffix, text if that is none of these.

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
        problem = error.problem if isinstance(error, StoryError) else error
        raise StoryError(f"{shown}: {problem}") from error


def book_of(name: str, data: bytes, input_format: BookFormat = "auto") -> Book:
    """The book in the content of a file called `name`, see `read_book`; raises a `ValueError` that
    does not name the file."""
    suffix = PurePath(name).suffix.lower()
    if input_format == "auto":
        if suffix in _OTHERS:
            raise ValueError(
                f"is a file of stories ({suffix}), not a book; score it without levels"
            )
        input_format = BOOK_SUFFIXES.get(suffix, "text")
    if input_format not in get_args(BookFormat):
        raise ValueError(
            f"has no format {input_format!r}; use one of {', '.join(get_args(BookFormat))}"
        )
    is_packed = input_format in _PACKED
    limit = MAX_FILE if is_packed else MAX_TEXT
    if len(data) > limit:
        raise ValueError(f"has more than {limit:,} bytes; divide it into volumes")
    if is_packed:
        if data.startswith(OFFICE):
            raise ValueError(
                "is encrypted, or of an older program; save it as .docx without a password"
            )
        return _PACKED[input_format](data)
    if problem := why_not_text(name, data[:HEAD]):
        raise ValueError(problem)
    if input_format == "html":
        return html_book(data)
    document = decode(name, data)
    if document.problem is not None:
        raise ValueError(document.problem)
    return (markdown_book if input_format == "markdown" else plain_book)(document.content)


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
    spans = iter(sentence_spans(book.text, splitter, [span for _, _, span in places]))
    sentences: list[BookSentence] = []
    sentence = next(spans, None)
    for chapter, paragraph, (_, stop) in places:
        while sentence is not None and sentence[1] <= stop:
            sentences.append(BookSentence(chapter, paragraph, sentence))
            sentence = next(spans, None)
    return sentences
