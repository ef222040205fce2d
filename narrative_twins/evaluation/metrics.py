"""Metrics of agreement between scores and human labels: Spearman and AUC within a story, AUC of a turning point.

A metric is nan if it is undefined (constant scores or labels, a single sentence, no or only relevant sentences); `mean`
skips and counts nan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from narrative_twins.data.shapes import vote_counts as vote_counts  # noqa: F401


class Mean(NamedTuple):
    """A mean over stories: its value (nan if all are undefined), how many were averaged and how many are undefined."""

    value: float
    counted: int
    undefined: int

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.counted} of {self.counted + self.undefined})"


def spearman(scores: ArrayLike, counts: ArrayLike) -> float:
    """Spearman's rank correlation, with mean ranks for ties; nan if scores or counts are constant."""
    x, y = _paired(scores, counts)
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def auc(scores: ArrayLike, relevant: ArrayLike) -> float:
    """Area under the ROC curve: the probability that a relevant sentence (with a vote, True, or any number above zero)
    scores above one that is not relevant, ties counting half. From 0 to 1; nan if all or none are relevant."""
    x, y = _paired(scores, relevant)
    is_positive = y > 0
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    # The Mann-Whitney U statistic, as a share of all pairs of a positive and a negative.
    return float((rankdata(x)[is_positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def turning_point_auc(scores: ArrayLike, turning_points: int | Sequence[int], window: tuple[int, int]) -> float:
    """AUC of a story's turning point among the sentences of a window; nan if none or all of them are turning points.

    Args:
        scores: of each sentence of the story.
        turning_points: index of the turning point in the story, or several indices.
        window: half-open range of sentences.
    """
    lo, hi = window
    relevant = np.zeros(hi - lo)
    points = np.atleast_1d(np.asarray(turning_points, int))
    relevant[points[(points >= lo) & (points < hi)] - lo] = 1
    return auc(np.asarray(scores, float)[lo:hi], relevant)


def mean(values: Iterable[float]) -> Mean:
    """The mean of the defined values; nan values are skipped and counted."""
    array = np.asarray(list(values), np.float64)
    defined = array[~np.isnan(array)]
    return Mean(float(defined.mean()) if defined.size else float("nan"), defined.size, array.size - defined.size)


def _paired(scores: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"scores of shape {x.shape} and labels of shape {y.shape}; both need one per sentence")
    if np.isnan(x).any() or np.isnan(y).any():
        raise ValueError("scores and labels must be numbers, found nan")
    return x, y


@dataclass(frozen=True)
class Metric:
    """A metric of agreement within a story.

    Attributes:
        key: name in results.
        label: name in tables and cards.
        function: computes the metric from the scores and labels of the sentences; nan if it is undefined.
    """

    key: str
    label: str
    function: Callable[[ArrayLike, ArrayLike], float]


METRICS = {metric.key: metric for metric in (Metric("spearman", "Spearman", spearman), Metric("auc", "AUC", auc))}
"""Registry of the metrics that operations are evaluated with, by key."""
