"""What `score` and `report` share: options of scoring, the stories to score, and their results."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

from narrative_twins.commands.options import count, is_terminal, parsed_by
from narrative_twins.commands.story_input import StoryInput
from narrative_twins.commands.threads import limit_threads_if_busy
from narrative_twins.encoder.backends import backend_names
from narrative_twins.encoder.checkpoint import encoder_settings
from narrative_twins.encoder.quiet import no_progress_bars
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import OPERATIONS, Operation, resolve_operations
from narrative_twins.salience.options import SCORING_OPTIONS, Approximation, OnTruncation
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.reading import input_formats
from narrative_twins.stories.splitting import SPLITTERS
from narrative_twins.stories.story import parse_windows


def operations(text: str) -> list[Operation]:
    """A comma-separated list of operations, for `argparse`."""
    return parsed_by(resolve_operations)([name.strip() for name in text.split(",")])


_OPTIONS: dict[str, dict[str, Any]] = {
    "operations": {
        "type": operations,
        "metavar": "A,B",
        "help": f"of {','.join(OPERATIONS)} (default: all)",
    },
    "windows": {
        "type": parsed_by(parse_windows),
        "metavar": "N",
        "help": "a count, sizes (7,7,6), or auto (default)",
    },
    "approximate": {
        "choices": get_args(Approximation),
        "help": (
            "all operations but shifting from one forward pass over a story; docs/speed.md says"
            " what that costs"
        ),
    },
    "max_shifts": {
        "type": count,
        "metavar": "N",
        "help": "shifting to the N nearest other positions only",
    },
    "on_truncation": {
        "choices": get_args(OnTruncation),
        "help": "if a story exceeds the encoder's context (default: %(default)s)",
    },
    "processes": {
        "type": count,
        "metavar": "N",
        "help": (
            "share the stories among N processes, each with a copy of the encoder (default:"
            " %(default)s)"
        ),
    },
}
"""The options of `score_stories` that are options of commands; `argparse` gets their names and
defaults from there."""

# Written by name in `run_settings`, or without effect on the scores.
_SAME_RESULTS = ("operations", "on_truncation", "processes")


_NOT_ENGLISH = (
    "seems not to be in English, for which the default encoder and the sentence splitter are made;"
    " score it by a multilingual encoder, such as --model"
    " sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2, and check the sentences, or give"
    " them as lines with --split lines"
)


def add_scoring_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the input, of scoring and of the encoder."""
    add = parser.add_argument
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help=(
            "text, PDF, EPUB, Word or HTML (one story), JSON Lines (one per line), JSON, CSV,"
            " Parquet or a data set on the Hub (one per row), or a folder of these files; - for"
            " stdin"
        ),
    )
    for name, settings in _OPTIONS.items():
        add(f"--{name.replace('_', '-')}", default=SCORING_OPTIONS[name].default, **settings)
    add(
        "--batch-size",
        type=count,
        default=SCORING_OPTIONS["batch_size"].default,
        metavar="N",
        help="stories that are held in memory at once (default: %(default)s)",
    )
    add(
        "--input-format",
        choices=input_formats(),
        default="auto",
        help="default: by the suffix of the file",
    )
    add(
        "--column",
        metavar="NAME",
        help="the column of the stories in CSV (default: text, story or a similar name)",
    )
    add(
        "--split",
        choices=SPLITTERS,
        default=next(iter(SPLITTERS)),
        help="the units of texts that are scored (default: %(default)s); lines for verse",
    )
    add(
        "--score-headings",
        action="store_true",
        help="score headings as sentences (default: leave them out)",
    )
    add_encoder_options(parser)


def add_encoder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the encoder, and of the progress bar."""
    add = parser.add_argument
    add("--model", help="folder or Hub id of the encoder (default: the default encoder)")
    add(
        "--context-tokens",
        type=count,
        metavar="N",
        help="tokens read at once (default: the encoder's maximum)",
    )
    add("--device", help="for example cpu or cuda:0 (default: an accelerator if there is one)")
    add(
        "--dtype",
        default="auto",
        help="precision, for example float32 (default: the fastest that keeps ranks)",
    )
    add(
        "--backend",
        choices=backend_names(),
        default="torch",
        help="library that runs the encoder (default: %(default)s)",
    )
    add("-q", "--quiet", action="store_true", help="no progress bar")


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if not options.files and is_terminal(sys.stdin):
        parser.error("name a file, or - for standard input")


def load_encoder(options: argparse.Namespace) -> StoryEncoder:
    """Load the encoder, and set `options.operations` to the operations that will be scored. Raises
    `ValueError` if an operation does not support the approximation."""
    options.operations = resolve_operations(
        options.operations, one_pass=options.approximate is not None, max_shifts=options.max_shifts
    )
    return read_encoder(options)


def read_encoder(options: argparse.Namespace) -> StoryEncoder:
    """Load the encoder that the options name."""
    limit_threads_if_busy()
    with no_progress_bars():
        return StoryEncoder.from_pretrained(
            options.model,
            device=options.device,
            dtype=options.dtype,
            context_tokens=options.context_tokens,
            backend=options.backend,
        )


def run_settings(options: argparse.Namespace, encoder: StoryEncoder) -> dict[str, Any]:
    """All that the results depend on, as JSON data: a run is resumed with the same settings
    only."""
    return {
        **encoder_settings(options.model, encoder),
        "operations": [operation.name for operation in options.operations],
        "split": options.split,
        "score headings": options.score_headings,
        **{
            name.replace("_", " "): getattr(options, name)
            for name in _OPTIONS
            if name not in _SAME_RESULTS
        },
        "top": options.top,
    }


def story_input(options: argparse.Namespace, done: Iterable[str] = ()) -> StoryInput:
    """The stories that the options name, without those that are done, see `StoryInput`."""
    splitter = SPLITTERS[options.split] if options.score_headings else options.split
    return StoryInput(
        options.files,
        options.input_format,
        options.windows,
        done,
        splitter,
        column=options.column,
        hint=not_english(options),
    )


def not_english(options: argparse.Namespace) -> str | None:
    """What to tell the user of a text that is not in English; nothing to who chose an encoder, and
    so its languages."""
    return None if options.model else _NOT_ENGLISH


def score(
    options: argparse.Namespace, stories: StoryInput, encoder: StoryEncoder
) -> Iterator[StorySalience]:
    """Score the stories, lazily; those that can't be scored are reported and skipped."""
    progress = sys.stderr.isatty() and not options.quiet
    scoring = _scoring(options) | {"on_error": stories.report, "progress": progress}
    if options.on_truncation == "warn":
        # The engine does not know the file and the line of a story.
        stories.warn_of_truncation, scoring["on_truncation"] = True, "ignore"
    results = score_stories(stories, encoder, **scoring)
    with _interrupts() as was_interrupted:
        for result in stories.renumber(results):
            if was_interrupted():
                raise KeyboardInterrupt
            yield result


def _scoring(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `score_stories`."""
    return {name: getattr(options, name) for name in SCORING_OPTIONS if hasattr(options, name)}


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Make sure that Ctrl-C is not lost: Python prints and drops exceptions that are raised in
    callbacks of the garbage collector, which run often while matplotlib draws. Yields a function
    that tells whether Ctrl-C was pressed.
    """
    seen: list[int] = []
    print_dropped = sys.unraisablehook

    def interrupt(number: int, frame: Any) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    def skip_interrupt(dropped: Any) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            print_dropped(dropped)

    in_main_thread = threading.current_thread() is threading.main_thread()
    # A process that ignores Ctrl-C, such as a background job, keeps ignoring it.
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = skip_interrupt
    try:
        yield lambda: bool(seen)
    finally:
        sys.unraisablehook = print_dropped
        signal.signal(signal.SIGINT, signal.default_int_handler)


def exit_code(stories: StoryInput) -> int:
    """0 if all stories were scored, otherwise 1; warns if there was no story."""
    if not stories.found:
        print("narrative-twins: there is no story in the input", file=sys.stderr)
    return 1 if stories.problems else 0
