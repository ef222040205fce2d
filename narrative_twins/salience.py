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

from narrative_twins.encoder import StoryEncoder
from narrative_twins.operations import Operation, Order, Window, resolve_operations
from narrative_twins.result import StorySalience
from narrative_twins.story import Span, Splitter, Story, StoryError, Windows, check_stories
from narrative_twins.tokens import Passage, TokenizedStory

logger = logging.getLogger(__name__)

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[StoryError], None]
OnTruncation: TypeAlias = Literal["warn", "error", "ignore"]

BUFFER_TOKENS = 1_000_000
"""Tokens of variants that are planned before the encoder runs: what holds memory together where stories are long."""
WINDOW_TOKENS = 100_000_000
"""Tokens of variants one window may ask for; beyond that the plan alone takes more than half a gigabyte."""


def score_stories(
    stories: Iterable[Any],
    encoder: StoryEncoder | str | Path | None = None,
    *,
    operations: str | Operation | Iterable[str | Operation] | None = None,
    windows: Windows = "auto",
    splitter: Splitter | None = None,
    buffer: int = 32,
    on_error: OnError = "raise",
    on_truncation: OnTruncation = "warn",
    progress: bool = False,
) -> Iterator[StorySalience]:
    """Score every sentence of some stories, lazily and in order.

    Args:
        stories: any number of stories, each as `Story.parse` takes them: text, list of sentences, mapping, `Story`.
        encoder: a `StoryEncoder`, the folder or Hub id of one, or None for the default encoder.
        operations: names or `Operation`s; default all of the registry.
        windows: for stories that do not say their own, see `Story.parse`.
        splitter: cuts raw text into sentences, see `Story.parse`.
        buffer: stories held at once, whose variants share forward passes; results come when their buffer is through.
        on_error: `"raise"` the `StoryError` of a bad story once the stories before it are out, `"skip"` it with a
            warning, or hand it to a function; the other stories are scored all the same.
        on_truncation: `"warn"` once where a story does not fit the encoder's context, make it an `"error"` of the
            story, or `"ignore"` it; results tell in any case.
        progress: show a progress bar.

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
    chosen = resolve_operations(operations)
    if not isinstance(encoder, StoryEncoder):
        if not isinstance(encoder, (str, Path, type(None))):
            raise TypeError(f"an encoder is a StoryEncoder, a folder or a Hub id, not {type(encoder).__name__}")
        encoder = StoryEncoder.from_pretrained(encoder)
    engine = _Engine(encoder, chosen, on_error, on_truncation, _bar(stories, progress))
    return engine.run(stories, windows, splitter, buffer)


@dataclass
class _Held:
    """A story in the buffer: its scores so far, or what is wrong with it."""

    index: int
    story: Story | None = None
    tokens: TokenizedStory | None = None
    scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    cut_tokens: int = 0
    error: StoryError | None = None


@dataclass
class _Job:
    """A window to score: for each operation the rows of its vectors among the variants planned."""

    held: _Held
    window: Window
    share: float
    rows: list[tuple[Operation, list[int]]]


@dataclass
class _Engine:
    """Plans windows, encodes what they ask for together, scores them."""

    encoder: StoryEncoder
    operations: list[Operation]
    on_error: OnError
    on_truncation: OnTruncation
    bar: tqdm[Any]
    held: list[_Held] = field(default_factory=list)
    jobs: list[_Job] = field(default_factory=list)
    variants: list[list[Passage]] = field(default_factory=list)
    planned: int = 0
    done: int = 0
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
        views = [tokens.window(span) for span in story.windows]
        held.story, held.tokens = story, tokens
        held.scores = {operation.name: np.zeros(len(story)) for operation in self.operations}
        held.cut_tokens = max(tokens.cut(view) for view in views)
        if held.cut_tokens:
            self._tell_cut(held)
        # A story of one window is pooled over all its tokens, as a sentence-transformer would.
        whole = len(views) == 1
        for view in views:
            self._plan(held, tokens, view, None if whole else (view.lo, view.hi), view.size / len(story))
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

    def _plan(self, held: _Held, tokens: TokenizedStory, window: Window, pooled: Span | None, share: float) -> None:
        """Queue what the operations ask for of a window, each order once."""
        places: dict[Order, int] = {}
        queued, before = len(self.variants), self.planned
        rows: list[tuple[Operation, list[int]]] = []
        try:
            for operation in self.operations:
                rows.append((operation, []))
                for order in operation.orders(window):
                    if not isinstance(order, tuple) or order not in places:
                        _check_order(operation, order, window)
                        places[order] = len(self.variants)
                        passages = tokens.passages(order, pooled)
                        self.variants.append(passages)
                        self.planned += sum(len(passage.ids) for passage in passages)
                    rows[-1][1].append(places[order])
                    if self.planned - before > WINDOW_TOKENS:
                        raise StoryError(
                            f"the window of sentences {window.lo} to {window.hi - 1} asks {operation.name} for more "
                            f"than {WINDOW_TOKENS:,} tokens; cut the story into smaller windows, or leave "
                            f"{operation.name} out"
                        )
        except StoryError:
            del self.variants[queued:]
            self.planned = before
            raise
        self.jobs.append(_Job(held, window, share, rows))

    def _score(self) -> None:
        """Encode what is planned and score its windows."""
        share = sum(job.share for job in self.jobs)

        def advance(part: float) -> None:
            self.bar.update(part * share)

        vectors = self.encoder.encode(self.variants, advance)
        for job in self.jobs:
            try:
                self._score_window(job, vectors)
            except StoryError as error:
                job.held.error = error
        self.jobs, self.variants, self.planned = [], [], 0

    def _score_window(self, job: _Job, vectors: NDArray[np.float32]) -> None:
        for operation, rows in job.rows:
            if not np.isfinite(vectors[rows]).all():
                raise StoryError("the encoder's states are not finite; load it with dtype='float32'")
            scores = np.asarray(operation.scores(job.window, vectors[rows]), np.float64)
            if scores.shape != (job.window.size,) or not np.isfinite(scores).all():
                raise ValueError(
                    f"operation {operation.name!r} gave {scores!r} for a window of {job.window.size} sentence(s); "
                    "one finite score a sentence is needed"
                )
            job.held.scores[operation.name][job.window.lo : job.window.hi] = scores

    def _results(self) -> Iterator[StorySalience]:
        """Score what is planned and let go of the stories, in order."""
        if self.jobs:
            self._score()
        held, self.held = self.held, []
        # The bar has moved with the forward passes, of stories that failed on the way too.
        self.done += len(held)
        self.bar.update(self.done - self.bar.n)
        for one in held:
            if one.error is not None:
                one.error.index = one.index
                self._report(one.error)
            elif one.story is not None:
                scores = {name: values.tolist() for name, values in one.scores.items()}
                yield StorySalience(one.story, scores, self.encoder.context_tokens, one.cut_tokens, one.index)

    def _report(self, error: StoryError) -> None:
        if self.on_error == "raise":
            raise error
        if callable(self.on_error):
            self.on_error(error)
        else:
            logger.warning("skipped %s", error)


def _check_order(operation: Operation, order: Order, window: Window) -> None:
    if not isinstance(order, tuple) or not order or min(order) < window.start or max(order) >= window.stop:
        raise ValueError(
            f"operation {operation.name!r} asked for the order {order!r:.80}; an order is a tuple of sentence indices "
            f"from {window.start} to {window.stop - 1}"
        )


def _bar(stories: Iterable[Any], shown: bool) -> tqdm[Any]:
    """A bar in stories that moves with every forward pass, so that it moves on one long story too."""
    total = length_hint(stories) or None
    shape = "{desc}: {percentage:3.0f}%|{bar}| {n:.1f}/{total} stories [{elapsed}<{remaining}]"
    open_end = "{desc}: {n:.1f} stories [{elapsed}]"
    return tqdm(total=total, desc="scoring", bar_format=shape if total else open_end, disable=not shown)
