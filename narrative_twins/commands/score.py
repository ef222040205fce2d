"""`narrative-twins score`: the salience of stories as text, data, a page or an image."""

from __future__ import annotations

import argparse
import json

from narrative_twins.commands.book import check_score, run_book
from narrative_twins.commands.corpus import (
    PARQUET,
    add_corpus_options,
    check_corpus_options,
    run_corpus,
)
from narrative_twins.commands.inputs import (
    add_scoring_options,
    check_options,
    exit_code,
    load_encoder,
    run_settings,
    score,
    story_input,
)
from narrative_twins.commands.options import parsed_by, resume_hint
from narrative_twins.commands.outputs import add_output_options, check_output_options, write_output
from narrative_twins.files import STDIN, AtomicFile, ResumableFile, ResumeError
from narrative_twins.salience.books.scoring import check_levels
from narrative_twins.salience.books.units import LEVELS, Level
from narrative_twins.show.formats import FORMATS
from narrative_twins.stories.reading import story_digest


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Score every sentence of stories. Reads standard input if no file is named, or for '-'."
    )
    add_scoring_options(parser)
    add_output_options(parser, PARQUET)
    add_corpus_options(parser)
    add = parser.add_argument
    add(
        "--level",
        type=parsed_by(levels),
        metavar="A,B",
        help=(
            f"of {','.join(LEVELS)}: score the parts of a book at these levels (default: sentences"
            " of stories)"
        ),
    )
    add(
        "--resume",
        action="store_true",
        help="continue an interrupted run with --format jsonl and --out FILE",
    )


def levels(text: str) -> tuple[Level, ...]:
    """A comma-separated list of levels."""
    return check_levels([name.strip() for name in text.split(",")])


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    check_options(parser, options)
    check_corpus_options(parser, options)
    check_output_options(parser, options)
    if options.resume and not _is_resumable(options) and options.format != PARQUET:
        parser.error("--resume needs --format jsonl and --out FILE")
    if options.level:
        check_score(parser, options)


def on_interrupt(options: argparse.Namespace) -> str | None:
    """What to tell the user after an interruption."""
    if options.format == PARQUET:
        return f"the shards in {options.out} are complete; the same command goes on"
    return resume_hint(options.out) if _is_resumable(options) else None


def run(options: argparse.Namespace) -> int:
    """Read, score, write."""
    if options.level:
        return run_book(options)
    if options.format == PARQUET:
        return run_corpus(options)
    FORMATS[options.format].check()
    # Reports an output file that can't be written before the encoder is loaded.
    out, done = AtomicFile(options.out), list[str]()
    encoder = load_encoder(options)
    if _is_resumable(options):
        out = ResumableFile(options.out, run_settings(options, encoder), options.resume)
        done = _digests(out)
    stories = story_input(options, done)
    names = [operation.name for operation in options.operations]
    write_output(out, score(options, stories, encoder), options, names)
    return exit_code(stories)


def _is_resumable(options: argparse.Namespace) -> bool:
    return options.format != PARQUET and FORMATS[options.format].resumable and options.out != STDIN


def _digests(out: ResumableFile) -> list[str]:
    """The digests of the stories in the output of an earlier run, in order. Raises `ResumeError` if
    it is invalid."""
    digests = []
    for number, line in enumerate(out.lines, start=1):
        try:
            row = json.loads(line)
            digests.append(story_digest(row.get("id"), row["sentences"], row["windows"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ResumeError(
                f"can't resume {out.path}: line {number} is not a result of this command"
            ) from None
    return digests
