"""Books: a long text with its title, chapters, paragraphs and marked breaks between scenes, as
character spans; and how a book is made of the parts that a reader finds in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from narrative_twins.stories.sentences import UNKNOWN, Span, heading_level, is_blank

_BREAK = re.compile(r"[\s*#~•·⁂❦❧☙§–—_=+✻✽✦◆◇○●-]{1,100}")
_LISTS = {"contents", "tableofcontents", "listofillustrations", "illustrations"}
_APART = 100  # the level of a heading that does not belong to the next one
_SHORT = 60  # wrapped text has longer lines than this
_TITLE_PAGE = 400  # characters that the words of a title page may have
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»«“)\]]*$")
_OPENING = "\"'“‘„«»‚‹›([_—–-… "


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
        text: the text of the book: for plain text that of the file, without the header and the
            licence of Project Gutenberg; for other formats the extracted text. All spans refer to
            its characters.
        chapters: the chapters in order, each with at least one paragraph.
        title: the title, if the file has one.
    """

    text: str = field(repr=False)
    chapters: tuple[Chapter, ...]
    title: str | None = None

    @property
    def paragraphs(self) -> list[Span]:
        """The character spans of all paragraphs, in order."""
        return [span for chapter in self.chapters for span in chapter.paragraphs]

    def heading(self, chapter: int) -> str | None:
        """The heading of a chapter on one line, if it has one."""
        span = self.chapters[chapter].heading
        return None if span is None else " ".join(self.text[slice(*span)].split())


class Part(NamedTuple):
    """A part of a book.

    Attributes:
        kind: a heading; a paragraph; a marked break; or something that was left out, such as a
            table of contents, so that headings before and after it do not belong together.
        span: its characters in the text.
        level: of a heading, how deep it is: 1 for the highest.
    """

    kind: Literal["heading", "paragraph", "break", "other"]
    span: Span
    level: int = 1


def make_book(text: str, parts: Iterable[Part], title: str | None = None) -> Book:
    """A book from the parts of a text, in order.

    - A heading begins a chapter. Of several headings without a paragraph between them, the last is
      that of the chapter, with those before it that are each of a higher level: a part and its
      first chapter, a number and a title.
    - `Contents` and the like are no chapters, nor are the entries of a table of contents. If
      paragraphs follow its last entry, they have no heading.
    - A heading above all others at the beginning is the title.
    - A title page is not a chapter: some words before the first heading, of which none ends as a
      sentence does.

    Raises a `ValueError` if there is no paragraph.
    """
    parts = list(parts)
    headings = [part for part in parts if part.kind == "heading"]
    names = [_words(text[slice(*part.span)]) for part in headings]
    last = {name: at for at, name in enumerate(names)}
    found: list[tuple[Span | None, list[Span], set[int]]] = []
    run: list[Part] = []  # headings since the last paragraph
    is_open = broken = False  # in a chapter; after a marked break
    passed = 0  # headings so far
    for part in parts:
        if part.kind == "heading":
            is_open = False
            run.append(part)
            passed += 1
        elif part.kind == "other":
            run = [heading._replace(level=_APART) for heading in run[-1:]]
        elif part.kind == "break":
            broken = True
        elif not is_blank(text[slice(*part.span)]):
            if run or not is_open:
                if not found and (name := _title(text, run, headings, title)) is not None:
                    title = name
                    del run[0]
                is_repeated = bool(run) and last[names[passed - 1]] >= passed
                found.append((_heading(run, is_repeated), [], set()))
                run, is_open, broken = [], True, False
            _, paragraphs, breaks = found[-1]
            if broken:
                breaks.add(len(paragraphs))
                broken = False
            paragraphs.append(part.span)
    if len(found) > 1 and found[0][0] is None and _is_title_page(text, found[0][1]):
        del found[0]
    chapters = tuple(
        Chapter(heading, tuple(paragraphs), frozenset(breaks))
        for heading, paragraphs, breaks in found
        if heading is None or _words(text[slice(*heading)]) not in _LISTS
    )
    if not chapters:
        raise ValueError("has no text of a story; check that it is complete")
    return Book(text, chapters, title)


def is_break(line: str) -> bool:
    """Whether a line has only marks, such as asterisks."""
    return bool(_BREAK.fullmatch(line)) and not line.isspace()


def is_verse(lines: Sequence[str], width: int | None = None) -> bool:
    """Whether the lines of a paragraph are clearly verse: each begins with a capital letter and, if
    lines were broken to fit into `width` characters, most of them end though the next word would
    have fitted."""
    if len(lines) < 2 or not all(line.lstrip(_OPENING)[:1].isupper() for line in lines):
        return False
    if width is None:
        return True
    free = [
        len(line) + 1 + len(after.split()[0]) <= width
        for line, after in zip(lines, lines[1:], strict=False)
    ]
    return sum(free) * 4 >= len(free) * 3


def printable_name(name: str) -> str:
    """A file name for messages: not all are valid text, and terminals obey control characters."""
    # Bytes that are not UTF-8 are lone surrogates here, which are not printable.
    return "".join(char if char.isprintable() else "\ufffd" for char in name)


def wrap_width(lengths: Iterable[int]) -> int:
    """The width to which the lines of a text seem to be wrapped, by their lengths: three quarters
    of the lines of prose come near to it."""
    ordered = sorted(lengths)
    return max(_SHORT, ordered[len(ordered) * 3 // 4] if ordered else 0)


def _is_title_page(text: str, paragraphs: Sequence[Span]) -> bool:
    words = [text[slice(*span)].rstrip() for span in paragraphs]
    return sum(map(len, words)) <= _TITLE_PAGE and not any(map(_SENTENCE_END.search, words))


def _heading(run: Sequence[Part], is_repeated: bool) -> Span | None:
    """The heading of a chapter by the headings before it; `is_repeated`: whether the last of them
    is repeated later."""
    if not run or (is_repeated and len(run) > 1 and run[-2].level == run[-1].level):
        return None
    first = run[-1]
    for part in reversed(run[:-1]):
        if part.level >= first.level:
            break
        first = part
    return first.span[0], run[-1].span[1]


def _title(
    text: str, run: Sequence[Part], headings: Sequence[Part], title: str | None
) -> str | None:
    """The title of the book, if the first of its first headings is that."""
    if len(run) < 2:
        return None
    found = " ".join(text[slice(*run[0].span)].split()).lstrip("# ")
    if title is not None:
        return title if _words(found) == _words(title) else None
    # "Part One" above chapters is not a title, though it may be the only part.
    is_first = run[0].span == headings[0].span and headings[0].level < min(
        part.level for part in headings[1:]
    )
    return found if is_first and heading_level(found) == UNKNOWN else None


def _words(text: str) -> str:
    """A heading without what may differ between two copies of it: case, marks and spaces."""
    return "".join(filter(str.isalnum, text)).casefold()
