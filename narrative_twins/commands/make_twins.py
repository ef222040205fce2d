"""`narrative-twins make twins`: narrative twins and distractors, by a language model."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

from narrative_twins.commands.options import (
    amount,
    check_output,
    check_rows_file,
    count,
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
from narrative_twins.making.twins.make import Made, SourceStory, make_twins
from narrative_twins.making.twins.recipes import COLUMNS, RECIPES, Recipe
from narrative_twins.stories.reading import read_stories
from narrative_twins.stories.story import StoryError

_REASONS = 5
"""How many reasons for setting stories aside are told."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Have a language model write narrative twins and distractors of stories, as rows to train on. An interrupted "
        "run is continued by the same command."
    )
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="text (one story), JSON Lines or JSON; - for standard input")
    add("-o", "--out", required=True, metavar="FILE", help="write the rows there, as JSON Lines")
    add(
        "--recipe",
        choices=RECIPES,
        default="stories",
        help="what the stories are: short ones, or synopses, of which "
        "distractors are made in five sections (default: stories)",
    )
    add("--columns", type=columns, default=COLUMNS, metavar="A,B", help=f"of {','.join(COLUMNS)} (default: all)")
    add(
        "--prompts",
        metavar="FOLDER",
        help="with prompts that replace those of the package, by the names of their files",
    )
    add("--language", default="en", help="of the stories, for the card (default: en)")
    add(
        "--input-format",
        choices=("auto", "text", "jsonl", "json"),
        default="auto",
        help="default: by the file's suffix",
    )
    add("--dry-run", action="store_true", help="only show the prompts for the first story, and an estimate")
    add("-q", "--quiet", action="store_true", help="no progress bar")
    _add_server(parser.add_argument_group("the language model").add_argument)
    _add_checks(parser.add_argument_group("what holds as an answer").add_argument)


def _add_server(add: Any) -> None:
    add("--server", required=True, metavar="URL", help="an OpenAI-compatible one, such as http://localhost:8000/v1")
    add("--model", required=True, metavar="NAME", help="of the model, as the server has it")
    add(
        "--key-variable",
        metavar="NAME",
        help="the environment variable that holds the key of the server, to which it is "
        f"sent (default: {KEY_VARIABLE}, if it is set and the server is OpenAI's or on this machine)",
    )
    add(
        "--concurrency",
        type=count,
        default=Server.concurrency,
        metavar="N",
        help="requests at once (default: %(default)s)",
    )
    add(
        "--retries",
        type=natural,
        default=Server.retries,
        metavar="N",
        help="of a request that the server failed at (default: %(default)s)",
    )
    add(
        "--timeout",
        type=positive,
        default=Server.timeout,
        metavar="SECONDS",
        help="for one request (default: %(default)s)",
    )
    add(
        "--temperature", type=amount, default=Server.temperature, metavar="T", help="of sampling (default: %(default)s)"
    )
    add(
        "--max-tokens",
        type=count,
        default=Server.max_tokens,
        metavar="N",
        help="of an answer; longer ones are cut off (default: %(default)s)",
    )
    add(
        "--seed",
        type=natural,
        default=Server.seed,
        metavar="N",
        help="another one gives other answers (default: %(default)s)",
    )
    add("--no-schema", action="store_true", help="don't send the JSON schema of the answer, which some servers refuse")
    add(
        "--request",
        type=fields,
        default={},
        metavar="JSON",
        help='fields of each request; null leaves one out, as in \'{"max_tokens": null, '
        '"max_completion_tokens": 4000}\'',
    )
    add("--price-in", type=amount, default=0.0, metavar="X", help="of a million tokens that go in, to show the cost")
    add("--price-out", type=amount, default=0.0, metavar="X", help="of a million tokens that come out")


def _add_checks(add: Any) -> None:
    add(
        "--attempts",
        type=count,
        default=Recipe.attempts,
        metavar="N",
        help="ask so often until an answer holds, then set the story aside (default: %(default)s)",
    )
    add(
        "--twin-overlap",
        type=share,
        default=Recipe.twin_overlap,
        metavar="X",
        help="a twin shares at most so much of its words with its story (default: %(default)s)",
    )
    add(
        "--distractor-overlap",
        type=share,
        default=Recipe.distractor_overlap,
        metavar="X",
        help="a distractor shares at least so much of its words with its story (default: %(default)s)",
    )


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if not options.files and sys.stdin.isatty():
        parser.error("name a file, or - for standard input")
    check_rows_file(parser, options.files, options.out)
    # What was set aside is written anew, and so are the rows of the others.
    check_output(parser, options.files, f"{options.out}.rejects")


def on_interrupt(options: argparse.Namespace) -> str:
    """What to tell the user after an interruption."""
    return f"the answers so far are kept beside {options.out}; continue with the same command"


def run(options: argparse.Namespace) -> int:
    """Ask, check, write; or only show what would be asked."""
    recipe = Recipe(
        options.recipe,
        options.columns,
        options.attempts,
        options.twin_overlap,
        options.distractor_overlap,
        options.prompts,
    )
    server = _server(options)
    prices = Prices(options.price_in, options.price_out)
    sources, problems = _sources(options, recipe)
    if not sources:
        print("narrative-twins: there is no story in the input", file=sys.stderr)
        return 1
    twinless = sum(source.twinless for source in sources)
    if twinless:
        told = f"{twinless:,} of the synopses come without a twin; rows without one are not loaded by load_window_twins"
        print(f"narrative-twins: {told}, so give the synopses with their twins", file=sys.stderr)
    if options.dry_run:
        _show(sources, recipe, prices, server, Answers(f"{options.out}.answers"))
        return 1 if problems else 0
    progress = sys.stderr.isatty() and not options.quiet
    try:
        made = make_twins(
            sources, server, options.out, recipe=recipe, prices=prices, language=options.language, progress=progress
        )
    except ServerError as error:
        raise ServerError(f"{error}; {on_interrupt(options)}") from None
    _report(options.out, made, prices)
    return 1 if problems or made.rejects else 0


def _server(options: argparse.Namespace) -> Server:
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


def _sources(options: argparse.Namespace, recipe: Recipe) -> tuple[list[SourceStory], int]:
    """The stories, and how many can't be read; of these each is reported."""
    sources, problems = [], 0
    for name, content, problem in read_stories(options.files or [STDIN], options.input_format):
        try:
            sources.append(SourceStory.parse(StoryError(problem) if problem else content, recipe))
        except StoryError as error:
            problems += 1
            print(f"narrative-twins: {name}: {error.problem}", file=sys.stderr)
    return sources, problems


def _show(sources: list[SourceStory], recipe: Recipe, prices: Prices, server: Server, answers: Answers) -> None:
    """What would be asked."""
    for source in sources:
        with suppress(Rejected):
            for question in planned_questions(source.windows, recipe, server):
                note = " (with the story in place of an answer that is not there yet)" if question.is_stand_in else ""
                print(f"--- {question.step.name}{note} ---\n{question.prompt}\n")
            break
    found = estimate(sources, recipe, server, answers)
    print(
        f"{len(sources):,} stories, {len(answers):,} answers are there already; {found.questions:,} questions to ask "
        f"if none is asked twice, about {prices.told(found.prompt_tokens, found.completion_tokens)}"
        + (f"; {found.aside:,} stories are set aside, as it is" if found.aside else "")
    )


def _report(out: str, made: Made, prices: Prices) -> None:
    """What came of it."""
    aside = f"; {plural(len(made.rejects), 'story', 'stories')} set aside in {out}.rejects" if made.rejects else ""
    paid = prices.told(made.run.prompt_tokens, made.run.completion_tokens)
    rows = f"{out}: {plural(len(made.rows), 'row', 'rows')}" if made.rows else "no rows"
    print(f"{rows}{aside}; {plural(made.run.asked, 'answer', 'answers')} in this run, {paid}", file=sys.stderr)
    reasons = Counter(f"{reject['step']}: {reject['reason']}" for reject in made.rejects).most_common()
    for reason, number in reasons[:_REASONS]:
        print(f"{number:>9,}  {reason}", file=sys.stderr)
    if len(reasons) > _REASONS:
        print(f"{sum(number for _, number in reasons[_REASONS:]):>9,}  for other reasons", file=sys.stderr)


def columns(text: str) -> list[str]:
    """A comma-separated list of columns, in the order in which they are made."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(COLUMNS)}")
    return [column for column in COLUMNS if column in names]


def fields(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object")
    return value
