"""Text that is shown to people. Text from outside, such as a story, a name or the message of a
library, passes `for_terminal`, itself or in `one_line` and `shortened`, before it is printed."""

from __future__ import annotations

import re
import reprlib
import unicodedata
from typing import Any

_UNPRINTABLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_LEFT_TO_RIGHT = "\N{LEFT-TO-RIGHT MARK}"
LONGEST_MESSAGE = 500
"""To how many characters the message of a library is shortened within one of ours."""

_REPR = reprlib.Repr()
_REPR.maxlevel = 3


def for_terminal(text: object) -> str:
    """Return text from outside in a form that is safe to print. U+FFFD replaces lone surrogates,
    characters that change the direction of text, and control characters except tab and line
    feed."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(text))


def one_line(text: object) -> str:
    """Return text from outside as one line that is safe to print, see `for_terminal`. A single
    space replaces each sequence of white space."""
    return for_terminal(" ".join(str(text).split()))


def shortened(text: object, length: int, both_ends: bool = False) -> str:
    """Return text from outside as `one_line` of at most `length` characters. In a longer text an
    ellipsis replaces the end, or with `both_ends` the middle."""
    line = one_line(text)
    if len(line) <= length:
        return line
    tail = (length - 1) // 2 if both_ends else 0
    return f"{line[: length - 1 - tail].rstrip()}…{line[len(line) - tail :].lstrip()}"


def beside_english(name: str) -> str:
    """Return a name to stand in an English line. One from right to left gets a mark on each side:
    without them the numbers beside it are shown on its other side."""
    is_reversed = any(unicodedata.bidirectional(char) in ("R", "AL") for char in name)
    return f"{_LEFT_TO_RIGHT}{name}{_LEFT_TO_RIGHT}" if is_reversed else name


def shown_value(value: Any) -> str:
    """Return any value, also a nested one, as text of at most 100 characters for a message, in the
    notation of Python: `'a'` for the text `a`."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # an integer of thousands of digits
        text = type(value).__name__
    return text if len(text) <= 100 else f"{text[:97]}..."


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as `1 row` and `2 rows`; `plural` is the plural of a
    noun that does not just get an s: `counted(2, "story", "stories")`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
