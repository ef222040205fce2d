"""Output of results as its options say, and `narrative-twins show`, which shows saved results
without an encoder."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, ClassVar

import click
from rich.console import Console

from narrative_twins.books.result import BookSalience, is_book_salience, read_book_salience
from narrative_twins.commands.common import check_input, check_output, output_format, percentage
from narrative_twins.commands.signatures import Choices, Count, command
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import FORMATS, book_formats, read_results, write_results
from narrative_twins.show.terminal import in_encoding
from narrative_twins.writing import STDIN, atomic_write, check_writable, for_terminal

JSON_LINES = "jsonl"
_FORMATS = Choices(lambda: FORMATS)


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

    def check(self, files: Sequence[str], resume: bool = False, is_book: bool = False) -> None:
        """Raise a `UsageError` if the options contradict each other or the input `files`, and an
        `OSError` if the output can't be written."""
        form = FORMATS[self.format or "text"]
        # JSON Lines of a book are written chapter by chapter, and so resumed.
        books = [*book_formats(), JSON_LINES]
        is_page = form.binary or form.media_type == "text/html"
        problem = ""
        if is_book and self.format not in books:
            problem = f"--format {self.format} does not apply to a book; choose from"
            problem += f" {', '.join(books)}"
        elif is_book and self.top is not None and self.format not in ("text", "extract"):
            problem = "--top with a book needs --format text or extract"
        elif self.share is not None and self.format != "extract":
            problem = "--share needs --format extract; others have --top K"
        elif self.share is not None and self.top is not None:
            problem = "--top and --share both say how long an extract is; use one"
        elif resume and not self.is_resumable:
            problem = "--resume needs --format jsonl and --out FILE"
        elif is_page and self.out == STDIN and sys.stdout.isatty():
            problem = f"--format {self.format} needs --out FILE in a terminal"
        if problem:
            raise click.UsageError(problem)
        check_output(files, self.out)
        form.check()
        check_writable(self.out)

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
    with atomic_write(out) as file:
        for piece in pieces:
            # A table of `rich` has codes of its own; its cells are `for_terminal`.
            if out == STDIN and isinstance(piece, str):
                if sys.stdout.isatty() and form != "text":
                    piece = for_terminal(piece)
                if encoding != "utf8":
                    is_text = FORMATS[form].media_type == "text/plain"
                    piece = in_encoding(piece, encoding) if is_text else piece.encode("utf-8")
            file.write(piece)


@command()
def show(files: Sequence[str], output: ResultOutput, *, operations: str | None = None) -> int:
    """Show saved scores: what score wrote as jsonl or json, and what book wrote as json or jsonl; -
    or no FILE is standard input, as JSON Lines. Nothing is scored, and no encoder is loaded.

    Args:
        files ([FILE]...): the saved scores.
        operations (A,B): Show only these (default: all).
    """
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
    results = _with_same_operations(read_results(files or [STDIN]), names)
    first = next(results, None)
    if first is None:
        raise ValueError("there are no scores in the input")
    output.write(chain([first], results))
    return 0


def _with_same_operations(
    results: Iterator[StorySalience], operations: list[str] | None
) -> Iterator[StorySalience]:
    """Yield results with scores by `operations` only; None stands for the operations of the first
    result. Raises a `ValueError` if a result lacks one of these or, for None, has others."""
    names = operations
    for result in results:
        names = names or list(result.scores)
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
