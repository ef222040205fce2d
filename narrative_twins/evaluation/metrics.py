"""Metrics of agreement between scores and human labels: Spearman and AUC within a story, AUC of a turning point.

Each metric is defined for every input: where an agreement does not exist (constant scores or labels, one sentence, no
or only relevant sentences) it is nan, which `mean` leaves out and counts.
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
    """A mean over stories: its value (nan if none counts), how many count and how many are undefined."""

    value: float
    counted: int
    undefined: int

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.counted} of {self.counted + self.undefined})"


def spearman(scores: ArrayLike, counts: ArrayLike) -> float:
    """Spearman's rank correlation, ties sharing their mean rank; nan where scores or counts are constant."""
    x, y = _paired(scores, counts)
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def auc(scores: ArrayLike, relevant: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a relevant sentence scores above another one, a tie counting half.

    Args:
        scores: one a sentence.
        relevant: one a sentence; above zero (a vote, True) is relevant.

    Returns:
        A number from 0 to 1; nan where all sentences or none are relevant.
    """
    x, y = _paired(scores, relevant)
    positive = y > 0
    hits, misses = int(positive.sum()), int((~positive).sum())
    if hits == 0 or misses == 0:
        return float("nan")
    return float((rankdata(x)[positive].sum() - hits * (hits + 1) / 2) / (hits * misses))


def turning_point_auc(scores: ArrayLike, turning_points: int | Sequence[int], window: tuple[int, int]) -> float:
    """AUC of a story's turning point among the sentences of a window.

    Args:
        scores: one a sentence of the story.
        turning_points: index of the turning point in the story, or of several.
        window: half-open range of sentences.

    Returns:
        nan where no turning point lies in the window or all its sentences are turning points.
    """
    lo, hi = window
    relevant = np.zeros(hi - lo)
    points = np.atleast_1d(np.asarray(turning_points, int))
    relevant[points[(points >= lo) & (points < hi)] - lo] = 1
    return auc(np.asarray(scores, float)[lo:hi], relevant)


def mean(values: Iterable[float]) -> Mean:
    """The mean of the defined values; nan ones are left out and counted."""
    array = np.asarray(list(values), np.float64)
    defined = array[~np.isnan(array)]
    return Mean(float(defined.mean()) if defined.size else float("nan"), defined.size, array.size - defined.size)


def _paired(scores: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"scores of shape {x.shape} and labels of shape {y.shape}: one of each a sentence is needed")
    if np.isnan(x).any() or np.isnan(y).any():
        raise ValueError("scores and labels must be numbers, found nan")
    return x, y


@dataclass(frozen=True)
class Metric:
    """A metric of agreement within a story.

    Attributes:
        key: its name in results.
        words: its name in tables and cards.
        function: computes it from the scores and the labels of the sentences; nan where it is not defined.
    """

    key: str
    words: str
    function: Callable[[ArrayLike, ArrayLike], float]


METRICS = {metric.key: metric for metric in (Metric("spearman", "Spearman", spearman), Metric("auc", "AUC", auc))}
"""The registry: the metrics that operations are evaluated with, by key."""
