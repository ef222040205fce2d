"""Metrics of agreement between scores and human labels: Spearman and AUC within a story, and their
means over stories, with bootstrap intervals and paired permutation tests.

A metric is nan if it is undefined (constant scores or labels, a single sentence, no or only
relevant sentences); means skip nan.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import DegenerateDataWarning, bootstrap, rankdata

RESAMPLES = 10_000
"""The number of random permutations of a test, as in the paper, and of samples of a bootstrap."""
_BATCH = 500_000  # numbers held at once


class Mean(NamedTuple):
    """The mean of a metric over stories: its `value` (nan if no story counts), how many stories are
    `counted`, and for how many the metric is `undefined`."""

    value: float
    counted: int
    undefined: int

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.counted} of {self.counted + self.undefined})"


def spearman(scores: ArrayLike, counts: ArrayLike) -> float:
    """Return Spearman's rank correlation, ties with mean ranks; nan if either list is constant."""
    x, y = _paired(scores, counts)
    if not x.size or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(np.stack([x, y]), axis=1))[0, 1])


def auc(scores: ArrayLike, relevant: ArrayLike) -> float:
    """Return the area under the ROC curve: the probability that a relevant sentence has a higher
    score than an irrelevant one; ties count half. A sentence is relevant if its number in
    `relevant` is above zero. The area is nan if all sentences are relevant, or none."""
    x, y = _paired(scores, relevant)
    is_positive = y > 0
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    # The Mann-Whitney U statistic, as a share of all pairs of a positive and a negative.
    wins = rankdata(x)[is_positive].sum() - positives * (positives + 1) / 2
    return float(wins / (positives * negatives))


def partial_spearman(
    scores: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    controls: Sequence[Sequence[ArrayLike]],
) -> float:
    """Return the Spearman correlation of scores and labels given controls, such as the position and
    length of sentences; nan if it is undefined, for example if scores only follow the position.

    Ranks are taken within each group and centred. A linear regression, on all groups together since
    a single group is too short, predicts the ranks of scores and labels from the ranks of the
    controls. The result is the correlation of the residuals.

    Args:
        scores, labels: for each group (a story, or a window of a story), one number per sentence.
        controls: for each group and each control, one number per sentence.
    """
    products = [
        _rank_products(*group)
        for group in zip(scores, labels, controls, strict=True)
        if len(np.asarray(group[0])) > 1
    ]
    if not products:
        return float("nan")
    total = np.sum(products, axis=0)
    pair, with_controls, of_controls = total[:2, :2], total[:2, 2:], total[2:, 2:]
    # The sums of products of the residuals of a linear regression. The pseudo-inverse allows for
    # equal controls.
    inverse = np.linalg.pinv(of_controls, rcond=1e-9, hermitian=True)
    rest = pair - with_controls @ inverse @ with_controls.T
    # Rounding errors remain of a variable that is fully explained.
    if (np.diag(rest) <= 1e-9 * np.diag(pair)).any():
        return float("nan")
    return float(np.clip(rest[0, 1] / np.sqrt(rest[0, 0] * rest[1, 1]), -1, 1))


def _rank_products(
    scores: ArrayLike, labels: ArrayLike, controls: Sequence[ArrayLike]
) -> NDArray[np.float64]:
    """Return the sums of products of the centred ranks of scores, labels and each control, over the
    sentences of a group: shape `(2 + controls, 2 + controls)`. The sums are divided by the number
    of sentences to the third power, so that large groups do not dominate."""
    columns = [*_paired(scores, labels), *(np.asarray(control, np.float64) for control in controls)]
    ranks = rankdata(np.stack(columns), axis=1)
    ranks = (ranks - ranks.mean(axis=1, keepdims=True)) / ranks.shape[1]
    return np.asarray(ranks @ ranks.T / ranks.shape[1], np.float64)


def label_entropy(labels: ArrayLike) -> float:
    """Return the entropy in bits of a story's labels, numbers of 0 or more, as shares of their sum:
    0 if one sentence has all votes, 1 if two have half each, nan if all labels are zero."""
    values = np.asarray(labels, np.float64)
    if values.ndim != 1 or not (values >= 0).all():
        raise ValueError("entropy needs one label of 0 or more per sentence")
    if not values.sum():
        return float("nan")
    shares = values[values > 0] / values.sum()
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def mean(values: Iterable[float]) -> Mean:
    """Return the mean without nan, the number of values in the mean, and the number of nan."""
    array = np.asarray(list(values), np.float64)
    defined = array[~np.isnan(array)]
    return Mean(
        float(defined.mean()) if defined.size else float("nan"),
        defined.size,
        array.size - defined.size,
    )


def _paired(
    scores: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores and labels as arrays. Raises a `ValueError` for nan or different lengths."""
    x, y = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    if x.ndim != 1 or x.shape != y.shape or np.isnan([x, y]).any():
        raise ValueError(
            f"scores of shape {x.shape} and labels of shape {y.shape}; both need one number, which"
            " is not nan, for each sentence"
        )
    return x, y


class Metric(NamedTuple):
    """A metric of agreement within a story. `label` is the heading in tables and cards. `function`
    returns the metric for the scores and labels of the sentences, nan if undefined."""

    label: str
    function: Callable[[ArrayLike, ArrayLike], float]


METRICS = {"spearman": Metric("Spearman", spearman), "auc": Metric("AUC", auc)}
"""Registry of the metrics that operations are evaluated with, by key."""


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
