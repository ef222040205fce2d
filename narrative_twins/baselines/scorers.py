"""Baselines: their interface, their registry, and `baseline_scores`, which scores many stories."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from narrative_twins.baselines.embedding import Embedder, TextEncoder
from narrative_twins.registry import Registry
from narrative_twins.salience.engine import progress_bar
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import Story, StoryError, Windows, check_stories

BUFFER_STORIES = 32
BUFFER_SENTENCES = 10_000
"""Stories, or their sentences, after which the texts of a buffer are embedded together."""


class Baseline(ABC):
    """A way to score sentences without the variants of a story. A subclass that is registered with
    `register_baseline` can be used by its name."""

    name: ClassVar[str]
    """The name in `baselines=` and the key of the scores."""
    meaning: ClassVar[str]
    """One line that explains the score to readers of a result."""

    @abstractmethod
    def scores(self, story: Story) -> NDArray[np.float64]:
        """Scores of the sentences in story order, shape `(len(story),)`; higher is more salient."""

    def with_defaults(self, seed: int, embedder: Embedder) -> Self:
        """This baseline with the seed or the encoder of a call of `baseline_scores`, if it uses one
        and has none."""
        return self


class EmbeddingBaseline(Baseline):
    """A baseline that compares embeddings of texts, each read alone.

    Args:
        encoder: see `TextEncoder`; default that of `baseline_scores`, or else the default encoder.
    """

    def __init__(self, encoder: TextEncoder = None) -> None:
        self.embedder = Embedder(encoder)
        self._has_encoder = encoder is not None

    def texts(self, story: Story) -> Sequence[str]:
        """The texts to embed: the sentences, unless a subclass needs others."""
        return story.sentences

    @abstractmethod
    def compare(self, story: Story, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores of the sentences from the vectors of `texts`, shape `(texts, dimensions)`."""

    def scores(self, story: Story) -> NDArray[np.float64]:
        """Scores of the sentences in story order; raises StoryError if a text can't be embedded."""
        return self.compare(story, self.embedder(self.texts(story)))

    def with_defaults(self, seed: int, embedder: Embedder) -> Self:
        """This baseline with the encoder of a call of `baseline_scores`, if it has none."""
        if self._has_encoder:
            return self
        shared = copy.copy(self)
        shared.embedder = embedder
        return shared


BASELINES: Registry[Baseline] = Registry(Baseline, "a baseline")
"""The registered baselines by name, in display order."""
Registered = TypeVar("Registered", bound=type[Baseline])


def register_baseline(baseline: Registered) -> Registered:
    """Class decorator that registers a baseline under its `name`. A class defined again, as in a
    notebook, replaces itself; a different class with the same name raises a `ValueError`."""
    BASELINES.add(baseline)
    return baseline


def baseline_scores(
    stories: Iterable[Any],
    baselines: str | Baseline | Iterable[str | Baseline] | None = None,
    *,
    seed: int = 0,
    encoder: TextEncoder = None,
    windows: Windows = "auto",
    splitter: Splitter | None = None,
    progress: bool = False,
) -> Iterator[StorySalience]:
    """Score every sentence of some stories by baselines; an iterator over one result per story,
    lazily and in order.

    Args:
        stories: stories in any form that `Story.parse` accepts.
        baselines: names or `Baseline` instances; default all registered baselines.
        seed: for `random`.
        encoder: for baselines that embed sentences: a `SentenceTransformer` or another object with
            the method `encode(texts)`, a `StoryEncoder`, its folder or Hub id, or None for the
            default encoder. It is loaded only if a baseline needs it.
        windows, splitter: windows for stories without their own, and the sentence splitter, see
            `Story.parse`.
        progress: whether to show a progress bar.

    Raises:
        TypeError, ValueError: a baseline is unknown or an argument invalid. Raised before anything
            is scored.
        StoryError: a story can't be scored; has its index. Raised while iterating, after the
            results before it.
    """
    check_stories(stories)
    embedder = Embedder(encoder)
    chosen = [baseline.with_defaults(seed, embedder) for baseline in BASELINES.resolve(baselines)]
    return _scored(stories, chosen, windows, splitter, progress)


def _scored(
    stories: Iterable[Any],
    baselines: list[Baseline],
    windows: Windows,
    splitter: Splitter | None,
    progress: bool,
) -> Iterator[StorySalience]:
    # A buffer is of use only if texts of several stories are embedded together.
    size = (
        BUFFER_STORIES
        if any(isinstance(baseline, EmbeddingBaseline) for baseline in baselines)
        else 1
    )
    buffer: list[tuple[int, Story]] = []
    error: StoryError | None = None
    with closing(progress_bar(stories, shown=progress)) as bar:
        for index, source in enumerate(stories):
            try:
                buffer.append((index, Story.parse(source, windows, splitter)))
            except StoryError as found:
                error = StoryError(found.problem, index)
                break  # it is raised after the results of the stories before it
            if len(buffer) >= size or sum(len(story) for _, story in buffer) >= BUFFER_SENTENCES:
                for result in _score_buffer(buffer, baselines):
                    bar.update()
                    yield result
                buffer = []
        for result in _score_buffer(buffer, baselines):
            bar.update()
            yield result
    if error is not None:
        raise error


def _score_buffer(
    buffer: list[tuple[int, Story]], baselines: list[Baseline]
) -> Iterator[StorySalience]:
    # If a text can't be embedded, each story is embedded by itself below, and the error has the
    # story's index.
    with suppress(StoryError):
        _embed_together([story for _, story in buffer], baselines)
    for index, story in buffer:
        try:
            scores = {baseline.name: _checked(baseline, story).tolist() for baseline in baselines}
        except StoryError as error:
            raise StoryError(error.problem, index) from None
        yield StorySalience(story, scores, context_tokens=None, cut_tokens=0, index=index)


def _embed_together(stories: list[Story], baselines: list[Baseline]) -> None:
    """Embed the texts of all baselines and stories that have the same encoder together."""
    texts: dict[Embedder, list[str]] = {}
    for baseline in baselines:
        for story in stories:
            if isinstance(baseline, EmbeddingBaseline):
                texts.setdefault(baseline.embedder, []).extend(baseline.texts(story))
    for embedder, needed in texts.items():
        embedder.prepare(needed)


def _checked(baseline: Baseline, story: Story) -> NDArray[np.float64]:
    """The scores of a baseline; raises ValueError unless they are one finite number per
    sentence."""
    scores = np.asarray(baseline.scores(story), np.float64)
    if scores.shape != (len(story),) or not np.isfinite(scores).all():
        raise ValueError(
            f"baseline {baseline.name!r} must return one finite score for each of {len(story)}"
            f" sentence(s), not {scores!r:.200}"
        )
    return scores
