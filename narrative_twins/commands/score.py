"""`narrative-twins score`: the salience of stories, as text, tables, a page or a picture."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections import Counter
from typing import Any

from rich.console import Console

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
from narrative_twins.commands.outputs import kept_part, refuse_input
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.files import STDIN, StoryKey, WholeFile, check_begun, story_key, whole_lines
from narrative_twins.plots.style import PICTURES, check_picture
from narrative_twins.show.formats import FORMATS, pieces


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "score",
        help="score every sentence of stories",
        description="Score every sentence of stories. Reads standard input if no file is named, or where one is '-'.",
    )
    add_options(parser)
    add = parser.add_argument
    add(
        "-f",
        "--format",
        choices=FORMATS,
        default="text",
        help="of the output (default: text); png and svg show the curves of one story, or several as a heat map",
    )
    add(
        "-o", "--out", default=STDIN, metavar="FILE", help="write there, whole or not at all (default: standard output)"
    )
    add(
        "--top",
        type=count,
        metavar="K",
        help="only the K most salient sentences; json, jsonl and pictures keep the others and name these",
    )
    add("--resume", action="store_true", help="go on where an interrupted --format jsonl --out FILE stopped")
    parser.set_defaults(run=run, check=lambda options: check(parser, options), kept=kept)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    check_options(parser, options)
    if options.format in PICTURES and options.out == STDIN and sys.stdout.isatty():
        parser.error(f"--format {options.format} is no text for a terminal; name a file with --out")
    if options.resume and not _resumable(options):
        parser.error("--resume goes with --format jsonl and --out FILE")
    refuse_input(parser, options.files, options.out)


def kept(options: argparse.Namespace) -> str | None:
    """What there is to go on from after an interruption."""
    return kept_part(options.out) if _resumable(options) else None


def run(options: argparse.Namespace) -> int:
    """Read, score, write."""
    if options.format in PICTURES:
        check_picture(None)
    out = WholeFile(options.out, keep=_resumable(options), resume=options.resume)
    encoder = encoder_of(options)
    done = _done(options, encoder) if options.resume else Counter()
    stories = Stories(options, done)
    # A terminal gets colours and its own width.
    console = Console() if options.out == STDIN and sys.stdout.isatty() else Console(file=io.StringIO(), width=120)
    with out:
        results = results_of(options, stories, encoder)
        for piece in pieces(results, options.format, options.operations, options.top, console):
            out.write(piece)
    return exit_code(stories)


def _resumable(options: argparse.Namespace) -> bool:
    return bool(options.format == "jsonl" and options.out != STDIN)


def _done(options: argparse.Namespace, encoder: StoryEncoder) -> Counter[StoryKey]:
    """The stories an interrupted run has scored, and how often.

    Raises:
        ValueError: the file is not of such a run, or of one with other options.
    """
    done: Counter[StoryKey] = Counter()
    asked = settings_of(options, encoder) | {"--top": options.top is not None}
    for number, line in enumerate(whole_lines(options.out), start=1):
        try:
            row = json.loads(line)
            begun = {
                "operations": list(row["scores"]),
                "context tokens": row["context_tokens"],
                "--approximate": row.get("approximate"),
                "--top": "top" in row,
            }
            done[story_key(row.get("id"), row["sentences"], row["windows"])] += 1
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"can't resume {options.out}: its line {number} is no result of this command") from None
        check_begun(options.out, begun, asked)
    return done
