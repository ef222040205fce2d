"""`narrative-twins show`: scores that were saved, in any format, without an encoder."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from narrative_twins.commands.options import is_terminal
from narrative_twins.commands.outputs import (
    add_output_options,
    check_book_output,
    check_output_options,
    write_book_output,
    write_output,
)
from narrative_twins.files import STDIN, AtomicFile
from narrative_twins.salience.books.result import is_book_salience, read_book_salience
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.formats import FORMATS, read_results
from narrative_twins.show.report import INDEX, Report

REPORT = "report"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Show scores that were saved. Reads what score wrote as jsonl or json, the folders of"
        " report, and what score --level wrote on a book as json or jsonl; standard input if no"
        " file is named, or for '-'. Nothing is scored, and no encoder is loaded."
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="saved scores, or the folder of a report"
    )
    add_output_options(parser, REPORT)
    parser.add_argument(
        "--operations", type=_names, metavar="A,B", help="show only these operations (default: all)"
    )


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if not options.files and is_terminal(sys.stdin):
        parser.error("name a file with scores, or - for standard input")
    if options.format == REPORT and options.out == STDIN:
        parser.error("a report is a folder; name one with --out")
    check_output_options(parser, options)


def run(options: argparse.Namespace) -> int:
    """Read, write."""
    if options.format in FORMATS:
        FORMATS[options.format].check()
    if any(map(is_book_salience, options.files)):
        _show_book(options)
        return 0
    results = _alike(read_results(options.files or [STDIN]), options.operations)
    first = next(results, None)
    if first is None:
        raise ValueError("there are no scores in the input")
    found = chain([first], results)
    if options.format == REPORT:
        _write_report(found, options)
    else:
        write_output(AtomicFile(options.out), found, options, list(first.scores))
    return 0


def _show_book(options: argparse.Namespace) -> None:
    if len(options.files) > 1:
        raise ValueError("the scores of a book are shown by themselves; name one file")
    check_book_output(options)
    write_book_output(read_book_salience(options.files[0]), AtomicFile(options.out), options)


def _write_report(results: Iterator[StorySalience], options: argparse.Namespace) -> None:
    report = Report(options.out, options.top)
    if report.no_curves is not None:
        print(f"narrative-twins: pages will have no curves: {report.no_curves}", file=sys.stderr)
    count = report.write(results)
    print(
        f"narrative-twins: {os.path.join(options.out, INDEX)} has {count} stories", file=sys.stderr
    )


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


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
