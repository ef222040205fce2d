"""Text that can be shown on a page, in a terminal and in a figure: other characters are
replaced."""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Text with U+FFFD for control characters, which could control a terminal and are not allowed
    in HTML, and for lone surrogates, which can't be encoded. Joiners and direction marks are
    kept."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Printable text with all runs of white space replaced by single spaces."""
    return printable(" ".join(text.split()))


def shortened(text: str, length: int, both_ends: bool = False) -> str:
    """The text as one line of at most `length` characters, with an ellipsis for what is left out:
    at the end, or in the middle with `both_ends`, for example for names. A text of megabytes is
    fast: only its ends are read.
    """
    limit = 4 * length + 40
    if len(text) <= limit and len(line := one_line(text)) <= length:
        return line
    tail = (length - 1) // 2 if both_ends else 0
    end = one_line(text[-limit:])[-tail:].lstrip() if tail else ""
    return one_line(text[:limit])[: length - 1 - tail].rstrip() + "…" + end
