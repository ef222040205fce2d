"""`narrative-twins score`: the salience of stories as text, data, a page or an image."""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console

from narrative_twins.commands.inputs import (
    add_scoring_options,
    check_options,
    exit_code,
    helped_first_process,
    load_encoder,
    run_settings,
    score,
    story_input,
)
from narrative_twins.commands.options import check_output, count, is_terminal, output_format, resume_hint
from narrative_twins.files import STDIN, AtomicFile, ResumableFile, ResumeError
from narrative_twins.plots.style import check_figure
from narrative_twins.show.formats import FORMATS, write_results
from narrative_twins.show.highlights import in_encoding
from narrative_twins.stories.reading import story_digest


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = "Score every sentence of stories. Reads standard input if no file is named, or for '-'."
    add_scoring_options(parser)
    add = parser.add_argument
    add(
        "-f",
        "--format",
        choices=FORMATS,
        help="of the output (default: by the suffix of --out, otherwise text); png and svg show the curves of one "
        "story, or many stories as a heat map",
    )
    add("-o", "--out", default=STDIN, metavar="FILE", help="output file, complete or not at all (default: stdout)")
    add("--top", type=count, metavar="K", help="show the K most salient sentences; json, jsonl and images mark them")
    add("--resume", action="store_true", help="continue an interrupted run with --format jsonl and --out FILE")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    check_options(parser, options)
    options.format = output_format(parser, options.out, options.format)
    if FORMATS[options.format].is_image and options.out == STDIN and is_terminal(sys.stdout):
        parser.error(f"--format {options.format} can't be shown in a terminal; name a file with --out")
    if options.resume and not _is_resumable(options):
        parser.error("--resume needs --format jsonl and --out FILE")
    check_output(parser, options.files, options.out)


def on_interrupt(options: argparse.Namespace) -> str | None:
    """What to tell the user after an interruption."""
    return resume_hint(options.out) if _is_resumable(options) else None


def run(options: argparse.Namespace) -> int:
    """Read, score, write."""
    if helped_first_process(options):
        return 0
    if FORMATS[options.format].is_image:
        check_figure(None)
    # Reports an output file that can't be written before the encoder is loaded.
    out, done = AtomicFile(options.out), list[str]()
    encoder = load_encoder(options)
    if _is_resumable(options):
        out = ResumableFile(options.out, run_settings(options, encoder), options.resume)
        done = _digests(out)
    stories = story_input(options, done)
    # A terminal gets colours and its own width.
    console = Console() if options.out == STDIN and is_terminal(sys.stdout) else None
    names = [operation.name for operation in options.operations]
    with out:
        for piece in write_results(score(options, stories, encoder), options.format, names, options.top, console):
            out.write(_for_stdout(piece, options.format) if options.out == STDIN else piece)
    return exit_code(stories)


def _for_stdout(piece: str | bytes, form: str) -> str | bytes:
    """Output that standard output can write. Formats for programs are UTF-8, as in files, whatever its encoding is."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if isinstance(piece, bytes) or encoding.lower().replace("-", "") == "utf8":
        return piece
    return in_encoding(piece, encoding) if form == "text" else piece.encode("utf-8")


def _is_resumable(options: argparse.Namespace) -> bool:
    return FORMATS[options.format].is_resumable and options.out != STDIN


def _digests(out: ResumableFile) -> list[str]:
    """The digests of the stories in the output of an earlier run, in order. Raises `ResumeError` if it is invalid."""
    digests = []
    for number, line in enumerate(out.lines, start=1):
        try:
            row = json.loads(line)
            digests.append(story_digest(row.get("id"), row["sentences"], row["windows"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ResumeError(f"can't resume {out.path}: line {number} is not a result of this command") from None
    return digests
