"""Reading of books: long texts with chapters, from files of several formats."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple, TypeAlias

from narrative_twins.stories.book import Book
from narrative_twins.stories.documents import HEAD, decode, why_not_text
from narrative_twins.stories.plain import plain_book
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import StoryError, sentence_spans
from narrative_twins.stories.windows import Span

BookFormat: TypeAlias = Literal["auto", "text"]

MAX_FILE = 64_000_000
"""Bytes of the largest file that is read as a book."""


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

    - Plain text in UTF-8: a paragraph is the lines up to a blank line, or each line if most are longer than
      `plain.WRAPPED`; the lines of verse are paragraphs of their own. Headings are those of `find_headings`. The header
      and the licence of Project Gutenberg are left out.
    - Breaks between scenes are lines of marks (`* * *`, `#`, `---`), and in text more blank lines than elsewhere.
    - A table of contents is left out.

    Args:
        path: the file.
        input_format: its format; `"auto"` selects it by suffix, text if that is none of these.

    Raises:
        StoryError: the file can't be read, or has no text; the message names it and says what to do.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise StoryError(f"{name}: can't be read ({error.strerror}); check the name") from None
    try:
        return book_of(name, data, input_format)
    except ValueError as error:
        problem = error.problem if isinstance(error, StoryError) else error
        raise StoryError(f"{name}: {problem}") from error


def book_of(name: str, data: bytes, input_format: BookFormat = "auto") -> Book:
    """The book in the content of a file called `name`, see `read_book`; raises a `ValueError` that does not name the
    file."""
    if len(data) > MAX_FILE:
        raise ValueError(f"has more than {MAX_FILE:,} bytes; divide it into volumes")
    if problem := why_not_text(name, data[:HEAD]):
        raise ValueError(problem)
    document = decode(name, data)
    if document.problem is not None:
        raise ValueError(document.problem)
    return plain_book(document.content)


def book_sentences(book: Book, splitter: Splitter | None = None) -> list[BookSentence]:
    """The sentences of a book in order. Each is in one paragraph, and no heading is a sentence; together they are those
    of `Story.parse(book, splitter=splitter)`.

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
