"""`narrative-twins make judgments`: votes for the sentences of stories by a language model."""

from __future__ import annotations

import argparse
import sys
from typing import get_args

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
from narrative_twins.commands.options import count, parsed_by
from narrative_twins.llm.answers import Answers
from narrative_twins.llm.chat import ServerError
from narrative_twins.llm.running import Prices
from narrative_twins.making.judgments import VotingStyle, make_judgments, plan_judgments, voting
from narrative_twins.stories.story import Story, parse_windows

_SAMPLES = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Have a language model vote for the most important sentences of stories, as rows for"
        " SalienceLoss to train on. The same command resumes an interrupted run."
    )
    add = parser.add_argument
    add_file_options(add)
    add(
        "--style",
        choices=get_args(VotingStyle),
        default="choose",
        help=(
            "ask --samples times for the most important sentence of a window, each answer a vote,"
            " or once for the shares of ten votes (default: choose)"
        ),
    )
    add(
        "--samples",
        type=count,
        metavar="N",
        help=f"answers for each window, for choose (default: {_SAMPLES})",
    )
    add(
        "--windows",
        type=parsed_by(parse_windows),
        default="auto",
        metavar="N",
        help="a count, sizes (7,7,6), or auto (default)",
    )
    add_run_options(add)
    add_server_options(parser.add_argument_group("the language model").add_argument)
    add_attempts_option(parser.add_argument_group("valid answers").add_argument)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    check_files(parser, options)
    if options.samples is not None and options.style == "shares":
        parser.error("--samples is for --style choose; shares is asked once about each window")


def on_interrupt(options: argparse.Namespace) -> str:
    """The message for the user after an interruption."""
    return resume_with_same_command(options.out)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    samples = options.samples or _SAMPLES
    asking = voting(options.style, samples, options.attempts, options.prompts)
    server = server_from_options(options)
    prices = Prices(options.price_in, options.price_out)
    stories, problems = read_sources(options, lambda content: Story.parse(content, options.windows))
    if not stories:
        return 1
    if options.dry_run:
        asking.check_stories(stories)
        answers = Answers(f"{options.out}.answers")
        print_plan(
            plan_judgments(stories[0], server, asking),
            [plan_judgments(one, server, asking, answers) for one in stories],
            answers,
            prices,
        )
        return 1 if problems else 0
    try:
        made = make_judgments(
            stories,
            server,
            options.out,
            style=options.style,
            samples=samples,
            attempts=options.attempts,
            prompts=options.prompts,
            windows=options.windows,
            language=options.language,
            prices=prices,
            progress=sys.stderr.isatty() and not options.quiet,
        )
    except ServerError as error:
        raise ServerError(f"{error}; {on_interrupt(options)}") from None
    print_result(options.out, made, prices)
    return 1 if problems or made.rejects else 0
