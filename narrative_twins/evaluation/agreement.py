"""Agreement of scores with human labels, averaged over stories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from narrative_twins.evaluation.metrics import METRICS, Mean, Metric, mean, turning_point_auc
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import Span

Metrics: TypeAlias = dict[str, Mean]
Rule: TypeAlias = Literal["numbered", "containing"]
"""Which window a turning point is ranked in, see `agreement_with_turning_points`."""


@dataclass(frozen=True)
class Measure:
    """A measure of agreement: a metric of an operation, optionally for a single turning point,
    counted from 1."""

    operation: str
    metric: Metric
    turning_point: int | None = None

    @property
    def key(self) -> str:
        """Name in results, for example `deletion_auc_2`."""
        return f"{self.operation}_{self.metric.key}" + (
            f"_{self.turning_point}" if self.turning_point else ""
        )

    @property
    def label(self) -> str:
        """Name in tables and cards, for example `AUC of deletion, turning point 2`."""
        point = f", turning point {self.turning_point}" if self.turning_point else ""
        return f"{self.metric.label} of {self.operation}{point}"


def vote_measures(operations: Iterable[str]) -> list[Measure]:
    """The measures that `agreement_with_votes` computes for these operations."""
    return [Measure(operation, metric) for operation in operations for metric in METRICS.values()]


def turning_point_measures(operations: Iterable[str], points: int) -> list[Measure]:
    """The measures that `agreement_with_turning_points` computes for these operations and number of
    turning points."""
    numbers: list[int | None] = [*range(1, points + 1), None]
    return [
        Measure(operation, METRICS["auc"], number) for operation in operations for number in numbers
    ]


def agreement_with_votes(
    results: Iterable[StorySalience], counts: Iterable[Sequence[float]]
) -> Metrics:
    """Agreement with the votes of annotators, averaged over the stories for which it is defined:
    for each operation `OPERATION_spearman` and `OPERATION_auc`.

    Args:
        results: the scores of each story.
        counts: for each story how many annotators chose each sentence.
    """
    values: dict[Measure, list[float]] = {}
    for result, votes in zip(results, counts, strict=True):
        for measure in vote_measures(result.scores):
            value = measure.metric.function(result.scores[measure.operation], votes)
            values.setdefault(measure, []).append(value)
    return {measure.key: mean(by_story) for measure, by_story in values.items()}


def agreement_with_turning_points(
    results: Iterable[StorySalience], points: Iterable[Sequence[int]], rule: Rule = "numbered"
) -> Metrics:
    """AUC of each turning point among the sentences of a window, averaged over the stories for
    which it is defined: for each operation `OPERATION_auc_1` and so on by turning point, and
    `OPERATION_auc`, the mean of these means, which is `counted` and `undefined` in turning points.

    Args:
        results: the scores of each story.
        points: the turning points of each story, the same number for each; sentence indices counted
            from 0.
        rule: which window a turning point is ranked in. `"numbered"`, the rule of the paper:
            turning point k in window k; a turning point outside of it is left out, and counted as
            undefined. `"containing"`: the window it is in.

    Raises:
        ValueError: a story has another number of windows than turning points, which `"numbered"`
            needs.
    """
    tables: dict[str, list[list[float]]] = {}
    for result, story_points in zip(results, points, strict=True):
        for operation, scores in result.scores.items():
            areas = turning_point_areas(scores, result.windows, story_points, rule)
            tables.setdefault(operation, []).append(areas)
    metrics: Metrics = {}
    for operation, table in tables.items():
        means = [mean(column) for column in zip(*table, strict=True)]
        *point_measures, overall = turning_point_measures([operation], len(means))
        metrics |= {
            measure.key: value for measure, value in zip(point_measures, means, strict=True)
        }
        counted, undefined = (sum(value[i] for value in means) for i in (1, 2))
        metrics[overall.key] = Mean(
            mean(value.value for value in means).value, int(counted), int(undefined)
        )
    return metrics


def turning_point_areas(
    scores: Sequence[float], windows: Sequence[Span], points: Sequence[int], rule: Rule = "numbered"
) -> list[float]:
    """AUC of each turning point of a story in its window, nan if it is left out; see
    `agreement_with_turning_points`, which has the arguments and errors."""
    if rule not in get_args(Rule):
        raise ValueError(f"rule={rule!r}: choose {' or '.join(map(repr, get_args(Rule)))}")
    if rule == "numbered" and len(windows) != len(points):
        raise ValueError(
            f"a story has {len(windows)} window(s) and {len(points)} turning point(s); score it"
            f" with a window for each turning point (windows={len(points)}), or use"
            " rule='containing'"
        )
    areas = []
    for number, point in enumerate(points):
        if rule == "numbered":
            window = windows[number]
        else:
            window = next((lo, hi) for lo, hi in windows if lo <= point < hi)
        areas.append(turning_point_auc(scores, point, window))
    return areas
