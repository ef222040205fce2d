"""The engine: stories in, the salience of every sentence out, many stories at a time in bounded memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from operator import length_hint
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.plans import Approximation, Plan, exact_plans, one_pass_plans, views
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import Story, StoryError, Windows, check_stories

logger = logging.getLogger(__name__)

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[StoryError], None]
OnTruncation: TypeAlias = Literal["warn", "error", "ignore"]

BUFFER_TOKENS = 1_000_000
"""Tokens of variants that are planned before the encoder runs: what holds memory together where stories are long."""


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
    """Score every sentence of some stories, lazily and in order.

    Args:
        stories: any number of stories, each as `Story.parse` takes them: text, list of sentences, mapping, `Story`.
        encoder: a `StoryEncoder`, the folder or Hub id of one, or None for the default encoder.
        operations: names or `Operation`s; default all of the registry.
        windows: for stories that do not say their own, see `Story.parse`.
        splitter: cuts raw text into sentences, see `Story.parse`.
        approximate: `"one-pass"` for all operations from the token states of one forward pass over a story, a small
            part of the cost; shifting can't be had so. None for what the operations say, exactly.
        max_shifts: another approximation: shifting to no more than so many other places, the nearest.
        buffer: stories held at once, whose variants share forward passes; results come when their buffer is through.
        on_error: `"raise"` the `StoryError` of a bad story once the stories before it are out, `"skip"` it with a
            warning, or hand it to a function; the other stories are scored all the same.
        on_truncation: `"warn"` once where a story does not fit the encoder's context, make it an `"error"` of the
            story, or `"ignore"` it; results tell in any case.
        progress: show a progress bar; or a function that gets how many stories are done, parts of one counted, whenever
            a window is planned and after each forward pass. What it raises ends the scoring there: so a long story is
            stopped.

    Returns:
        An iterator of results, one a story; `index` says which.

    Raises:
        ValueError: unknown operation, or an argument that is none of its choices; before anything is scored.
        StoryError: a story can't be scored; names its index. While iterating.
    """
    check_stories(stories)
    if buffer < 1:
        raise ValueError(f"buffer={buffer}: at least one story is held at once")
    if splitter is not None and not callable(splitter):
        raise TypeError(f"a splitter is a function from a text to its sentences, not {type(splitter).__name__}")
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise ValueError(f"on_error={on_error!r}: choose 'raise', 'skip' or a function of the error")
    if on_truncation not in ("warn", "error", "ignore"):
        raise ValueError(f"on_truncation={on_truncation!r}: choose 'warn', 'error' or 'ignore'")
    if approximate not in (None, "one-pass"):
        raise ValueError(f"approximate={approximate!r}: choose 'one-pass' or None")
    if approximate is not None and max_shifts is not None:
        raise ValueError(f"max_shifts={max_shifts} has no part in approximate={approximate!r}; give one of the two")
    chosen = resolve_operations(operations, one_pass=approximate is not None, max_shifts=max_shifts)
    if not isinstance(encoder, StoryEncoder):
        if not isinstance(encoder, (str, Path, type(None))):
            raise TypeError(f"an encoder is a StoryEncoder, a folder or a Hub id, not {type(encoder).__name__}")
        encoder = StoryEncoder.from_pretrained(encoder)
    if approximate is not None and encoder.pooling != "mean":
        raise ValueError(f"approximate={approximate!r} goes by means of tokens; this encoder pools the first token")
    note = approximate or (None if max_shifts is None else f"max_shifts={max_shifts}")
    bar, tell = (_bar(stories, False), progress) if callable(progress) else (_bar(stories, progress), None)
    engine = _Engine(encoder, chosen, approximate, note, on_error, on_truncation, bar, tell)
    return engine.run(stories, windows, splitter, buffer)


@dataclass
class _Held:
    """A story in the buffer: its scores so far, or what is wrong with it."""

    index: int
    story: Story | None = None
    scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    cut_tokens: int = 0
    error: StoryError | None = None


@dataclass
class _Engine:
    """Plans windows, encodes what they ask for together, scores them."""

    encoder: StoryEncoder
    operations: list[Operation]
    approximate: Approximation | None
    note: str | None
    on_error: OnError
    on_truncation: OnTruncation
    bar: tqdm[Any]
    tell: Callable[[float], None] | None
    held: list[_Held] = field(default_factory=list)
    plans: list[tuple[_Held, Plan]] = field(default_factory=list)
    planned: int = 0
    through: int = 0
    done: float = 0.0
    warned: bool = False

    def run(
        self, stories: Iterable[Any], windows: Windows, splitter: Splitter | None, buffer: int
    ) -> Iterator[StorySalience]:
        with closing(self.bar):
            for index, source in enumerate(stories):
                held = _Held(index)
                self.held.append(held)
                try:
                    self._take(held, Story.parse(source, windows, splitter))
                except StoryError as error:
                    held.error = error
                stop = held.error is not None and self.on_error == "raise"
                if stop or len(self.held) >= buffer or self.planned >= BUFFER_TOKENS:
                    yield from self._results()
            yield from self._results()

    def _take(self, held: _Held, story: Story) -> None:
        """Plan a story; where it is long its first windows are scored before the last are planned."""
        tokens = self.encoder.read(story.sentences)
        held.story = story
        held.scores = {operation.name: np.zeros(len(story)) for operation in self.operations}
        held.cut_tokens = max(map(tokens.cut, views(tokens, story.windows, self.approximate)))
        if held.cut_tokens:
            self._tell_cut(held)
        plans = exact_plans if self.approximate is None else one_pass_plans
        for plan in plans(self.operations, tokens, story.windows):
            self.plans.append((held, plan))
            self.planned += plan.tokens
            self._advance(0.0)
            if self.planned >= BUFFER_TOKENS:
                self._score()

    def _tell_cut(self, held: _Held) -> None:
        text = (
            f"does not fit the encoder's context of {self.encoder.context_tokens} tokens: up to {held.cut_tokens} of "
            "its tokens are not read together with a window; an encoder of a longer context reads more round each"
        )
        if self.on_truncation == "error":
            raise StoryError(f"the story {text}")
        if self.on_truncation == "warn" and not self.warned:
            self.warned = True
            name = "" if held.story is None or held.story.id is None else f" ({held.story.id})"
            logger.warning("story %d%s %s (said once a call; results have cut_tokens)", held.index, name, text)

    def _score(self) -> None:
        """Encode what is planned and score its windows."""
        stories = sum(plan.window.size / len(held.story or ()) for held, plan in self.plans)
        variants = [variant for _, plan in self.plans for variant in plan.variants]
        vectors = self.encoder.encode(variants, lambda part: self._advance(part * stories))
        start = 0
        for held, plan in self.plans:
            stop = start + len(plan.variants)
            try:
                for name, scores in plan.scores(vectors[start:stop]):
                    held.scores[name][plan.window.lo : plan.window.hi] = scores
            except StoryError as error:
                held.error = error
            start = stop
        self.plans, self.planned = [], 0

    def _advance(self, stories: float) -> None:
        self.done += stories
        self.bar.update(stories)
        if self.tell is not None:
            self.tell(self.done)

    def _results(self) -> Iterator[StorySalience]:
        """Score what is planned and let go of the stories, in order."""
        if self.plans:
            self._score()
        held, self.held = self.held, []
        # Stories that failed on the way are done too.
        self.through += len(held)
        self._advance(self.through - self.done)
        for one in held:
            if one.error is not None:
                one.error.index = one.index
                self._report(one.error)
            elif one.story is not None:
                scores = {name: values.tolist() for name, values in one.scores.items()}
                context = self.encoder.context_tokens
                yield StorySalience(one.story, scores, context, one.cut_tokens, self.note, one.index)

    def _report(self, error: StoryError) -> None:
        if self.on_error == "raise":
            raise error
        if callable(self.on_error):
            self.on_error(error)
        else:
            logger.warning("skipped %s", error)


def _bar(stories: Iterable[Any], shown: bool) -> tqdm[Any]:
    """A bar in stories that moves with every forward pass, so that it moves on one long story too."""
    total = length_hint(stories) or None
    shape = "{desc}: {percentage:3.0f}%|{bar}| {n:.1f}/{total} stories [{elapsed}<{remaining}]"
    open_end = "{desc}: {n:.1f} stories [{elapsed}]"
    return tqdm(total=total, desc="scoring", bar_format=shape if total else open_end, disable=not shown)
