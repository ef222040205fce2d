"""Blocks: what a document with markup has on lines of its own, and the book that is made of
them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.parts import Part, is_break, is_verse, make_book
from narrative_twins.stories.books.plain import GUTENBERG_BEGINS, GUTENBERG_ENDS

LONGEST_HEADING = 300
"""Characters. Longer ones are paragraphs that somebody has set as headings."""
_LONGEST_VERSE = 80  # characters of a line
_MARK = "* * *"
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


def book_of_blocks(blocks: Iterable[Block], title: str | None) -> Book:
    """A book of blocks in order, whose text is theirs. The licence of Project Gutenberg is left
    out, and empty paragraphs are breaks if few have one before them. Raises a `ValueError` if there
    is no paragraph.
    """
    found = _without_licence([_plainer(block) for block in blocks])
    found = list(_breaks_for_blanks(_headings_for_labels(found)))
    text, position = list[str](), 0
    parts: list[Part] = []
    for kind, lines, level in found:
        if kind == "other":
            parts.append(Part("other", (position, position)))
            continue
        lines = (_MARK,) if kind == "break" else (" ".join(lines),) if kind == "heading" else lines
        stop = position + sum(len(line) + 1 for line in lines) - 1
        if kind != "paragraph":
            parts.append(Part("heading" if kind == "heading" else "break", (position, stop), level))
        elif max(map(len, lines)) <= _LONGEST_VERSE and is_verse(lines):
            edges = list(accumulate((len(line) + 1 for line in lines), initial=position))
            parts += [Part(kind, (lo, hi - 1)) for lo, hi in zip(edges, edges[1:], strict=False)]
        else:
            parts.append(Part(kind, (position, stop)))
        text += ["\n".join(lines), "\n\n"]
        position = stop + 2
    return make_book("".join(text[:-1]), parts, _TITLE.sub(r"\1", title) if title else None)


def _plainer(block: Block) -> Block:
    """A block without what it is not: no heading of a whole paragraph, no paragraph that is a
    mark."""
    if block.kind == "heading" and sum(map(len, block.lines)) > LONGEST_HEADING:
        block = block._replace(kind="paragraph")
    if (
        block.kind in ("heading", "paragraph")
        and len(block.lines) == 1
        and is_break(block.lines[0])
    ):
        return Block("break")
    return block


def _without_licence(blocks: Sequence[Block]) -> list[Block]:
    texts = ["\n".join(block.lines) for block in blocks]
    begins = [at for at, text in enumerate(texts) if GUTENBERG_BEGINS.match(text)]
    start = begins[-1] + 1 if begins else 0
    stop = next(
        (at for at in range(start, len(texts)) if GUTENBERG_ENDS.match(texts[at])), len(texts)
    )
    return list(blocks[start:stop])


def _headings_for_labels(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with headings in place of labels, where the document has none of its own. A label
    may also tell that the paragraphs behind it are a heading."""
    found: list[Block] = []
    labels: list[Block] = []
    skipped = 0  # blocks before this one are in a heading
    for at, block in enumerate(blocks):
        if block.kind == "label":
            labels.append(block)
        elif labels and block.kind not in ("blank", "break"):
            stop = _stop_of_heading(blocks, at, labels[-1])
            own = next(
                (before for before in reversed(found) if before.kind not in ("blank", "break")),
                block,
            )
            if stop > at:
                heading = tuple(line for part in blocks[at:stop] for line in part.lines)
                labels[-1] = labels[-1]._replace(lines=heading)
            if stop > at or (own.kind != "heading" and block.kind != "heading"):
                found += [label._replace(kind="heading") for label in labels]
            labels = []
            skipped = stop
        if block.kind != "label" and at >= skipped:
            found.append(block)
    return found


def _stop_of_heading(blocks: Sequence[Block], at: int, label: Block) -> int:
    """The end of the paragraphs from `at` that are the words of the label; `at` if they are
    others."""
    rest, stop = label.words, at
    while stop < len(blocks) and blocks[stop].kind == "paragraph" and (words := blocks[stop].words):
        if not rest.startswith(words):
            break
        rest, stop = rest.removeprefix(words), stop + 1
    return at if rest else stop


def _breaks_for_blanks(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks with breaks in place of empty paragraphs, or without these if they are no rare
    mark."""
    paragraphs = sum(block.kind == "paragraph" for block in blocks)
    kinds = [block.kind for block in blocks]
    gaps = sum(
        before == "blank" and kind == "paragraph"
        for before, kind in zip(kinds, kinds[1:], strict=False)
    )
    for block in blocks:
        if block.kind != "blank":
            yield block
        elif gaps * 4 <= paragraphs:
            yield Block("break")
