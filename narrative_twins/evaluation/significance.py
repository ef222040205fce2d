"""Means of metrics over stories, without nan, with bootstrap intervals and paired permutation
tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import DegenerateDataWarning, bootstrap

RESAMPLES = 10_000
"""The number of random permutations of a test, as in the paper, and of samples of a bootstrap."""
_BATCH = 500_000  # numbers held at once
_TWO_SIDED = 1.959964
"""The normal distribution has 95 % within so many standard deviations."""


class Mean(NamedTuple):
    """The mean of a metric over stories: its `value` (nan if no story counts), how many stories are
    `counted`, and for how many the metric is `undefined`."""

    value: float
    counted: int
    undefined: int

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.counted} of {self.counted + self.undefined})"


def mean(values: Iterable[float]) -> Mean:
    """Return the mean without nan, the number of values in the mean, and the number of nan."""
    array = np.asarray(list(values), np.float64)
    defined = array[~np.isnan(array)]
    return Mean(
        float(defined.mean()) if defined.size else float("nan"),
        defined.size,
        array.size - defined.size,
    )


def mean_of_means(table: ArrayLike) -> NDArray[np.float64]:
    """Return the mean over columns, for example turning points, of the means over stories: from
    shape `(..., stories, columns)` to shape `(...)`. nan is skipped; nothing but nan gives nan."""
    values = np.asarray(table, np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
        return np.asarray(np.nanmean(np.nanmean(values, axis=-2), axis=-1))


def bootstrap_interval(values: ArrayLike) -> tuple[float, float]:
    """Return the 95 % interval of `mean_of_means(values)` by a percentile bootstrap over stories.

    Args:
        values: one number per story, shape `(stories,)`, or several, shape `(stories, columns)`;
            nan if undefined. Stories without any defined value are left out.

    Returns:
        The lower and the upper limit; nan for fewer than two stories.
    """
    table = np.asarray(values, np.float64)
    table = table.reshape(len(table), -1)
    table = table[~np.isnan(table).all(axis=1)]
    if len(table) < 2:
        return float("nan"), float("nan")
    with warnings.catch_warnings():
        # If all stories are alike the limits are equal.
        warnings.simplefilter("ignore", DegenerateDataWarning)
        interval = bootstrap(
            (np.arange(len(table)),),
            lambda sample, axis: mean_of_means(table[sample]),
            vectorized=True,
            method="percentile",
            n_resamples=RESAMPLES,
            batch=max(1, _BATCH // table.size),
            rng=np.random.default_rng(0),
        ).confidence_interval
    return float(interval.low), float(interval.high)


def proportion_interval(values: ArrayLike) -> tuple[float, float]:
    """Return the 95 % interval of the mean of numbers from 0 to 1, such as of how often something
    is right, by the method of Wilson (1927). Where all values are 0 or 1, in which a bootstrap has
    an interval of no width, it is as wide as their number implies.

    Returns:
        The lower and the upper limit; nan without any value.
    """
    array = np.asarray(values, np.float64)
    if not array.size:
        return float("nan"), float("nan")
    weight = _TWO_SIDED**2 / array.size
    share = float(array.mean())
    centre = share + weight / 2
    half = math.sqrt(max(0.0, weight * (share * (1 - share) + weight / 4)))
    return max(0.0, (centre - half) / (1 + weight)), min(1.0, (centre + half) / (1 + weight))


def paired_permutation_test(a: ArrayLike, b: ArrayLike) -> float:
    """Return the p-value of a two-tailed paired permutation test for the mean difference of two
    scorers over stories. Each permutation exchanges the two values of random stories. If at most
    `RESAMPLES` exchanges are possible, all are made: the p-value is exact.

    Args:
        a, b: one value per story by each scorer. A story with nan is left out.

    Returns:
        The p-value; 1.0 if all values are equal, nan if no story is left.

    Raises:
        ValueError: there are different numbers of values.
    """
    return paired_permutation_tests([a], b)[0]


def paired_permutation_tests(lines: Sequence[ArrayLike], other: ArrayLike) -> list[float]:
    """Return the p-values of `lines` against `other`, all tested with the same permutations."""
    if not len(lines):
        return []
    values = np.stack([np.asarray(each, np.float64) for each in (*lines, other)])
    differences = values[:-1] - values[-1]
    differences = differences[:, ~np.isnan(differences).all(axis=0)]
    # A story that is undefined adds nothing, whatever its sign.
    added, stories = np.nan_to_num(differences), differences.shape[1]
    exact = 2**stories <= RESAMPLES
    total = 2**stories if exact else RESAMPLES
    random, extreme = np.random.default_rng(0), np.zeros(len(lines))
    # Sums that differ by rounding errors only are equal.
    observed = np.abs(added.sum(axis=1)) - 1e-9 * np.abs(added).sum(axis=1)
    step = max(1, _BATCH // max(stories, len(lines)))
    for start in range(0, total, step):
        numbers = np.arange(start, min(start + step, total))
        exchanged = random.integers(2, size=(len(numbers), stories))
        if exact:
            exchanged = (numbers[:, None] >> np.arange(stories)) & 1
        # Exchanging the two values of a story changes the sign of their difference.
        sums = (1.0 - 2 * exchanged) @ added.T
        extreme += (np.abs(sums) >= observed).sum(axis=0)
    p_values = extreme / total if exact else (extreme + 1) / (total + 1)
    undefined = np.isnan(differences).all(axis=1)
    return [float(p) for p in np.where(undefined, np.nan, p_values)]
