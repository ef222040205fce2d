"""Tables of contents in a document: where they are, and which lines are their entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from narrative_twins.books.blocks import (
    CONTENTS,
    LONGEST_HEADING,
    SENTENCE_END,
    SHORT_LINE,
    Block,
    words_of,
)

_FEWEST_ENTRIES = 3  # of a table of contents that has no title
_TITLE = re.compile(r"(?:(?:table of )?contents|(?:list of )?illustrations)[.:]?", re.IGNORECASE)
_PAGE_NUMBER = re.compile(r"[\s.,…·_-](?:\d{1,4}|[ivxlc]{1,7})$")  # at the end of an entry

_IsEntry: TypeAlias = Callable[[str, int], bool]
"""Says whether a line of the block with an index is an entry of a table of contents."""


def is_contents_title(text: str) -> bool:
    """Return whether a text is the title of a table of contents, such as `Contents`."""
    return _TITLE.fullmatch(text) is not None


def without_contents(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks, with tables of contents left out. After a line `Contents` these are entries
    (lines that recur as headings) and lines that end in page numbers; after a heading `Contents`,
    also all blocks up to the next heading, if none is prose; elsewhere several entries in a row."""
    is_entry, stop = _entries(blocks), 0
    for at, block in enumerate(blocks):
        if at >= stop and block.is_shown:
            stop = _end_of_contents(blocks, at, is_entry)
        yield block.left_out(CONTENTS) if at < stop and block.is_shown else block


def _entries(blocks: Sequence[Block]) -> _IsEntry:
    """Return the function that recognizes entries. An entry has the words of a heading in a later
    block, or one of both begins or ends with the other: `The Gull` and `Chapter 1: The Gull`."""
    whole: dict[tuple[str, ...], int] = {}  # the words of headings, with the last place
    ends: dict[tuple[str, ...], int] = {}  # words at their beginnings and ends
    shown = [at for at, block in enumerate(blocks) if block.is_shown]
    for at, after in zip(shown, [*shown, -1][1:], strict=True):
        if blocks[at].kind == "heading":
            forms = [words := blocks[at].words]
            if blocks[after].kind == "heading":  # a number and a title may be one entry
                forms.append(words + blocks[after].words)
            whole |= dict.fromkeys(forms, at)
            ends |= dict.fromkeys((end for form in forms for end in _ends(form)), at)

    def is_entry(line: str, at: int) -> bool:
        """Return whether a line is an entry for a heading after the block `at`."""
        words = words_of(line) if len(line) <= LONGEST_HEADING else ()
        words = words[:-1] if len(words) > 2 and _PAGE_NUMBER.search(line) else words
        is_heading = max(whole.get(words, -1), ends.get(words, -1)) > at
        has_heading = is_heading or any(whole.get(end, -1) > at for end in _ends(words))
        return bool(words) and has_heading

    return is_entry


def _ends(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return all shorter beginnings and ends of words: `a b c` has `a`, `b c`, `a b` and `c`."""
    return (end for size in range(1, len(words)) for end in (words[:size], words[size:]))


@dataclass
class _Table:
    """What was read of a table of contents.

    Attributes:
        is_titled: whether a line `Contents` is before it.
        first: the words of the first entry, the heading of which ends the table.
        entries: the number of entries, which are lines that recur as headings, or links.
        links: the lines of links.
        pages: the number of other lines, which end in page numbers.
    """

    is_titled: bool
    first: tuple[str, ...] = ()
    entries: int = 0
    links: tuple[str, ...] = ()
    pages: int = 0

    def ends_before(self, block: Block, others: Sequence[str]) -> bool:
        """Return whether the book begins at a block, of which the lines `others` are no entries."""
        if block.kind == "heading" and self.first[: len(block.words)] == block.words:
            return True
        if others and not self.is_titled:
            return True
        return any(len(line) > SHORT_LINE and SENTENCE_END.search(line) for line in others)

    def add(self, block: Block, entries: Sequence[str], others: Sequence[str]) -> bool:
        """Add the lines of a block: entries and others. Return whether they are of a table."""
        has_pages = block.kind == "paragraph" and all(map(_PAGE_NUMBER.search, others))
        if not entries and not has_pages:
            return False
        self.first = self.first or words_of(" ".join(entries[:1]))
        self.entries += len(entries)
        self.pages += len(others)
        self.links += block.lines if block.reason == CONTENTS else ()
        return True

    @property
    def has_lines(self) -> bool:
        """Whether an entry was read, or several numbers of pages."""
        return bool(self.first) or self.pages > 1

    @property
    def is_contents(self) -> bool:
        """Whether this is a table of contents."""
        if self.is_titled:
            return self.has_lines
        is_list = len(self.links) > 1 or (self.links and not SENTENCE_END.search(self.links[0]))
        return bool(is_list) or self.entries >= _FEWEST_ENTRIES


def _end_of_contents(blocks: Sequence[Block], at: int, is_entry: _IsEntry) -> int:
    """Return the index after the table of contents that begins at the block `at`, by its title or
    by an entry. Return `at` if no table begins there."""
    table = _Table(is_contents_title(blocks[at].text))
    stop = at + table.is_titled
    for place in range(stop, len(blocks)):
        block = blocks[place]
        if not block.is_shown:
            continue
        is_linked = block.reason == CONTENTS
        entries = [line for line in block.lines if is_linked or is_entry(line, place)]
        others = [line for line in block.lines if line not in entries]
        if table.ends_before(block, others):
            break
        if table.add(block, entries, others):
            stop = place + 1
        elif block.kind == "heading":
            if table.is_titled and blocks[at].kind == "heading" and not table.has_lines:
                return place  # the whole section
            break
    return stop if table.is_contents else at
