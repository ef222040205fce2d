"""Metrics of agreement between the scores and the human labels of a story: Spearman and AUC. A
metric is nan if it is undefined: for constant scores or labels, or no or only relevant
sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from narrative_twins.evaluation.significance import Mean as Mean
from narrative_twins.evaluation.significance import bootstrap_interval as bootstrap_interval
from narrative_twins.evaluation.significance import mean as mean
from narrative_twins.evaluation.significance import mean_of_means as mean_of_means
from narrative_twins.evaluation.significance import (
    paired_permutation_test as paired_permutation_test,
)
from narrative_twins.evaluation.significance import (
    paired_permutation_tests as paired_permutation_tests,
)


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
        rank_products(*group)
        for group in zip(scores, labels, controls, strict=True)
        if len(np.asarray(group[0])) > 1
    ]
    return float(partial_correlation(np.sum(products, axis=0))) if products else float("nan")


def partial_correlation(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlation of two variables given others; nan if the others explain one of the
    two fully.

    Args:
        products: sums of products of the centred variables, the two first: shape
            `(..., variables, variables)`, for example the sum of `rank_products` over groups.

    Returns:
        An array of shape `(...)`.
    """
    pair, with_others = products[..., :2, :2], products[..., :2, 2:]
    # The sums of products of the residuals of a linear regression. The pseudo-inverse allows for
    # equal controls.
    inverse = np.linalg.pinv(products[..., 2:, 2:], rcond=1e-9, hermitian=True)
    rest = pair - with_others @ inverse @ np.swapaxes(with_others, -1, -2)
    first, second = rest[..., 0, 0], rest[..., 1, 1]
    # Rounding errors remain of a variable that is fully explained.
    is_explained = (first <= 1e-9 * pair[..., 0, 0]) | (second <= 1e-9 * pair[..., 1, 1])
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.clip(rest[..., 0, 1] / np.sqrt(first * second), -1, 1)
    return np.where(is_explained, np.nan, correlation)


def rank_products(
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
