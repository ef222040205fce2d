"""The engine: scores the sentences of many stories in bounded memory with as few forward passes as possible."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from operator import length_hint
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.plans import Approximation, Plan, contexts, exact_plans, one_pass_plans
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import Story, StoryError, Windows, check_stories

logger = logging.getLogger(__name__)

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[StoryError], None]
OnTruncation: TypeAlias = Literal["warn", "error", "ignore"]

BUFFER_TOKENS = 1_000_000
"""Planned tokens after which the encoder runs, which bounds memory for long stories."""


def score_stories(
    stories: Iterable[Any],
    encoder: StoryEncoder | str | Path | None = None,
    *,
    operations: str | Operation | Iterable[str | Operation] | None = None,
    windows: Windows = "auto",
    splitter: Splitter | None = None,
    approximate: Approximation | None = None,
    max_shifts: int | None = None,
    buffer: int = 32,
    on_error: OnError = "raise",
    on_truncation: OnTruncation = "warn",
    progress: bool | Callable[[float], None] = False,
) -> Iterator[StorySalience]:
    """Score every sentence of some stories; an iterator over one result per story, lazily and in order.

    Args:
        stories: stories in any form that `Story.parse` accepts: text, list of sentences, mapping, `Story`.
        encoder: a `StoryEncoder`, its folder or Hub id, or None for the default encoder.
        operations: names or `Operation` instances; default all registered operations.
        windows, splitter: windows for stories without their own, and the sentence splitter, see `Story.parse`.
        approximate: `"one-pass"` computes all operations except shifting from the token states of one forward pass per
            story, at a fraction of the cost. None is exact.
        max_shifts: another approximation: shifting to at most this many other positions, the nearest.
        buffer: number of stories held at once, whose variants share forward passes and whose results come together.
        on_error: for a bad story, `"raise"` its `StoryError` after the results before it, or go to the next story and
            `"skip"` it with a warning or call a function with the error.
        on_truncation: for a story that does not fit the encoder's context, `"warn"` once, treat it as a bad story
            (`"error"`) or `"ignore"` it. Results have `truncated` and `cut_tokens` in any case.
        progress: whether to show a progress bar, or a function to call with the number of stories done (a float) after
            each planned window and forward pass. An exception that it raises stops the scoring.

    Raises:
        ValueError: an operation is unknown or an argument invalid. Raised before anything is scored.
        StoryError: a story can't be scored; has its index. Raised while iterating.
    """
    check_stories(stories)
    if buffer < 1:
        raise ValueError(f"buffer={buffer}: the buffer must hold at least 1 story")
    if splitter is not None and not callable(splitter):
        raise TypeError(f"a splitter is a function from a text to its sentences, not {type(splitter).__name__}")
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise ValueError(f"on_error={on_error!r}: choose 'raise', 'skip' or a function that takes the error")
    if on_truncation not in get_args(OnTruncation):
        raise ValueError(f"on_truncation={on_truncation!r}: choose 'warn', 'error' or 'ignore'")
    if approximate is not None and approximate not in get_args(Approximation):
        raise ValueError(f"approximate={approximate!r}: choose 'one-pass' or None")
    if approximate is not None and max_shifts is not None:
        raise ValueError(f"max_shifts={max_shifts} has no effect with approximate={approximate!r}; use one of the two")
    chosen = resolve_operations(operations, one_pass=approximate is not None, max_shifts=max_shifts)
    if not isinstance(encoder, StoryEncoder):
        if not isinstance(encoder, (str, Path, type(None))):
            raise TypeError(f"an encoder is a StoryEncoder, a folder or a Hub id, not {type(encoder).__name__}")
        encoder = StoryEncoder.from_pretrained(encoder)
    if approximate is not None and encoder.pooling != "mean":
        raise ValueError(f"approximate={approximate!r} needs mean pooling; this encoder pools the first token")
    note = approximate or (None if max_shifts is None else f"max_shifts={max_shifts}")
    on_progress = progress if callable(progress) else None
    bar = progress_bar(stories, shown=bool(progress) and on_progress is None)
    engine = _Engine(encoder, chosen, approximate, note, on_error, on_truncation, bar, on_progress)
    return engine.run(stories, windows, splitter, buffer)


SCORING_OPTIONS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(score_stories).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}
"""The scoring options with their defaults, which the pipeline and the command line share."""


@dataclass
class _Pending:
    """A story in the buffer: its scores so far, or its error."""

    index: int
    story: Story | None = None
    scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    cut_tokens: int = 0
    error: StoryError | None = None


@dataclass
class _Engine:
    """Plans windows, embeds the variants of many windows together, then scores the windows.

    Attributes:
        buffer: the stories whose results are not yielded yet, in order.
        plans: the planned windows that are not embedded yet, with their stories.
        planned: the number of tokens of these plans.
        finished, done: how many stories have left the buffer; the progress in stories, as a float.
        warned: whether truncation has been reported.
    """

    encoder: StoryEncoder
    operations: list[Operation]
    approximate: Approximation | None
    note: str | None
    on_error: OnError
    on_truncation: OnTruncation
    bar: tqdm[Any]
    on_progress: Callable[[float], None] | None
    buffer: list[_Pending] = field(default_factory=list)
    plans: list[tuple[_Pending, Plan]] = field(default_factory=list)
    planned: int = 0
    finished: int = 0
    done: float = 0.0
    warned: bool = False

    def run(
        self, stories: Iterable[Any], windows: Windows, splitter: Splitter | None, buffer: int
    ) -> Iterator[StorySalience]:
        with closing(self.bar):
            for index, source in enumerate(stories):
                pending = _Pending(index)
                self.buffer.append(pending)
                try:
                    self._plan(pending, Story.parse(source, windows, splitter))
                except StoryError as error:
                    pending.error = error
                # To be raised after the results of the stories before it.
                must_raise = pending.error is not None and self.on_error == "raise"
                if must_raise or len(self.buffer) >= buffer or self.planned >= BUFFER_TOKENS:
                    yield from self._flush()
            yield from self._flush()

    def _plan(self, pending: _Pending, story: Story) -> None:
        """Plan the windows of a story; score those planned so far whenever they reach `BUFFER_TOKENS`."""
        tokens = self.encoder.tokenize(story.sentences)
        pending.story = story
        pending.scores = {operation.name: np.zeros(len(story)) for operation in self.operations}
        pending.cut_tokens = max(map(tokens.cut_tokens, contexts(tokens, story.windows, self.approximate)))
        if pending.cut_tokens:
            self._report_truncation(pending)
        plans = exact_plans if self.approximate is None else one_pass_plans
        for plan in plans(self.operations, tokens, story.windows):
            self.plans.append((pending, plan))
            self.planned += plan.tokens
            self._advance(0.0)  # so that `on_progress` can stop the planning of a long story
            if self.planned >= BUFFER_TOKENS:
                self._score()

    def _report_truncation(self, pending: _Pending) -> None:
        text = (
            f"does not fit the encoder's context of {self.encoder.context_tokens} tokens: up to {pending.cut_tokens} "
            "of its tokens are not read together with a window; an encoder with a longer context reads more of it"
        )
        if self.on_truncation == "error":
            raise StoryError(f"the story {text}")
        if self.on_truncation == "warn" and not self.warned:
            self.warned = True
            name = "" if pending.story is None or pending.story.id is None else f" ({pending.story.id})"
            logger.warning("story %d%s %s (reported once; results have cut_tokens)", pending.index, name, text)

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
                self._report(pending.error)
            elif pending.story is not None:
                scores = {name: values.tolist() for name, values in pending.scores.items()}
                context = self.encoder.context_tokens
                yield StorySalience(pending.story, scores, context, pending.cut_tokens, self.note, pending.index)

    def _report(self, error: StoryError) -> None:
        if self.on_error == "raise":
            raise error
        if callable(self.on_error):
            self.on_error(error)
        else:
            logger.warning("skipped %s", error)


def progress_bar(stories: Iterable[Any], shown: bool) -> tqdm[Any]:
    total = length_hint(stories) or None
    with_total = "{desc}: {percentage:3.0f}%|{bar}| {n:.1f}/{total} stories [{elapsed}<{remaining}]"
    without_total = "{desc}: {n:.1f} stories [{elapsed}]"
    bar_format = with_total if total else without_total
    return tqdm(total=total, desc="scoring", bar_format=bar_format, disable=not shown)
