"""Blocks, of which documents of every format consist, and the rules by which blocks are a book: its
title, chapters, paragraphs and marked breaks between scenes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from narrative_twins.stories.sentences import UNKNOWN, Span, heading_level, is_blank

CONTENTS = "table of contents"
"""The reason for which entries of one are left out. A heading before them does not
belong to what follows."""
LONGEST_HEADING = 300
"""Characters. Longer ones are paragraphs that somebody has set as headings."""
_LONGEST_VERSE = 80  # characters of a line
_SHORT = 60  # wrapped text has longer lines than this
_TITLE_PAGE = 400  # characters that the words of a title page may have
_APART = 100  # the level of a heading that does not belong to the next one

_FLAGS = re.IGNORECASE | re.MULTILINE
GUTENBERG_BEGINS = re.compile(
    r"^[ \t]*(?:\*{3} ?START OF (?:THE|THIS) PROJECT GUTENBERG[^*]{0,1000}\*{3}|\*END[* ]*THE SMALL"
    r" PRINT!).*$",
    _FLAGS,
)
GUTENBERG_ENDS = re.compile(
    r"^[ \t]*(?:\*{3} ?END OF (?:THE|THIS) PROJECT GUTENBERG|\*{3} ?START: FULL LICENSE|"
    r"End of (?:the |this )?Project Gutenberg(?:'s|’s)? )",
    _FLAGS,
)
_TITLE = re.compile(r"^The Project Gutenberg e-?(?:book|text) of (.*?)(?:, by .*)?$", re.IGNORECASE)
_BREAK = re.compile(r"[\s*#~•·⁂❦❧☙§–—_=+✻✽✦◆◇○●-]{1,100}")
_LISTS = {"contents", "tableofcontents", "listofillustrations", "illustrations"}
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»«“)\]]*$")
_OPENING = "\"'“‘„«»‚‹›([_—–-… "


class Block(NamedTuple):
    """A block of a document.

    Attributes:
        kind: a heading; a paragraph; a marked break; an empty paragraph (blank); a label, which is
            the heading that a table of contents has for this place; or what is left out.
        lines: the lines of its text, without white space around them.
        level: of a heading or label, how deep it is: 1 for the highest.
        reason: why it is left out.
        spans: the characters of its lines in the text of the file; empty if the text of the book is
            made of the blocks.
    """

    kind: Literal["heading", "paragraph", "break", "blank", "label", "left out"]
    lines: tuple[str, ...] = ()
    level: int = 1
    reason: str = ""
    spans: tuple[Span, ...] = ()

    @property
    def text(self) -> str:
        """Its text on one line."""
        return " ".join(" ".join(self.lines).split())

    @property
    def letters(self) -> str:
        """Its letters and digits, by which two copies of a heading are compared."""
        return "".join(filter(str.isalnum, "".join(self.lines))).casefold()


class Chapter(NamedTuple):
    """A chapter of a book.

    Attributes:
        heading: the character span of the heading, which is not a sentence of the story; None
            without one, as for what comes before the first heading.
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
        text: the text of the book: for plain text the text of the file, without the header and
            the licence of Project Gutenberg; for other formats the extracted text. All spans refer
            to its characters.
        chapters: the chapters in order, each with at least one paragraph.
        title: the title, if the file has one.
        left_out: blocks of text that are in no chapter, in order, each with the reason.
    """

    text: str = field(repr=False)
    chapters: tuple[Chapter, ...]
    title: str | None = None
    left_out: tuple[Block, ...] = field(default=(), repr=False, compare=False)

    @property
    def paragraphs(self) -> list[Span]:
        """The character spans of all paragraphs, in order."""
        return [span for chapter in self.chapters for span in chapter.paragraphs]

    def heading(self, chapter: int) -> str | None:
        """The heading of a chapter on one line, if it has one."""
        span = self.chapters[chapter].heading
        return None if span is None else " ".join(self.text[slice(*span)].split())


def book_of_blocks(
    blocks: Iterable[Block],
    title: str | None = None,
    width: int | None = None,
    text: str | None = None,
) -> Book:
    """The book that consists of some blocks, in order.

    - A heading begins a chapter. Of several headings without a paragraph between them, the last is
      the heading of the chapter, with the ones before it that are each of a higher level: a part
      and its first chapter, a number and a title.
    - `Contents` and the like are no chapters, nor are the entries of a table of contents. If
      paragraphs follow its last entry, they have no heading.
    - A heading above all others at the beginning is the title.
    - A title page is not a chapter: some words before the first heading, of which none ends as a
      sentence does.
    - Empty paragraphs are breaks if few paragraphs have one before them.
    - The lines of verse are paragraphs of their own, see `is_verse`.

    Args:
        blocks: the blocks.
        title: the title, if the file has one.
        width: see `is_verse`.
        text: the text of the file, if the blocks have spans in it. Otherwise the text is made of
            the blocks, and the licence of Project Gutenberg among them is left out.

    Raises:
        ValueError: there is no paragraph.
    """
    if text is None:
        text, placed = _joined(_with_headings(_without_licence(list(map(_plainer, blocks)))))
        title = _TITLE.sub(r"\1", title) if title else None
    else:
        placed = list(blocks)
    headings = [block for block in placed if block.kind == "heading"]
    last = {heading.letters: at for at, heading in enumerate(headings)}
    left_out = [block for block in placed if block.kind == "left out"]
    chapters: list[tuple[list[Block], list[Span], set[int]]] = []
    run: list[Block] = []  # the headings since the last paragraph
    is_broken = False  # after a marked break
    passed = 0  # headings so far
    for block in placed:
        if block.kind == "heading":
            run.append(block)
            passed += 1
        elif block.kind == "left out" and block.reason == CONTENTS:
            run = [heading._replace(level=_APART) for heading in run[-1:]]
        elif block.kind == "break":
            is_broken = True
        elif block.kind == "paragraph" and not is_blank("".join(block.lines)):
            if run or not chapters:
                if not chapters and (name := _title(run, headings, title)) is not None:
                    title = name
                    del run[0]
                is_repeated = bool(run) and last[run[-1].letters] >= passed
                chapters.append((_own_headings(run, is_repeated), [], set()))
                run, is_broken = [], False
            _, paragraphs, breaks = chapters[-1]
            if is_broken:
                breaks.add(len(paragraphs))
                is_broken = False
            paragraphs += block.spans if is_verse(block.lines, width) else [_span(block)]
    if len(chapters) > 1 and not chapters[0][0] and _is_title_page(text, chapters[0][1]):
        words = tuple(text[slice(*span)] for span in chapters.pop(0)[1])
        left_out.append(Block("left out", words, reason="title page"))
    story = tuple(
        Chapter(_span(*run) if run else None, tuple(paragraphs), frozenset(breaks))
        for run, paragraphs, breaks in chapters
        if "".join(heading.letters for heading in run) not in _LISTS
    )
    if not story:
        raise ValueError("has no text of a story; check that it is complete")
    return Book(text, story, title, tuple(left_out))


def is_break(line: str) -> bool:
    """Whether a line has only marks, such as asterisks."""
    return bool(_BREAK.fullmatch(line)) and not line.isspace()


def is_verse(lines: Sequence[str], width: int | None = None) -> bool:
    """Whether the lines of a paragraph are clearly verse: they are short, each begins with a
    capital letter and, if lines were broken to fit into `width` characters, most of them end though
    the next word would have fitted."""
    if len(lines) < 2 or not all(line.lstrip(_OPENING)[:1].isupper() for line in lines):
        return False
    if max(map(len, lines)) > _LONGEST_VERSE:
        return False
    free = [
        width is None or len(line) + 1 + len(after.split()[0]) <= width
        for line, after in pairwise(lines)
    ]
    return sum(free) * 4 >= len(free) * 3


def wrap_width(lengths: Iterable[int]) -> int:
    """The width to which the lines of a text seem to be wrapped, by their lengths: three quarters
    of the lines of prose come near to it."""
    ordered = sorted(lengths)
    return max(_SHORT, ordered[len(ordered) * 3 // 4] if ordered else 0)


def _span(*blocks: Block) -> Span:
    return blocks[0].spans[0][0], blocks[-1].spans[-1][1]


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


def _with_headings(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with headings in place of labels, where the document has none of its own. A label
    may also show that the next paragraphs are a heading."""
    result: list[Block] = []
    labels: list[Block] = []
    # Once for each block, which many labels may be compared with.
    letters = [block.letters for block in blocks] if any(b.kind == "label" for b in blocks) else []
    before: str | None = None  # the kind of the last block that is neither blank nor a break
    skipped = 0  # blocks before this one are in a heading
    for at, block in enumerate(blocks):
        if block.kind == "label":
            labels.append(block)
            continue
        has_text = block.kind not in ("blank", "break")
        if labels and has_text:
            stop = _end_of_heading(blocks, letters, at, labels[-1].letters)
            if stop > at:
                words = tuple(line for part in blocks[at:stop] for line in part.lines)
                labels[-1] = labels[-1]._replace(lines=words)
            if stop > at or "heading" not in (before, block.kind):
                result += [label._replace(kind="heading") for label in labels]
                before = "heading"
            labels = []
            skipped = stop
        if at >= skipped:
            result.append(block)
            before = block.kind if has_text else before
    return result


def _end_of_heading(blocks: Sequence[Block], letters: Sequence[str], at: int, label: str) -> int:
    """The end of the paragraphs from `at` that have together the letters of a label; `at` if they
    have others. `letters` has the letters of each block."""
    compared, stop = 0, at
    while stop < len(blocks) and blocks[stop].kind == "paragraph":
        if not letters[stop] or not label.startswith(letters[stop], compared):
            break
        compared += len(letters[stop])
        stop += 1
    return stop if compared == len(label) else at


def _joined(blocks: Sequence[Block]) -> tuple[str, list[Block]]:
    """The text that some blocks make, and the blocks with the spans of their lines in it. Blanks
    are breaks if they are rare, and otherwise dropped."""
    kinds = [block.kind for block in blocks]
    is_usual = list(pairwise(kinds)).count(("blank", "paragraph")) * 4 > kinds.count("paragraph")
    pieces: list[str] = []
    placed: list[Block] = []
    position = 0
    for block in blocks:
        if block.kind == "left out":
            placed.append(block)
        elif block.kind != "blank" or not is_usual:
            lines = block.lines or ("* * *",)
            lines = (" ".join(lines),) if block.kind == "heading" else lines
            kind = block.kind if block.lines else "break"
            edges = list(accumulate((len(line) + 1 for line in lines), initial=position))
            spans = tuple((start, stop - 1) for start, stop in pairwise(edges))
            placed.append(block._replace(kind=kind, lines=lines, spans=spans))
            pieces += ["\n".join(lines), "\n\n"]
            position = edges[-1] + 1
    return "".join(pieces[:-1]), placed


def _is_title_page(text: str, paragraphs: Sequence[Span]) -> bool:
    words = [text[slice(*span)].rstrip() for span in paragraphs]
    return sum(map(len, words)) <= _TITLE_PAGE and not any(map(_SENTENCE_END.search, words))


def _own_headings(run: Sequence[Block], is_repeated: bool) -> list[Block]:
    """The headings among those before a chapter that are its own; `is_repeated`: whether the last
    of them is repeated later, so that it may be an entry of a table of contents."""
    if not run or (is_repeated and len(run) > 1 and run[-2].level == run[-1].level):
        return []
    first = len(run) - 1
    while first and run[first - 1].level < run[first].level:
        first -= 1
    return list(run[first:])


def _title(run: Sequence[Block], headings: Sequence[Block], title: str | None) -> str | None:
    """The title of the book, if the first of its first headings is that."""
    if len(run) < 2:
        return None
    if title is not None:
        letters = "".join(filter(str.isalnum, title)).casefold()
        return title if run[0].letters == letters else None
    words = run[0].text.lstrip("# ")
    # "Part One" above chapters is not a title, though it may be the only part.
    level = min(heading.level for heading in headings[1:])
    is_first = run[0].spans == headings[0].spans and headings[0].level < level
    return words if is_first and heading_level(words) == UNKNOWN else None
