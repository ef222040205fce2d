"""Metrics: equal to scipy and scikit-learn if those are defined, else nan. The permutation test
against enumeration, intervals against a plain loop."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binomtest, entropy, pearsonr, rankdata, spearmanr
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from narrative_twins.evaluation.metrics import auc, label_entropy, partial_spearman, spearman
from narrative_twins.evaluation.significance import (
    bootstrap_interval,
    mean,
    mean_of_means,
    paired_permutation_test,
    proportion_interval,
)

numbers = st.one_of(st.integers(0, 3).map(float), st.floats(-1, 1))
pairs = st.integers(0, 12).flatmap(
    lambda n: st.tuples(
        *(st.lists(each, min_size=n, max_size=n) for each in (numbers, st.integers(0, 3)))
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


def naive_partial(scores, labels, controls):
    """Pearson of the residuals of one regression on ranks, centred and divided by the group's size."""
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


def test_equal_controls_count_once_and_single_sentences_have_no_correlation():
    labels = [[0, 0, 1, 3, 1], [1, 0, 0, 2, 2], [0, 3, 0, 1, 1]]
    scores = [[3, 1, 2, 5, 4], [1, 2, 5, 3, 4], [2, 5, 1, 4, 3]]
    controls = [[0, 1, 2, 3, 4], [4, 9, 5, 7, 6]]
    once = partial_spearman(scores, labels, [controls] * 3)
    assert partial_spearman(scores, labels, [controls * 2] * 3) == pytest.approx(once)
    assert partial_spearman(labels, labels, [controls] * 3) == pytest.approx(1)
    assert math.isnan(partial_spearman([], [], []))
    assert math.isnan(partial_spearman([[1]], [[1]], [[[1]]]))


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


def test_wrong_shapes_and_numbers_are_errors():
    for labels in ([1, -1], [[1, 2]]):
        with pytest.raises(ValueError, match="one label of 0 or more per sentence"):
            label_entropy(labels)
    with pytest.raises(ValueError, match=r"\(2,\) and labels of shape \(3,\)"):
        spearman([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="which is not nan"):
        auc([1, np.nan], [0, 1])


value = st.integers(-8, 8).map(lambda number: number / 8)
undefined = st.just(math.nan)


def enumerated(a, b):
    """Of all exchanges of pairs, the share whose mean difference is as far from 0."""
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if not math.isnan(x) and not math.isnan(y)]
    observed = abs(sum(x - y for x, y in pairs))
    extreme = [
        abs(sum(sign * (x - y) for sign, (x, y) in zip(signs, pairs, strict=True))) >= observed
        for signs in itertools.product((1, -1), repeat=len(pairs))
    ]
    return sum(extreme) / len(extreme)


@given(st.lists(st.tuples(value | undefined, value | undefined), min_size=1, max_size=8))
def test_p_equals_enumeration_of_all_exchanges(pairs):
    a, b = zip(*pairs, strict=True)
    found = paired_permutation_test(a, b)
    if all(math.isnan(x) or math.isnan(y) for x, y in pairs):
        assert math.isnan(found)
    else:
        assert found == pytest.approx(enumerated(a, b))


def test_random_permutations_come_near_the_enumerated_p():
    random = np.random.default_rng(0)
    a = random.normal(size=15)
    b = a + random.normal(0.3, 0.6, size=15)
    exact = enumerated(a, b)
    # Four standard errors of a share among 10,000.
    error = 4 * math.sqrt(exact * (1 - exact) / 10_000)
    assert paired_permutation_test(a, b) == pytest.approx(exact, abs=error) and 0.01 < exact < 0.5
    assert paired_permutation_test(a, b) == paired_permutation_test(b, a)


tables = st.integers(1, 3).flatmap(
    lambda columns: st.lists(
        st.lists(value | undefined, min_size=columns, max_size=columns), min_size=1, max_size=8
    )
)


@given(tables)
def test_mean_of_means_equals_a_loop(table):
    columns = [[x for x in column if not math.isnan(x)] for column in zip(*table, strict=True)]
    means = [sum(column) / len(column) for column in columns if column]
    expected = sum(means) / len(means) if means else math.nan
    assert float(mean_of_means(table)) == pytest.approx(expected, nan_ok=True)
    stacked = mean_of_means(np.stack([table, table]))
    assert stacked.shape == (2,) and stacked[1] == pytest.approx(expected, nan_ok=True)


def test_interval_equals_a_loop_over_samples():
    random = np.random.default_rng(3)
    table = random.normal(size=(40, 5))
    table[random.random(size=table.shape) < 0.3] = np.nan
    low, high = bootstrap_interval(table)
    samples = table[random.integers(0, 40, (4_000, 40))]
    means = mean_of_means(samples)
    expected = np.quantile(means, [0.025, 0.975])
    assert (low, high) == pytest.approx(tuple(expected), abs=0.02)
    assert low < float(mean_of_means(table)) < high


def test_interval_of_equal_values_and_of_too_few():
    assert bootstrap_interval([0.5] * 3) == pytest.approx((0.5, 0.5))
    assert all(map(math.isnan, bootstrap_interval([0.5])))
    assert all(map(math.isnan, bootstrap_interval([0.5, math.nan])))
    assert bootstrap_interval([0.5, math.nan, 0.25]) == (0.25, 0.5)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=40))
@example([0] * 199)
def test_interval_of_a_proportion_equals_scipy(values):
    expected = binomtest(sum(values), len(values)).proportion_ci(method="wilson")
    assert proportion_interval(values) == pytest.approx(tuple(expected), abs=1e-6)


def test_interval_of_a_proportion_with_ties():
    """A tie counts half; without any value there is no interval."""
    assert proportion_interval([0.5, 0.5]) == pytest.approx(proportion_interval([0, 1]))
    assert all(map(math.isnan, proportion_interval([])))
