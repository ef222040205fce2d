"""Blocks, of which documents of every format consist, and the rules that make a book of blocks: its
title, chapters, paragraphs and marked breaks between scenes, and what is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise, takewhile
from typing import Any, Literal, NamedTuple

from narrative_twins.stories.sentences import UNKNOWN, Span, find_headings, heading_level
from narrative_twins.stories.speech import NAME

CONTENTS = "contents"
"""Why a table of contents is left out. A heading before it does not belong to what follows."""
HEADING, LICENCE, NOTE, PICTURE = "headings", "licence", "notes", "pictures"
"""Other reasons why blocks are left out."""
MUCH = 0.05
"""Share of the letters (without headings and licence) that may be left out without a warning."""
LONGEST_HEADING = 300
"""Characters of a heading. Longer ones are paragraphs that somebody has set as headings."""
_LONGEST_VERSE = 80  # characters of a line
_SHORT = 60  # wrapped text has longer lines than this
_APART = 100  # the level of a heading that does not belong to the next one
LONGEST_LICENCE = 40_000
"""Characters of the licence of Project Gutenberg, at most; it has about half as many."""
_FRONT = 10  # blocks in which Project Gutenberg names who made the file
_LONGEST_NOTE = 2_000  # characters of a note of which only the mark is known
_ENTRIES = 3  # lines of a table of contents that has no title, at least

_FLAGS = re.IGNORECASE | re.MULTILINE
GUTENBERG_BEGINS = re.compile(
    r"^[ \t]*(?:\*{3} ?START OF (?:THE|THIS) PROJECT GUTENBERG[^*]{0,1000}\*{3}|\*END[* ]*THE SMALL"
    r" PRINT!).*$",
    _FLAGS,
)
GUTENBERG_ENDS = re.compile(
    r"^[ \t]*(?:\*{3} ?END OF (?:THE|THIS) PROJECT GUTENBERG|\*{3} ?START: FULL LICENSE|"
    r"(?:End of (?:the |this )?|Ende dieses )Projec?k?t Gutenberg(?:'s|’s)? )",
    _FLAGS,
)
_TITLE_LINE = re.compile(r"^Title:[ \t]*(\S.*(?:\n(?!\w+:)\S.*){0,4})", re.MULTILINE)
_TITLE = re.compile(r"^The Project Gutenberg e-?(?:book|text) of (.*?)(?:, by .*)?$", re.IGNORECASE)
_BREAK = re.compile(r"[\s*#~•·⁂❦❧☙§–—_=+✻✽✦◆◇○●-]{1,100}")
_CONTENTS = re.compile(r"(?:(?:table of )?contents|(?:list of )?illustrations)[.:]?", re.IGNORECASE)
_PAGE = re.compile(r"[\s.,…·_-](?:\d{1,4}|[ivxlc]{1,7})$")  # at the end of an entry
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
_CREDIT = re.compile(
    r"(?:Produced by|E-text prepared by|This e-?text was (?:produced|prepared)|Transcribed"
    r" (?:from|by)|The Project Gutenberg|This (?:header|e-?book|e-?text) )",
    re.IGNORECASE,
)
_FRONT_MATTER = re.compile(r"©|\b(?:copyright|isbn|all rights|published|edition)\b", re.IGNORECASE)
_INITIAL = re.compile(r"[\"'“‘«]?[^\W\d_]")
_LONG_WORDS = re.compile(r"[^\W\d_]{4,}")
SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»«“)\]]*$")
_SHOWN, _NO_TEXT = ("heading", "paragraph"), ("left out", "blank")  # kinds
_ONE_LINE = ("heading", "break")
_OPENING = "\"'“‘„«»‚‹›([_—–-… "


class Block(NamedTuple):
    """A block of a document.

    Attributes:
        kind: `"break"` is a marked break between scenes, `"blank"` an empty paragraph, `"label"` a
            heading that is only in the table of contents; the other kinds are what their names say.
        lines: the lines of the text, without white space around them.
        level: the depth of a heading or label; 1 is the highest.
        reason: why the block is left out; for a paragraph of links, why it may be; otherwise empty.
        spans: the span of each line in the text of the book; empty if the text lacks the block.
        place: where a left-out block was in the file, such as after which heading.
    """

    kind: Literal["heading", "paragraph", "break", "blank", "label", "left out"]
    lines: tuple[str, ...] = ()
    level: int = 1
    reason: str = ""
    spans: tuple[Span, ...] = ()
    place: str = ""

    @property
    def text(self) -> str:
        """The text of the block on one line."""
        return " ".join(" ".join(self.lines).split())

    @property
    def letters(self) -> str:
        """The letters and digits of the block in lower case, to compare copies of a heading."""
        return letters_of("".join(self.lines)).casefold()

    @property
    def words(self) -> tuple[str, ...]:
        """The words in lower case, to compare a heading with an entry of a table of contents."""
        return tuple(re.findall(r"\w+", self.text.casefold()))


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
                letters += len(block.letters) * (block.reason != LICENCE)
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
    - Left out are tables of contents, see `_without_contents`, pictures and notes in brackets, and
      the licence of Project Gutenberg.
    - The first of several headings in a row is the title if it repeats the argument `title`, or if
      all other headings are deeper.
    - The first paragraphs, up to one that ends as a sentence does, are left out as a title page if
      most of their long words have capitals.
    - A paragraph of one capital letter is the initial of the next, if this begins in lower case.
    - Empty paragraphs are breaks, unless many paragraphs have one before them.
    - The lines of verse are paragraphs of their own, see `is_verse`.
    """
    text, parts, said = _placed(_with_headings(_with_initials(_without_asides(blocks))))
    title = _TITLE.sub(r"\1", title) if title else said
    parts = _with_breaks(_divided(text, parts))
    placed = _without_title_page([*_without_contents(parts)])
    headings = [block for block in placed if block.kind == "heading"]
    chapters: list[tuple[Span | None, list[Span], set[int]]] = []
    run: list[Block] = []  # the headings since the last paragraph
    is_broken = False  # after a marked break
    for block in placed:
        if block.kind == "heading":
            run.append(block)
        elif block.reason == CONTENTS:
            run = [heading._replace(level=_APART) for heading in run[-1:]]
        elif block.kind == "break":
            is_broken = True
        elif block.kind == "paragraph" and block.letters:
            if run or not chapters:
                if not chapters and (name := _title(run, headings, title)) is not None:
                    title = name
                    del run[0]
                chapters.append((_span(*_chapter_headings(run)) if run else None, [], set()))
                run, is_broken = [], False
            _, paragraphs, breaks = chapters[-1]
            if is_broken:
                breaks.add(len(paragraphs))
                is_broken = False
            spans = block.spans if is_verse(block.lines, width) else (_span(block),)
            if len(spans) > 1 and not block.lines[1].isupper():
                cue = NAME.fullmatch(block.lines[0])
                if cue and cue["capitals"]:  # who speaks, and what
                    spans = ((spans[0][0], spans[1][1]), *spans[2:])
            paragraphs += spans
    if not chapters:
        raise ValueError((*problems, "has no text of a story; check that it is complete")[0])
    story = tuple(Chapter(span, tuple(inside), frozenset(at)) for span, inside, at in chapters)
    return Book(text, story, title, _left_out(placed), tuple(problems))


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


def letters_of(text: str) -> str:
    """Return the letters and digits of a text."""
    return "".join(filter(str.isalnum, text))


def frame(text: str) -> Span:
    """Return the span of a book in a text, without header and licence of Project Gutenberg."""
    # The last line of the book may also be in its middle, for example in a list of books.
    ends = [
        end
        for end in GUTENBERG_ENDS.finditer(text)
        if end[0].lstrip()[0] == "*" or len(text) - end.end() < LONGEST_LICENCE
    ]
    begins = [
        begin.end()
        for begin in GUTENBERG_BEGINS.finditer(text, 0, LONGEST_LICENCE)
        # Some early files have the small print at their end.
        if not any(end.start() < begin.start() for end in ends)
        and letters_of(text[begin.end() : begin.end() + LONGEST_LICENCE])
    ]
    start = begins[-1] if begins else 0
    return start, next((end.start() for end in ends if end.start() >= start), len(text))


def has_chapters(blocks: Sequence[Block]) -> bool:
    """Return whether the blocks of a document have chapters: a heading of `find_headings`, or at
    least two headings that each come before a paragraph with a sentence."""
    shown = [block for block in blocks if block.kind in _SHOWN and not block.reason]
    sections = [
        after
        for block, after in pairwise(shown)
        if block.kind == "heading" and SENTENCE_END.search(after.text)
    ]
    return bool(find_headings("\n\n".join(b.text for b in shown))) or len(sections) > 1


def is_break(line: str) -> bool:
    """Return whether a line is a marked break: it has only marks, such as asterisks."""
    return bool(_BREAK.fullmatch(line)) and not line.isspace()


def is_verse(lines: Sequence[str], width: int | None = None) -> bool:
    """Return whether the lines of a paragraph are clearly verse: all are short, each begins with a
    capital letter, and after most there was room for the next word. `width` is the number of
    characters at which the file wraps lines, None if it does not."""
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
    """Return the width to which lines of these lengths seem wrapped: their third quartile."""
    # The longest line may be a title or an address that could not be broken.
    ordered = sorted(lengths)
    return max(_SHORT, ordered[len(ordered) * 3 // 4] if ordered else 0)


def _span(*blocks: Block) -> Span:
    """Return the character span from the first line of the first block to the end of the last."""
    return blocks[0].spans[0][0], blocks[-1].spans[-1][1]


def _without_asides(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks, with asides (pictures and notes in brackets) cut out of paragraphs; each
    aside becomes a block that is left out. Headings that are too long become paragraphs."""
    for block in blocks:
        if block.kind == "heading" and not (
            block.letters and sum(map(len, block.lines)) <= LONGEST_HEADING
        ):
            block = block._replace(kind="paragraph")
        text = "\n".join(block.lines)
        if block.kind == "paragraph" and ("[" in text or "<<" in text):
            matches = ((reason, form.finditer(text)) for reason, form in _ASIDES.items())
            asides = [(reason, match[0]) for reason, each in matches for match in each]
            for reason, aside in asides:
                yield Block("left out", tuple(aside.split("\n")), reason=reason)
                text = text.replace(aside, "", 1)
            lines = (" ".join(line.split()) if asides else line for line in text.split("\n"))
            block = block._replace(lines=tuple(filter(None, lines)))
            if not block.lines:
                continue
        yield block


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


def _with_headings(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks, with each label turned into a heading if the document has none at this
    place, otherwise dropped. Paragraphs that repeat the letters of a label become its heading."""
    labels: list[Block] = []
    is_headed = False  # by a heading just before that had no label
    stop = 0  # blocks before this one are in a heading
    for at, block in enumerate(blocks):
        if block.kind == "label":
            labels.append(block)
            continue
        if at >= stop and block.kind in _SHOWN and not block.reason:
            stop = _end_of_heading(blocks, at, labels[-1].letters) if labels else at
            if stop > at:
                lines = tuple(line for part in blocks[at:stop] for line in part.lines)
                labels[-1] = labels[-1]._replace(lines=lines)
            if stop > at or (block.kind == "paragraph" and not is_headed):
                yield from (label._replace(kind="heading") for label in labels)
            is_headed = block.kind == "heading" and not labels
            labels = []
        if at >= stop:
            yield block


def _end_of_heading(blocks: Sequence[Block], at: int, label: str) -> int:
    """Return the index after the paragraphs that spell `label`, from `blocks[at]` on: `at + 2` for
    `Chapter` and `1`, if the label is `"chapter1"`. Return `at` if they do not spell the label."""
    compared, stop = 0, at
    while stop < len(blocks) and blocks[stop].kind == "paragraph":
        letters = blocks[stop].letters
        if not letters or not label.startswith(letters, compared):
            break
        compared += len(letters)
        stop += 1
    return stop if compared == len(label) else at


def _placed(blocks: Iterable[Block]) -> tuple[str, list[Block], str | None]:
    """Return the text of a book; its blocks, with the span of each line in this text; and the title
    in the header of Project Gutenberg, None without one. The text excludes the header and the
    licence, which become blocks that are left out."""
    blocks = [
        block._replace(lines=(block.text or "* * *",)) if block.kind in _ONE_LINE else block
        for block in blocks
    ]
    text = "\n\n".join("\n".join(block.lines) for block in blocks if block.kind not in _NO_TEXT)
    lo, hi = frame(text)
    title = _TITLE_LINE.search(text, 0, lo)
    lo = hi - len(text[lo:hi].lstrip())
    placed: list[Block] = []
    position = -lo
    for block in blocks:
        if block.kind in _NO_TEXT:
            placed.append(block)
            continue
        edges = list(accumulate((len(line) + 1 for line in block.lines), initial=position))
        spans = [(start, stop - 1) for start, stop in pairwise(edges)]
        lines = zip(block.lines, spans, strict=True)
        parts = groupby(lines, lambda part: 0 <= part[1][0] < hi - lo)
        for is_inside, group in parts:
            part = _block_of(block.kind, *group)._replace(level=block.level, reason=block.reason)
            licence = part._replace(kind="left out", reason=LICENCE, spans=())
            placed.append(part if is_inside else licence)
        position = edges[-1] + 1
    return text[lo:hi].rstrip(), placed, " ".join(title[1].split()) if title else None


def _divided(text: str, blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks, with paragraphs divided: each line that is a heading, a marked break or
    `Contents` becomes a block. Paragraphs that are notes are left out. Spans refer to `text`."""
    headings = {start for start, _ in find_headings(text)}
    marks = Counter(_MARK.findall(text))
    before: Block | None = None  # the heading before

    def kind_of(part: tuple[str, Span]) -> tuple[str, int]:
        """Return the kind of `part`, a line and its span, and a number. Adjacent lines equal in
        both become one block; a line that stays alone has its offset as number, others -1."""
        line, (start, _) = part
        if is_break(line):
            return "break", start
        if start in headings:
            return "heading", start
        return "paragraph", start if _CONTENTS.fullmatch(line) else -1

    is_of_gutenberg, read = any(block.reason == LICENCE for block in blocks), 0
    for block in blocks:
        parts = [block]
        if block.kind == "paragraph" and not block.reason:
            groups = groupby(zip(block.lines, block.spans, strict=True), kind_of)
            parts = [_block_of(kind, *group) for (kind, _), group in groups]
        for part in parts:
            read += part.kind in ("heading", "paragraph")
            if part.kind == "heading":
                if part is not block:
                    level = heading_level(part.text)
                    if before and (level == UNKNOWN or heading_level(before.text) < level):
                        level = max(level, before.level + 1)
                    part = part._replace(level=level)
                before = part
            elif part.kind == "paragraph" and not part.reason:
                if reason := _reason(part.text, marks, is_of_gutenberg and read <= _FRONT):
                    part = part._replace(kind="left out", reason=reason)
                else:
                    before = None
            yield part


def _reason(text: str, marks: Mapping[str, int], is_front: bool) -> str | None:
    """Return the reason to leave out a paragraph, None if it stays. A note begins with a mark, such
    as `[1]`, that the book has more than once by the counts `marks`. A credit says who made a file
    of Project Gutenberg; it is only searched for if the paragraph `is_front`."""
    mark = _MARK.match(text)
    if mark and marks[mark[0]] > 1 and len(mark[0]) < len(text) <= _LONGEST_NOTE:
        return NOTE
    return LICENCE if is_front and _CREDIT.match(text) else None


def _block_of(kind: Any, *lines: tuple[str, Span]) -> Block:
    """Return a block of some lines, each of which is a pair of a text and its span."""
    texts, spans = zip(*lines, strict=True)
    return Block(kind, texts, spans=spans)


def _with_breaks(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks, with blanks turned into breaks if at most a quarter of all paragraphs come
    right after a paragraph and a blank. Otherwise blanks are removed."""
    shown = list(blocks)
    kinds = [block.kind for block in shown if block.kind != "left out"]
    usual = zip(kinds, kinds[1:], kinds[2:], strict=False)
    count = list(usual).count(("paragraph", "blank", "paragraph"))
    # Where many paragraphs have one before them, it is the layout of the file.
    is_usual = count * 4 > kinds.count("paragraph")
    return [
        block._replace(kind="break") if block.kind == "blank" else block
        for block in shown
        if not (is_usual and block.kind == "blank")
    ]


def _without_contents(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks, with tables of contents left out. After a line `Contents` these are entries
    (lines that recur as headings) and lines that end in page numbers; after a heading `Contents`,
    also all blocks up to the next heading, if none is prose; elsewhere several entries in a row."""
    is_entry, stop = _entries(blocks), 0
    for at, block in enumerate(blocks):
        if at >= stop and block.kind in _SHOWN:
            stop = _end_of_contents(blocks, at, is_entry)
        is_inside = at < stop and block.kind in _SHOWN
        yield block._replace(kind="left out", reason=CONTENTS) if is_inside else block


def _entries(blocks: Sequence[Block]) -> Callable[[str, int], bool]:
    """Return a function `is_entry(line, at)`, which says whether a line of the block with the index
    `at` is an entry of a table of contents. An entry has the words of a heading in a later block,
    or one of both begins or ends with the other: `The Gull` and `Chapter 1: The Gull`."""
    whole: dict[tuple[str, ...], int] = {}  # the words of headings, with the last place
    parts: dict[tuple[str, ...], int] = {}  # words at their beginnings and ends
    shown = [at for at, block in enumerate(blocks) if block.kind in _SHOWN]
    for at, after in zip(shown, [*shown, -1][1:], strict=True):
        if blocks[at].kind == "heading":
            forms = [words := blocks[at].words]
            if blocks[after].kind == "heading":  # a number and a title may be one entry
                forms.append(words + blocks[after].words)
            whole |= dict.fromkeys(forms, at)
            parts |= dict.fromkeys((side for form in forms for side in _sides(form)), at)

    def is_entry(line: str, at: int) -> bool:
        """Return whether a line is an entry for a heading after the block `at`."""
        words = Block("paragraph", (line,)).words if len(line) <= LONGEST_HEADING else ()
        words = words[:-1] if len(words) > 2 and _PAGE.search(line) else words
        is_heading = max(whole.get(words, -1), parts.get(words, -1)) > at
        has_heading = is_heading or any(whole.get(side, -1) > at for side in _sides(words))
        return bool(words) and has_heading

    return is_entry


def _sides(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return all shorter beginnings and ends of words: `a b c` has `a`, `b c`, `a b` and `c`."""
    return (side for size in range(1, len(words)) for side in (words[:size], words[size:]))


def _end_of_contents(blocks: Sequence[Block], at: int, is_entry: Callable[[str, int], bool]) -> int:
    """Return the index after the table of contents that begins at the block `at`, by its title or
    by an entry. Return `at` if no table begins there. `is_entry(line, at)` recognizes entries."""
    is_titled = _CONTENTS.fullmatch(blocks[at].text) is not None
    first: tuple[str, ...] = ()
    stop = start = at + is_titled
    count = pages = 0  # lines that come again, or end in numbers of pages
    linked: list[str] = []  # lines of links
    for place in range(start, len(blocks)):
        block = blocks[place]
        if block.kind not in _SHOWN:
            continue
        if block.kind == "heading" and first[: len(block.words)] == block.words:
            break
        is_linked = block.reason == CONTENTS
        linked.extend(block.lines * is_linked)
        entries = [line for line in block.lines if is_linked or is_entry(line, place)]
        others = [line for line in block.lines if line not in entries]
        is_prose = any(len(line) > _SHORT and SENTENCE_END.search(line) for line in others)
        if is_prose or (others and not is_titled):
            break
        if entries or (block.kind == "paragraph" and all(map(_PAGE.search, others))):
            first = first or Block("paragraph", tuple(entries[:1])).words
            count, pages, stop = count + len(entries), pages + len(others), place + 1
        elif block.kind == "heading":
            if is_titled and blocks[at].kind == "heading" and not first and pages < 2:
                return place
            break
    if is_titled:
        return stop if first or pages > 1 else at
    is_list = len(linked) > 1 or (linked and not SENTENCE_END.search(linked[0]))
    return stop if is_list or count >= _ENTRIES else at


def _without_title_page(blocks: Sequence[Block]) -> Sequence[Block]:
    """Return the blocks, with the first paragraphs left out if they are a title page. A prologue,
    which has sentences, and an epigraph, which names its author after a dash, stay."""
    shown = [block for block in blocks if block.kind in _SHOWN and block.letters]
    paragraphs = takewhile(lambda block: block.kind == "paragraph", shown)
    front = list(takewhile(lambda block: not SENTENCE_END.search(block.text), paragraphs))
    words = [line for block in front for line in block.lines]
    long = _LONG_WORDS.findall(" ".join(words))
    capitals = sum(word[0].isupper() for word in long)
    is_front = capitals * 2 > len(long) or any(map(_FRONT_MATTER.search, words))
    is_quoted = any(word.startswith(("—", "–", "--")) for word in words)
    kinds = pairwise(block.kind for block in shown)
    if is_quoted or not is_front or ("heading", "paragraph") not in kinds:
        return blocks
    places = {block.spans for block in front}
    return [
        block._replace(kind="left out", reason="title page") if block.spans in places else block
        for block in blocks
    ]


def _chapter_headings(run: Sequence[Block]) -> list[Block]:
    """Return the headings that together are the heading of a chapter, out of all headings right
    before its first paragraph (`run`): the last, and before it each heading that is less deep than
    the next. Of the depths 1, 1, 2 these are the last two."""
    # What is not deeper than the heading before it begins anew: a half title, then a chapter.
    first = len(run) - 1
    while first > 0 and run[first - 1].level < run[first].level:
        first -= 1
    return list(run[max(0, first) :])


def _title(run: Sequence[Block], headings: Sequence[Block], title: str | None) -> str | None:
    """Return the title of a book if the first heading of `run` is the title, else None. `run` has
    the headings before the first chapter, `headings` all headings. The heading must repeat `title`,
    which the file names; if `title` is None, all other headings must be deeper."""
    if len(run) < 2:
        return None
    if title is not None:
        return title if run[0].letters == letters_of(title).casefold() else None
    words = run[0].text.lstrip("# ")
    # "Part One" above chapters is not a title, though it may be the only part.
    level = min(heading.level for heading in headings[1:])
    is_first = run[0].spans == headings[0].spans and headings[0].level < level
    return words if is_first and heading_level(words) == UNKNOWN else None
