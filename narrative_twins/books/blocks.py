"""Blocks, of which documents of every format consist, and what their text looks like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from narrative_twins.stories.sentences import Span

CONTENTS = "contents"
"""Why a table of contents is left out. A heading before it does not belong to what follows."""
HEADING, LICENCE, NOTE, PICTURE = "headings", "licence", "notes", "pictures"
"""Other reasons why blocks are left out."""
METADATA = "metadata"
"""Why text about a file or an edition, which is not of the book, is left out."""
LONGEST_HEADING = 300
"""Characters of a heading. Longer ones are paragraphs that somebody has set as headings."""
SHORT_LINE = 60
"""Characters of a line. Lines of wrapped text are longer."""
SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»«“)\]]*$")
_LONGEST_VERSE = 80  # characters of a line
_BREAK = re.compile(r"[\s*#~•·⁂❦❧☙§–—_=+✻✽✦◆◇○●-]{1,100}")
_OPENING = "\"'“‘„«»‚‹›([_—–-… "


class Block(NamedTuple):
    """A block of a document.

    Attributes:
        kind: `"break"` is a marked break between scenes, `"blank"` an empty paragraph, `"entry"` a
            heading that is only in the table of contents; the other kinds are what their names say.
        lines: the lines of the text, without white space around them.
        level: the depth of a heading or entry; 1 is the highest.
        reason: why the block is left out; for a paragraph of links, why it may be; otherwise empty.
        spans: the span of each line in the text of the book; empty if the text lacks the block.
        place: where a left-out block was in the file, such as after which heading.
    """

    kind: Literal["heading", "paragraph", "break", "blank", "entry", "left out"]
    lines: tuple[str, ...] = ()
    level: int = 1
    reason: str = ""
    spans: tuple[Span, ...] = ()
    place: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether a reader of the book sees text here, which is a heading or a paragraph."""
        return self.kind in ("heading", "paragraph")

    @property
    def is_prose(self) -> bool:
        """Whether this is a paragraph, and nothing says yet that it may be left out."""
        return self.kind == "paragraph" and not self.reason

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
        return words_of(self.text)

    @property
    def span(self) -> Span:
        """The character span from the first line to the end of the last."""
        return self.spans[0][0], self.spans[-1][1]

    def at(self, start: int) -> Block:
        """Return the block with the spans of its lines in a text that has them from `start` on."""
        edges = accumulate((len(line) + 1 for line in self.lines), initial=start)
        return self._replace(spans=tuple((lo, hi - 1) for lo, hi in pairwise(edges)))

    def of_lines(self, lines: Iterable[tuple[str, Span]]) -> Block:
        """Return the block with only these of its lines, each with its span."""
        texts, spans = zip(*lines, strict=True)
        return self._replace(lines=texts, spans=spans)

    def left_out(self, reason: str) -> Block:
        """Return the block as one that is left out for a reason."""
        return self._replace(kind="left out", reason=reason)


def letters_of(text: str) -> str:
    """Return the letters and digits of a text."""
    return "".join(filter(str.isalnum, text))


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case."""
    return tuple(re.findall(r"\w+", text.casefold()))


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
    has_room = [
        width is None or len(line) + 1 + len(after.split()[0]) <= width
        for line, after in pairwise(lines)
    ]
    return sum(has_room) * 4 >= len(has_room) * 3


def wrap_width(lengths: Iterable[int]) -> int:
    """Return the width to which lines of these lengths seem wrapped: their third quartile."""
    # The longest line may be a title or an address that could not be broken.
    ordered = sorted(lengths)
    return max(SHORT_LINE, ordered[len(ordered) * 3 // 4] if ordered else 0)
