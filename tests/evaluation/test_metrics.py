"""Metrics: equal to scipy and scikit-learn if those are defined, else nan."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import entropy, pearsonr, rankdata, spearmanr
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from narrative_twins.evaluation.metrics import (
    auc,
    label_entropy,
    mean,
    partial_spearman,
    spearman,
    turning_point_auc,
    vote_counts,
)

numbers = st.one_of(st.integers(0, 3).map(float), st.floats(-1, 1))
pairs = st.integers(0, 12).flatmap(
    lambda n: st.tuples(
        st.lists(numbers, min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
    )
)


@pytest.mark.filterwarnings("error")
@given(pairs)
@example(([], []))
@example(([0.5], [1]))
@example(([1, 1], [0, 1]))
@example(([0, 1], [1, 1]))
@example(([0, 1], [0, 0]))
def test_spearman_and_auc_equal_scipy_and_scikit_learn(pair):
    """Undefined agreement is nan, without a warning."""
    scores, counts = pair
    relevant, expected = [count > 0 for count in counts], [math.nan, math.nan]
    if len(set(scores)) > 1 and len(set(counts)) > 1:
        expected[0] = spearmanr(scores, counts).statistic
    if len(set(relevant)) > 1:
        expected[1] = roc_auc_score(relevant, scores)
    found = [spearman(scores, counts), auc(scores, counts)]
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(st.integers(1, 20), st.data())
def test_turning_point_auc_is_the_share_of_sentences_below(n, data):
    scores = data.draw(st.lists(numbers, min_size=n, max_size=n))
    lo = data.draw(st.integers(0, n - 1))
    hi = data.draw(st.integers(lo + 1, n))
    point = data.draw(st.integers(lo, hi - 1))
    others = [scores[i] for i in range(lo, hi) if i != point]
    value = turning_point_auc(scores, point, (lo, hi))
    if not others:
        assert math.isnan(value)
    else:
        wins = sum((scores[point] > other) + 0.5 * (scores[point] == other) for other in others)
        assert value == pytest.approx(wins / len(others))


def naive_partial(scores, labels, controls):
    """Within each group ranks, centred and divided by the size; then residuals of one regression;
    then Pearson."""
    columns = [], [], []
    for group in zip(scores, labels, controls, strict=True):
        n = len(group[0])
        if n > 1:
            ranked = [
                (rankdata(column) - (n + 1) / 2) / n**1.5
                for column in (group[0], group[1], *group[2])
            ]
            columns[0].extend(ranked[0])
            columns[1].extend(ranked[1])
            columns[2].extend(zip(*ranked[2:], strict=True))
    x, y, z = map(np.array, columns)
    rests = [v - LinearRegression(fit_intercept=False).fit(z, v).predict(z) for v in (x, y)]
    if any((rest**2).sum() <= 1e-9 * (v**2).sum() for rest, v in zip(rests, (x, y), strict=True)):
        return math.nan
    # Residuals of centred columns without an intercept have the mean 0.
    return pearsonr(*rests).statistic


groups = st.lists(
    st.integers(2, 7).flatmap(
        lambda n: st.tuples(
            *(st.lists(st.integers(0, 5), min_size=n, max_size=n) for _ in range(3))
        )
    ),
    min_size=1,
    max_size=6,
)


@given(groups)
def test_partial_spearman_equals_regression_by_scikit_learn(stories):
    scores, labels, lengths = zip(*stories, strict=True)
    controls = [(range(len(length)), length) for length in lengths]
    found = partial_spearman(scores, labels, controls)
    assert found == pytest.approx(naive_partial(scores, labels, controls), nan_ok=True, abs=1e-6)


def test_partial_spearman_tells_position_from_content():
    positions, labels = [0, 1, 2, 3, 4], [[0, 0, 1, 3, 1], [1, 0, 0, 2, 2], [0, 3, 0, 1, 1]]
    controls = [[positions, [4, 9, 5, 7, 6]]] * 3
    assert math.isnan(partial_spearman([positions] * 3, labels, controls)), (
        "scores that only follow the position"
    )
    assert partial_spearman(labels, labels, controls) == pytest.approx(1)
    assert math.isnan(partial_spearman([], [], [])) and math.isnan(
        partial_spearman([[1]], [[1]], [[[1]]])
    )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_label_entropy_equals_scipy(labels):
    if any(labels):
        found = label_entropy(labels)
        assert found == pytest.approx(entropy(labels, base=2), abs=1e-12)
        assert not str(found).startswith("-"), "0, not -0"
    else:
        assert math.isnan(label_entropy(labels))


@given(st.lists(st.one_of(st.floats(-1, 1), st.just(float("nan")))))
def test_mean_skips_and_counts_nan(values):
    defined = [value for value in values if not math.isnan(value)]
    expected = sum(defined) / len(defined) if defined else math.nan
    found, *numbers = mean(values)
    assert found == pytest.approx(expected, nan_ok=True)
    assert numbers == [len(defined), len(values) - len(defined)]
    assert str(mean([0.5, math.nan])) == "0.500 (1 of 2)"


def test_vote_counts():
    assert vote_counts([5, 4, 1, 1], 5) == vote_counts(["5", "4", "1", "1"], 5) == [2, 0, 0, 1, 1]
    with pytest.raises(ValueError, match="choice 0 is not a sentence number from 1 to 5"):
        vote_counts([0], 5)


def test_wrong_shapes_and_numbers_are_errors():
    for labels in ([1, -1], [[1, 2]]):
        with pytest.raises(ValueError, match="one label of 0 or more per sentence"):
            label_entropy(labels)
    with pytest.raises(ValueError, match=r"\(2,\) and labels of shape \(3,\)"):
        spearman([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="found nan"):
        auc([1, np.nan], [0, 1])
    with pytest.raises(ValueError, match="shorter"):
        partial_spearman([[1, 2]] * 2, [[1, 2]] * 2, [[[3, 4]]])
