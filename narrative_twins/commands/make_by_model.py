"""`narrative-twins make twins` and `make judgments`: rows to train on, by a language model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from narrative_twins.commands.options import (
    COUNT,
    Choices,
    Names,
    Number,
    Parsed,
    check_input,
    check_output,
    check_rows_file,
    command,
    counted,
    on_interrupt,
    option,
    option_group,
    plural,
    quiet_option,
    shows_progress,
    tell,
    valued,
)
from narrative_twins.commands.stories import INPUT_FORMAT
from narrative_twins.files import STDIN, for_terminal
from narrative_twins.llm.chat import ATTEMPTS, KEY_VARIABLE, Answers, Question, Server, ServerError
from narrative_twins.llm.running import Prices
from narrative_twins.stories.reading import read_stories
from narrative_twins.stories.story import Story, StoryError, parse_windows

if TYPE_CHECKING:
    from narrative_twins.making.made import MadeRows

_SHOWN_REASONS = 5
"""Number of reasons for rejecting stories that are printed."""
_SAMPLES = 10
_INPUT = (
    " FILE is text (one story), JSON Lines, JSON or ROCStories' CSV; - or none is standard input."
    " The same command resumes an interrupted run."
)


def _fields(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{text!r} is not a JSON object")
    return value


class Making:
    """What both commands share: reading stories, making rows of them, and reporting what was made.

    Attributes:
        checks: the arguments of questions: `attempts` to get a valid answer, and a folder with
            `prompts` that replace those of the package.
    """

    def __init__(
        self,
        *,
        out: str,
        input_format: str,
        language: str,
        dry_run: bool,
        attempts: int,
        prompts: str | None,
        price_in: float,
        price_out: float,
        server: str,
        no_schema: bool,
        **settings: Any,
    ) -> None:
        self.out, self.input_format = out, input_format
        self.language, self.dry_run = language, dry_run
        self.checks: dict[str, Any] = {"attempts": attempts, "prompts": prompts}
        self.prices = Prices(price_in, price_out)
        self.server = Server(server, structured=not no_schema, **settings)

    def run(
        self,
        files: Sequence[str],
        quiet: bool,
        parse: Callable[[Any], Any],
        make: Callable[..., MadeRows],
    ) -> int:
        """Read stories, ask about them, write the rows, and say what was rejected.

        Args:
            files: of the stories.
            quiet: whether the user wants no progress bar.
            parse: the story of a document; may raise `StoryError`.
            make: the function that makes the rows.

        Returns:
            The exit code: 1 if a story could not be read or was rejected.
        """
        check_input(files)
        check_rows_file(files, self.out)
        # The file of rejected stories is overwritten too.
        check_output(files, f"{self.out}.rejects")
        sources, problems = [], 0
        for name, content, problem in read_stories(files or [STDIN], self.input_format):
            try:
                sources.append(parse(StoryError(problem) if problem else content))
            except StoryError as error:
                problems += 1
                tell(f"{name}: {error.problem}")
        if not sources:
            tell("there is no story in the input")
            return 1
        hint = f"the answers so far are saved next to {self.out}; resume with the same command"
        try:
            with on_interrupt(hint):
                made = make(
                    sources,
                    self.server,
                    self.out,
                    prices=self.prices,
                    language=self.language,
                    progress=shows_progress(quiet) and not self.dry_run,
                    dry_run=self.dry_run,
                )
        except ServerError as error:
            raise ServerError(f"{error}; {hint}") from None
        run, rejected = made.run, plural(len(made.rejects), "story", "stories")
        cost = self.prices.describe(run.prompt_tokens, run.completion_tokens)
        if run.missing is not None:
            self._print_prompts(run.missing)
            print(
                f"{len(run.results):,} stories, {len(Answers(f'{self.out}.answers')):,} saved"
                f" answers; {len(run.missing):,} questions to ask, if every answer is valid, about"
                f" {cost}; {rejected} would be rejected"
            )
            return 1 if problems else 0
        tell(
            f"{self.out}: {plural(len(made.rows), 'row', 'rows')}; {rejected} rejected;"
            f" {plural(run.asked, 'answer', 'answers')} in this run, {cost}"
        )
        reasons = Counter(f"{reject['step']}: {reject['reason']}" for reject in made.rejects)
        for reason, number in reasons.most_common(_SHOWN_REASONS):
            tell(f"{number:,} × {reason}")
        if made.rejects:
            tell(f"the rejected stories are in {self.out}.rejects")
        return 1 if problems or made.rejects else 0

    def _print_prompts(self, missing: Sequence[Question]) -> None:
        """Print the prompts about the first story that is asked about, each once."""
        prompts: dict[str, str] = {}
        for question in missing:
            if question.story == missing[0].story:
                prompts.setdefault(question.prompt, question.step)
        for prompt, name in prompts.items():
            print(for_terminal(f"--- {name} ---\n{prompt}\n"))
        if len(prompts) > 1:
            print("A prompt about the answer to another one has the story in its place.\n")


_NATURAL = click.IntRange(min=0)
_AMOUNT = Number(min=0)
_making_options = option_group(
    "making",
    "Making",
    {
        "out": valued(
            "FILE", "Write the rows to this JSON Lines file.", flags=("-o", "--out"), required=True
        ),
        "input_format": INPUT_FORMAT,
        "language": valued(
            None, "Language of the stories, for the card (default: en).", default="en"
        ),
        "dry_run": {
            "is_flag": True,
            "help": "Only print the prompts for the first story and an estimate of the cost.",
        },
        "server": valued(
            "URL", "OpenAI-compatible server, for example http://localhost:8000/v1.", required=True
        ),
        "model": valued("NAME", "Name of the model on the server.", required=True),
        "key_variable": valued(
            "NAME",
            "Environment variable of the API key, which is sent only to the server (default:"
            f" {KEY_VARIABLE}, if it is set and the server is OpenAI's or on this machine).",
        ),
        "concurrency": counted(COUNT, "N", Server.concurrency, "Parallel requests"),
        "retries": counted(_NATURAL, "N", Server.retries, "Retries of a request"),
        "timeout": counted(
            Number(0, min_open=True), "SECONDS", Server.timeout, "Time for a request"
        ),
        "temperature": counted(_AMOUNT, "T", Server.temperature, "For sampling"),
        "max_tokens": counted(COUNT, "N", Server.max_tokens, "Per answer"),
        "seed": counted(_NATURAL, "N", Server.seed, "For sampling"),
        "no_schema": {
            "is_flag": True,
            "help": "Don't send the JSON schema of the answer, which some servers reject.",
        },
        "fields": valued(
            "JSON",
            "Fields of each request; null removes a field, for example"
            ' \'{"max_tokens": null, "max_completion_tokens": 4000}\'.',
            flags=("--request",),
            type=Parsed(_fields),
            default={},
        ),
        "price_in": counted(_AMOUNT, "X", 0.0, "Price of a million prompt tokens"),
        "price_out": counted(_AMOUNT, "X", 0.0, "Price of a million answer tokens"),
        "attempts": counted(COUNT, "N", ATTEMPTS, "Questions until a story is rejected"),
        "prompts": valued("FOLDER", "Prompts that replace those of the package."),
    },
    Making,
)


@command(
    "Have a language model write narrative twins and distractors of stories, as rows to train on."
    + _INPUT,
    extra="train",
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@option(
    "--recipe",
    type=Choices("making.recipes", "RECIPES"),
    metavar="NAME",
    default="stories",
    help="Twins and distractors of short stories, or of synopses in five sections (synopses).",
)
@option(
    "--columns",
    type=Names("making.recipes", "COLUMNS"),
    metavar="A,B",
    help="Texts to make: twin,negative,negative_twin (default: all).",
)
@option(
    "--twin-overlap",
    type=Number(0, 1),
    metavar="X",
    help="Maximum word overlap of a twin and its story, 0 to 1 (default: 0.7).",
)
@option(
    "--distractor-overlap",
    type=Number(0, 1),
    metavar="X",
    help="Minimum word overlap of a distractor and its story, 0 to 1 (default: 0.5).",
)
@_making_options
@quiet_option
def make_twins(files: Sequence[str], making: Making, quiet: bool, **options: Any) -> int:
    """Read, ask, write."""
    from narrative_twins.making.recipes import TwinOptions
    from narrative_twins.making.twins import make_twins, source_row

    given = {name: value for name, value in options.items() if value is not None}
    chosen = TwinOptions(**given, **making.checks)

    return making.run(
        files,
        quiet,
        lambda content: source_row(content, chosen),
        partial(make_twins, options=chosen, report=tell),
    )


@command(
    "Have a language model vote for the most important sentences of stories, as rows for"
    f" SalienceLoss to train on.{_INPUT}",
    extra="train",
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@option(
    "--style",
    type=click.Choice(["choose", "shares"]),
    default="choose",
    help="Ask --samples times for the most important sentence of a window, each answer a vote, or"
    " once for the shares of ten votes (default: choose).",
)
@option(
    "--samples",
    type=COUNT,
    metavar="N",
    help=f"Answers per window, for --style choose (default: {_SAMPLES}).",
)
@option(
    "--windows",
    type=Parsed(parse_windows),
    default="auto",
    metavar="N",
    help="A count, sizes (7,7,6), or auto (default).",
)
@_making_options
@quiet_option
def make_judgments(
    files: Sequence[str], making: Making, quiet: bool, style: Any, samples: int | None, windows: Any
) -> int:
    """Read, ask, write."""
    if samples is not None and style == "shares":
        raise click.UsageError("--samples is for --style choose; shares is asked once")

    from narrative_twins.making.judgments import make_judgments

    make = partial(
        make_judgments, style=style, samples=samples or _SAMPLES, windows=windows, **making.checks
    )
    return making.run(files, quiet, lambda content: Story.parse(content, windows), make)
