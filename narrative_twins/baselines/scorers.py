"""Baselines: their interface and registry; `baseline_scores`, which scores many stories; chance,
position and length; and baselines that compare embeddings: TextRank and LexRank, which are PageRank
of sentences in a graph of their similarities, and the similarity to the whole text.

Sources: Mihalcea and Tarau (2004), "TextRank: Bringing Order into Texts"; Erkan and Radev (2004),
"LexRank: Graph-based Lexical Centrality as Salience in Text Summarization", Journal of Artificial
Intelligence Research 22.
"""

from __future__ import annotations

import copy
import json
import operator
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.operations import Registry, cosine
from narrative_twins.salience.progress import Progress
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.sentences import Splitter
from narrative_twins.stories.story import Story, StoryError, Windows, check_stories

DAMPING = 0.85
"""The probability that PageRank's walk follows an edge instead of going to any sentence."""
MAX_SENTENCES = 10_000
"""The maximum number of sentences of a story for baselines that compare all with each other."""


@runtime_checkable
class SentenceEncoder(Protocol):
    """Anything that embeds texts as a `SentenceTransformer` does."""

    def encode(self, sentences: list[str], /) -> Any:
        """Return one vector per text, an array of shape (texts, dimensions)."""


TextEncoder: TypeAlias = SentenceEncoder | StoryEncoder | str | Path | None
"""A `SentenceTransformer` or similar, a `StoryEncoder`, its folder or Hub id; None: the default."""


class Embedder:
    """Embeds texts, each alone, by an encoder that is loaded when it is first used. A
    `SentenceTransformer` with a transformer becomes a `StoryEncoder`, which reads a text that
    exceeds its context in several passes. Other encoders may truncate such a text.

    Args:
        encoder: see `TextEncoder`; TypeError if it is something else.
    """

    def __init__(self, encoder: TextEncoder = None) -> None:
        if not isinstance(encoder, (StoryEncoder, str, Path, type(None), SentenceEncoder)):
            raise TypeError(
                "an encoder is a StoryEncoder, a folder, a Hub id or an object with the method"
                f" encode, such as a SentenceTransformer, not {type(encoder).__name__}"
            )
        if hasattr(encoder, "max_seq_length"):  # a `SentenceTransformer`
            with suppress(ValueError):  # one without a transformer, or with other modules
                encoder = StoryEncoder.from_sentence_transformer(encoder)
        self._encoder = encoder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, shape (texts, dimensions). Vectors of the previous call are
        reused. Raises StoryError if a text has no tokens or a vector is not finite, and ValueError
        unless the encoder returns one vector per text."""
        if missing := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            self._vectors |= dict(zip(missing, self._encode(missing), strict=True))
        self._vectors = {text: self._vectors[text] for text in texts}
        vectors = np.stack([self._vectors[text] for text in texts])
        if not np.isfinite(vectors).all():
            raise StoryError("the encoder's vectors are not finite; load it with dtype='float32'")
        return vectors

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, shape (texts, dimensions); load the encoder if necessary."""
        encoder = self._encoder
        if encoder is None or isinstance(encoder, (str, Path)):
            encoder = self._encoder = StoryEncoder.from_pretrained(encoder)
        if isinstance(encoder, StoryEncoder):
            tokens = encoder.tokenize(texts)
            return encoder.encode([tokens.chunks((i,), None) for i in range(len(texts))])
        vectors = np.asarray(encoder.encode(texts), np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(
                f"the encoder must return one vector for each of {len(texts)} text(s), not"
                f" {vectors.shape}"
            )
        return vectors


class Baseline(ABC):
    """A scorer of sentences that needs no variants of a story. A subclass that is registered with
    `register_baseline` can be used by its name."""

    name: ClassVar[str]
    """The name in `baselines=` and the key of the scores."""
    meaning: ClassVar[str]
    """One line that explains the score to readers of a result."""

    @abstractmethod
    def scores(self, story: Story) -> NDArray[np.float64]:
        """Return one score per sentence, shape `(len(story),)`; higher is more salient."""


class EmbeddingBaseline(Baseline):
    """A baseline that compares embeddings of texts, each read alone.

    Args:
        encoder: see `TextEncoder`; None: the encoder of `baseline_scores`, or else the default.
    """

    def __init__(self, encoder: TextEncoder = None) -> None:
        self.embedder = Embedder(encoder)
        self.has_encoder = encoder is not None

    def texts(self, story: Story) -> Sequence[str]:
        """Return the texts to embed: the sentences, unless a subclass needs others."""
        return story.sentences

    @abstractmethod
    def compare(self, story: Story, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the scores of the sentences, shape `(len(story),)`. `vectors` are the embeddings
        of `texts(story)`, shape `(texts, dimensions)`."""

    def scores(self, story: Story) -> NDArray[np.float64]:
        """Return the scores of the sentences; raise StoryError if a text can't be embedded."""
        return self.compare(story, self.embedder(self.texts(story)))


BASELINES: Registry[Baseline] = Registry(Baseline, "a baseline")
"""The registered baselines by name, in display order."""
register_baseline = BASELINES.add
"""Class decorator that registers a baseline under its name, see `Registry.add`."""


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
    """Score stories by baselines. Yields one result per story, lazily and in order.

    Args:
        stories: stories in any form that `Story.parse` accepts.
        baselines: names or `Baseline` instances; default all registered baselines.
        seed: the seed of the baseline `random`.
        encoder: for baselines that embed texts, see `TextEncoder`; loaded only if one needs it.
        windows, splitter: the windows of stories without their own, and the sentence splitter, see
            `Story.parse`.
        progress: whether to show a progress bar.

    Raises:
        TypeError, ValueError: a baseline is unknown or an argument invalid; raised at the call.
        StoryError: a story can't be scored. Raised with its index, after the results before it.
    """
    check_stories(stories)
    embedder = Embedder(encoder)
    scorers = [copy.copy(baseline) for baseline in BASELINES.resolve(baselines)]
    for scorer in scorers:
        if isinstance(scorer, EmbeddingBaseline) and not scorer.has_encoder:
            scorer.embedder = embedder
        elif isinstance(scorer, Random) and scorer.seed is None:
            scorer.seed = operator.index(seed)
    parsed = (Story.parse(story, windows, splitter) for story in stories)
    return _results(parsed, scorers, Progress(progress, "stories", operator.length_hint(stories)))


def _results(
    stories: Iterator[Story], baselines: list[Baseline], progress: Progress
) -> Iterator[StorySalience]:
    """Yield the result of each story; raise StoryError with the index of a story without result."""
    index = 0
    with closing(progress):
        try:
            for index, story in enumerate(stories):
                scores = {each.name: _checked_scores(each, story) for each in baselines}
                progress.add(1)
                yield StorySalience(story, scores, index=index)
                index += 1  # of the next story, if it can't be parsed
        except StoryError as error:
            raise StoryError(error.problem, index) from None


def _checked_scores(baseline: Baseline, story: Story) -> list[float]:
    """Return the scores of a story; raise ValueError unless each sentence has a finite score."""
    scores = np.asarray(baseline.scores(story), np.float64)
    if scores.shape != (len(story),) or not np.isfinite(scores).all():
        raise ValueError(
            f"baseline {baseline.name!r} must return one finite score for each of {len(story)}"
            f" sentence(s), not {scores!r:.200}"
        )
    return list(map(float, scores))


@register_baseline
class Random(Baseline):
    """Uniform draws from [0, 1). They depend on the seed and the sentences only: a story has the
    same scores on every machine, whatever the other stories.

    Args:
        seed: an integer; None for the seed of `baseline_scores`, or else 0.
    """

    name = "random"
    meaning = "a random number"

    def __init__(self, seed: int | None = None) -> None:
        self.seed = None if seed is None else operator.index(seed)

    def scores(self, story: Story) -> NDArray[np.float64]:
        # Python promises the same draws in all versions, numpy's generators do not.
        draws = random.Random(json.dumps([self.seed or 0, *story.sentences]))
        return np.array([draws.random() for _ in story.sentences])


@register_baseline
class Lead(Baseline):
    """The number of sentences from the sentence, itself included, to the end of the story."""

    name = "lead"
    meaning = "earlier sentences score higher"

    def scores(self, story: Story) -> NDArray[np.float64]:
        return np.arange(len(story), 0, -1, dtype=np.float64)


@register_baseline
class Trail(Baseline):
    """The position of the sentence in the story, from 1; called "increasing" in the paper."""

    name = "trail"
    meaning = "later sentences score higher"

    def scores(self, story: Story) -> NDArray[np.float64]:
        return np.arange(1, len(story) + 1, dtype=np.float64)


@register_baseline
class Centre(Baseline):
    """Minus the distance of the sentence from the middle of its window, in sentences."""

    name = "centre"
    meaning = "sentences near the middle of their window score higher"

    def scores(self, story: Story) -> NDArray[np.float64]:
        windows = [np.arange(lo, hi) - (lo + hi - 1) / 2 for lo, hi in story.windows]
        return 0.0 - np.abs(np.concatenate(windows))


@register_baseline
class Length(Baseline):
    """The number of words in the sentence, separated by white space."""

    name = "length"
    meaning = "sentences with more words score higher"

    def scores(self, story: Story) -> NDArray[np.float64]:
        return np.array([len(sentence.split()) for sentence in story.sentences], np.float64)


# Embeddings


def textrank_scores(similarities: ArrayLike, *, damping: float = DAMPING) -> NDArray[np.float64]:
    """Return TextRank: PageRank in a graph of sentences, with edges weighted by similarity.

    Args:
        similarities: the similarity of each pair of sentences, symmetric, shape (n, n). The
            diagonal is ignored, and negative similarities count as 0.
        damping: the probability to follow an edge, at least 0 and below 1.

    Returns:
        Scores of shape (n,) that sum to 1. A sentence without edges gets equal edges to all.

    Raises:
        ValueError: the similarities are not a symmetric, finite matrix, or the damping is invalid.
    """
    weights = np.maximum(_check_similarities(similarities), 0.0)
    np.fill_diagonal(weights, 0.0)
    return _pagerank(weights, damping)


def lexrank_scores(
    similarities: ArrayLike, *, threshold: float | None = 0.1, damping: float = DAMPING
) -> NDArray[np.float64]:
    """Return LexRank: the PageRank of sentences in a graph with an edge between sentences that are
    more similar than a threshold. As in the paper, a sentence has an edge to itself if its
    similarity to itself exceeds the threshold.

    Args:
        similarities: as for `textrank_scores`, with the same errors; the diagonal is used, too.
        threshold: sentences have an edge if their similarity exceeds it; all edges have the same
            weight. None is continuous LexRank: edges are weighted by similarity, and negative
            similarities count as 0. The paper chose 0.1 for cosines of tf-idf vectors.
        damping: as for `textrank_scores`. (The paper writes d for 1 - damping.)

    Returns:
        Scores of shape (n,) that sum to 1; all equal if all or no similarities exceed the
        threshold.
    """
    matrix = _check_similarities(similarities)
    is_edge = matrix > (0.0 if threshold is None else threshold)
    return _pagerank(np.where(is_edge, matrix if threshold is None else 1.0, 0.0), damping)


def _check_similarities(similarities: ArrayLike) -> NDArray[np.float64]:
    """Return similarities as an array. Raise ValueError unless it is finite and symmetric."""
    matrix = np.asarray(similarities, np.float64)
    is_square = matrix.ndim == 2 and len(matrix) == len(matrix.T) > 0
    if not is_square or not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
        raise ValueError(
            f"similarities of shape {matrix.shape} must be a finite and symmetric matrix with one"
            " row per sentence"
        )
    return matrix


def _pagerank(weights: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
    """Return the PageRank of n nodes, shape (n,). `weights`, shape (n, n), has the weights of edges
    from rows to columns. To save memory, `weights` is overwritten."""
    if not 0 <= damping < 1:
        raise ValueError(f"damping={damping}: must be at least 0 and below 1")
    n = len(weights)
    # Probabilities of the walk: each row sums to 1, and from a node without edges the walk goes to
    # any node.
    weights /= weights.max() or 1.0
    weights[weights.sum(axis=1) == 0] = 1.0
    weights /= weights.sum(axis=1, keepdims=True)
    # The stationary distribution p = damping * weights.T @ p + (1 - damping) / n, solved directly:
    # the system is well conditioned, and no number of iterations must be chosen.
    weights *= -damping
    np.fill_diagonal(weights, weights.diagonal() + 1.0)
    ranks = np.linalg.solve(weights.T, np.full(n, (1 - damping) / n))
    # Sentences with the same place in the graph tie, whatever the last bits.
    return np.asarray(ranks.round(12))


def cosine_matrix(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the cosines of all pairs of n `vectors`, shape (n, n); 0 for a zero vector."""
    rows = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(norms == 0, 1.0, norms)
    return np.asarray(unit @ unit.T)


class _Graph(EmbeddingBaseline):
    """A baseline that compares all sentences of a story with each other, whatever the windows."""

    def __init__(self, encoder: TextEncoder = None, *, damping: float = DAMPING) -> None:
        super().__init__(encoder)
        self.damping = damping

    def texts(self, story: Story) -> tuple[str, ...]:
        """Return the sentences; raise StoryError if there are more than `MAX_SENTENCES`."""
        if len(story) > MAX_SENTENCES:
            raise StoryError(
                f"the story has {len(story):,} sentences, and {self.name} compares at most"
                f" {MAX_SENTENCES:,}; score parts of the story, or leave {self.name} out"
            )
        return story.sentences


@register_baseline
class TextRank(_Graph):
    """`textrank_scores` of the cosines of sentence embeddings. For `damping` see there."""

    name = "textrank"
    meaning = "how central the sentence is among similar sentences"

    def compare(self, story: Story, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        return textrank_scores(cosine_matrix(vectors), damping=self.damping)


@register_baseline
class LexRank(_Graph):
    """`lexrank_scores` of the cosines of sentence embeddings; takes the arguments of
    `EmbeddingBaseline`, `threshold` and `damping`. The default is continuous LexRank, since the
    cosines of a short story often all exceed 0.1, and then all sentences tie."""

    name = "lexrank"
    meaning = "how central the sentence is among similar sentences, itself included"

    def __init__(
        self,
        encoder: TextEncoder = None,
        *,
        threshold: float | None = None,
        damping: float = DAMPING,
    ) -> None:
        super().__init__(encoder, damping=damping)
        self.threshold = threshold

    def compare(self, story: Story, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        similarities = cosine_matrix(vectors)
        return lexrank_scores(similarities, threshold=self.threshold, damping=self.damping)


@register_baseline
class WholeText(EmbeddingBaseline):
    """The cosine of the embeddings of the sentence and of the whole text, whatever the windows. In
    a story of one window this is summarization, if the encoder is the same `StoryEncoder`."""

    name = "whole_text"
    meaning = "how similar the sentence is to the whole text"

    def texts(self, story: Story) -> tuple[str, ...]:
        return (*story.sentences, story.text)

    def compare(self, story: Story, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        return cosine(vectors[:-1], vectors[-1])
