"""Options of the output of results, and how it is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import click
from rich.console import Console

from narrative_twins.books.result import BookSalience
from narrative_twins.commands.files import check_output
from narrative_twins.commands.messages import tell
from narrative_twins.commands.signatures import Choices, Count
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import FORMATS, book_formats, write_results
from narrative_twins.show.terminal import in_encoding
from narrative_twins.text import counted, for_terminal
from narrative_twins.writing import STDIN, atomic_write, check_writable

JSON_LINES = "jsonl"
_FORMATS = Choices(lambda: FORMATS)


def percentage(text: str) -> float:
    """Parse a share above 0 and up to 1, written as `0.1` or `10%`."""
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is not a share of the sentences, such as 10% or 0.1")
    return value


def output_format(out: str, name: str | None, by_suffix: Mapping[str, str]) -> str:
    """Return the format of the output `out`: `name`; if None, the format in `by_suffix` for the
    suffix of `out`, or `text` without a suffix. Raises a `UsageError` for an unknown suffix."""
    suffix = os.path.splitext(out)[1].lower()
    if name is not None or out == STDIN or not suffix:
        return name or "text"
    if suffix not in by_suffix:
        raise click.UsageError(
            f"--out {out}: {suffix} is not the suffix of a format; use one of"
            f" {', '.join(by_suffix)}, or name the format with --format"
        )
    return by_suffix[suffix]


@dataclass
class ResultOutput:
    """Options of the output of results.

    Attributes:
        format: Format of the output (default: by the suffix of --out, otherwise text).
        out (FILE): Output file, complete or not at all (default: standard output).
        top (K): Show only the K most salient sentences (of a book: of each chapter); json, jsonl
            and images keep all sentences and mark these.
        share (X): Share of the sentences in an extract, 0.1 or 10% (default: 0.2).
    """

    heading: ClassVar = "Output"
    format: Annotated[str, _FORMATS] | None = None
    out: str = STDIN
    top: Count | None = None
    share: Annotated[float, percentage] | None = None

    def __post_init__(self) -> None:
        suffixes = {suffix: name for name, form in FORMATS.items() for suffix in form.suffixes}
        self.format = output_format(self.out, self.format, suffixes)
        if self.share is not None and self.format != "extract":
            raise ValueError("--share needs --format extract; others have --top K")
        if self.share is not None and self.top is not None:
            raise ValueError("--top and --share both say how long an extract is; use one")

    def check(self, files: Sequence[str], resume: bool = False) -> None:
        """Raise a `UsageError` if the options contradict the input `files` or `resume`, and an
        `OSError` if the output can't be written."""
        if resume and not self.is_resumable:
            raise click.UsageError("--resume needs --format jsonl and --out FILE")
        form = FORMATS[self.format or "text"]
        is_page = form.binary or form.media_type == "text/html"
        if is_page and self.out == STDIN and sys.stdout.isatty():
            raise click.UsageError(f"--format {self.format} needs --out FILE in a terminal")
        check_output(files, self.out)
        form.check()
        check_writable(self.out)

    def check_book(self) -> None:
        """Raise a `UsageError` if the options do not apply to the result of a book."""
        # JSON Lines of a book are written chapter by chapter, and so resumed.
        formats = [*book_formats(), JSON_LINES]
        if self.format not in formats:
            names = ", ".join(formats)
            raise click.UsageError(
                f"--format {self.format} does not apply to a book; choose from {names}"
            )
        if self.top is not None and self.format not in ("text", "extract"):
            raise click.UsageError("--top with a book needs --format text or extract")

    @property
    def is_resumable(self) -> bool:
        """Whether a run that writes this output can be resumed."""
        return self.format == JSON_LINES and self.out != STDIN

    def write(self, results: Iterable[StorySalience] | BookSalience) -> None:
        """Write to `out` the results of stories, each as soon as it is scored, or of a book."""
        # A terminal has its own width and colours.
        console = Console() if self.out == STDIN and sys.stdout.isatty() else None
        form = self.format or "text"
        pieces = write_results(results, form, self.top, console, self.share)
        write_pieces(self.out, form, pieces)


def write_pieces(out: str, form: str, pieces: Iterable[str | bytes]) -> None:
    """Write all pieces of an output in the format `form` to `out`, or none. On standard output,
    text for people is in the encoding of the terminal, text for programs in UTF-8 as in files."""
    encoding = (sys.stdout.encoding or "utf-8").lower().replace("-", "")
    lost = 0
    with atomic_write(out) as file:
        for piece in pieces:
            # A table of `rich` has codes of its own; its cells are `for_terminal`.
            if out == STDIN and isinstance(piece, str):
                if sys.stdout.isatty() and form != "text":
                    piece = for_terminal(piece)
                if encoding != "utf8":
                    is_text = FORMATS[form].media_type == "text/plain"
                    shown = in_encoding(piece, encoding)
                    lost += shown.count("?") - piece.count("?") if is_text else 0
                    piece = shown if is_text else piece.encode("utf-8")
            file.write(piece)
    if lost:
        what = f"{counted(lost, 'character')} that standard output can't write"
        tell(f"{what} ({sys.stdout.encoding}) became ?; --out FILE writes UTF-8")
