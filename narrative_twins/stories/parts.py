"""The parts of a book that its readers find in a file (headings, paragraphs, marked breaks), put together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from narrative_twins.stories.book import Book, Chapter
from narrative_twins.stories.headings import UNKNOWN, heading_level
from narrative_twins.stories.windows import Span

_BREAK = re.compile(r"[\s*#~•·⁂❦❧☙§–—_=+✻✽✦◆◇○●-]{1,100}")
_OPENING = "\"'“‘„«»‚‹›([_—–-… "


class Part(NamedTuple):
    """A part of a book.

    Attributes:
        kind: a heading; a paragraph; a marked break; or something that was left out, such as a table of contents, so
            that headings before and after it do not belong together.
        span: its characters in the text.
        level: of a heading, how deep it is: 1 for the highest.
    """

    kind: Literal["heading", "paragraph", "break", "other"]
    span: Span
    level: int = 1


def is_break(line: str) -> bool:
    """Whether a line has only marks, such as asterisks."""
    return bool(_BREAK.fullmatch(line)) and not line.isspace()


def is_verse(lines: Sequence[str], width: int) -> bool:
    """Whether the lines of a paragraph are clearly verse: each begins with a capital letter, and most of them end
    though the next word would have fitted into `width` characters."""
    if len(lines) < 2 or not all(line.lstrip(_OPENING)[:1].isupper() for line in lines):
        return False
    free = [len(line) + 1 + len(after.split()[0]) <= width for line, after in zip(lines, lines[1:], strict=False)]
    return sum(free) * 4 >= len(free) * 3


def make_book(text: str, parts: Iterable[Part], title: str | None = None) -> Book:
    """A book from the parts of a text, in order.

    - A heading begins a chapter. Of several headings without a paragraph between them, the last is that of the chapter,
      with those before it that are each of a higher level: a part and its first chapter, a number and a title.
    - So the entries of a table of contents are no chapters. If paragraphs follow its last entry, they have no heading.
    - A heading above all others at the beginning is the title.

    Raises a `ValueError` if there is no paragraph.
    """
    parts = list(parts)
    levels = [part.level for part in parts if part.kind == "heading"]
    words = [_words(text, part.span) for part in parts if part.kind == "heading"]
    chapters: list[Chapter] = []
    run: list[Part] = []  # headings since the last paragraph
    heading: Span | None = None
    paragraphs: list[Span] = []
    breaks: set[int] = set()
    broken, passed = False, 0  # after a marked break; headings so far
    for part in parts:
        if part.kind == "heading":
            if paragraphs:
                chapters.append(Chapter(heading, tuple(paragraphs), frozenset(breaks)))
                heading, paragraphs, breaks = None, [], set()
            run.append(part)
            passed += 1
        elif part.kind == "other":
            run = []
        elif part.kind == "break":
            broken = True
        else:
            if run:
                if not chapters and (found := _title(text, run, levels, title)) is not None:
                    title = found
                    del run[0]
                heading = _heading(run, words[passed - 1] in words[passed:])
                run = []
            elif broken and paragraphs:
                breaks.add(len(paragraphs))
            broken = False
            paragraphs.append(part.span)
    if paragraphs:
        chapters.append(Chapter(heading, tuple(paragraphs), frozenset(breaks)))
    if not chapters:
        raise ValueError("has no text of a story; check that it is complete")
    return Book(text, tuple(chapters), title)


def _heading(run: Sequence[Part], comes_again: bool) -> Span | None:
    """The heading of a chapter by the headings before it; `comes_again`: whether the last of them is repeated later."""
    first = last = run[-1]
    if comes_again and len(run) > 1 and run[-2].level == last.level:
        return None
    for part in reversed(run[:-1]):
        if part.level >= first.level:
            break
        first = part
    return first.span[0], last.span[1]


def _title(text: str, run: Sequence[Part], levels: Sequence[int], title: str | None) -> str | None:
    """The title of the book, if the first of its first headings is that."""
    found = " ".join(text[slice(*run[0].span)].split()).lstrip("# ")
    if len(run) < 2:
        return None
    if title is not None:
        return title if _words(found) == _words(title) else None
    # "Part One" above chapters is no title, though it may be the only part.
    return found if run[0].level < min(levels[1:]) and heading_level(found) == UNKNOWN else None


def _words(text: str, span: Span | None = None) -> str:
    """A heading without what may differ between two copies of it: case, marks and spaces."""
    return "".join(filter(str.isalnum, text if span is None else text[slice(*span)])).casefold()
