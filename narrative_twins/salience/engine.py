"""The engine: scores the sentences of many stories in bounded memory with as few forward passes as
possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from operator import length_hint
from pathlib import Path
from typing import Any, Unpack

from tqdm.auto import tqdm

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.buffer import Reporter, StoryBuffer
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.options import Approximation, ScoringOptions, checked_options
from narrative_twins.salience.processes import WorkerProcesses
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import Story, StoryError, Windows, check_stories


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
    """
    check_stories(stories)
    checked = checked_options(options)
    if not isinstance(encoder, StoryEncoder):
        if not isinstance(encoder, (str, Path, type(None))):
            raise TypeError(
                f"an encoder is a StoryEncoder, a folder or a Hub id, not {type(encoder).__name__}"
            )
        encoder = StoryEncoder.from_pretrained(encoder)
    approximate, max_shifts, progress = (
        checked["approximate"],
        checked["max_shifts"],
        checked["progress"],
    )
    if approximate is not None and encoder.pooling != "mean":
        raise ValueError(
            f"approximate={approximate!r} needs mean pooling; this encoder pools the first token"
        )
    on_progress = progress if callable(progress) else None
    bar = progress_bar(stories, shown=bool(progress) and on_progress is None)
    scorer = _StoryScorer(
        encoder,
        resolve_operations(checked["operations"]),
        approximate,
        None if max_shifts is None else f"max_shifts={max_shifts}",
    )
    reporter = Reporter(checked["on_error"], checked["on_truncation"])
    windows, splitter, batch_size = checked["windows"], checked["splitter"], checked["batch_size"]
    expected = length_hint(stories)
    if checked["processes"] == 1 or expected == 1:
        return scorer.buffer(reporter, bar, on_progress).run(stories, windows, splitter, batch_size)
    scorer = replace(scorer, truncated_are_errors=checked["on_truncation"] == "error")
    pool = WorkerProcesses(scorer.start, checked["processes"])
    # Few stories are shared evenly.
    chunk = min(batch_size, -(-expected // pool.count)) if expected else batch_size
    parsed = (_parsed(source, windows, splitter) for source in stories)
    return _merged(pool, parsed, chunk, reporter, bar, on_progress)


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
    pool: WorkerProcesses,
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
