"""Results as the options of the output say, and `narrative-twins show`, which shows saved ones. No
encoder is needed here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import click
from rich.console import Console

from narrative_twins.books.result import BookSalience, is_book_salience, read_book_salience
from narrative_twins.commands.options import (
    COUNT,
    Choices,
    Decorator,
    Number,
    check_input,
    check_output,
    command,
    option,
    option_group,
    output_format,
    valued,
)
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import FORMATS, book_formats, read_results, write_results
from narrative_twins.show.terminal import in_encoding
from narrative_twins.writing import STDIN, atomic_write, check_writable, for_terminal

JSON_LINES = "jsonl"


@dataclass
class ResultOutput:
    """Where results are written, and how.

    Attributes:
        out: the file, or `-` for standard output.
        format: the name of the format; None, until `check`, to choose it by the suffix of the file.
        top: show this many sentences of each story.
        share: in place of `top`, the share of the sentences in an extract.
    """

    out: str
    format: str | None = None
    top: int | None = None
    share: float | None = None

    def check(self, files: Sequence[str], resume: bool = False, is_book: bool = False) -> None:
        """Set the format. Raises a `UsageError` if the options contradict each other or the
        input, and an `OSError` if the file can't be written."""
        suffixes = {suffix: name for name, form in FORMATS.items() for suffix in form.suffixes}
        self.format = output_format(self.out, self.format, suffixes)
        if is_book and self.format not in formats_of_books():
            raise click.UsageError(
                f"--format {self.format} does not apply to a book; choose from"
                f" {', '.join(formats_of_books())}"
            )
        if is_book and self.top is not None and self.format not in ("text", "extract"):
            raise click.UsageError("--top with a book needs --format text or extract")
        if self.share is not None and self.format != "extract":
            raise click.UsageError("--share needs --format extract; others have --top K")
        if self.share is not None and self.top is not None:
            raise click.UsageError("--top and --share both say how long an extract is; use one")
        if resume and not self.is_resumable:
            raise click.UsageError("--resume needs --format jsonl and --out FILE")
        check_output(files, self.out)
        form = FORMATS[self.format]
        is_page = form.binary or form.media_type == "text/html"
        if is_page and self.out == STDIN and sys.stdout.isatty():
            raise click.UsageError(f"--format {self.format} needs --out FILE in a terminal")
        form.check()
        check_writable(self.out)

    @property
    def is_resumable(self) -> bool:
        """Whether an interrupted run can be resumed."""
        return self.format == JSON_LINES and self.out != STDIN

    def write(self, results: Iterable[StorySalience] | BookSalience) -> None:
        """Write results of stories or of a book, piece by piece."""
        # A terminal has its own width and colours.
        console = Console() if self.out == STDIN and sys.stdout.isatty() else None
        self.write_pieces(
            write_results(results, self.format or "text", self.top, console, self.share)
        )

    def write_pieces(self, pieces: Iterable[str | bytes]) -> None:
        """Write pieces of the output, all or none."""
        with atomic_write(self.out) as file:
            for piece in pieces:
                file.write(self.encoded(piece))

    def encoded(self, piece: str | bytes) -> str | bytes:
        """What standard output can write: text for people in its encoding; what is for programs in
        UTF-8, as in files."""
        is_text = FORMATS[self.format or "text"].media_type == "text/plain"
        # A table of `rich` has codes of its own; its cells are `for_terminal`.
        is_table = self.format in (None, "text")
        if self.out == STDIN and sys.stdout.isatty() and isinstance(piece, str) and not is_table:
            piece = for_terminal(piece)
        encoding = (sys.stdout.encoding or "utf-8").lower().replace("-", "")
        if self.out != STDIN or isinstance(piece, bytes) or encoding == "utf8":
            return piece
        return in_encoding(piece, encoding) if is_text else piece.encode("utf-8")


def formats_of_books() -> list[str]:
    """The formats of books: also JSON Lines, which are written chapter by chapter, and so
    resumed."""
    return [*book_formats(), JSON_LINES]


def output_options(
    formats: Callable[[], Iterable[str]] = lambda: FORMATS, is_book: bool = False
) -> Decorator:
    """The options of the output, as the argument `output`."""
    top = "Show the K most salient sentences; json, jsonl and images mark them."
    options = {
        "format": {
            "flags": ("-f", "--format"),
            "type": Choices(formats),
            "help": "Format of the output (default: by the suffix of --out, otherwise text).",
        },
        "out": valued(
            "FILE",
            "Output file, complete or not at all (default: standard output).",
            flags=("-o", "--out"),
            default=STDIN,
        ),
        "top": valued(
            "K",
            "Show the K most salient sentences of each chapter as text." if is_book else top,
            type=COUNT,
        ),
        "share": valued(
            "X",
            "Share of the sentences in an extract (default: 0.2).",
            type=Number(0, 1, min_open=True),
        ),
    }
    if is_book:
        del options["share"]
    return option_group("output", "Output", options, ResultOutput)


@command(
    "Show saved scores: what score wrote as jsonl or json, and what book wrote as json or jsonl; -"
    " or no FILE is standard input, as JSON Lines. Nothing is scored, and no encoder is loaded."
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@output_options()
@option("--operations", metavar="A,B", help="Show only these (default: all).")
def show(files: Sequence[str], output: ResultOutput, operations: str | None) -> int:
    """Read, write."""
    check_input(files)
    is_book = any(map(is_book_salience, files))
    if is_book and len(files) > 1:
        raise click.UsageError("the scores of a book are shown by themselves; name one file")
    if is_book and operations is not None:
        raise click.UsageError("--operations does not apply to a book; choose them in book")
    output.check(files, is_book=is_book)
    if is_book:
        output.write(read_book_salience(files[0]))
        return 0
    names = operations.split(",") if operations else None
    results = _alike(read_results(files or [STDIN]), names)
    first = next(results, None)
    if first is None:
        raise ValueError("there are no scores in the input")
    output.write(chain([first], results))
    return 0


def _alike(
    results: Iterator[StorySalience], operations: list[str] | None
) -> Iterator[StorySalience]:
    """Results with the same operations. Raises `ValueError` if they differ, or some were not
    scored."""
    names = operations
    for result in results:
        names = list(result.scores) if names is None else names
        try:
            scores = {name: result.scores_of(name) for name in names}
        except ValueError as error:
            raise ValueError(f"{result.name}: {error} with --operations") from None
        if operations is None and len(result.scores) > len(names):
            raise ValueError(
                f"{result.name} has scores by {', '.join(result.scores)}, stories before it by"
                f" {', '.join(names)}; choose with --operations"
            )
        yield replace(result, scores=scores)
