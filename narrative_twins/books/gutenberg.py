"""Texts of Project Gutenberg: where the book begins and ends, what its header says, and what else
belongs to the licence."""

from __future__ import annotations

import re

from narrative_twins.books.blocks import letters_of
from narrative_twins.stories.sentences import Span

LONGEST_LICENCE = 40_000
"""Characters of the licence of Project Gutenberg, at most; it has about half as many."""
CREDIT_BLOCKS = 10
"""The first blocks of a book, in which Project Gutenberg names who made the file."""

_FLAGS = re.IGNORECASE | re.MULTILINE
_BEGINS = re.compile(
    r"^[ \t]*(?:\*{3} ?START OF (?:THE|THIS) PROJECT GUTENBERG[^*]{0,1000}\*{3}|\*END[* ]*THE SMALL"
    r" PRINT!).*$",
    _FLAGS,
)
_ENDS = re.compile(
    r"^[ \t]*(?:\*{3} ?END OF (?:THE|THIS) PROJECT GUTENBERG|\*{3} ?START: FULL LICENSE|"
    r"(?:End of (?:the |this )?|Ende dieses )Projec?k?t Gutenberg(?:'s|’s)? )",
    _FLAGS,
)
_TITLE_LINE = re.compile(r"^Title:[ \t]*(\S.*(?:\n(?!\w+:)\S.*){0,4})", re.MULTILINE)
_FILE_TITLE = re.compile(
    r"^The Project Gutenberg e-?(?:book|text) of (.*?)(?:, by .*)?$", re.IGNORECASE
)
_CREDIT = re.compile(
    r"(?:Produced by|E-text prepared by|This e-?text was (?:produced|prepared)|Transcribed"
    r" (?:from|by)|The Project Gutenberg|This (?:header|e-?book|e-?text) )",
    re.IGNORECASE,
)


def is_of_gutenberg(text: str) -> bool:
    """Return whether a text has the header of Project Gutenberg."""
    return _BEGINS.search(text, 0, LONGEST_LICENCE) is not None


def span_of_book(text: str) -> Span:
    """Return the span of a book in a text, without header and licence of Project Gutenberg."""
    # The last line of the book may also be in its middle, for example in a list of books.
    ends = [
        end
        for end in _ENDS.finditer(text)
        if end[0].lstrip()[0] == "*" or len(text) - end.end() < LONGEST_LICENCE
    ]
    begins = [
        begin.end()
        for begin in _BEGINS.finditer(text, 0, LONGEST_LICENCE)
        # Some early files have the small print at their end.
        if not any(end.start() < begin.start() for end in ends)
        and letters_of(text[begin.end() : begin.end() + LONGEST_LICENCE])
    ]
    start = begins[-1] if begins else 0
    return start, next((end.start() for end in ends if end.start() >= start), len(text))


def title_in_header(header: str) -> str | None:
    """Return the title of a book that the header of its file names, None without one."""
    title = _TITLE_LINE.search(header)
    return " ".join(title[1].split()) if title else None


def plain_title(title: str) -> str:
    """Return the title of a book without the words of Project Gutenberg around it."""
    return _FILE_TITLE.sub(r"\1", title)


def is_credit(text: str) -> bool:
    """Return whether a paragraph begins as those do that say who made a file."""
    return _CREDIT.match(text) is not None
