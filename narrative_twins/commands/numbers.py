"""Numbers as options of commands: what `argparse` takes for the `type` of one."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """A number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count of 1 or more")
    return int(text)


def whole(text: str) -> int:
    """A number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)


def amount(text: str) -> float:
    """A number of 0 or more, perhaps with a fraction."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = amount(text)
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def share(text: str) -> float:
    """A number from 0 to 1."""
    value = amount(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 0 to 1")
    return value
