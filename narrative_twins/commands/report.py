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
    run_settings,
    score,
    story_input,
)
from narrative_twins.commands.options import check_output, count
from narrative_twins.files import STDIN, part_path
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
    add("--resume", action="store_true", help="continue an interrupted run")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    check_options(parser, options)
    if options.out == STDIN:
        parser.error("a report is a folder; name one with --out")
    check_output(parser, options.files, options.out)


def on_interrupt(options: argparse.Namespace) -> str | None:
    """What to tell the user after an interruption."""
    part = part_path(options.out)
    return (
        f"the pages so far are in {part}; continue with --resume" if os.path.isdir(part) else None
    )


def run(options: argparse.Namespace) -> int:
    """Read, score, write."""
    report = Report(options.out, options.top, options.resume)
    encoder = load_encoder(options)
    done = report.begin(run_settings(options, encoder))
    stories = story_input(options, done)
    if report.no_curves is not None:
        print(f"narrative-twins: pages will have no curves: {report.no_curves}", file=sys.stderr)
    with report:
        for result in score(options, stories, encoder):
            report.add(result)
        report.left_out = stories.problems
    print(
        f"narrative-twins: {os.path.join(options.out, INDEX)} has {report.count} stories",
        file=sys.stderr,
    )
    return exit_code(stories)
