"""`narrative-twins make twins` and `make judgments`: rows to train on, by a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from narrative_twins.books.reading import read_story_files
from narrative_twins.commands.asking import request_options, samples_option
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
from narrative_twins.prompting.chat import ATTEMPTS, Server, ServerError
from narrative_twins.stories.story import Story, StoryError, parse_windows
from narrative_twins.writing import STDIN

if TYPE_CHECKING:
    from narrative_twins.making.generated import Generated

_SHOWN_REASONS = 5
"""Number of reasons for rejecting stories that are printed."""
_INPUT = (
    " FILE is text (one story), JSON Lines, JSON or ROCStories' CSV; - or none is standard input."
    " The same command resumes an interrupted run."
)
_rows_options = option_group(
    "making",
    "Rows",
    {
        "out": valued(
            "FILE", "Write the rows to this JSON Lines file.", flags=("-o", "--out"), required=True
        ),
        "input_format": INPUT_FORMAT,
        "language": valued(
            None, "Language of the stories, for the facts (default: en).", default="en"
        ),
        "attempts": counted(COUNT, "N", ATTEMPTS, "Answers to a question until it is rejected"),
        "prompts": valued("FOLDER", "Prompts that replace the package's."),
    },
)


def _run(
    files: Sequence[str],
    server: Server,
    quiet: bool,
    parse: Callable[[Any], Any],
    make: Callable[..., Generated],
    *,
    out: str,
    input_format: str,
    **options: Any,
) -> int:
    """Read stories, ask about them, write the rows, and say what was rejected.

    Args:
        files: the files of the stories, in this `input_format`.
        server: the language model.
        quiet: whether the user wants no progress bar.
        parse: the story of a document; may raise `StoryError` or `RowError`.
        make: makes the rows of the stories, and writes them to `out`, with these `options`.

    Returns:
        The exit code: 1 if a story could not be read or was rejected.
    """
    from narrative_twins.data.rows import RowError

    check_input(files)
    check_rows_file(files, out)
    # The file of rejected stories is overwritten too.
    check_output(files, f"{out}.rejects")
    sources, problems = [], 0
    for name, content, problem in read_story_files(files or [STDIN], input_format):
        try:
            sources.append(parse(StoryError(problem) if problem else content))
        except (StoryError, RowError) as error:
            problems += 1
            tell(f"{name}: {error.problem}")
    if not sources:
        tell("there is no story in the input")
        return 1
    hint = f"the answers so far are in {out}.answers; resume with the same command"
    try:
        with on_interrupt(hint):
            made = make(sources, server, out, progress=shows_progress(quiet), **options)
    except ServerError as error:
        raise ServerError(f"{error}; {hint}") from None
    rejected = plural(len(made.rejects), "story", "stories")
    tell(f"{out}: {plural(len(made.rows), 'row', 'rows')}; {rejected} rejected; {made.usage}")
    reasons = Counter(f"{reject['step']}: {reject['reason']}" for reject in made.rejects)
    for reason, number in reasons.most_common(_SHOWN_REASONS):
        tell(f"{number:,} × {reason}")
    if made.rejects:
        tell(f"the rejected stories are in {out}.rejects")
    return 1 if problems or made.rejects else 0


@command(
    "Have a language model write narrative twins and distractors of stories, as rows to train on."
    + _INPUT,
    extra="train",
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@option(
    "--recipe",
    type=Choices("making.twins", "RECIPES"),
    metavar="NAME",
    default="stories",
    help="Twins and distractors of short stories, or of synopses in five sections (synopses).",
)
@option(
    "--columns",
    type=Names("making.twins", "COLUMNS"),
    metavar="A,B",
    default="twin,negative,negative_twin",
    help="Texts to make (default: twin,negative,negative_twin).",
)
@option("--twin-overlap", **counted(Number(0, 1), "X", 0.7, "Most word overlap with the story"))
@option(
    "--distractor-overlap", **counted(Number(0, 1), "X", 0.5, "Least word overlap with the story")
)
@_rows_options
@request_options()
@quiet_option
def make_twins(
    files: Sequence[str], making: dict[str, Any], server: Server, quiet: bool, **options: Any
) -> int:
    """Read, ask, write."""
    from narrative_twins.making.twins import TwinOptions, make_twins, source_row

    twins = TwinOptions(**options, prompts=making.pop("prompts"))
    make = partial(make_twins, options=twins)
    return _run(files, server, quiet, lambda content: source_row(content, twins), make, **making)


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
    "--windows",
    type=Parsed(parse_windows),
    default="auto",
    metavar="N",
    help="A count, sizes (7,7,6), or auto (default).",
)
@samples_option
@_rows_options
@request_options()
@quiet_option
def make_judgments(
    files: Sequence[str], making: dict[str, Any], server: Server, quiet: bool, **options: Any
) -> int:
    """Read, ask, write."""
    from narrative_twins.making.judgments import make_judgments

    def parse(content: Any) -> Story:
        return Story.parse(content, options["windows"])

    return _run(files, server, quiet, parse, make_judgments, **making, **options)
