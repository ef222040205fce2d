"""`narrative-twins make twins`: narrative twins and distractors written by a language model."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from contextlib import suppress
from typing import Any, get_args

from narrative_twins.commands.options import (
    amount,
    check_output,
    check_rows_file,
    count,
    is_terminal,
    natural,
    plural,
    positive,
    share,
)
from narrative_twins.files import STDIN
from narrative_twins.llm.answers import Answers
from narrative_twins.llm.chat import ServerError
from narrative_twins.llm.running import Prices, Rejected
from narrative_twins.llm.server import KEY_VARIABLE, Server
from narrative_twins.making.twins.estimates import estimate, planned_questions
from narrative_twins.making.twins.make import SourceStory, TwinsResult, make_twins
from narrative_twins.making.twins.recipes import COLUMNS, RECIPES, Recipe
from narrative_twins.stories.reading import InputFormat, read_stories
from narrative_twins.stories.story import StoryError

_SHOWN_REASONS = 5
"""Number of reasons for rejecting stories that are printed."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Have a language model write narrative twins and distractors of stories, as rows to train on. The same command "
        "resumes an interrupted run."
    )
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="text (one story), JSON Lines, JSON, ROCStories' CSV; - for stdin")
    add("-o", "--out", required=True, metavar="FILE", help="write the rows to this JSON Lines file")
    add(
        "--recipe",
        choices=RECIPES,
        default="stories",
        help="twins and distractors of short stories, or distractors of synopses in five sections (default: stories)",
    )
    add("--columns", type=columns, default=COLUMNS, metavar="A,B", help=f"of {','.join(COLUMNS)} (default: all)")
    add("--prompts", metavar="FOLDER", help="folder with prompt files that replace those of the package")
    add("--language", default="en", help="language of the stories, for the card (default: en)")
    add("--input-format", choices=get_args(InputFormat), default="auto", help="default: by file suffix")
    add("--dry-run", action="store_true", help="only print the prompts for the first story and an estimate of the cost")
    add("-q", "--quiet", action="store_true", help="show no progress bar")
    _add_server_options(parser.add_argument_group("the language model").add_argument)
    _add_check_options(parser.add_argument_group("valid answers").add_argument)


def _add_server_options(add: Any) -> None:
    add("--server", required=True, metavar="URL", help="OpenAI-compatible server, for example http://localhost:8000/v1")
    add("--model", required=True, metavar="NAME", help="name of the model on the server")
    add(
        "--key-variable",
        metavar="NAME",
        help="environment variable of the API key, which is sent only to the server (default: "
        f"{KEY_VARIABLE}, if it is set and the server is OpenAI's or on this machine)",
    )
    add(
        "--concurrency",
        type=count,
        default=Server.concurrency,
        metavar="N",
        help="parallel requests (default: %(default)s)",
    )
    add("--retries", type=natural, default=Server.retries, metavar="N", help="per request (default: %(default)s)")
    add(
        "--timeout", type=positive, default=Server.timeout, metavar="SECONDS", help="per request (default: %(default)s)"
    )
    add(
        "--temperature", type=amount, default=Server.temperature, metavar="T", help="of sampling (default: %(default)s)"
    )
    add("--max-tokens", type=count, default=Server.max_tokens, metavar="N", help="per answer (default: %(default)s)")
    add("--seed", type=natural, default=Server.seed, metavar="N", help="of sampling (default: %(default)s)")
    add("--no-schema", action="store_true", help="don't send the JSON schema of the answer, which some servers reject")
    add(
        "--request",
        type=fields,
        default={},
        metavar="JSON",
        help='fields of each request; null removes a field, for example \'{"max_tokens": null, '
        '"max_completion_tokens": 4000}\'',
    )
    add("--price-in", type=amount, default=0.0, metavar="X", help="price of a million prompt tokens, to show the cost")
    add("--price-out", type=amount, default=0.0, metavar="X", help="price of a million answer tokens")


def _add_check_options(add: Any) -> None:
    add(
        "--attempts",
        type=count,
        default=Recipe.attempts,
        metavar="N",
        help="attempts to get a valid answer, before a story is rejected (default: %(default)s)",
    )
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
    if not options.files and is_terminal(sys.stdin):
        parser.error("name a file, or - for standard input")
    check_rows_file(parser, options.files, options.out)
    # The file of rejected stories is overwritten too.
    check_output(parser, options.files, f"{options.out}.rejects")


def on_interrupt(options: argparse.Namespace) -> str:
    """The message for the user after an interruption."""
    return f"the answers so far are saved beside {options.out}; resume with the same command"


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
    server = _server_from_options(options)
    prices = Prices(options.price_in, options.price_out)
    sources, problems = _read_sources(options, recipe)
    if not sources:
        print("narrative-twins: there is no story in the input", file=sys.stderr)
        return 1
    lacks_twin = sum(source.lacks_twin for source in sources)
    if lacks_twin:
        problem = f"{plural(lacks_twin, 'synopsis has', 'synopses have')} no twin"
        print(f"narrative-twins: {problem}, which load_window_twins needs; add the twins to the input", file=sys.stderr)
    if options.dry_run:
        _print_plan(sources, recipe, prices, server, Answers(f"{options.out}.answers"))
        return 1 if problems else 0
    progress = sys.stderr.isatty() and not options.quiet
    try:
        made = make_twins(
            sources, server, options.out, recipe=recipe, prices=prices, language=options.language, progress=progress
        )
    except ServerError as error:
        raise ServerError(f"{error}; {on_interrupt(options)}") from None
    _print_result(options.out, made, prices)
    return 1 if problems or made.rejects else 0


def _server_from_options(options: argparse.Namespace) -> Server:
    return Server(
        options.server,
        options.model,
        key_variable=options.key_variable,
        concurrency=options.concurrency,
        retries=options.retries,
        timeout=options.timeout,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        structured=not options.no_schema,
        seed=options.seed,
        fields=options.request,
    )


def _read_sources(options: argparse.Namespace, recipe: Recipe) -> tuple[list[SourceStory], int]:
    """The stories, and the number of stories that can't be read, which are reported."""
    sources, problems = [], 0
    for name, content, problem in read_stories(options.files or [STDIN], options.input_format):
        try:
            sources.append(SourceStory.parse(StoryError(problem) if problem else content, recipe))
        except StoryError as error:
            problems += 1
            print(f"narrative-twins: {name}: {error.problem}", file=sys.stderr)
    return sources, problems


def _print_plan(sources: list[SourceStory], recipe: Recipe, prices: Prices, server: Server, answers: Answers) -> None:
    """Print the prompts for the first story, and an estimate for all stories."""
    for source in sources:
        with suppress(Rejected):
            for question in planned_questions(source.windows, recipe, server):
                note = " (with the story in place of a missing answer)" if question.is_stand_in else ""
                print(f"--- {question.step.name}{note} ---\n{question.prompt}\n")
            break
    found = estimate(sources, recipe, server, answers)
    print(
        f"{len(sources):,} stories, {len(answers):,} saved answers; {found.questions:,} questions to ask, if every "
        f"answer is valid, about {prices.describe(found.prompt_tokens, found.completion_tokens)}"
        + (f"; {plural(found.aside, 'story', 'stories')} would be rejected" if found.aside else "")
    )


def _print_result(out: str, made: TwinsResult, prices: Prices) -> None:
    """Print what was written, the cost, and the most common reasons for rejecting stories."""
    rejected = f"; {plural(len(made.rejects), 'story', 'stories')} rejected, see {out}.rejects" if made.rejects else ""
    cost = prices.describe(made.run.prompt_tokens, made.run.completion_tokens)
    rows = f"{out}: {plural(len(made.rows), 'row', 'rows')}" if made.rows else "no rows"
    print(f"{rows}{rejected}; {plural(made.run.asked, 'answer', 'answers')} in this run, {cost}", file=sys.stderr)
    reasons = Counter(f"{reject['step']}: {reject['reason']}" for reject in made.rejects).most_common()
    for reason, number in reasons[:_SHOWN_REASONS]:
        print(f"{number:>9,}  {reason}", file=sys.stderr)
    if len(reasons) > _SHOWN_REASONS:
        print(f"{sum(number for _, number in reasons[_SHOWN_REASONS:]):>9,}  for other reasons", file=sys.stderr)


def columns(text: str) -> list[str]:
    """A comma-separated list of columns, in the order in which they are made."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(COLUMNS)}")
    return [column for column in COLUMNS if column in names]


def fields(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value
