"""Baselines that compare embeddings: TextRank and LexRank, which are PageRank of sentences in a
graph of their similarities, and the similarity to the whole text.

Sources: Mihalcea and Tarau (2004), "TextRank: Bringing Order into Texts"; Erkan and Radev (2004),
"LexRank: Graph-based Lexical Centrality as Salience in Text Summarization", Journal of Artificial
Intelligence Research 22.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from narrative_twins.baselines.scorers import EmbeddingBaseline, TextEncoder, register_baseline
from narrative_twins.salience.operations import cosine
from narrative_twins.stories.story import Story, StoryError

DAMPING = 0.85
"""The probability that PageRank's walk follows an edge instead of going to any sentence."""
MAX_SENTENCES = 10_000
"""The longest story whose sentences are all compared with each other."""


def textrank_scores(similarities: ArrayLike, *, damping: float = DAMPING) -> NDArray[np.float64]:
    """TextRank: PageRank of sentences whose edges are weighted by similarity, without edges to
    themselves.

    Args:
        similarities: of each sentence to each other, symmetric, shape (n, n); negative ones count
            as 0.
        damping: the probability to follow an edge, from 0 up to 1, exclusive.

    Returns:
        Scores of shape (n,) that sum to 1. A sentence that is similar to no other links to all
        alike.

    Raises:
        ValueError: the similarities are not a symmetric matrix of finite numbers, or the damping is
            invalid.
    """
    weights = np.maximum(_checked(similarities), 0.0)
    np.fill_diagonal(weights, 0.0)
    return _pagerank(weights, damping)


def lexrank_scores(
    similarities: ArrayLike, *, threshold: float | None = 0.1, damping: float = DAMPING
) -> NDArray[np.float64]:
    """LexRank: PageRank of sentences with an edge between those that are more similar than a
    threshold. A sentence has an edge to itself if its similarity to itself exceeds the threshold,
    as in the paper.

    Args:
        similarities: as for `textrank_scores`, and of each sentence to itself.
        threshold: edges are between sentences whose similarity exceeds it, all with the same
            weight. None is continuous LexRank: edges are weighted by similarity, and negative
            similarities count as 0. The paper chose 0.1 for cosines of tf-idf vectors.
        damping: as for `textrank_scores`. (The paper writes d for 1 - damping.)

    Returns:
        Scores of shape (n,) that sum to 1. They are all equal if all similarities exceed the
        threshold, or none.

    Raises:
        ValueError: as `textrank_scores`.
    """
    matrix = _checked(similarities)
    is_edge = matrix > (0.0 if threshold is None else threshold)
    return _pagerank(np.where(is_edge, matrix if threshold is None else 1.0, 0.0), damping)


def _checked(similarities: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(similarities, np.float64)
    is_square = matrix.ndim == 2 and len(matrix) == len(matrix.T) > 0
    if not is_square or not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
        raise ValueError(
            f"similarities of shape {matrix.shape} must be a finite and symmetric matrix with one"
            " row per sentence"
        )
    return matrix


def _pagerank(weights: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
    """PageRank of nodes with these weights of edges, shape (n, n), from rows to columns. Overwrites
    the weights, since each copy of the largest takes 800 MB."""
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
    """Cosine similarities of all pairs of vectors, shape (n, n); 0 for a zero vector."""
    rows = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(norms == 0, 1.0, norms)
    return np.asarray(unit @ unit.T)


class _Graph(EmbeddingBaseline):
    """A baseline over the similarities of all sentences of a story, whatever the windows."""

    def __init__(self, encoder: TextEncoder = None, *, damping: float = DAMPING) -> None:
        super().__init__(encoder)
        self.damping = damping

    def texts(self, story: Story) -> tuple[str, ...]:
        if len(story) > MAX_SENTENCES:
            raise StoryError(
                f"the story has {len(story):,} sentences, and {self.name} compares at most"
                f" {MAX_SENTENCES:,}; score parts of the story, or leave {self.name} out"
            )
        return story.sentences


@register_baseline
class TextRank(_Graph):
    """`textrank_scores` over the cosine similarities of sentence embeddings; for the arguments see
    there and `EmbeddingBaseline`."""

    name = "textrank"
    meaning = "how central the sentence is among similar sentences"

    def compare(self, story: Story, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        return textrank_scores(cosine_matrix(vectors), damping=self.damping)


@register_baseline
class LexRank(_Graph):
    """`lexrank_scores` over the cosine similarities of sentence embeddings; for the arguments see
    there and `EmbeddingBaseline`. By default the continuous form, since a threshold suits one kind
    of vectors: the cosines of sentence embeddings in a short story often all exceed 0.1, and then
    all sentences tie."""

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
    """Cosine similarity of the embeddings of the sentence and of the whole text, whatever the
    windows.

    In a story of one window that is summarization, if the encoder is the same `StoryEncoder`.
    """

    name = "whole_text"
    meaning = "how similar the sentence is to the whole text"

    def texts(self, story: Story) -> tuple[str, ...]:
        return (*story.sentences, story.text)

    def compare(self, story: Story, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        return cosine(vectors[:-1], vectors[-1])
