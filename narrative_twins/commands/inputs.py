"""What commands that score stories have in common: their options, their stories, and the results."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tqdm.auto import tqdm
from transformers.utils import logging as transformers_logging

from narrative_twins.commands.numbers import count
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.files import STDIN, StoryKey, story_key
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import OPERATIONS, Operation, resolve_operations
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.reading import count_stories, read_stories
from narrative_twins.stories.story import Story, StoryError, Windows, parse_windows


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the stories to read, of the engine and of the encoder."""
    add = parser.add_argument
    add(
        "files",
        nargs="*",
        metavar="FILE",
        help="text (one story), JSON Lines (a story a line) or JSON; - for standard input",
    )
    add(
        "--operations",
        type=operations,
        metavar="A,B",
        help=f"of {','.join(OPERATIONS)} (default: all)",
    )
    add(
        "--approximate",
        choices=("one-pass",),
        help="all operations but shifting from one forward pass over a story; see the README for what that costs",
    )
    add("--max-shifts", type=count, metavar="N", help="shifting to no more than the N nearest places")
    add("--windows", type=windows, default="auto", metavar="N", help="a count, sizes as 7,7,6, or auto (default)")
    add("--model", help="folder or Hub id of the encoder (default: the default encoder)")
    add(
        "--input-format",
        choices=("auto", "text", "jsonl", "json"),
        default="auto",
        help="default: by the file's suffix",
    )
    add(
        "--context-tokens",
        type=count,
        metavar="N",
        help="read at most so many tokens at once (default: the encoder's limit)",
    )
    add("--batch-size", type=count, default=32, metavar="N", help="stories held at once (default: 32)")
    add("--device", help="such as cpu or cuda:0 (default: an accelerator if there is one)")
    add("--dtype", default="auto", help="precision, such as float32 (default: the fastest that keeps ranks)")
    add("--on-truncation", choices=("warn", "error", "ignore"), default="warn", help="what to do where a story is cut")
    add("-q", "--quiet", action="store_true", help="no progress bar")


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if not options.files and sys.stdin.isatty():
        parser.error("name a file, or - for standard input")


def encoder_of(options: argparse.Namespace) -> StoryEncoder:
    """The encoder that is asked for. Sets what operations there are to score, too.

    Raises:
        ValueError: an operation can't be had so.
    """
    options.operations = resolve_operations(
        options.operations, one_pass=options.approximate is not None, max_shifts=options.max_shifts
    )
    transformers_logging.disable_progress_bar()
    return StoryEncoder.from_pretrained(
        options.model, device=options.device, dtype=options.dtype, context_tokens=options.context_tokens
    )


def settings_of(options: argparse.Namespace, encoder: StoryEncoder) -> dict[str, Any]:
    """What has to be the same where an interrupted run goes on, as JSON has it."""
    return {
        "operations": [operation.name for operation in options.operations],
        "context tokens": encoder.context_tokens,
        "--approximate": options.approximate or (options.max_shifts and f"max_shifts={options.max_shifts}"),
    }


def results_of(options: argparse.Namespace, stories: Stories, encoder: StoryEncoder) -> Iterator[StorySalience]:
    """The results, lazily. Stories that can't be scored are reported and passed over."""
    results = score_stories(
        stories,
        encoder,
        operations=options.operations,
        approximate=options.approximate,
        max_shifts=options.max_shifts,
        buffer=options.batch_size,
        on_error=stories.report,
        on_truncation=options.on_truncation,
        progress=sys.stderr.isatty() and not options.quiet,
    )
    with _interrupts() as lost:
        for result in stories.checked_off(results):
            if lost():
                raise KeyboardInterrupt
            yield result


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C that is not lost: Python drops what is raised while an object is being cleared away, which happens all the
    time where pictures are drawn. Gives a function that says whether there was one."""
    seen: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()
    # Where Ctrl-C is ignored, as in a job in the background, it stays so.
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def exit_code(stories: Stories) -> int:
    """0 if all stories were scored; says where there was none."""
    if not stories.found:
        print("narrative-twins: there is no story in the input", file=sys.stderr)
    return 1 if stories.problems else 0


class Stories:
    """The stories of the files named, less those done before; one that can't be read keeps its place as an error."""

    def __init__(self, options: argparse.Namespace, done: Counter[StoryKey]) -> None:
        self.paths: list[str] = options.files or [STDIN]
        self.form, self.windows, self.done = options.input_format, options.windows, done
        self.begun: dict[str, set[Any]] = defaultdict(set)
        for text, windows in done:
            self.begun[text].add(windows)
        self.found = self.problems = 0
        self.places: dict[int, tuple[str, int]] = {}

    def __length_hint__(self) -> int:
        return max(0, count_stories(self.paths, self.form) - self.done.total())

    def __iter__(self) -> Iterator[Story | StoryError]:
        count = 0
        for name, content, problem in read_stories(self.paths, self.form):
            self.found += 1
            try:
                story: Story | StoryError = Story.parse(StoryError(problem) if problem else content, self.windows)
            except StoryError as error:
                story = error
            if isinstance(story, Story) and self._is_done(story_key(story.id, story.sentences, story.windows)):
                continue
            self.places[count] = name, self.found - 1
            count += 1
            yield story

    def _is_done(self, key: StoryKey) -> bool:
        """Whether a story was scored before; as often as it was, since the same story may stand there twice."""
        text, windows = key
        if windows not in self.begun.get(text, {windows}):
            raise ValueError("can't resume: it was begun with other windows; go on with the same options")
        if not self.done[key]:
            return False
        self.done[key] -= 1
        return True

    def report(self, error: StoryError) -> None:
        """Tell of a story that can't be scored."""
        self.problems += 1
        name, _ = self.places.pop(error.index or 0)
        tqdm.write(f"narrative-twins: {name}: {error.problem}", file=sys.stderr)

    def checked_off(self, results: Iterable[StorySalience]) -> Iterator[StorySalience]:
        """The results, numbered by their places in the input, of which some may have been done before."""
        for result in results:
            _, place = self.places.pop(result.index)
            yield replace(result, index=place)


def operations(text: str) -> list[Operation]:
    """A comma-separated list of names."""
    try:
        return resolve_operations([name.strip() for name in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def windows(text: str) -> Windows:
    """`auto`, a count, or sizes."""
    try:
        return parse_windows(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
