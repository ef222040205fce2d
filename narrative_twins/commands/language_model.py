"""What the commands that make rows by a language model share: options, the stories of the input,
the result."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from narrative_twins.commands.options import (
    amount,
    check_output,
    check_rows_file,
    count,
    is_terminal,
    natural,
    plural,
    positive,
)
from narrative_twins.files import STDIN
from narrative_twins.llm.answers import Answers
from narrative_twins.llm.running import ATTEMPTS, Prices
from narrative_twins.llm.server import KEY_VARIABLE, Server
from narrative_twins.making.made import Estimate, MadeRows, Plan
from narrative_twins.stories.reading import input_formats, read_stories
from narrative_twins.stories.story import StoryError

_SHOWN_REASONS = 5
"""Number of reasons for rejecting stories that are printed."""

Source = TypeVar("Source")


def add_file_options(add: Any) -> None:
    """Add the files of stories, and the file of rows."""
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help="text (one story), JSON Lines, JSON, ROCStories' CSV; - for stdin",
    )
    add("-o", "--out", required=True, metavar="FILE", help="write the rows to this JSON Lines file")


def add_run_options(add: Any) -> None:
    """Add the options of prompts, the card, the input and of how the command runs."""
    add(
        "--prompts",
        metavar="FOLDER",
        help="folder with prompt files that replace those of the package",
    )
    add("--language", default="en", help="language of the stories, for the card (default: en)")
    add("--input-format", choices=input_formats(), default="auto", help="default: by file suffix")
    add(
        "--dry-run",
        action="store_true",
        help="only print the prompts for the first story and an estimate of the cost",
    )
    add("-q", "--quiet", action="store_true", help="show no progress bar")


def add_attempts_option(add: Any) -> None:
    """Add the number of attempts."""
    add(
        "--attempts",
        type=count,
        default=ATTEMPTS,
        metavar="N",
        help="attempts to get a valid answer, before a story is rejected (default: %(default)s)",
    )


def add_server_options(add: Any) -> None:
    """Add the options of the language model and its server."""
    add(
        "--server",
        required=True,
        metavar="URL",
        help="OpenAI-compatible server, for example http://localhost:8000/v1",
    )
    add("--model", required=True, metavar="NAME", help="name of the model on the server")
    add(
        "--key-variable",
        metavar="NAME",
        help=(
            "environment variable of the API key, which is sent only to the server (default: "
            f"{KEY_VARIABLE}, if it is set and the server is OpenAI's or on this machine)"
        ),
    )
    add(
        "--concurrency",
        type=count,
        default=Server.concurrency,
        metavar="N",
        help="parallel requests (default: %(default)s)",
    )
    add(
        "--retries",
        type=natural,
        default=Server.retries,
        metavar="N",
        help="per request (default: %(default)s)",
    )
    add(
        "--timeout",
        type=positive,
        default=Server.timeout,
        metavar="SECONDS",
        help="per request (default: %(default)s)",
    )
    add(
        "--temperature",
        type=amount,
        default=Server.temperature,
        metavar="T",
        help="of sampling (default: %(default)s)",
    )
    add(
        "--max-tokens",
        type=count,
        default=Server.max_tokens,
        metavar="N",
        help="per answer (default: %(default)s)",
    )
    add(
        "--seed",
        type=natural,
        default=Server.seed,
        metavar="N",
        help="of sampling (default: %(default)s)",
    )
    add(
        "--no-schema",
        action="store_true",
        help="don't send the JSON schema of the answer, which some servers reject",
    )
    add(
        "--request",
        type=fields,
        default={},
        metavar="JSON",
        help=(
            'fields of each request; null removes a field, for example \'{"max_tokens": null, '
            '"max_completion_tokens": 4000}\''
        ),
    )
    add(
        "--price-in",
        type=amount,
        default=0.0,
        metavar="X",
        help="price of a million prompt tokens, to show the cost",
    )
    add(
        "--price-out",
        type=amount,
        default=0.0,
        metavar="X",
        help="price of a million answer tokens",
    )


def fields(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


def check_files(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse files that do not go together."""
    if not options.files and is_terminal(sys.stdin):
        parser.error("name a file, or - for standard input")
    check_rows_file(parser, options.files, options.out)
    # The file of rejected stories is overwritten too.
    check_output(parser, options.files, f"{options.out}.rejects")


def resume_with_same_command(out: str) -> str:
    """The message for the user after an interruption."""
    return f"the answers so far are saved beside {out}; resume with the same command"


def server_from_options(options: argparse.Namespace) -> Server:
    """The language model that the options name; may raise `ValueError`."""
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


def read_sources(
    options: argparse.Namespace, parse: Callable[[Any], Source]
) -> tuple[list[Source], int]:
    """The stories of the input, and the number of those that can't be read, which are reported; so
    is an input without a story. `parse` may raise `StoryError`."""
    sources, problems = list[Source](), 0
    for name, content, problem in read_stories(options.files or [STDIN], options.input_format):
        try:
            sources.append(parse(StoryError(problem) if problem else content))
        except StoryError as error:
            problems += 1
            print(f"narrative-twins: {name}: {error.problem}", file=sys.stderr)
    if not sources:
        print("narrative-twins: there is no story in the input", file=sys.stderr)
    return sources, problems


def print_plan(first: Plan, plans: Sequence[Plan], answers: Answers, prices: Prices) -> None:
    """Print the prompts about the first story, each once, and how much a run would ask.

    Args:
        first: the plan of the first story, without saved answers.
        plans: the plans of all stories.
        answers: the saved answers.
        prices: for the cost.
    """
    shown: set[str] = set()
    for question in first.questions:
        if question.prompt not in shown:
            note = " (with the story in place of a missing answer)" if question.is_stand_in else ""
            print(f"--- {question.step}{note} ---\n{question.prompt}\n")
            shown.add(question.prompt)
    found = Estimate.of(plans)
    cost = prices.describe(found.prompt_tokens, found.completion_tokens)
    aside = plural(found.aside, "story", "stories")
    print(
        f"{len(plans):,} stories, {len(answers):,} saved answers; {found.questions:,} questions to"
        f" ask, if every answer is valid, about {cost}"
        + (f"; {aside} would be rejected" if found.aside else "")
    )


def print_result(out: str, made: MadeRows, prices: Prices) -> None:
    """Print what was written, the cost, and the most common reasons for rejecting stories."""
    rejected = (
        f"; {plural(len(made.rejects), 'story', 'stories')} rejected, see {out}.rejects"
        if made.rejects
        else ""
    )
    cost = prices.describe(made.run.prompt_tokens, made.run.completion_tokens)
    rows = f"{out}: {plural(len(made.rows), 'row', 'rows')}" if made.rows else "no rows"
    print(
        f"{rows}{rejected}; {plural(made.run.asked, 'answer', 'answers')} in this run, {cost}",
        file=sys.stderr,
    )
    reasons = Counter(
        f"{reject['step']}: {reject['reason']}" for reject in made.rejects
    ).most_common()
    for reason, number in reasons[:_SHOWN_REASONS]:
        print(f"{number:>9,}  {reason}", file=sys.stderr)
    if len(reasons) > _SHOWN_REASONS:
        print(
            f"{sum(number for _, number in reasons[_SHOWN_REASONS:]):>9,}  for other reasons",
            file=sys.stderr,
        )
