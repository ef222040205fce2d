"""Blocks: what a document with markup has on lines of its own, and the book that is made of
them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from narrative_twins.stories.books.book import Book, Part, is_break, is_verse, make_book
from narrative_twins.stories.books.plain import GUTENBERG_BEGINS, GUTENBERG_ENDS

LONGEST_HEADING = 300
"""Characters. Longer ones are paragraphs that somebody has set as headings."""
_LONGEST_VERSE = 80  # characters of a line
_TITLE = re.compile(r"^The Project Gutenberg e-?(?:book|text) of (.*?)(?:, by .*)?$", re.IGNORECASE)


class Block(NamedTuple):
    """A block of a document.

    Attributes:
        kind: a heading; a paragraph; a marked break; a label, which is the heading that a table of
            contents has for this place, if there is none here; an empty paragraph (blank); or what
            is not of the story (other).
        lines: the lines of its text, without white space around them.
        level: of a heading or label, how deep it is: 1 for the highest.
    """

    kind: Literal["heading", "paragraph", "break", "label", "blank", "other"]
    lines: tuple[str, ...] = ()
    level: int = 1

    @property
    def words(self) -> str:
        """Its letters and digits, by which it is compared."""
        return "".join(filter(str.isalnum, "".join(self.lines))).casefold()


def book_of_blocks(blocks: Iterable[Block], title: str | None, width: int | None = None) -> Book:
    """A book of blocks in order, whose text is theirs. The licence of Project Gutenberg is left
    out, and empty paragraphs are breaks if few have one before them. `width` is that to which lines
    were wrapped, None if their ends are all meant. Raises a `ValueError` if there is no paragraph.
    """
    found = _headings_for_labels(_without_licence([_plainer(block) for block in blocks]))
    kinds = [block.kind for block in found]
    gaps = list(pairwise(kinds)).count(("blank", "paragraph"))
    if gaps * 4 > kinds.count("paragraph"):
        found = [block for block in found if block.kind != "blank"]
    text: list[str] = []
    parts: list[Part] = []
    position = 0
    for block in found:
        if block.kind == "other":
            parts.append(Part("other", (position, position)))
            continue
        lines = (" ".join(block.lines),) if block.kind == "heading" else block.lines or ("* * *",)
        edges = list(accumulate((len(line) + 1 for line in lines), initial=position))
        is_short = max(map(len, lines)) <= _LONGEST_VERSE
        if block.kind == "paragraph" and is_short and is_verse(lines, width):
            parts += [Part("paragraph", (lo, hi - 1)) for lo, hi in pairwise(edges)]
        else:
            kind = "break" if block.kind not in ("heading", "paragraph") else block.kind
            parts.append(Part(kind, (position, edges[-1] - 1), block.level))
        text += ["\n".join(lines), "\n\n"]
        position = edges[-1] + 1
    return make_book("".join(text[:-1]), parts, _TITLE.sub(r"\1", title) if title else None)


def _plainer(block: Block) -> Block:
    """A block without what it is not: no heading of a whole paragraph, no paragraph that is a
    mark."""
    if block.kind not in ("heading", "paragraph"):
        return block
    if len(block.lines) == 1 and is_break(block.lines[0]):
        return Block("break")
    is_long = sum(map(len, block.lines)) > LONGEST_HEADING
    return block._replace(kind="paragraph") if is_long else block


def _without_licence(blocks: Sequence[Block]) -> Sequence[Block]:
    texts = ["\n".join(block.lines) for block in blocks]
    begins = [at for at, text in enumerate(texts) if GUTENBERG_BEGINS.match(text)]
    start = begins[-1] + 1 if begins else 0
    ends = (at for at in range(start, len(texts)) if GUTENBERG_ENDS.match(texts[at]))
    return blocks[start : next(ends, len(texts))]


def _headings_for_labels(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with headings in place of labels, where the document has none of its own. A label
    may also show that the next paragraphs are a heading."""
    found: list[Block] = []
    labels: list[Block] = []
    # Once for each block, which many labels may be compared with.
    words = [block.words for block in blocks] if any(b.kind == "label" for b in blocks) else []
    before: str | None = None  # the kind of the last block that is neither blank nor a break
    skipped = 0  # blocks before this one are in a heading
    for at, block in enumerate(blocks):
        if block.kind == "label":
            labels.append(block)
            continue
        has_text = block.kind not in ("blank", "break")
        if labels and has_text:
            stop = _stop_of_heading(blocks, words, at, labels[-1])
            if stop > at:
                heading = tuple(line for part in blocks[at:stop] for line in part.lines)
                labels[-1] = labels[-1]._replace(lines=heading)
            if stop > at or "heading" not in (before, block.kind):
                found += [label._replace(kind="heading") for label in labels]
                before = "heading"
            labels = []
            skipped = stop
        if at >= skipped:
            found.append(block)
            before = block.kind if has_text else before
    return found


def _stop_of_heading(
    blocks: Sequence[Block], words_of: Sequence[str], at: int, label: Block
) -> int:
    """The end of the paragraphs from `at` that are the words of the label; `at` if they are
    others. `words_of` has the words of each block."""
    expected, compared, stop = label.words, 0, at
    while stop < len(blocks) and blocks[stop].kind == "paragraph":
        words = words_of[stop]
        if not words or not expected.startswith(words, compared):
            break
        compared += len(words)
        stop += 1
    return stop if compared == len(expected) else at
