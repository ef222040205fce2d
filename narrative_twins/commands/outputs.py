"""What `score` and `show` share: options of the output, and results written as they say. No encoder is needed here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console

from narrative_twins.commands.options import check_output, count, is_terminal, output_format, positive_share
from narrative_twins.files import STDIN, AtomicFile
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import FORMATS, write_results
from narrative_twins.show.highlights import in_encoding


def add_output_options(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add the options of the output, with `more` formats than those that are registered."""
    add = parser.add_argument
    add(
        "-f",
        "--format",
        choices=[*FORMATS, *more],
        help="of the output (default: by the suffix of --out, otherwise text); extract is the most salient sentences "
        "in story order, one per line; png and svg show the curves of one story, or many stories as a heat map",
    )
    add("-o", "--out", default=STDIN, metavar="FILE", help="output file, complete or not at all (default: stdout)")
    add("--top", type=count, metavar="K", help="show the K most salient sentences; json, jsonl and images mark them")
    add("--share", type=positive_share, metavar="X", help="of the sentences in an extract (default: 0.2)")


def check_output_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options of the output that contradict each other or the input, and set the format."""
    options.format = output_format(parser, options.out, options.format)
    if options.share is not None and options.format != "extract":
        parser.error("--share needs --format extract; --top K limits the sentences of other formats")
    if options.share is not None and options.top is not None:
        parser.error("--top and --share both say how many sentences an extract has; use one of them")
    if is_image(options) and options.out == STDIN and is_terminal(sys.stdout):
        parser.error(f"--format {options.format} can't be shown in a terminal; name a file with --out")
    check_output(parser, options.files, options.out)


def is_image(options: argparse.Namespace) -> bool:
    """Whether the output is a picture."""
    return options.format in FORMATS and FORMATS[options.format].is_image


def write_output(
    out: AtomicFile, results: Iterable[StorySalience], options: argparse.Namespace, operations: Sequence[str]
) -> None:
    """Write results to the output in the format of the options, piece by piece."""
    # A terminal gets colours and its own width.
    console = Console() if options.out == STDIN and is_terminal(sys.stdout) else None
    with out:
        for piece in write_results(results, options.format, operations, options.top, console, options.share):
            is_text = FORMATS[options.format].media_type == "text/plain"
            out.write(for_stdout(piece, is_text) if options.out == STDIN else piece)


def for_stdout(piece: str | bytes, is_text: bool) -> str | bytes:
    """Output that standard output can write: text for people in its encoding; what is for programs in UTF-8, as in
    files, whatever its encoding is."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if isinstance(piece, bytes) or encoding.lower().replace("-", "") == "utf8":
        return piece
    return in_encoding(piece, encoding) if is_text else piece.encode("utf-8")
