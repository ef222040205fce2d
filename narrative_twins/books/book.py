"""Books with chapters, as readers of all formats make them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from narrative_twins.books.blocks import HEADING, LICENCE, METADATA, Block, letters_of
from narrative_twins.stories.sentences import Span

MUCH = 0.05
"""Share of the letters that may be left out without a warning. Headings, licence and metadata are
not counted."""


class Chapter(NamedTuple):
    """A chapter of a book.

    Attributes:
        heading: the character span of the heading, which is not a sentence of the story; None
            without one, such as before the first heading of the book.
        paragraphs: the character span of each paragraph, in order; each line of verse is one.
        breaks: the indices of the paragraphs after a marked break, such as a line of asterisks.
    """

    heading: Span | None
    paragraphs: tuple[Span, ...]
    breaks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Book:
    """A book, made by `read_book`.

    Attributes:
        text: the text of the blocks, with line breaks. All spans are spans of its characters.
        chapters: the chapters in order, each with at least one paragraph.
        title: the title; None if the file has none.
        left_out: the text of the file that is in no paragraph of a chapter, headings included. Each
            block has the reason and the place.
        problems: one sentence for each part of the file that could not be read.
    """

    text: str = field(repr=False)
    chapters: tuple[Chapter, ...]
    title: str | None = None
    left_out: tuple[Block, ...] = field(default=(), repr=False, compare=False)
    problems: tuple[str, ...] = field(default=(), compare=False)

    @property
    def paragraphs(self) -> list[Span]:
        """The character spans of all paragraphs, in order."""
        return [span for chapter in self.chapters for span in chapter.paragraphs]

    def heading(self, chapter: int) -> str | None:
        """Return the heading of the chapter with this index on one line; None if it has none."""
        span = self.chapters[chapter].heading
        return None if span is None else " ".join(self.text[slice(*span)].split())

    @property
    def notes(self) -> list[str]:
        """Sentences about what was read: how many blocks are left out for which reason, a warning
        if more than `MUCH` of the letters are left out, and a warning for each unreadable part."""
        counts, letters = Counter[str](), 0
        for block in self.left_out:
            if block.reason != HEADING:
                counts[block.reason] += 1
                letters += len(block.letters) * (block.reason not in (LICENCE, METADATA))
        shown = ", ".join(f"{reason} ({count:,})" for reason, count in counts.items())
        notes = [f"Left out: {shown}."] if counts else []
        scored = sum(len(letters_of(self.text[slice(*span)])) for span in self.paragraphs)
        if letters > MUCH * (scored + letters):
            share = f"{letters / (scored + letters):.0%}"
            notes.append(f"Warning: {share} of the text is left out; --explain lists it.")
        return [
            *notes,
            *(f"Warning: a part is not read, for the book {problem}." for problem in self.problems),
        ]
