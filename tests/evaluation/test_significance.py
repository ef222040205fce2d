"""Significance: the permutation test against enumeration, intervals against a plain loop."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins.evaluation.significance import (
    bootstrap_interval,
    mean_of_means,
    paired_permutation_test,
)

value = st.integers(-8, 8).map(lambda number: number / 8)
undefined = st.just(math.nan)


def enumerated(a, b):
    """The exact p-value: of all exchanges of pairs, the share whose mean difference is as far from
    0."""
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
    exact = paired_permutation_test(a, b, resamples=2**15)
    assert exact == pytest.approx(enumerated(a, b)) and 0.01 < exact < 0.5
    # Four standard errors of a share among 10,000.
    assert abs(paired_permutation_test(a, b) - exact) < 4 * math.sqrt(exact * (1 - exact) / 10_000)
    assert paired_permutation_test(a, b, seed=1) == paired_permutation_test(b, a, seed=1)


def test_a_large_difference_is_significant_and_none_is_not():
    a = np.linspace(0, 1, 200)
    assert paired_permutation_test(a + 0.1, a) < 0.001
    assert paired_permutation_test(a, a) == 1.0


def test_values_of_different_stories_are_an_error():
    with pytest.raises(ValueError, match=r"shape \(2,\) and \(3,\)"):
        paired_permutation_test([1, 2], [1, 2, 3])


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
    narrow = bootstrap_interval(table, level=0.5)
    assert low < narrow[0] < narrow[1] < high


@settings(max_examples=20)
@given(value, st.integers(2, 5))
def test_interval_of_equal_values_is_that_value(number, stories):
    assert bootstrap_interval([number] * stories, resamples=50) == pytest.approx((number, number))


def test_interval_needs_two_stories_with_a_value():
    assert all(map(math.isnan, bootstrap_interval([0.5])))
    assert all(map(math.isnan, bootstrap_interval([0.5, math.nan])))
    assert bootstrap_interval([0.5, math.nan, 0.25]) == (0.25, 0.5)
