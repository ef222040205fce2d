"""Stories in a buffer, whose variants share forward passes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.operations import Operation
from narrative_twins.salience.options import Approximation, OnError, OnTruncation
from narrative_twins.salience.plans import Plan, contexts, exact_plans, one_pass_plans
from narrative_twins.salience.result import StorySalience, truncation
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import Story, StoryError, Windows

logger = logging.getLogger(__name__)

BUFFER_TOKENS = 1_000_000
"""Planned tokens after which the encoder runs, which bounds memory for long stories."""


@dataclass
class Reporter:
    """Reports bad and truncated stories as `on_error` and `on_truncation` of `score_stories` say;
    `warned` is whether truncation has been reported."""

    on_error: OnError
    on_truncation: OnTruncation
    warned: bool = False

    def failed(self, error: StoryError) -> None:
        """Report a bad story, or raise its error."""
        if self.on_error == "raise":
            raise error
        if callable(self.on_error):
            self.on_error(error)
        else:
            logger.warning("skipped %s", error)

    def truncated(
        self, index: int, story: Story, cut_tokens: int, context_tokens: int | None
    ) -> None:
        """Report a story that does not fit the encoder's context, or raise a `StoryError`."""
        text = (
            f"{truncation(context_tokens, cut_tokens)}; an encoder that reads more at once sees"
            " more of it"
        )
        if self.on_truncation == "error":
            raise StoryError(f"the story {text}")
        if self.on_truncation == "warn" and not self.warned:
            self.warned = True
            name = "" if story.id is None else f" ({story.id})"
            logger.warning(
                "story %d%s %s (told once for all stories; see cut_tokens of a result)",
                index + 1,
                name,
                text,
            )


@dataclass
class _Pending:
    """A story in the buffer: its scores so far, or its error."""

    index: int
    story: Story | None = None
    scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    cut_tokens: int = 0
    error: StoryError | None = None


@dataclass
class StoryBuffer:
    """Plans windows, embeds the variants of many windows together, then scores the windows.

    Attributes:
        encoder, operations, approximate, note: what to score with; the note is the `approximate` of
            the results.
        reporter: is told of bad and truncated stories.
        bar, on_progress: a progress bar, and a function to call with the number of stories done.
        buffer: the stories whose results are not yielded yet, in order.
        plans: the planned windows that are not embedded yet, with their stories.
        planned: the number of tokens of these plans.
        finished, done: how many stories have left the buffer; the progress in stories, as a float.
    """

    encoder: StoryEncoder
    operations: list[Operation]
    approximate: Approximation | None
    note: str | None
    reporter: Reporter
    bar: tqdm[Any]
    on_progress: Callable[[float], None] | None
    buffer: list[_Pending] = field(default_factory=list)
    plans: list[tuple[_Pending, Plan]] = field(default_factory=list)
    planned: int = 0
    finished: int = 0
    done: float = 0.0

    def run(
        self, stories: Iterable[Any], windows: Windows, splitter: Splitter | None, batch_size: int
    ) -> Iterator[StorySalience]:
        """Score stories, see `score_stories`; `batch_size` is how many are held at once."""
        with closing(self.bar):
            for index, source in enumerate(stories):
                pending = _Pending(index)
                self.buffer.append(pending)
                try:
                    self._plan(pending, Story.parse(source, windows, splitter))
                except StoryError as error:
                    pending.error = error
                # To be raised after the results of the stories before it.
                must_raise = pending.error is not None and self.reporter.on_error == "raise"
                if must_raise or len(self.buffer) >= batch_size or self.planned >= BUFFER_TOKENS:
                    yield from self._flush()
            yield from self._flush()

    def _plan(self, pending: _Pending, story: Story) -> None:
        """Plan the windows of a story; score those planned so far whenever they reach
        `BUFFER_TOKENS`."""
        tokens = self.encoder.tokenize(story.sentences)
        pending.story = story
        pending.scores = {operation.name: np.zeros(len(story)) for operation in self.operations}
        pending.cut_tokens = max(
            map(tokens.cut_tokens, contexts(tokens, story.windows, self.approximate))
        )
        if pending.cut_tokens:
            self.reporter.truncated(
                pending.index, story, pending.cut_tokens, self.encoder.context_tokens
            )
        plans = exact_plans if self.approximate is None else one_pass_plans
        for plan in plans(self.operations, tokens, story.windows):
            self.plans.append((pending, plan))
            self.planned += plan.tokens
            self._advance(0.0)  # so that `on_progress` can stop the planning of a long story
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
        self.bar.update(stories)
        if self.on_progress is not None:
            self.on_progress(self.done)

    def _flush(self) -> Iterator[StorySalience]:
        """Score the planned windows, and yield the results of the buffer in order."""
        if self.plans:
            self._score()
        buffer, self.buffer = self.buffer, []
        # Stories with errors count as done too.
        self.finished += len(buffer)
        self._advance(self.finished - self.done)
        for pending in buffer:
            if pending.error is not None:
                pending.error.index = pending.index
                self.reporter.failed(pending.error)
            elif pending.story is not None:
                scores = {name: values.tolist() for name, values in pending.scores.items()}
                context = self.encoder.context_tokens
                yield StorySalience(
                    pending.story, scores, context, pending.cut_tokens, self.note, pending.index
                )
