"""`narrative-twins make twins`: narrative twins and distractors written by a language model."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import Any

from narrative_twins.commands.language_model import (
    add_attempts_option,
    add_file_options,
    add_run_options,
    add_server_options,
    check_files,
    print_estimate,
    print_result,
    read_sources,
    resume_with_same_command,
    server_from_options,
)
from narrative_twins.commands.options import plural, share
from narrative_twins.llm.answers import Answers
from narrative_twins.llm.chat import ServerError
from narrative_twins.llm.running import Prices, Rejected
from narrative_twins.llm.server import Server
from narrative_twins.making.twins.estimates import estimate, planned_questions
from narrative_twins.making.twins.make import SourceStory, make_twins
from narrative_twins.making.twins.recipes import COLUMNS, RECIPES, Recipe


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
        default=Recipe.twin_overlap,
        metavar="X",
        help="maximum word overlap of a twin and its story, 0 to 1 (default: %(default)s)",
    )
    add(
        "--distractor-overlap",
        type=share,
        default=Recipe.distractor_overlap,
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
    recipe = Recipe(
        options.recipe,
        options.columns,
        options.attempts,
        options.twin_overlap,
        options.distractor_overlap,
        options.prompts,
    )
    server = server_from_options(options)
    prices = Prices(options.price_in, options.price_out)
    sources, problems = read_sources(options, lambda content: SourceStory.parse(content, recipe))
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
        _print_plan(sources, recipe, prices, server, Answers(f"{options.out}.answers"))
        return 1 if problems else 0
    progress = sys.stderr.isatty() and not options.quiet
    try:
        made = make_twins(
            sources,
            server,
            options.out,
            recipe=recipe,
            prices=prices,
            language=options.language,
            progress=progress,
        )
    except ServerError as error:
        raise ServerError(f"{error}; {on_interrupt(options)}") from None
    print_result(options.out, made, prices)
    return 1 if problems or made.rejects else 0


def _print_plan(
    sources: list[SourceStory], recipe: Recipe, prices: Prices, server: Server, answers: Answers
) -> None:
    """Print the prompts for the first story, and an estimate for all stories."""
    for source in sources:
        with suppress(Rejected):
            for question in planned_questions(source.windows, recipe, server):
                note = (
                    " (with the story in place of a missing answer)" if question.is_stand_in else ""
                )
                print(f"--- {question.step.name}{note} ---\n{question.prompt}\n")
            break
    found = estimate(sources, recipe, server, answers)
    print_estimate(len(sources), answers, found, prices)


def columns(text: str) -> list[str]:
    """A comma-separated list of columns, in the order in which they are made."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(COLUMNS)}")
    return [column for column in COLUMNS if column in names]
