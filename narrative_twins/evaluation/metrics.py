"""Metrics of agreement between scores and human labels: Spearman and AUC within a story, AUC of a
turning point.

A metric is nan if it is undefined (constant scores or labels, a single sentence, no or only
relevant sentences); `mean` skips and counts nan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from narrative_twins.data.rows import vote_counts as vote_counts  # noqa: F401


class Mean(NamedTuple):
    """A mean over stories: its value (nan if all are undefined), how many were averaged and how
    many are undefined."""

    value: float
    counted: int
    undefined: int

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.counted} of {self.counted + self.undefined})"


def spearman(scores: ArrayLike, counts: ArrayLike) -> float:
    """Spearman's rank correlation, with mean ranks for ties; nan if scores or counts are
    constant."""
    x, y = _paired(scores, counts)
    if not x.size or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(np.stack([x, y]), axis=1))[0, 1])


def auc(scores: ArrayLike, relevant: ArrayLike) -> float:
    """Area under the ROC curve: the probability that a relevant sentence (with a vote, True, or any
    number above zero) scores above one that is not relevant, ties counting half. From 0 to 1; nan
    if all or none are relevant.
    """
    x, y = _paired(scores, relevant)
    is_positive = y > 0
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    # The Mann-Whitney U statistic, as a share of all pairs of a positive and a negative.
    wins = rankdata(x)[is_positive].sum() - positives * (positives + 1) / 2
    return float(wins / (positives * negatives))


def turning_point_auc(scores: ArrayLike, point: int, window: tuple[int, int]) -> float:
    """AUC of a story's turning point, the index of a sentence, among the sentences of a window, a
    half-open range; nan if it is not in the window, or alone there."""
    lo, hi = window
    return auc(np.asarray(scores, float)[lo:hi], np.arange(lo, hi) == point)


def partial_spearman(
    scores: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    controls: Sequence[Sequence[ArrayLike]],
) -> float:
    """Spearman's correlation of scores and labels given other properties of the sentences, such as
    position and length: what they have in common beyond what these explain. nan if it is undefined,
    for example for scores that only follow the position.

    Ranks are taken within each group and centred, so that groups are not compared with each other.
    What a linear regression on the ranks of the controls, over all groups together, explains of
    both ranks is then subtracted, and the rests are correlated. The regression is joint because a
    single story of five sentences leaves too few degrees of freedom.

    Args:
        scores, labels: of each group (a story, or a window of a story), one number per sentence.
        controls: of each group, for each control one number per sentence.
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
    """The sums of products of the centred ranks of scores, labels and controls of a group, divided
    by its number of sentences to the third power, so that large groups do not dominate. Shape `(2 +
    controls, 2 + controls)`."""
    columns = [*_paired(scores, labels), *(np.asarray(control, np.float64) for control in controls)]
    ranks = rankdata(np.stack(columns), axis=1)
    ranks = (ranks - ranks.mean(axis=1, keepdims=True)) / ranks.shape[1]
    return np.asarray(ranks @ ranks.T / ranks.shape[1], np.float64)


def label_entropy(labels: ArrayLike) -> float:
    """Entropy in bits of a story's labels (votes, or any numbers of 0 or more) as shares of their
    sum: 0 if everybody chose the same sentence. nan if all are zero. Two to the power of its mean
    over stories is the perplexity: among how many sentences annotators hesitate."""
    values = np.asarray(labels, np.float64)
    if values.ndim != 1 or not (values >= 0).all():
        raise ValueError("entropy needs one label of 0 or more per sentence")
    if not values.sum():
        return float("nan")
    shares = values[values > 0] / values.sum()
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def mean(values: Iterable[float]) -> Mean:
    """The mean of the defined values; nan values are skipped and counted."""
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
    x, y = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(
            f"scores of shape {x.shape} and labels of shape {y.shape}; both need one per sentence"
        )
    if np.isnan(x).any() or np.isnan(y).any():
        raise ValueError("scores and labels must be numbers, found nan")
    return x, y


@dataclass(frozen=True)
class Metric:
    """A metric of agreement within a story.

    Attributes:
        key: name in results.
        label: name in tables and cards.
        function: computes the metric from the scores and labels of the sentences; nan if it is
            undefined.
        chance: the expected value for random scores.
    """

    key: str
    label: str
    function: Callable[[ArrayLike, ArrayLike], float]
    chance: float = 0.0


METRICS = {
    metric.key: metric
    for metric in (Metric("spearman", "Spearman", spearman), Metric("auc", "AUC", auc, chance=0.5))
}
"""Registry of the metrics that operations are evaluated with, by key."""
