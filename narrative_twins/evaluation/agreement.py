"""How good an encoder is: its salience against people's judgments, and whether twins come nearer than distractors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from narrative_twins.evaluation.metrics import Mean, auc, mean, spearman, turning_point_auc
from narrative_twins.salience.result import StorySalience

Metrics = dict[str, Mean]


def agreement_with_votes(results: Iterable[StorySalience], counts: Iterable[Sequence[float]]) -> Metrics:
    """Agreement with annotators of five-sentence stories, mean over the stories that have one.

    Args:
        results: of the stories.
        counts: for each story how many annotators chose each sentence.

    Returns:
        For each operation `OPERATION_spearman` and `OPERATION_auc`.
    """
    rows: dict[str, list[float]] = {}
    for result, votes in zip(results, counts, strict=True):
        for operation, scores in result.scores.items():
            rows.setdefault(f"{operation}_spearman", []).append(spearman(scores, votes))
            rows.setdefault(f"{operation}_auc", []).append(auc(scores, votes))
    return {name: mean(values) for name, values in rows.items()}


def agreement_with_turning_points(results: Iterable[StorySalience], points: Iterable[Sequence[int]]) -> Metrics:
    """AUC of each turning point among the sentences of the window it lies in, mean over the stories that have one.

    Args:
        results: of the stories.
        points: the turning points of each story, as many for every one, sentences counted from 0.

    Returns:
        For each operation `OPERATION_auc_1` and so on by turning point, and their mean as `OPERATION_auc`.
    """
    rows: dict[str, list[list[float]]] = {}
    for result, turning in zip(results, points, strict=True):
        homes = [next((lo, hi) for lo, hi in result.windows if lo <= point < hi) for point in turning]
        for operation, scores in result.scores.items():
            areas = [turning_point_auc(scores, point, home) for point, home in zip(turning, homes, strict=True)]
            rows.setdefault(operation, []).append(areas)
    metrics: Metrics = {}
    for operation, table in rows.items():
        means = [mean(column) for column in zip(*table, strict=True)]
        metrics |= {f"{operation}_auc_{number}": value for number, value in enumerate(means, start=1)}
        metrics[f"{operation}_auc"] = mean(value.value for value in means)
    return metrics
