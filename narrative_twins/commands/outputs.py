"""What `score` and `show` share: options of the output, and results written as they say. No encoder
is needed here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console

from narrative_twins.commands.options import check_output, count, is_terminal, positive_share
from narrative_twins.files import STDIN, AtomicFile
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import BOOK_WRITERS, FORMATS, format_of, write_book, write_results
from narrative_twins.show.terminal import in_encoding

BOOK_FORMATS = (*BOOK_WRITERS, "jsonl")
"""The formats of the salience of a book."""


def add_output_options(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add the options of the output, with `more` formats than those that are registered."""
    add = parser.add_argument
    add(
        "-f",
        "--format",
        choices=[*FORMATS, *more],
        help=(
            "of the output (default: by the suffix of --out, otherwise text); extract is the most"
            " salient sentences in story order, one per line; png and svg show the curves of one"
            " story, or many stories as a heat map"
        ),
    )
    add(
        "-o",
        "--out",
        default=STDIN,
        metavar="FILE",
        help="output file, complete or not at all (default: stdout)",
    )
    add(
        "--top",
        type=count,
        metavar="K",
        help="show the K most salient sentences; json, jsonl and images mark them",
    )
    add(
        "--share",
        type=positive_share,
        metavar="X",
        help="of the sentences in an extract (default: 0.2)",
    )


def check_output_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options of the output that contradict each other or the input, and set the format."""
    options.format = _output_format(parser, options.out, options.format)
    if options.share is not None and options.format != "extract":
        parser.error(
            "--share needs --format extract; --top K limits the sentences of other formats"
        )
    if options.share is not None and options.top is not None:
        parser.error(
            "--top and --share both say how many sentences an extract has; use one of them"
        )
    if is_binary(options) and options.out == STDIN and is_terminal(sys.stdout):
        parser.error(
            f"--format {options.format} can't be shown in a terminal; name a file with --out"
        )
    check_output(parser, options.files, options.out)


def _output_format(parser: argparse.ArgumentParser, out: str, given: str | None) -> str:
    """The format of an output file: the one that is given, otherwise by the suffix of its name,
    otherwise text. Refuses a format that the suffix contradicts, since programs would take the file
    for another."""
    implied = format_of(out)
    if given in FORMATS and implied not in (None, given):
        parser.error(
            f"--out {out} is named as {implied}, but --format is {given}; leave --format out, or"
            " rename the file"
        )
    return given or implied or "text"


def is_binary(options: argparse.Namespace) -> bool:
    """Whether the output is bytes that no terminal can show, such as a picture."""
    return options.format in FORMATS and FORMATS[options.format].binary


def write_output(
    out: AtomicFile,
    results: Iterable[StorySalience],
    options: argparse.Namespace,
    operations: Sequence[str],
) -> None:
    """Write results to the output in the format of the options, piece by piece."""
    pieces = write_results(
        results, options.format, operations, options.top, _console(options), options.share
    )
    with out:
        for piece in pieces:
            write_piece(out, piece, options)


def check_book_output(options: argparse.Namespace) -> None:
    """Refuse options of `show` that do not apply to the scores of a book, by a `ValueError`."""
    if options.format not in BOOK_WRITERS:
        raise ValueError(
            f"--format {options.format} does not apply to a book; choose from"
            f" {', '.join(BOOK_WRITERS)}"
        )
    if options.operations is not None:
        raise ValueError(
            "--operations does not apply to the scores of a book; choose them in score"
        )
    if options.top is not None and options.format not in ("text", "extract"):
        raise ValueError("--top with a book needs --format text or extract")


def write_book_output(result: BookSalience, out: AtomicFile, options: argparse.Namespace) -> None:
    """Write the salience of a book to the output in the format of the options, but for JSON
    Lines."""
    pieces = write_book(result, options.format, options.top, _console(options), options.share)
    with out:
        for piece in pieces:
            write_piece(out, piece, options)


def _console(options: argparse.Namespace) -> Console | None:
    """A terminal gets colours and its own width."""
    return Console() if options.out == STDIN and is_terminal(sys.stdout) else None


def write_piece(out: AtomicFile, piece: str | bytes, options: argparse.Namespace) -> None:
    """Write a piece of the output."""
    is_text = FORMATS[options.format].media_type == "text/plain"
    out.write(for_stdout(piece, is_text) if options.out == STDIN else piece)


def for_stdout(piece: str | bytes, is_text: bool) -> str | bytes:
    """Output that standard output can write: text for people in its encoding; what is for programs
    in UTF-8, as in files, whatever its encoding is."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if isinstance(piece, bytes) or encoding.lower().replace("-", "") == "utf8":
        return piece
    return in_encoding(piece, encoding) if is_text else piece.encode("utf-8")
