"""The title of a book, and its title page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

from narrative_twins.books.blocks import SENTENCE_END, Block, letters_of
from narrative_twins.stories.headings import UNKNOWN, heading_level

_IMPRINT = re.compile(r"©|\b(?:copyright|isbn|all rights|published|edition)\b", re.IGNORECASE)
_LONG_WORDS = re.compile(r"[^\W\d_]{4,}")


def without_title_page(blocks: Sequence[Block]) -> Sequence[Block]:
    """Return the blocks, with a title page left out: the first paragraphs, up to one that ends as a
    sentence does. A prologue, which has sentences, and an epigraph, which names its author after a
    dash, stay."""
    shown = [block for block in blocks if block.is_shown and block.letters]
    paragraphs = takewhile(lambda block: block.kind == "paragraph", shown)
    first = list(takewhile(lambda block: not SENTENCE_END.search(block.text), paragraphs))
    kinds = pairwise(block.kind for block in shown)
    if not _is_title_page(first) or ("heading", "paragraph") not in kinds:
        return blocks
    places = {block.spans for block in first}
    return [block.left_out("title page") if block.spans in places else block for block in blocks]


def _is_title_page(paragraphs: Sequence[Block]) -> bool:
    """Return whether most long words of some paragraphs have capitals, or one is of an imprint."""
    lines = [line for block in paragraphs for line in block.lines]
    if any(line.startswith(("—", "–", "--")) for line in lines):  # the author of an epigraph
        return False
    long = _LONG_WORDS.findall(" ".join(lines))
    capitals = sum(word[0].isupper() for word in long)
    return capitals * 2 > len(long) or any(map(_IMPRINT.search, lines))


def title_of_book(
    first: Sequence[Block], headings: Sequence[Block], title: str | None
) -> str | None:
    """Return the title of a book if its first heading is the title, else None.

    Args:
        first: the headings before the first chapter; a single one is a heading of this chapter.
        headings: all headings of the book.
        title: the title in the metadata of the file, which the first heading then has to repeat;
            None without one: then all other headings have to be on a lower level.
    """
    if len(first) < 2:
        return None
    if title is not None:
        return title if first[0].letters == letters_of(title).casefold() else None
    words = first[0].text.lstrip("# ")
    # "Part One" above chapters is not a title, though it may be the only part.
    level = min(heading.level for heading in headings[1:])
    is_first = first[0].spans == headings[0].spans and headings[0].level < level
    return words if is_first and heading_level(words) == UNKNOWN else None
