"""How blocks become a book: its text, chapters, paragraphs and marked breaks between scenes, and
what is left out, by the rules of the modules beside this one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from narrative_twins.books.asides import without_asides, without_notes
from narrative_twins.books.blocks import CONTENTS, HEADING, LICENCE, Block, is_verse
from narrative_twins.books.book import Book, Chapter
from narrative_twins.books.contents import without_contents
from narrative_twins.books.gutenberg import plain_title, span_of_book, title_in_header
from narrative_twins.books.headings import (
    chapter_headings,
    with_entries,
    with_levels,
    with_typed_headings,
)
from narrative_twins.books.title_page import title_of_book, without_title_page
from narrative_twins.stories.sentences import Span
from narrative_twins.stories.speech import NAME

_APART = 100  # the level of a heading that does not belong to the next one
_INITIAL = re.compile(r"[\"'“‘«]?[^\W\d_]")
_WITHOUT_TEXT, _ON_ONE_LINE = ("left out", "blank"), ("heading", "break")  # kinds


def book_of_blocks(
    blocks: Iterable[Block],
    title: str | None = None,
    width: int | None = None,
    problems: Sequence[str] = (),
) -> Book:
    """Return the book that consists of some blocks, in order. Raises a `ValueError` without a
    paragraph. For `title` and `problems` see `Book`, for `width` see `is_verse`.

    - A heading begins a chapter. It may be typed as a paragraph, see `find_headings`. Of several
      headings in a row, the last is the heading of the chapter. It includes the headings right
      before it that are each less deep than the next: a part and its first chapter.
    - Left out are tables of contents, see `without_contents`, pictures and notes in brackets, and
      the licence of Project Gutenberg.
    - The first of several headings in a row is the title if it repeats the argument `title`, or if
      all other headings are deeper.
    - The first paragraphs, up to one that ends as a sentence does, are left out as a title page if
      most of their long words have capitals.
    - A paragraph of one capital letter is the initial of the next, if this begins in lower case.
    - Empty paragraphs are breaks, unless many paragraphs have one before them.
    - The lines of verse are paragraphs of their own, see `is_verse`.
    """
    text, placed, title_of_file = _placed(with_entries(_with_initials(without_asides(blocks))))
    divided = with_levels([*without_notes(text, [*with_typed_headings(text, placed)])])
    kept = without_title_page([*without_contents(_with_breaks(divided))])
    reader = _ChapterReader(
        headings=[block for block in kept if block.kind == "heading"],
        width=width,
        title=plain_title(title) if title else title_of_file,
    )
    for block in kept:
        reader.read(block)
    if not reader.chapters:
        raise ValueError((*problems, "has no text of a story; check that it is complete")[0])
    return Book(text, reader.result(), reader.title, _left_out(kept), tuple(problems))


@dataclass
class _ChapterReader:
    """Reads the blocks of a book, in order, into chapters.

    Attributes:
        headings: all headings of the book.
        width: see `is_verse`.
        title: the title that the file names; after reading, the title of the book.
        chapters: the heading, the paragraphs and the breaks of each chapter, see `Chapter`.
    """

    headings: Sequence[Block]
    width: int | None
    title: str | None
    chapters: list[tuple[Span | None, list[Span], set[int]]] = field(default_factory=list)
    _before: list[Block] = field(default_factory=list)  # the headings since the last paragraph
    _is_broken: bool = False  # after a marked break

    def read(self, block: Block) -> None:
        """Read the next block."""
        if block.kind == "heading":
            self._before.append(block)
        elif block.reason == CONTENTS:
            self._before = [heading._replace(level=_APART) for heading in self._before[-1:]]
        elif block.kind == "break":
            self._is_broken = True
        elif block.kind == "paragraph" and block.letters:
            if self._before or not self.chapters:
                self._begin_chapter()
            _, paragraphs, breaks = self.chapters[-1]
            if self._is_broken:
                breaks.add(len(paragraphs))
                self._is_broken = False
            paragraphs += _paragraphs_of(block, self.width)

    def _begin_chapter(self) -> None:
        """Begin a chapter under the headings since the last paragraph."""
        if not self.chapters:
            name = title_of_book(self._before, self.headings, self.title)
            if name is not None:
                self.title = name
                del self._before[0]
        heading = chapter_headings(self._before)
        span = (heading[0].span[0], heading[-1].span[1]) if heading else None
        self.chapters.append((span, [], set()))
        self._before, self._is_broken = [], False

    def result(self) -> tuple[Chapter, ...]:
        """Return the chapters."""
        return tuple(
            Chapter(heading, tuple(paragraphs), frozenset(breaks))
            for heading, paragraphs, breaks in self.chapters
        )


def _paragraphs_of(block: Block, width: int | None) -> Sequence[Span]:
    """Return the spans of the paragraphs in a block: one, or the lines of verse, except that the
    name of who speaks, before verse, is in one paragraph with the first line."""
    if not is_verse(block.lines, width):
        return [block.span]
    first, second, *others = block.spans
    cue = NAME.fullmatch(block.lines[0])
    if cue and cue["capitals"] and not block.lines[1].isupper():
        return [(first[0], second[1]), *others]
    return block.spans


def _left_out(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return `Book.left_out`: of all blocks of a book, the ones with text but no paragraphs."""
    place, result = "the beginning", list[Block]()
    for block in blocks:
        if block.letters and block.kind != "paragraph":
            reason = HEADING if block.kind == "heading" else block.reason
            where = block.place or f"after {place}"
            is_more = bool(result) and result[-1].reason == reason == LICENCE
            lines = (*result.pop().lines, *block.lines) if is_more else block.lines
            result.append(Block("left out", lines, reason=reason, place=where))
        place = block.text if block.kind == "heading" else place
    return tuple(result)


def _with_initials(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks, with each paragraph that is only an initial letter joined to the next
    paragraph: `T` and `he mill burned.` become `The mill burned.`"""
    result: list[Block] = []
    for block in blocks:
        if [each.kind for each in (*result[-1:], block)] == ["paragraph"] * 2 and block.lines:
            last, (line, *lines) = result[-1].text, block.lines
            if line[0].islower() and last[-1:].isupper() and _INITIAL.fullmatch(last):
                del result[-1]
                block = block._replace(lines=(last + line, *lines))
        result.append(block)
    return result


def _placed(blocks: Iterable[Block]) -> tuple[str, list[Block], str | None]:
    """Return the text of a book; its blocks, with the span of each line in this text; and the title
    in the header of Project Gutenberg, None without one. The text excludes the header and the
    licence, which become blocks that are left out."""
    blocks = [
        block._replace(lines=(block.text or "* * *",)) if block.kind in _ON_ONE_LINE else block
        for block in blocks
    ]
    shown = (block for block in blocks if block.kind not in _WITHOUT_TEXT)
    text = "\n\n".join("\n".join(block.lines) for block in shown)
    lo, hi = span_of_book(text)
    title = title_in_header(text[:lo])
    lo = hi - len(text[lo:hi].lstrip())
    placed: list[Block] = []
    position = -lo
    for block in blocks:
        if block.kind in _WITHOUT_TEXT:
            placed.append(block)
            continue
        block = block.at(position)
        position = block.span[1] + len("\n\n")
        lines = zip(block.lines, block.spans, strict=True)
        for is_inside, group in groupby(lines, lambda line: 0 <= line[1][0] < hi - lo):
            part = block.of_lines(group)
            placed.append(part if is_inside else part.left_out(LICENCE)._replace(spans=()))
    return text[lo:hi].rstrip(), placed, title


def _with_breaks(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks, with blanks turned into breaks if at most a quarter of all paragraphs come
    right after a paragraph and a blank. Otherwise blanks are removed."""
    read = list(blocks)
    kinds = [block.kind for block in read if block.kind != "left out"]
    triples = zip(kinds, kinds[1:], kinds[2:], strict=False)
    count = list(triples).count(("paragraph", "blank", "paragraph"))
    # Where many paragraphs have one before them, it is the layout of the file.
    is_usual = count * 4 > kinds.count("paragraph")
    return [
        block._replace(kind="break") if block.kind == "blank" else block
        for block in read
        if not (is_usual and block.kind == "blank")
    ]
