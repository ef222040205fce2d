"""Checks of the files that a command reads and writes, before it begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

import click

from narrative_twins.writing import STDIN


def check_input(files: Sequence[str]) -> None:
    """Raise a `UsageError` if `files` is empty and standard input, read instead, is a terminal."""
    if not files and sys.stdin.isatty():
        raise click.UsageError("name a file, or - for standard input")


def check_output(files: Iterable[str], out: str) -> None:
    """Raise a `UsageError` if `out`, a file or folder, is, contains or is within one of `files`."""
    if out == STDIN:
        return
    path = os.path.realpath(out)
    for file in files:
        source = os.path.realpath(file)
        if source == path or source.startswith(os.path.join(path, "")):
            raise click.UsageError(f"{file} is read, and would be overwritten by --out {out}")
        if os.path.isdir(source) and path.startswith(os.path.join(source, "")):
            raise click.UsageError(f"--out {out} is in {file}, which is read")


def check_rows_file(files: Iterable[str], out: str) -> None:
    """Raise a `UsageError` if `out` is not a `.jsonl` or `.ndjson` file, or is one of `files`."""
    if not out.endswith((".jsonl", ".ndjson")):
        raise click.UsageError(
            f"--out {out}: name a file that ends in .jsonl, from which the rows can be loaded"
        )
    check_output(files, out)
