"""TextRank and LexRank, compared with the example of the paper on LexRank and with a naive power
iteration."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import Story, StoryError
from narrative_twins.baselines import (
    LexRank,
    TextRank,
    baseline_scores,
    lexrank_scores,
    scorers,
    textrank_scores,
)
from narrative_twins.baselines.scorers import cosine_matrix

from support.text_encoders import FakeSentenceEncoder

COSINES = np.array([
    [1.00, 0.45, 0.02, 0.17, 0.03, 0.22, 0.03, 0.28, 0.06, 0.06, 0.00],
    [0.45, 1.00, 0.16, 0.27, 0.03, 0.19, 0.03, 0.21, 0.03, 0.15, 0.00],
    [0.02, 0.16, 1.00, 0.03, 0.00, 0.01, 0.03, 0.04, 0.00, 0.01, 0.00],
    [0.17, 0.27, 0.03, 1.00, 0.01, 0.16, 0.28, 0.17, 0.00, 0.09, 0.01],
    [0.03, 0.03, 0.00, 0.01, 1.00, 0.29, 0.05, 0.15, 0.20, 0.04, 0.18],
    [0.22, 0.19, 0.01, 0.16, 0.29, 1.00, 0.05, 0.29, 0.04, 0.20, 0.03],
    [0.03, 0.03, 0.03, 0.28, 0.05, 0.05, 1.00, 0.06, 0.00, 0.00, 0.01],
    [0.28, 0.21, 0.04, 0.17, 0.15, 0.29, 0.06, 1.00, 0.25, 0.20, 0.17],
    [0.06, 0.03, 0.00, 0.00, 0.20, 0.04, 0.00, 0.25, 1.00, 0.26, 0.38],
    [0.06, 0.15, 0.01, 0.09, 0.04, 0.20, 0.00, 0.20, 0.26, 1.00, 0.12],
    [0.00, 0.00, 0.00, 0.01, 0.18, 0.03, 0.01, 0.17, 0.38, 0.12, 1.00],
])  # fmt: skip
"""The cosines of sentences in the example of Erkan and Radev (2004), rounded to two digits there."""
PUBLISHED = {
    0.1: [0.6007, 0.8466, 0.3491, 0.7520, 0.5907, 0.7993, 0.3548, 1.0000, 0.5921, 0.6910, 0.5921],
    0.2: [0.6944, 0.7317, 0.6773, 0.6550, 0.4344, 0.8718, 0.4993, 1.0000, 0.7399, 0.6967, 0.4501],
    0.3: [1.0000] * 11,
}
"""LexRank by threshold as published there, as a share of the highest."""


def power_iteration(weights, damping):
    """PageRank from its definition, as the weights are."""
    n = len(weights)
    ranks = [1 / n] * n
    for _ in range(250):
        walks = [[w / sum(row) if any(row) else 1 / n for w in row] for row in weights]
        walked = [sum(ranks[i] * walks[i][j] for i in range(n)) for j in range(n)]
        ranks = [(1 - damping) / n + damping * share for share in walked]
    return ranks


@st.composite
def similarities(draw):
    """Symmetric matrices; many elements are equal or zero."""
    n = draw(st.integers(1, 6))
    numbers = st.sampled_from([0.0, 0.1, 0.5, -0.25]) | st.floats(-1, 1, width=32)
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            matrix[i, j] = matrix[j, i] = draw(numbers)
    return matrix


@pytest.mark.parametrize("threshold", PUBLISHED)
def test_lexrank_gives_the_published_scores(threshold):
    cosines = COSINES.copy()
    if threshold == 0.2:
        # Two of the three that are printed as 0.20 must have been above before they were rounded.
        cosines[[5, 9, 7, 9], [9, 5, 9, 7]] = 0.204
    scores = lexrank_scores(cosines, threshold=threshold)
    assert scores.sum() == pytest.approx(1)
    assert scores / scores.max() == pytest.approx(PUBLISHED[threshold], abs=7e-4)


@given(similarities(), st.sampled_from([0.0, 0.1, 0.3, None]), st.sampled_from([0.0, 0.5, 0.85]))
def test_scores_are_pagerank(matrix, threshold, damping):
    """LexRank has edges from a sentence to itself, TextRank has none."""
    before = matrix.copy()
    weights = np.maximum(matrix, 0)
    others = weights * (1 - np.eye(len(matrix)))
    expected = power_iteration(others.tolist(), damping)
    assert textrank_scores(matrix, damping=damping) == pytest.approx(expected, abs=1e-10)
    edges = weights if threshold is None else matrix > threshold
    expected = power_iteration(edges.astype(float).tolist(), damping)
    scores = lexrank_scores(matrix, threshold=threshold, damping=damping)
    assert scores == pytest.approx(expected, abs=1e-10)
    assert np.array_equal(matrix, before), "the similarities that are passed are not changed"


def test_sentences_that_are_alike_tie_exactly():
    """Also among others, where the last bits of their ranks may differ."""
    rng = np.random.default_rng(0)
    for n in range(2, 40):
        vectors = rng.normal(size=(n, 5))
        vectors[0] = vectors[n // 2] = vectors[-1]
        for scores_of in (textrank_scores, lexrank_scores):
            scores = scores_of(cosine_matrix(vectors))
            assert scores[0] == scores[n // 2] == scores[-1]
            assert len(set(scores_of(np.full((n, n), 0.3)))) == 1, "a complete graph"


def test_invalid_input_is_an_error():
    for scores_of in (textrank_scores, lexrank_scores):
        for matrix in ([[1.0, 0.5]], np.zeros((0, 0)), [[1, 0.5], [0.4, 1]], [[np.nan]]):
            with pytest.raises(ValueError, match="finite and symmetric matrix with one row per"):
                scores_of(matrix)
        for damping in (-0.1, 1.0, float("nan")):
            with pytest.raises(ValueError, match="damping=.*: must be at least 0 and below 1"):
                scores_of([[1.0]], damping=damping)


def test_baselines_score_the_cosines_of_sentences():
    vectors = np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0], [-3.0, -4.0]], np.float32)
    expected = [[1, 0.96, 0, -1], [0.96, 1, 0, -0.96], [0, 0, 0, 0], [-1, -0.96, 0, 1]]
    assert cosine_matrix(vectors) == pytest.approx(np.array(expected))
    encoder = FakeSentenceEncoder()
    sentences = ["The mill burned.", "The old mill burned down.", "Nadia ran.", "The mill burned."]
    story = Story.parse(sentences, 2)
    cosines = cosine_matrix(np.array([encoder.vector(text) for text in sentences]))
    assert TextRank(encoder).scores(story) == pytest.approx(textrank_scores(cosines), abs=1e-6)
    options = {"threshold": 0.6, "damping": 0.5}
    for ours, form in ({}, {"threshold": None}), (options, options):
        expected = pytest.approx(lexrank_scores(cosines, **form), abs=1e-6)
        assert LexRank(encoder, **ours).scores(story) == expected


def test_a_story_that_is_too_long_is_reported_after_the_stories_before_it():
    encoder = FakeSentenceEncoder()
    results = baseline_scores([["A."] * 3, ["A."] * 4], ["textrank", "lexrank"], encoder=encoder)
    with patch.object(scorers, "MAX_SENTENCES", 3):
        assert len(next(results).sentences) == 3
        with pytest.raises(
            StoryError, match="story 2: the story has 4 sentences, and textrank compares at most 3"
        ):
            next(results)
