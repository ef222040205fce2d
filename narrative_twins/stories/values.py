"""What kind of value a user has given."""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any


def is_list(value: Any) -> bool:
    """Whether `value` is an ordered collection (list, tuple, array, column), but not text."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__getitem__"):
        return False
    # Also false for arrays without dimensions, which have no length.
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def all_text(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def is_blank(text: str) -> bool:
    """Whether a text has only white space, control and format characters."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def as_int(value: Any) -> int | None:
    """`value` as an integer (numpy integers included); None for anything else, including
    booleans."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
