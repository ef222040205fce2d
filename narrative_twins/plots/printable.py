"""Text as it can be shown, on a page, in a terminal or in a picture: what is no part of any of them is replaced."""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Text without control characters, which would steer a terminal and are no part of HTML, and without half
    characters, which no file can hold. What joins letters or turns their direction belongs to the text."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Printable text with single spaces for all of its white space."""
    return printable(" ".join(text.split()))


def shortened(text: str, length: int, both_ends: bool = False) -> str:
    """One line of no more than `length` characters; an ellipsis stands for what is left out, at the end or, to keep
    both ends (of names, say), in the middle.

    No more of a long text is looked at than may be shown, so that a megabyte costs no more than a line.
    """
    sight = 4 * length + 40
    if len(text) <= sight and len(line := one_line(text)) <= length:
        return line
    tail = (length - 1) // 2 if both_ends else 0
    end = one_line(text[-sight:])[-tail:].lstrip() if tail else ""
    return one_line(text[:sight])[: length - 1 - tail].rstrip() + "…" + end
