"""The engine: scores the sentences of many stories in bounded memory with as few forward passes as
possible."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from operator import length_hint
from pathlib import Path
from typing import Any, Literal, get_args

from tqdm.auto import tqdm

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.buffer import OnError, OnTruncation, Reporter, StoryBuffer
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.plans import Approximation
from narrative_twins.salience.processes import (
    LAUNCHED,
    LaunchedProcesses,
    Processes,
    WorkerProcesses,
)
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import Splitter, check_splitter
from narrative_twins.stories.story import Story, StoryError, Windows, check_stories


def score_stories(
    stories: Iterable[Any],
    encoder: StoryEncoder | str | Path | None = None,
    *,
    operations: str | Operation | Iterable[str | Operation] | None = None,
    windows: Windows = "auto",
    splitter: Splitter | None = None,
    approximate: Approximation | None = None,
    max_shifts: int | None = None,
    batch_size: int = 32,
    on_error: OnError = "raise",
    on_truncation: OnTruncation = "warn",
    progress: bool | Callable[[float], None] = False,
    processes: int | Literal["launched"] = 1,
) -> Iterator[StorySalience]:
    """Score every sentence of some stories; an iterator over one result per story, lazily and in
    order.

    Args:
        stories: stories in any form that `Story.parse` accepts: text, list of sentences, mapping,
            `Story`.
        encoder: a `StoryEncoder`, its folder or Hub id, or None for the default encoder.
        operations: names or `Operation` instances; default all registered operations.
        windows, splitter: windows for stories without their own, and the sentence splitter, see
            `Story.parse`.
        approximate: `"one-pass"` computes all operations except shifting from the token states of
            one forward pass per story, at a fraction of the cost. None is exact.
        max_shifts: another approximation: shifting to at most this many other positions, the
            nearest.
        batch_size: number of stories held at once, whose variants share forward passes and whose
            results come together.
        on_error: for a bad story, `"raise"` its `StoryError` after the results before it, or go to
            the next story and `"skip"` it with a warning or call a function with the error.
        on_truncation: for a story that does not fit the encoder's context, `"warn"` once, treat it
            as a bad story (`"error"`) or `"ignore"` it. Results have `truncated` and `cut_tokens`
            in any case.
        progress: whether to show a progress bar, or a function to call with the number of stories
            done (a float) after each planned window and forward pass. An exception that it raises
            stops the scoring.
        processes: how many processes share the work, each with a copy of the encoder and its part
            of the threads, or on a GPU of its own if there are several; up to 2 * `processes` *
            `batch_size` stories are held at once. Scores are those of one process up to rounding.
            As always with new processes, a script needs `if __name__ == "__main__":`. `"launched"`
            stands for the processes of `accelerate launch` or `torchrun`: each calls this function
            with its encoder; the first reads the stories and has all results.

    Raises:
        ValueError: an operation is unknown or an argument invalid. Raised before anything is
            scored.
        StoryError: a story can't be scored; has its index. Raised while iterating.
    """
    check_stories(stories)
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: a batch has at least 1 story")
    check_splitter(splitter)
    if processes != LAUNCHED and (not isinstance(processes, int) or processes < 1):
        raise ValueError(f"processes={processes!r}: choose a number of at least 1, or {LAUNCHED!r}")
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise ValueError(
            f"on_error={on_error!r}: choose 'raise', 'skip' or a function that takes the error"
        )
    if on_truncation not in get_args(OnTruncation):
        raise ValueError(f"on_truncation={on_truncation!r}: choose 'warn', 'error' or 'ignore'")
    if approximate is not None and approximate not in get_args(Approximation):
        raise ValueError(f"approximate={approximate!r}: choose 'one-pass' or None")
    if approximate is not None and max_shifts is not None:
        raise ValueError(
            f"max_shifts={max_shifts} has no effect with approximate={approximate!r}; use one of"
            " the two"
        )
    chosen = resolve_operations(operations, one_pass=approximate is not None, max_shifts=max_shifts)
    if not isinstance(encoder, StoryEncoder):
        if not isinstance(encoder, (str, Path, type(None))):
            raise TypeError(
                f"an encoder is a StoryEncoder, a folder or a Hub id, not {type(encoder).__name__}"
            )
        encoder = StoryEncoder.from_pretrained(encoder)
    if approximate is not None and encoder.pooling != "mean":
        raise ValueError(
            f"approximate={approximate!r} needs mean pooling; this encoder pools the first token"
        )
    on_progress = progress if callable(progress) else None
    bar = progress_bar(stories, shown=bool(progress) and on_progress is None)
    scorer = _StoryScorer(
        encoder, chosen, approximate, None if max_shifts is None else f"max_shifts={max_shifts}"
    )
    reporter = Reporter(on_error, on_truncation)
    expected = length_hint(stories)
    if processes == 1 or processes != LAUNCHED and expected == 1:
        return scorer.buffer(reporter, bar, on_progress).run(stories, windows, splitter, batch_size)
    scorer = replace(scorer, truncated_are_errors=on_truncation == "error")
    pool: Processes
    if isinstance(processes, int):
        pool = WorkerProcesses(scorer.start, processes)
    else:
        pool = LaunchedProcesses(scorer)
    # Few stories are shared evenly.
    chunk = min(batch_size, -(-expected // pool.count)) if expected else batch_size
    parsed = (_parsed(source, windows, splitter) for source in stories)
    return _merged(pool, parsed, chunk, reporter, bar, on_progress)


SCORING_OPTIONS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(score_stories).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}
"""The scoring options with their defaults, which the pipeline and the command line share."""


def progress_bar(stories: Iterable[Any], shown: bool) -> tqdm[Any]:
    total = length_hint(stories) or None
    with_total = "{desc}: {percentage:3.0f}%|{bar}| {n:.1f}/{total} stories [{elapsed}<{remaining}]"
    without_total = "{desc}: {n:.1f} stories [{elapsed}]"
    bar_format = with_total if total else without_total
    return tqdm(total=total, desc="scoring", bar_format=bar_format, disable=not shown)


@dataclass(frozen=True)
class _StoryScorer:
    """What to score with; called with some stories, it scores them, as one of several processes
    does."""

    encoder: StoryEncoder
    operations: list[Operation]
    approximate: Approximation | None
    shifts: str | None
    truncated_are_errors: bool = False

    def buffer(
        self, reporter: Reporter, bar: tqdm[Any], progress: Callable[[float], None] | None
    ) -> StoryBuffer:
        """A buffer that scores stories so."""
        note = self.approximate or self.shifts
        return StoryBuffer(
            self.encoder, self.operations, self.approximate, note, reporter, bar, progress
        )

    def start(self, number: int) -> _StoryScorer:
        """The scorer of the process with a number, on the device of that number if there are
        several."""
        return replace(self, encoder=self.encoder.on_accelerator(number))

    def __call__(self, stories: list[Story | StoryError]) -> list[StorySalience | StoryError]:
        """The result or the error of each story, in order."""
        found: list[StorySalience | StoryError] = []
        reporter = Reporter(found.append, "error" if self.truncated_are_errors else "ignore")
        for result in self.buffer(reporter, progress_bar(stories, False), None).run(
            stories, "auto", None, len(stories)
        ):
            found.append(result)
        return found


def _parsed(source: Any, windows: Windows, splitter: Splitter | None) -> Story | StoryError:
    try:
        return Story.parse(source, windows, splitter)
    except StoryError as error:
        return error


def _merged(
    pool: Processes,
    stories: Iterator[Story | StoryError],
    size: int,
    reporter: Reporter,
    bar: tqdm[Any],
    on_progress: Callable[[float], None] | None,
) -> Iterator[StorySalience]:
    """Score chunks of `size` stories in several processes; the results of all stories, in order."""
    chunks = iter(lambda: list(islice(stories, size)), [])
    done = 0
    with closing(bar), closing(pool.map(chunks)) as outcomes:
        for outcome in outcomes:
            bar.update(len(outcome))
            if on_progress is not None:
                on_progress(float(done + len(outcome)))
            for index, item in enumerate(outcome, start=done):
                if isinstance(item, StoryError):
                    item.index = index
                    reporter.failed(item)
                    continue
                if item.truncated:
                    reporter.truncated(index, item.story, item.cut_tokens, item.context_tokens)
                yield replace(item, index=index)
            done += len(outcome)
