"""Headings that a document does not mark as such, which are entries of its table of contents and
lines of paragraphs; and which headings together are the heading of a chapter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import Literal, TypeAlias

from narrative_twins.books.blocks import SENTENCE_END, Block, is_break
from narrative_twins.books.contents import is_contents_title
from narrative_twins.stories.headings import UNKNOWN, find_headings, heading_level
from narrative_twins.stories.sentences import Span

_LineKind: TypeAlias = Literal["heading", "paragraph", "break"]
_TYPED = 0  # the level of a heading that is typed as a line of a paragraph, until its level is set


def has_chapters(blocks: Sequence[Block]) -> bool:
    """Return whether the blocks of a document have chapters: a heading of `find_headings`, or at
    least two headings that each come before a paragraph with a sentence."""
    shown = [block for block in blocks if block.is_shown and not block.reason]
    sections = [
        after
        for block, after in pairwise(shown)
        if block.kind == "heading" and SENTENCE_END.search(after.text)
    ]
    return bool(find_headings("\n\n".join(b.text for b in shown))) or len(sections) > 1


def with_entries(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks, with each entry of the table of contents turned into a heading if the
    document has none at this place, otherwise dropped. Paragraphs that repeat the letters of an
    entry become its heading."""
    entries: list[Block] = []
    is_headed = False  # by a heading just before that had no entry
    stop = 0  # blocks before this one are in a heading
    for at, block in enumerate(blocks):
        if block.kind == "entry":
            entries.append(block)
        elif at >= stop and (not block.is_shown or block.reason):
            yield block
        elif at >= stop:
            stop = _end_of_heading(blocks, at, entries[-1].letters) if entries else at
            if stop > at:
                lines = chain.from_iterable(part.lines for part in blocks[at:stop])
                entries[-1] = entries[-1]._replace(lines=tuple(lines))
            if stop > at or (block.kind == "paragraph" and not is_headed):
                yield from (entry._replace(kind="heading") for entry in entries)
            is_headed = block.kind == "heading" and not entries
            entries = []
            if stop == at:
                yield block


def _end_of_heading(blocks: Sequence[Block], at: int, entry: str) -> int:
    """Return the index after the paragraphs that spell `entry`, from `blocks[at]` on: `at + 2` for
    `Chapter` and `1`, if the entry is `"chapter1"`. Return `at` if they do not spell the entry."""
    compared, stop = 0, at
    while stop < len(blocks) and blocks[stop].kind == "paragraph":
        letters = blocks[stop].letters
        if not letters or not entry.startswith(letters, compared):
            break
        compared += len(letters)
        stop += 1
    return stop if compared == len(entry) else at


def with_typed_headings(text: str, blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks of a book with this text, with paragraphs divided: each line that is a
    heading, a marked break or `Contents` becomes a block."""
    headings = {start for start, _ in find_headings(text)}

    def form_of(placed_line: tuple[str, Span]) -> tuple[_LineKind, int]:
        """Return the kind of a line, and a number. Adjacent lines equal in both become one block; a
        line that stays alone has its offset as number, others -1."""
        line, (start, _) = placed_line
        if is_break(line):
            return "break", start
        if start in headings:
            return "heading", start
        return "paragraph", start if is_contents_title(line) else -1

    for block in blocks:
        if not block.is_prose:
            yield block
            continue
        groups = groupby(zip(block.lines, block.spans, strict=True), form_of)
        for (kind, _), lines in groups:
            yield block.of_lines(lines)._replace(kind=kind, level=_TYPED)


def with_levels(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks, with the level of each heading that is typed as a line of a paragraph."""
    above: Block | None = None  # the heading before, without a paragraph between
    for block in blocks:
        if block.kind == "heading":
            above = block._replace(level=block.level or _level_below(above, block.text))
            yield above
        else:
            above = None if block.is_prose else above
            yield block


def _level_below(above: Block | None, heading: str) -> int:
    """Return the level of a heading by its form, and by the heading above, if there is one."""
    level = heading_level(heading)
    if above and (level == UNKNOWN or heading_level(above.text) < level):
        return max(level, above.level + 1)
    return level


def chapter_headings(headings: Sequence[Block]) -> list[Block]:
    """Return the headings that together are the heading of a chapter, out of all headings right
    before its first paragraph: the last, and before it each heading that is less deep than the
    next. Of the depths 1, 1, 2 these are the last two."""
    # What is not deeper than the heading before it begins anew: a half title, then a chapter.
    first = len(headings) - 1
    while first > 0 and headings[first - 1].level < headings[first].level:
        first -= 1
    return list(headings[max(0, first) :])
