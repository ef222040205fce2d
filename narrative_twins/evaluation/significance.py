"""Significance and uncertainty of differences: paired permutation test and bootstrap over
stories."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import DegenerateDataWarning, bootstrap, permutation_test

RESAMPLES = 10_000
"""Random permutations of a test, as in the paper, and samples of a bootstrap."""
_BATCH = 500_000  # numbers held at once


def paired_permutation_test(
    a: ArrayLike, b: ArrayLike, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """The p-value of a two-tailed paired permutation test for the mean difference of two scorers
    over stories.

    In each permutation, the values of a random half of the stories are exchanged. If there are no
    more possible exchanges than `resamples`, all of them are enumerated and the p-value is exact.

    Args:
        a, b: a value of each story by each scorer, in the same order. Stories with nan in either
            are left out.
        resamples: number of random permutations.
        seed: of the permutations.

    Returns:
        The p-value; 1.0 if all values are equal, nan if no story is left.

    Raises:
        ValueError: there are different numbers of values.
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(
            f"values of shape {x.shape} and {y.shape}; a paired test needs two of each story"
        )
    differences = x - y
    differences = differences[~np.isnan(differences)]
    if not differences.size:
        return float("nan")
    if len(differences) == 1 or not differences.any():
        return 1.0
    # Exchanging the two values of a story changes the sign of their difference.
    result = permutation_test(
        (differences,),
        lambda sample, axis: sample.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BATCH // differences.size),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def bootstrap_interval(
    values: ArrayLike, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """The percentile bootstrap interval over stories of `mean_of_means`.

    Args:
        values: one number per story, shape `(stories,)`, or several, shape `(stories, columns)`;
            nan if undefined. Stories without any defined value are left out.
        level: the confidence level.
        resamples: number of samples of stories.
        seed: of the samples.

    Returns:
        The lower and the upper limit; nan for fewer than two stories.
    """
    table = np.asarray(values, np.float64)
    table = table.reshape(len(table), -1)
    table = table[~np.isnan(table).all(axis=1)]
    if len(table) < 2:
        return float("nan"), float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DegenerateDataWarning
        )  # all stories alike: the limits are equal
        interval = bootstrap(
            (np.arange(len(table)),),
            lambda sample, axis: mean_of_means(table[sample]),
            vectorized=True,
            method="percentile",
            confidence_level=level,
            n_resamples=resamples,
            batch=max(1, _BATCH // table.size),
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return float(interval.low), float(interval.high)


def mean_of_means(table: ArrayLike) -> NDArray[np.float64]:
    """The mean over the columns of their means over stories, without nan: for example over the
    turning points. Columns without any number are skipped; nan if there is none. Takes shape `(...,
    stories, columns)`, returns `(...)`.
    """
    values = np.asarray(table, np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
        return np.asarray(np.nanmean(np.nanmean(values, axis=-2), axis=-1))
