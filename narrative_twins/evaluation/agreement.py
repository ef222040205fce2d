"""Agreement of scores with votes and turning points (AUC in a window), averaged over stories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from narrative_twins.evaluation.metrics import METRICS, auc
from narrative_twins.evaluation.significance import Mean, mean
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.sentences import Span

Metrics: TypeAlias = dict[str, Mean]
Rule: TypeAlias = Literal["numbered", "containing"]
"""Which window a turning point is ranked in, see `agreement_with_turning_points`."""


def agreement_with_votes(
    results: Iterable[StorySalience], counts: Iterable[Sequence[float]]
) -> Metrics:
    """Return the agreement of scores with votes of annotators: for each operation, the means over
    stories of two metrics, `OPERATION_spearman` and `OPERATION_auc`.

    Args:
        results: the scores of each story.
        counts: for each story, how many annotators chose each sentence.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for result, votes in zip(results, counts, strict=True):
        for operation, scores in result.scores.items():
            for key, metric in METRICS.items():
                values[f"{operation}_{key}"].append(metric.function(scores, votes))
    return {name: mean(by_story) for name, by_story in values.items()}


def agreement_with_turning_points(
    results: Iterable[StorySalience], points: Iterable[Sequence[int]], rule: Rule = "numbered"
) -> Metrics:
    """Return the agreement of scores with turning points for each operation. `OPERATION_auc_1` is
    the mean over stories of the AUC of the first turning point among the sentences of a window, and
    so on. `OPERATION_auc` is the mean of these means; it counts turning points, not stories.

    Args:
        results: the scores of each story.
        points: for each story the indices of its turning points, from 0; the same number for all.
        rule: the window in which turning point k is ranked. `"numbered"`, as in the paper: window
            k; a turning point outside of window k is left out, and counted as undefined.
            `"containing"`: the window that contains the turning point.

    Raises:
        ValueError: a story does not have one window per turning point, which `"numbered"` needs.
    """
    tables: dict[str, list[list[float]]] = defaultdict(list)
    for result, story_points in zip(results, points, strict=True):
        for operation, scores in result.scores.items():
            areas = turning_point_areas(scores, result.windows, story_points, rule)
            tables[operation].append(areas)
    metrics: Metrics = {}
    for operation, table in tables.items():
        means = [mean(column) for column in zip(*table, strict=True)]
        for number, value in enumerate(means, start=1):
            metrics[f"{operation}_auc_{number}"] = value
        # As in the paper each turning point counts alike, however many stories define its AUC.
        metrics[f"{operation}_auc"] = Mean(
            mean(value.value for value in means).value,
            sum(value.counted for value in means),
            sum(value.undefined for value in means),
        )
    return metrics


def turning_point_areas(
    scores: Sequence[float], windows: Sequence[Span], points: Sequence[int], rule: Rule = "numbered"
) -> list[float]:
    """Return the AUC of each turning point of a story in the window that `rule` selects, see
    `agreement_with_turning_points`; nan for one that is outside, or the only sentence there."""
    if rule == "numbered":
        if len(windows) != len(points):
            raise ValueError(
                f"a story has {len(windows)} window(s) and {len(points)} turning point(s); score it"
                f" with a window for each turning point (windows={len(points)}), or use"
                " rule='containing'"
            )
        ranked_in = windows
    elif rule == "containing":
        ranked_in = [next((lo, hi) for lo, hi in windows if lo <= point < hi) for point in points]
    else:
        raise ValueError(f"rule={rule!r}: choose {' or '.join(map(repr, get_args(Rule)))}")
    return [
        auc(scores[lo:hi], [i == point for i in range(lo, hi)])
        for point, (lo, hi) in zip(points, ranked_in, strict=True)
    ]
