"""The long table of an evaluation: a row for each value of a metric, of each story and run of a
scorer. The rows of people are how well annotators agree with each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from narrative_twins.evaluation.agreement import Rule, turning_point_areas
from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.evaluation.metrics import METRICS, mean, partial_spearman
from narrative_twins.evaluation.scorers import Scores

LINE = ["data", "scorer", "operation"]
"""The columns that say what a line of a table is: the operation is empty for baselines."""
COLUMNS = [*LINE, "run", "metric", "story", "point", "value"]
"""The columns of the long table. `story` is an index, or -1 for a value over all stories; `point`
is the number of a turning point, from 1, or 0 for other labels; `value` is nan if it is undefined
or left out."""
PEOPLE = ("people, second group", "people, one of them")
"""The scorers of human agreement: a second group of annotators against the first, and each
annotator against the mean of the others."""
PARTIAL = "partial"
"""The metric of the partial Spearman correlation given position and length."""

Values = Mapping[str, NDArray[np.float64]]
"""By metric an array of shape (stories, turning points), or (stories, 1) for other labels."""


def metrics_of(turning_points: bool) -> tuple[str, ...]:
    """The keys of the metrics, the main metric first, of turning points or of other labels."""
    return ("auc", PARTIAL) if turning_points else (*METRICS, PARTIAL)


def long_table(data: str, scorer: str, operation: str, run: str, values: Values) -> pd.DataFrame:
    """The rows of a run: story by story, and in a story by turning point."""
    frames = []
    for metric, array in values.items():
        stories, points = array.shape
        story = np.repeat(np.arange(stories) - (metric == PARTIAL), points)
        point = np.tile(np.arange(points) + (points > 1), stories)
        cells = (data, scorer, operation, run, metric, story, point, array.ravel())
        frames.append(pd.DataFrame(dict(zip(COLUMNS, cells, strict=True))))
    return pd.concat(frames, ignore_index=True)


def by_story(rows: pd.DataFrame) -> NDArray[np.float64]:
    """The values of one metric in one run, shape (stories, turning points)."""
    return np.asarray(rows["value"], np.float64).reshape(-1, rows["point"].nunique())


def measure(
    data: LabelledStories,
    scorer: str,
    has_operations: bool,
    runs: Sequence[Scores],
    rule: Rule = "numbered",
) -> Iterator[pd.DataFrame]:
    """The long tables of the runs of a scorer, for each of its operations."""
    names = [scores.run for scores in runs]
    for name in runs[0].values:
        operation = name if has_operations else ""
        for i, scores in enumerate(runs):
            # An encoder that is named twice has two runs.
            earlier = names[:i].count(scores.run)
            run = f"{scores.run} ({earlier + 1})" if earlier else scores.run
            values = _metrics(data, scores.values[name], rule)
            yield long_table(data.name, scorer, operation, run, values)


def measure_people(data: LabelledStories) -> Iterator[pd.DataFrame]:
    """The long tables of human agreement that can be computed: the ceiling of what scores can
    reach."""
    if data.second is not None:
        values = _metrics(data, data.second)
        # As in the figures of the paper, both metrics are over the same stories.
        values["auc"][np.isnan(values["spearman"])] = math.nan
        yield long_table(data.name, PEOPLE[0], "", "second group", values)
    annotations = [np.array(labels or (), np.float64) for labels in data.annotations or ()]
    if any(len(labels) > 1 for labels in annotations):
        values = {
            key: _column(_with_others(labels, metric.function) for labels in annotations)
            for key, metric in METRICS.items()
        }
        values[PARTIAL] = _column([math.nan])
        yield long_table(data.name, PEOPLE[1], "", "annotators", values)


def _with_others(labels: NDArray[np.float64], metric: Any) -> float:
    """A metric of each annotator against the mean of the others, averaged over annotators."""
    if len(labels) < 2:
        return math.nan
    others = (np.delete(labels, i, axis=0).mean(axis=0) for i in range(len(labels)))
    return mean(map(metric, labels, others)).value


def _column(values: Iterable[float]) -> NDArray[np.float64]:
    return np.array(list(values), np.float64)[:, None]


def _metrics(
    data: LabelledStories, scores: Sequence[Sequence[float] | None], rule: Rule = "numbered"
) -> dict[str, NDArray[np.float64]]:
    """The metrics of one run. Stories without scores are undefined."""
    values: dict[str, NDArray[np.float64]] = {}
    if data.points is not None:
        areas = [
            [math.nan] * len(points)
            if row is None
            else turning_point_areas(row, story.windows, points, rule)
            for story, row, points in zip(data.stories, scores, data.points, strict=True)
        ]
        values["auc"] = np.array(areas)
    else:
        for key, metric in METRICS.items():
            values[key] = _column(
                math.nan if row is None else metric.function(row, labels)
                for row, labels in zip(scores, data.labels, strict=True)
            )
    # Spearman given position and length (in words), with ranks within windows.
    groups = [
        (row[lo:hi], labels[lo:hi], (range(lo, hi), lengths[lo:hi]))
        for story, row, labels in zip(data.stories, scores, data.labels, strict=True)
        if row is not None
        for lengths in [[len(sentence.split()) for sentence in story.sentences]]
        for lo, hi in story.windows
    ]
    columns = zip(*groups, strict=True) if groups else ([], [], [])
    return values | {PARTIAL: _column([partial_spearman(*columns)])}
