"""Books: a long text with its title, chapters, paragraphs and marked breaks between scenes, as
character spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from narrative_twins.stories.windows import Span


class Chapter(NamedTuple):
    """A chapter of a book.

    Attributes:
        heading: the character span of the heading, which is no sentence of the story; None without
            one, as for what comes before the first heading.
        paragraphs: the character span of each paragraph, in order; a line of verse is a paragraph
            of its own.
        breaks: the indices of the paragraphs that a marked break precedes, such as a line of
            asterisks.
    """

    heading: Span | None
    paragraphs: tuple[Span, ...]
    breaks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Book:
    """A book, made by `read_book`.

    Attributes:
        text: the text of the book: of text and Markdown files the file's own, without the header
            and the licence of Project Gutenberg; of other formats the text that was taken from it.
            All spans count its characters.
        chapters: the chapters in order, each with at least one paragraph.
        title: the title, if the file tells it.
    """

    text: str = field(repr=False)
    chapters: tuple[Chapter, ...]
    title: str | None = None

    @property
    def paragraphs(self) -> list[Span]:
        """The character spans of all paragraphs, in order."""
        return [span for chapter in self.chapters for span in chapter.paragraphs]

    def heading(self, chapter: int) -> str | None:
        """The heading of a chapter on one line, if it has one."""
        span = self.chapters[chapter].heading
        return None if span is None else " ".join(self.text[slice(*span)].split())
