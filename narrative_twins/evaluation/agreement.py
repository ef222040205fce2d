"""Agreement of results with human labels, as means over stories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from narrative_twins.evaluation.metrics import METRICS, Mean, Metric, mean, turning_point_auc
from narrative_twins.salience.result import StorySalience

Metrics = dict[str, Mean]


@dataclass(frozen=True)
class Measure:
    """One number of an agreement: a metric of an operation, perhaps for one turning point, counted from 1."""

    operation: str
    metric: Metric
    turning_point: int | None = None

    @property
    def key(self) -> str:
        """Its name in results, for example `deletion_auc_2`."""
        return f"{self.operation}_{self.metric.key}" + (f"_{self.turning_point}" if self.turning_point else "")

    @property
    def words(self) -> str:
        """Its name in tables and cards, for example `AUC of deletion, turning point 2`."""
        point = f", turning point {self.turning_point}" if self.turning_point else ""
        return f"{self.metric.words} of {self.operation}{point}"


def vote_measures(operations: Iterable[str]) -> list[Measure]:
    """What `agreement_with_votes` computes for some operations."""
    return [Measure(operation, metric) for operation in operations for metric in METRICS.values()]


def turning_point_measures(operations: Iterable[str], points: int) -> list[Measure]:
    """What `agreement_with_turning_points` computes for some operations and as many turning points."""
    numbers: list[int | None] = [*range(1, points + 1), None]
    return [Measure(operation, METRICS["auc"], number) for operation in operations for number in numbers]


def agreement_with_votes(results: Iterable[StorySalience], counts: Iterable[Sequence[float]]) -> Metrics:
    """Agreement with the votes of annotators, mean over the stories where it is defined.

    Args:
        results: of the stories.
        counts: for each story how many annotators chose each sentence.

    Returns:
        For each operation `OPERATION_spearman` and `OPERATION_auc`.
    """
    values: dict[Measure, list[float]] = {}
    for result, votes in zip(results, counts, strict=True):
        for measure in vote_measures(result.scores):
            value = measure.metric.function(result.scores[measure.operation], votes)
            values.setdefault(measure, []).append(value)
    return {measure.key: mean(of_stories) for measure, of_stories in values.items()}


def agreement_with_turning_points(results: Iterable[StorySalience], points: Iterable[Sequence[int]]) -> Metrics:
    """AUC of each turning point among the sentences of its window, mean over the stories where it is defined.

    Args:
        results: of the stories.
        points: the turning points of each story, the same number for each; sentence indices counted from 0.

    Returns:
        For each operation `OPERATION_auc_1` and so on by turning point, and their mean as `OPERATION_auc`.
    """
    rows: dict[str, list[list[float]]] = {}
    for result, turning in zip(results, points, strict=True):
        windows = [next((lo, hi) for lo, hi in result.windows if lo <= point < hi) for point in turning]
        for operation, scores in result.scores.items():
            areas = [turning_point_auc(scores, point, span) for point, span in zip(turning, windows, strict=True)]
            rows.setdefault(operation, []).append(areas)
    metrics: Metrics = {}
    for operation, table in rows.items():
        means = [mean(column) for column in zip(*table, strict=True)]
        *of_points, of_all = turning_point_measures([operation], len(means))
        metrics |= {measure.key: value for measure, value in zip(of_points, means, strict=True)}
        metrics[of_all.key] = mean(value.value for value in means)
    return metrics
