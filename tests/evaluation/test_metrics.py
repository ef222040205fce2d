"""Metrics: equal to scipy and scikit-learn if those are defined, else nan."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from narrative_twins.data.shapes import vote_counts
from narrative_twins.evaluation.metrics import auc, mean, spearman, turning_point_auc

numbers = st.one_of(st.integers(0, 3).map(float), st.floats(-1, 1))
pairs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.lists(numbers, min_size=n, max_size=n), st.lists(st.integers(0, 3), min_size=n, max_size=n))
)


@given(pairs)
def test_spearman_equals_scipy(pair):
    scores, counts = pair
    value = spearman(scores, counts)
    if len(set(scores)) == 1 or len(set(counts)) == 1:
        assert math.isnan(value)
    else:
        assert value == pytest.approx(spearmanr(scores, counts).statistic, abs=1e-12)


@given(pairs)
def test_auc_equals_scikit_learn(pair):
    scores, counts = pair
    relevant = [count > 0 for count in counts]
    if len(set(relevant)) == 1:
        assert math.isnan(auc(scores, counts))
    else:
        assert auc(scores, counts) == pytest.approx(roc_auc_score(relevant, scores), abs=1e-12)


def test_tiny_differences_count():
    scores = [1, 1 + 1e-9, 1 + 2e-9, 1 + 3e-9]
    assert spearman(scores, [0, 1, 2, 3]) == 1.0
    assert auc(scores, [0, 0, 1, 1]) == 1.0


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


def test_auc_of_a_turning_point_outside_the_window_is_nan():
    assert math.isnan(turning_point_auc([1, 2, 3, 4], 0, (2, 4)))
    assert turning_point_auc([1, 2, 3, 4], [0, 3], (2, 4)) == 1.0


@given(st.lists(st.one_of(st.floats(-1, 1), st.just(float("nan")))))
def test_mean_skips_and_counts_nan(values):
    result = mean(values)
    defined = [value for value in values if not math.isnan(value)]
    assert (result.counted, result.undefined) == (len(defined), len(values) - len(defined))
    assert math.isnan(result.value) if not defined else result.value == pytest.approx(sum(defined) / len(defined))


def test_mean_as_text():
    assert str(mean([0.5, 0.25, float("nan")])) == "0.375 (2 of 3)"


def test_vote_counts():
    assert vote_counts([5, 4, 1, 1], 5) == vote_counts(["5", "4", "1", "1"], 5) == [2, 0, 0, 1, 1]
    with pytest.raises(ValueError, match="choice 0 is not a sentence number from 1 to 5"):
        vote_counts([0], 5)


def test_wrong_shapes_and_nan_are_errors():
    with pytest.raises(ValueError, match=r"\(2,\) and labels of shape \(3,\)"):
        spearman([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="found nan"):
        auc([1, np.nan], [0, 1])
