"""`narrative-twins report`: a folder of pages on many stories."""

from __future__ import annotations

import argparse
import os
import sys

from narrative_twins.commands.inputs import (
    add_scoring_options,
    check_options,
    exit_code,
    load_encoder,
    score,
    story_input,
)
from narrative_twins.commands.options import check_output, count
from narrative_twins.files import STDIN
from narrative_twins.show.report import INDEX, Report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Score every sentence of stories, and write a folder of pages: one per story, and an index"
        " to search and sort, which opens from disk. Reads standard input if no file is named, or"
        " for '-'."
    )
    add_scoring_options(parser)
    add = parser.add_argument
    add(
        "-o",
        "--out",
        required=True,
        metavar="FOLDER",
        help="the report, which appears when it is complete",
    )
    add(
        "--top",
        type=count,
        metavar="K",
        help="show only the K most salient sentences of each story",
    )


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    check_options(parser, options)
    if options.out == STDIN:
        parser.error("a report is a folder; name one with --out")
    check_output(parser, options.files, options.out)


def run(options: argparse.Namespace) -> int:
    """Read, score, write."""
    report = Report(options.out, options.top)
    encoder = load_encoder(options)
    stories = story_input(options, [])
    if report.no_curves is not None:
        print(f"narrative-twins: pages will have no curves: {report.no_curves}", file=sys.stderr)
    count = report.write(score(options, stories, encoder), lambda: stories.problems)
    print(
        f"narrative-twins: {os.path.join(options.out, INDEX)} has {count} stories", file=sys.stderr
    )
    return exit_code(stories)
