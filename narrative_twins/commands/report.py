"""`narrative-twins report`: a folder of pages on many stories, to search and to read."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from narrative_twins.commands.inputs import (
    Stories,
    add_options,
    check_options,
    encoder_of,
    exit_code,
    results_of,
    settings_of,
)
from narrative_twins.commands.numbers import count
from narrative_twins.files import STDIN
from narrative_twins.show.report import INDEX, Report


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="score stories, and write a folder of pages on them",
        description="Score every sentence of stories, and write a folder of pages: one a story, and an index to search "
        "and sort, which opens from disk. Reads standard input if no file is named, or where one is '-'.",
    )
    add_options(parser)
    add = parser.add_argument
    add("-o", "--out", required=True, metavar="FOLDER", help="the report, which appears when it is whole")
    add("--top", type=count, metavar="K", help="show only the K most salient sentences of each story")
    add("--resume", action="store_true", help="go on where an interrupted run stopped")
    parser.set_defaults(run=run, check=lambda options: check(parser, options), kept=kept)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    check_options(parser, options)
    if options.out == STDIN:
        parser.error("a report is a folder; name one with --out")


def kept(options: argparse.Namespace) -> str | None:
    """What there is to go on from after an interruption."""
    part = f"{os.path.realpath(options.out)}.part"
    return f"what is done is in {part}, go on with --resume" if os.path.isdir(part) else None


def run(options: argparse.Namespace) -> int:
    """Read, score, write."""
    report = Report(options.out, options.top, options.resume)
    encoder = encoder_of(options)
    stories = Stories(options, report.begin(settings_of(options, encoder) | {"--top": options.top}))
    if report.no_curves is not None:
        print(f"narrative-twins: pages will have no curves: {report.no_curves}", file=sys.stderr)
    with report:
        for result in results_of(options, stories, encoder):
            report.add(result)
        report.left_out = stories.problems
    print(f"narrative-twins: {os.path.join(options.out, INDEX)} has {report.count} stories", file=sys.stderr)
    return exit_code(stories)
