"""Options that several commands share: types for `argparse`, and checks of files that are
written."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from typing import TextIO, TypeVar

from narrative_twins.files import STDIN, paths_written

Value = TypeVar("Value")

_ROWS = (".jsonl", ".ndjson")


def parsed_by(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function that raises `ValueError`, as a type for `argparse`, which shows the message to the
    user."""

    def parse(value: object) -> Value:
        try:
            return function(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def count(text: str) -> int:
    """An integer of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of 1 or more")
    return int(text)


def natural(text: str) -> int:
    """An integer of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of 0 or more")
    return int(text)


def amount(text: str) -> float:
    """A number of 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = amount(text)
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def share(text: str) -> float:
    """A number from 0 to 1."""
    value = amount(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def positive_share(text: str) -> float:
    """A number above 0, up to 1."""
    value = share(text)
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def percentage(text: str) -> float:
    """A share above 0, up to 1, also as a percentage: `0.1` or `10%`."""
    try:
        number = str(float(text[:-1]) / 100) if text.endswith("%") else text
    except ValueError:
        number = text
    return positive_share(number)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; false if it is closed."""
    return stream is not None and stream.isatty()


def check_output(parser: argparse.ArgumentParser, inputs: Sequence[str], out: str) -> None:
    """Refuse an output file or folder that is also an input, or is in a folder whose files are all
    read, or from which a file is read."""
    if out == STDIN:
        return
    path, written = os.path.realpath(out), paths_written(out)
    for file in inputs:
        read = os.path.realpath(file)
        # `samefile` recognizes hard links too.
        if any(
            read == other or os.path.exists(other) and _is_same(read, other) for other in written
        ):
            parser.error(
                f"{file} is read, and would be overwritten by --out {out}; write to another file"
            )
        if any(read.startswith(os.path.join(other, "")) for other in written):
            parser.error(f"{file} is in --out {out}, and is read; write to another folder")
        if os.path.isdir(read) and path.startswith(os.path.join(read, "")):
            parser.error(f"--out {out} is in {file}, which is read; write to another folder")


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def check_rows_file(parser: argparse.ArgumentParser, inputs: Sequence[str], out: str) -> None:
    """Refuse an output file for rows that loaders would not recognize, or that is also an input."""
    if not out.endswith(_ROWS):
        parser.error(
            f"--out {out}: name a file that ends in .jsonl, from which the rows can be loaded"
        )
    check_output(parser, inputs, out)


def resume_hint(out: str) -> str | None:
    """After an interruption: where the results so far are, and how to resume. None if there are
    none."""
    part = f"{out}.part"
    return f"results so far are in {part}; continue with --resume" if os.path.exists(part) else None


def plural(number: int, singular: str, plural: str) -> str:
    """A number with the noun in the right form."""
    return f"{number:,} {singular if number == 1 else plural}"
