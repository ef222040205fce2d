"""`narrative-twins extract`: the salient sentences of a book, as text or Markdown."""

from __future__ import annotations

import argparse
import os
from typing import get_args

from narrative_twins.commands.book import check_book, score_whole_book
from narrative_twins.commands.inputs import add_encoder_options
from narrative_twins.commands.options import check_output, count, percentage
from narrative_twins.commands.outputs import for_stdout
from narrative_twins.files import STDIN, AtomicFile
from narrative_twins.salience.books.extract import DEFAULT_SHARE, FORMATS
from narrative_twins.salience.books.result import read_book_salience
from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.salience.options import Approximation
from narrative_twins.salience.result import PRIMARY_OPERATION
from narrative_twins.stories.splitting import SPLITTERS

_SAVED = (".json", ".jsonl")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "The most salient sentences of each part of a book, in story order under the headings of"
        " its chapters. Reads a book, or its scores from score --level as JSON or JSON Lines, which"
        " needs no encoder."
    )
    add = parser.add_argument
    add("files", nargs=1, metavar="FILE", help="a book, or its saved scores (.json, .jsonl)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--share",
        type=percentage,
        metavar="X",
        help=f"of the sentences: 10%% or 0.1 (default: {DEFAULT_SHARE:.0%}%)",
    )
    length.add_argument("--sentences", type=count, metavar="N", help="how many sentences")
    length.add_argument("--words", type=count, metavar="N", help="at most so many words")
    add(
        "--operation",
        choices=OPERATIONS,
        help=f"that chooses sentences (default: {PRIMARY_OPERATION})",
    )
    add(
        "-f",
        "--format",
        choices=FORMATS.values(),
        help="default: by the suffix of --out, otherwise text",
    )
    add(
        "-o",
        "--out",
        default=STDIN,
        metavar="FILE",
        help="output file, complete or not at all (default: stdout)",
    )
    add(
        "--approximate",
        choices=get_args(Approximation),
        help="scores from one forward pass over each chapter, see score --help",
    )
    add(
        "--split",
        choices=SPLITTERS,
        default=next(iter(SPLITTERS)),
        help="units of texts (default: %(default)s)",
    )
    add_encoder_options(parser)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other, and set the format."""
    check_book(parser, options)
    check_output(parser, options.files, options.out)
    implied = FORMATS.get(os.path.splitext(options.out)[1].lower())
    if options.format and implied and options.format != implied:
        parser.error(
            f"--out {options.out} is named as {implied}, but --format is {options.format}; leave"
            " one out"
        )
    options.format = options.format or implied or "text"


def run(options: argparse.Namespace) -> int:
    """Read, score unless it is scored, write."""
    out = AtomicFile(options.out)
    if options.files[0].lower().endswith(_SAVED):
        result = read_book_salience(options.files[0])
    else:
        options.level, options.max_shifts = ("sentence",), None
        options.operations = [OPERATIONS[options.operation or PRIMARY_OPERATION]]
        result = score_whole_book(options)
    extract = result.extract(
        options.sentences, options.operation, share=options.share, words=options.words
    )
    piece = extract.in_format(options.format)
    with out:
        out.write(for_stdout(piece, is_text=True) if options.out == STDIN else piece)
    return 0
