"""`narrative-twins make twins`: narrative twins and distractors written by a language model."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from narrative_twins.commands.language_model import (
    add_attempts_option,
    add_file_options,
    add_run_options,
    add_server_options,
    check_files,
    print_plan,
    print_result,
    read_sources,
    resume_with_same_command,
    server_from_options,
)
from narrative_twins.commands.options import plural, share
from narrative_twins.llm.answers import Answers
from narrative_twins.llm.chat import ServerError
from narrative_twins.llm.running import Prices
from narrative_twins.making.made import Plan
from narrative_twins.making.recipes import COLUMNS, RECIPES, TwinOptions
from narrative_twins.making.twins import SourceStory, make_twins, plan_twins


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Have a language model write narrative twins and distractors of stories, as rows to train"
        " on. The same command resumes an interrupted run."
    )
    add = parser.add_argument
    add_file_options(add)
    add(
        "--recipe",
        choices=RECIPES,
        default="stories",
        help=(
            "twins and distractors of short stories, or distractors of synopses in five sections"
            " (default: stories)"
        ),
    )
    add(
        "--columns",
        type=columns,
        default=COLUMNS,
        metavar="A,B",
        help=f"of {','.join(COLUMNS)} (default: all)",
    )
    add_run_options(add)
    add_server_options(parser.add_argument_group("the language model").add_argument)
    _add_check_options(parser.add_argument_group("valid answers").add_argument)


def _add_check_options(add: Any) -> None:
    add_attempts_option(add)
    add(
        "--twin-overlap",
        type=share,
        default=TwinOptions.twin_overlap,
        metavar="X",
        help="maximum word overlap of a twin and its story, 0 to 1 (default: %(default)s)",
    )
    add(
        "--distractor-overlap",
        type=share,
        default=TwinOptions.distractor_overlap,
        metavar="X",
        help="minimum word overlap of a distractor and its story, 0 to 1 (default: %(default)s)",
    )


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    check_files(parser, options)


def on_interrupt(options: argparse.Namespace) -> str:
    """The message for the user after an interruption."""
    return resume_with_same_command(options.out)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    twin_options = TwinOptions(
        options.recipe,
        options.columns,
        options.attempts,
        options.twin_overlap,
        options.distractor_overlap,
        options.prompts,
    )
    server = server_from_options(options)
    prices = Prices(options.price_in, options.price_out)
    sources, problems = read_sources(
        options, lambda content: SourceStory.parse(content, twin_options)
    )
    if not sources:
        return 1
    lacks_twin = sum(source.lacks_twin for source in sources)
    if lacks_twin:
        problem = f"{plural(lacks_twin, 'synopsis has', 'synopses have')} no twin"
        print(
            f"narrative-twins: {problem}, which load_window_twins needs; add the twins to the"
            " input",
            file=sys.stderr,
        )
    if options.dry_run:
        answers = Answers(f"{options.out}.answers")
        print_plan(
            next(
                (
                    plan
                    for one in sources
                    if (plan := plan_twins(one, twin_options, server)).questions
                ),
                Plan([]),
            ),
            [plan_twins(one, twin_options, server, answers) for one in sources],
            answers,
            prices,
        )
        return 1 if problems else 0
    progress = sys.stderr.isatty() and not options.quiet
    try:
        made = make_twins(
            sources,
            server,
            options.out,
            options=twin_options,
            prices=prices,
            language=options.language,
            progress=progress,
        )
    except ServerError as error:
        raise ServerError(f"{error}; {on_interrupt(options)}") from None
    print_result(options.out, made, prices)
    return 1 if problems or made.rejects else 0


def columns(text: str) -> list[str]:
    """A comma-separated list of columns, in the order in which they are made."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(COLUMNS)}")
    return [column for column in COLUMNS if column in names]
