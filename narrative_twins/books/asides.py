"""Asides in a document: pictures, notes and the like in brackets, and paragraphs that are notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from narrative_twins.books.blocks import LICENCE, LONGEST_HEADING, NOTE, PICTURE, Block
from narrative_twins.books.gutenberg import CREDIT_BLOCKS, is_credit

_LONGEST_NOTE = 2_000  # characters of a note of which only the mark is known
_ASIDES = {
    reason: re.compile(form, re.IGNORECASE)
    for reason, form in {
        PICTURE: r"\[Illustration[^\]]*\]",
        NOTE: r"\[(?:(?:foot|end)note|transcriber[’']?s?[’']? note)\b"
        r"(?:[^\[\]]|\[[^\[\]]*\])*\]",
        LICENCE: r"<<[^<>]*(?:electronic|gutenberg|copyright)[^<>]*>>",
    }.items()
}
_MARK = re.compile(r"\[(?:\d{1,3}|[A-Z*†])\]|\{\d{1,3}\}")


def without_asides(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks, with asides (pictures and notes in brackets) cut out of paragraphs; each
    aside becomes a block that is left out. Headings that are too long become paragraphs."""
    for block in blocks:
        if block.kind == "heading":
            is_heading = block.letters and sum(map(len, block.lines)) <= LONGEST_HEADING
            block = block if is_heading else block._replace(kind="paragraph")
        if block.kind == "paragraph":
            yield from _cut(block)
        else:
            yield block


def _cut(paragraph: Block) -> Iterator[Block]:
    """Yield the asides in a paragraph as blocks that are left out, and what remains of it."""
    text = "\n".join(paragraph.lines)
    forms = _ASIDES.items() if "[" in text or "<<" in text else ()
    asides = [(reason, match[0]) for reason, form in forms for match in form.finditer(text)]
    if not asides:
        yield paragraph
        return
    for reason, aside in asides:
        yield Block("left out", tuple(aside.split("\n")), reason=reason)
        text = text.replace(aside, "", 1)
    lines = tuple(filter(None, (" ".join(line.split()) for line in text.split("\n"))))
    if lines:
        yield paragraph._replace(lines=lines)


def without_notes(text: str, blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks of a book with this text, with paragraphs left out that are notes, or that
    say who made a file of Project Gutenberg. A note begins with a mark, such as `[1]`, that the
    book has more than once."""
    marks = Counter(_MARK.findall(text))
    is_of_gutenberg = any(block.reason == LICENCE for block in blocks)
    count = 0
    for block in blocks:
        count += block.is_shown
        if block.is_prose and _is_note(block.text, marks):
            yield block.left_out(NOTE)
        elif (
            is_of_gutenberg and count <= CREDIT_BLOCKS and block.is_prose and is_credit(block.text)
        ):
            yield block.left_out(LICENCE)
        else:
            yield block


def _is_note(text: str, marks: Counter[str]) -> bool:
    """Return whether a paragraph is a note by the mark at its beginning. `marks` are counts."""
    mark = _MARK.match(text)
    return mark is not None and marks[mark[0]] > 1 and len(mark[0]) < len(text) <= _LONGEST_NOTE
