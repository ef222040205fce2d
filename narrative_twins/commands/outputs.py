"""What commands have in common that write a file: its names, what is left after an interruption, how they count."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from narrative_twins.files import STDIN

_ROWS = (".jsonl", ".ndjson")


def refuse_input(parser: argparse.ArgumentParser, files: Sequence[str], out: str) -> None:
    """Refuse to write a file that is also read, or that would be the next time, as all of a folder is."""
    if out == STDIN:
        return
    path = os.path.realpath(out)
    for file in files:
        read = os.path.realpath(file)
        if path == read:
            parser.error(f"--out {out} is also read; write to another file")
        if os.path.isdir(read) and path.startswith(os.path.join(read, "")):
            parser.error(f"--out {out} is in {file}, which is read; write to another folder")


def check_rows_file(parser: argparse.ArgumentParser, files: Sequence[str], out: str) -> None:
    """Refuse a file for rows that they could not be loaded from, or that is also read."""
    if not out.endswith(_ROWS):
        parser.error(f"--out {out}: name a file that ends in .jsonl, from which the rows are loaded")
    refuse_input(parser, files, out)


def kept_part(out: str) -> str | None:
    """What there is of a file to go on from after an interruption."""
    part = f"{out}.part"
    return f"what is done is in {part}, go on with --resume" if os.path.exists(part) else None


def counted(number: int, one: str, many: str) -> str:
    """So many of something, in words."""
    return f"{number:,} {one if number == 1 else many}"
