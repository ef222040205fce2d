"""The engine: scores the sentences of many stories in bounded memory with as few forward passes as
possible.

`Engine.outcomes` holds some stories at once, plans their windows, embeds the variants of many
windows together, scores the windows, and passes on the stories in order; with several processes,
each runs it on a part of the stories.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing.connection import Connection
from operator import length_hint
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.operations import EXACTLY, Operation
from narrative_twins.salience.options import (
    Approximation,
    ScoringOptions,
    approximation,
    checked_options,
)
from narrative_twins.salience.plans import Plan, exact_plans, one_pass_plans, one_pass_share
from narrative_twins.salience.result import StorySalience, truncation
from narrative_twins.stories.story import Story, StoryError, check_stories

logger = logging.getLogger(__name__)

Outcome: TypeAlias = StorySalience | StoryError
"""What becomes of a story: its result, or why it has none."""

BUFFER_TOKENS = 1_000_000
"""Planned tokens after which the encoder runs, which bounds memory for long stories."""

LONG = 10.0
"""Estimated seconds of exact scoring from which people who wait are advised."""
_MEASURED = 1.0  # seconds by which its speed is measured


def score_stories(
    stories: Iterable[Any],
    encoder: StoryEncoder | str | Path | None = None,
    **options: Unpack[ScoringOptions],
) -> Iterator[StorySalience]:
    """Score every sentence of some stories; an iterator over one result per story, lazily and in
    order.

    Args:
        stories: stories in any form that `Story.parse` accepts: text, list of sentences, mapping,
            `Story`.
        encoder: a `StoryEncoder`, its folder or Hub id, or None for the default encoder.
        options: see `ScoringOptions`.

    Raises:
        TypeError, ValueError: an option is unknown or invalid. Raised before anything is scored.
        StoryError: a story can't be scored; has its index. Raised while iterating.

    Example:
        ```python
        from narrative_twins import score_stories

        (result,) = score_stories(["Nadia ran. The mill burned down. It rained."])
        assert len(result.top(2)) == 2
        ```
    """
    check_stories(stories)
    checked: Any = checked_options(options)
    encoder = loaded_encoder(encoder)
    check_pooling(encoder, checked)
    processes, size = checked["processes"], checked["batch_size"]
    expected = length_hint(stories)
    progress = Progress(checked["progress"], "stories", expected)

    operations, is_strict = checked["operations"], checked["on_truncation"] == "error"

    def parsed(source: Any) -> Story | StoryError:
        try:
            story = Story.parse(source, checked["windows"], checked["splitter"])
        except StoryError as error:
            return error
        if checked["approximate"] is None:
            progress.compare(encoder, operations, story)
        return story

    read = map(parsed, stories)
    engine = Engine(encoder, operations, checked["approximate"], size, is_strict)
    if processes == 1 or expected == 1:
        stops = checked["on_error"] == "raise"
        outcomes = engine.outcomes(read, progress.reach, stops_at_errors=stops)
    else:
        if expected:  # few stories are shared evenly
            size = min(size, -(-expected // processes))
        chunks = iter(lambda: list(islice(read, size)), [])
        outcomes = _chained(in_processes(engine.start, chunks, processes), progress)
    return _results(outcomes, checked, progress)


def _results(
    outcomes: Generator[Outcome, None, None], options: Mapping[str, Any], progress: Progress
) -> Iterator[StorySalience]:
    """The results among some outcomes, with their indices; the others are reported or raised."""
    on_error, warns = options["on_error"], options["on_truncation"] == "warn"
    with closing(progress), closing(outcomes):
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, StorySalience):
                result = replace(outcome, index=index, approximate=approximation(options))
                if result.truncated and warns:
                    warns = False
                    name = "" if result.story.id is None else f" ({result.story.id})"
                    problem = _too_long(result.context_tokens, result.cut_tokens)
                    logger.warning("story %d%s %s (reported once)", index + 1, name, problem)
                yield result
                continue
            outcome.index = index
            if on_error == "raise":
                raise outcome
            if callable(on_error):
                on_error(outcome)
            else:
                logger.warning("skipped %s", outcome)


def loaded_encoder(encoder: StoryEncoder | str | Path | None) -> StoryEncoder:
    """An encoder, loaded if it is a folder, a Hub id, or None for the default encoder."""
    if isinstance(encoder, StoryEncoder):
        return encoder
    if not isinstance(encoder, (str, Path, type(None))):
        raise TypeError(
            "an encoder is a StoryEncoder, a folder or a Hub id, not"
            f" {type(encoder).__name__}; that of a SentenceTransformer is"
            " StoryEncoder.from_sentence_transformer(model)"
        )
    return StoryEncoder.from_pretrained(encoder)


def check_pooling(encoder: StoryEncoder, options: Mapping[str, Any]) -> None:
    """Raise a `ValueError` if options want one pass of an encoder that does not pool the mean."""
    approximate = options.get("approximate")
    if approximate is not None and encoder.pooling != "mean":
        raise ValueError(f"approximate={approximate!r} needs mean pooling; {EXACTLY}")


@dataclass
class _Pending:
    """A story in the buffer: its scores so far, and why it can't be scored, if it can't."""

    story: Story | None = None
    error: StoryError | None = None
    scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    cut_tokens: int = 0


@dataclass
class Engine:
    """Plans windows, embeds the variants of many windows together, then scores the windows.

    Attributes:
        encoder, operations, approximate: what to score with.
        batch_size: how many stories are held at once.
        refuses_truncated: whether a story that exceeds the context is an error.
        buffer: the stories that are not passed on yet, in order.
        plans: the planned windows that are not embedded yet, with their stories.
        planned: the number of tokens of these plans.
        finished, done: how many stories have left the buffer; the progress in stories.
        on_progress: is called with the progress whenever it grows.
    """

    encoder: StoryEncoder
    operations: list[Operation]
    approximate: Approximation | None
    batch_size: int
    refuses_truncated: bool
    buffer: list[_Pending] = field(default_factory=list)
    plans: list[tuple[_Pending, Plan]] = field(default_factory=list)
    planned: int = 0
    finished: int = 0
    done: float = 0.0
    on_progress: Callable[[float], None] = field(init=False)

    def outcomes(
        self,
        stories: Iterable[Story | StoryError],
        on_progress: Callable[[float], None],
        stops_at_errors: bool,
    ) -> Generator[Outcome, None, None]:
        """What becomes of each story, in order; those that could not be parsed are errors already.
        `stops_at_errors` passes on a story with an error, and those before it, at once."""
        self.on_progress = on_progress
        for story in stories:
            pending = _Pending()
            self.buffer.append(pending)
            try:
                self._plan(pending, story)
            except StoryError as error:
                pending.error = error
            is_full = len(self.buffer) >= self.batch_size or self.planned >= BUFFER_TOKENS
            if is_full or (stops_at_errors and pending.error is not None):
                yield from self._flush()
        yield from self._flush()

    def _plan(self, pending: _Pending, story: Story | StoryError) -> None:
        """Plan the windows of a story; score those planned so far whenever they reach
        `BUFFER_TOKENS`."""
        if isinstance(story, StoryError):
            raise story
        tokens = self.encoder.tokenize(story.sentences)
        pending.story = story
        pending.scores = {operation.name: np.zeros(len(story)) for operation in self.operations}
        plans = exact_plans if self.approximate is None else one_pass_plans
        for plan in plans(self.operations, tokens, story.windows):
            pending.cut_tokens = max(pending.cut_tokens, plan.cut_tokens)
            if pending.cut_tokens and self.refuses_truncated:
                why = _too_long(self.encoder.context_tokens, pending.cut_tokens)
                raise StoryError(f"the story {why}")
            self.plans.append((pending, plan))
            self.planned += plan.tokens
            self._advance(0.0)  # so that a function can stop the planning of a long story
            if self.planned >= BUFFER_TOKENS:
                self._score()

    def _score(self) -> None:
        """Embed the variants of all planned windows together, and score the windows."""
        # Progress in stories: a window counts as its share of the story's sentences.
        stories = sum(plan.window.size / len(pending.story or ()) for pending, plan in self.plans)
        variants = [variant for _, plan in self.plans for variant in plan.variants]
        vectors = self.encoder.encode(variants, lambda share: self._advance(share * stories))
        start = 0
        for pending, plan in self.plans:
            stop = start + len(plan.variants)
            try:
                for name, scores in plan.scores(vectors[start:stop]):
                    pending.scores[name][plan.window.lo : plan.window.hi] = scores
            except StoryError as error:
                pending.error = error
            start = stop
        self.plans, self.planned = [], 0

    def _advance(self, stories: float) -> None:
        self.done += stories
        self.on_progress(self.done)

    def _flush(self) -> Iterator[Outcome]:
        """Score the planned windows, and pass on the stories of the buffer."""
        if self.plans:
            self._score()
        buffer, self.buffer = self.buffer, []
        # Stories with errors count as done too.
        self.finished += len(buffer)
        self._advance(self.finished - self.done)
        for pending in buffer:
            if pending.error is not None:
                yield pending.error
            elif pending.story is not None:
                scores = {name: values.tolist() for name, values in pending.scores.items()}
                yield StorySalience(
                    pending.story,
                    scores,
                    self.encoder.context_tokens,
                    pending.cut_tokens,
                    dtype=self.encoder.dtype_name,
                )

    def start(self, number: int) -> Callable[[list[Story | StoryError]], list[Outcome]]:
        """In a new process with a number: scores some stories, on the accelerator of that number if
        there are several."""
        self.encoder = self.encoder.on_accelerator(number)
        return lambda stories: list(self.outcomes(stories, lambda stories: None, False))


def _chained(
    chunks: Generator[list[Outcome], None, None], progress: Progress
) -> Generator[Outcome, None, None]:
    """The outcomes of chunks of stories, one by one."""
    with closing(chunks):
        for outcomes in chunks:
            progress.add(len(outcomes))
            yield from outcomes


def _too_long(context_tokens: int | None, cut_tokens: int) -> str:
    found = truncation(context_tokens, cut_tokens)
    return f"{found}; an encoder that reads more at once sees more of it"


@dataclass
class Watch:
    """What people who wait for scores see, as the option `progress`; false without a bar.

    Attributes:
        bar: whether a progress bar is shown.
        on_long: called once, as soon as exact scoring is estimated to take more than `LONG`
            seconds: with that estimate and with a rough one for one pass.
    """

    bar: bool
    on_long: Callable[[float, float], None]
    called: bool = False

    def __bool__(self) -> bool:
        return self.bar


def format_duration(seconds: float) -> str:
    """A time in words, rounded, such as `2 minutes`."""
    unit, size = "second", 1
    for larger, its_size in (("minute", 60), ("hour", 3600)):
        if seconds >= 0.9 * its_size:
            unit, size = larger, its_size
    count = max(1, round(seconds / size))
    return f"{count} {unit}{'s' * (count > 1)}"


class Progress:
    """How much is done: a progress bar, or a function that is called with the amount.

    Args:
        wanted: whether to show the bar; or the function; or a `Watch`.
        unit: what is counted.
        total: how many there are; 0 if that is not known.
        done: how many are done already.
    """

    def __init__(
        self,
        wanted: bool | Callable[[float], None] | Watch,
        unit: str,
        total: int = 0,
        done: float = 0.0,
    ) -> None:
        self.done, self._first, self._total = done, done, total
        self._watch = wanted if isinstance(wanted, Watch) else None
        self._began: tuple[float, float] | None = None  # the time after the first pass, and `done`
        self._one_pass_share: Callable[[], float] | None = None
        self._call = wanted if callable(wanted) else lambda done: None
        self._bar: tqdm[Any] = tqdm(
            total=total or None,
            initial=done,
            desc="scoring",
            unit=f" {unit}",
            unit_scale=True,
            disable=callable(wanted) or not wanted,
        )

    def add(self, amount: float) -> None:
        """This much more is done."""
        self.reach(self.done + amount)

    def reach(self, done: float) -> None:
        """This much is done in all."""
        self._bar.update(done - self.done)
        self.done = done
        self._call(done)
        if self._watch is not None and not self._watch.called and done > self._first:
            self._estimate(self._watch)

    def compare(self, encoder: StoryEncoder, operations: list[Operation], story: Story) -> None:
        """Compare the time of one pass with that of the exact scoring of this story, if a `Watch`
        wants an estimate."""

        def share() -> float:
            return one_pass_share(operations, encoder.tokenize(story.sentences), story.windows)

        if encoder.pooling == "mean" and any(operation.has_one_pass for operation in operations):
            self._one_pass_share = share

    def _estimate(self, watch: Watch) -> None:
        """Estimate how long scoring takes by its speed after the first forward pass, which may be
        slower than others."""
        now = time.monotonic()
        self._began = self._began or (now, self.done)
        spent, done = now - self._began[0], self.done - self._began[1]
        total = max(self._total, math.ceil(self.done))
        if spent < _MEASURED or not done or self.done >= total or self._one_pass_share is None:
            return
        seconds = (total - self._first) * spent / done
        if seconds > LONG and (share := self._one_pass_share()) < 0.5:
            watch.called = True
            watch.on_long(seconds, seconds * share)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


# Several processes

_THREADS = "OMP_NUM_THREADS"
_worker: dict[str, Any] = {}
"""In a worker process: the pickled function that starts it, its number, and then the function."""


def in_processes(
    start: Callable[[int], Callable[[Any], Any]], tasks: Iterable[Any], count: int
) -> Generator[Any, None, None]:
    """The results of a function for some tasks, in their order, by new processes on this machine,
    which share the threads of this one and end with the iterator. Two tasks per process are read
    ahead.

    Args:
        start: is called in each process with its number, and returns the function. It, the tasks
            and the results are pickled, so their classes and functions must be importable by name.
        tasks: are read in this process.
        count: how many processes.

    Raises:
        TypeError: `start` can't be pickled; raised at once.
        RuntimeError: a process ended, for example for lack of memory.
    """
    try:
        pickled = pickle.dumps(start)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(
            f"several processes need what can be pickled: {error}; define operations in a module,"
            " not in a function or notebook, or use one process"
        ) from error
    return _pool_results(pickled, tasks, count)


def _pool_results(start: bytes, tasks: Iterable[Any], count: int) -> Generator[Any, None, None]:
    context = multiprocessing.get_context("spawn")
    numbers = context.SimpleQueue()
    for number in range(count):
        numbers.put(number)
    # The processes end when `ours` is closed, also if this process is killed.
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        count,
        context,
        initializer=_start_worker,
        initargs=(start, numbers, theirs, max(1, _threads() // count)),
    )
    pending: deque[Future[Any]] = deque()
    try:
        for task in tasks:
            pending.append(pool.submit(_work, task))
            if len(pending) == 2 * count:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        pool.shutdown()
    except BrokenProcessPool:
        raise RuntimeError("a worker process ended, perhaps for lack of memory") from None
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


def _threads() -> int:
    """How many threads this process uses: those of torch, unless the encoder runs without it."""
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    given = os.environ.get(_THREADS, "")
    return int(given) if given.isdecimal() else os.cpu_count() or 1


def _start_worker(start: bytes, numbers: Any, parent: Connection, threads: int) -> None:
    """Prepare a worker process. What can fail is left to its first task, whose error is raised
    where its result is awaited."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one after Ctrl-C
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    os.environ[_THREADS] = str(threads)  # of libraries that are not imported yet
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    _worker.update(start=start, number=numbers.get())


def _end_with(parent: Connection) -> None:
    try:
        parent.recv()
    finally:
        os._exit(1)


def _work(task: Any) -> Any:
    """Apply the function of this worker process to a task."""
    try:
        if "function" not in _worker:
            _worker["function"] = pickle.loads(_worker["start"])(_worker["number"])
        return _worker["function"](task)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            message = f"a worker process failed: {type(error).__name__}: {error}"
            raise RuntimeError(message) from error
        raise
