"""Rows of an evaluation: the metrics of a scorer on labelled stories, for every story and every
run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from narrative_twins.evaluation.agreement import Rule, turning_point_areas
from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.evaluation.metrics import (
    METRICS,
    Metric,
    mean,
    partial_correlation,
    rank_products,
)
from narrative_twins.evaluation.scorers import Scores
from narrative_twins.evaluation.significance import (
    bootstrap_interval,
    mean_of_means,
    paired_permutation_test,
)

PEOPLE = ("people, second group", "people, one of them")
"""The names of the rows of human agreement: a second group of annotators against the first, and
each annotator against the mean of the others."""
PARTIAL = "partial"
"""The key of the partial Spearman correlation given position and length."""


@dataclass(frozen=True)
class RunValues:
    """The values of the metrics of one run.

    Attributes:
        run: its name.
        tables: by metric an array of shape (stories, columns): one column, or one for each turning
            point; nan for what is undefined or left out.
        partial: Spearman given position and length, over all stories.
    """

    run: str
    tables: Mapping[str, NDArray[np.float64]]
    partial: float

    def value(self, metric: str) -> float:
        """The mean of a metric over stories, of turning points the mean of their means."""
        return self.partial if metric == PARTIAL else float(mean_of_means(self.tables[metric]))

    def by_story(self, metric: str) -> NDArray[np.float64]:
        """The values of a metric by story; of turning points the mean over those that are
        counted."""
        return np.asarray(mean_of_means(self.tables[metric][:, None, :]))


@dataclass(frozen=True)
class Row:
    """A row of a table: a scorer with an operation, or a baseline, in one or more runs.

    Attributes:
        data: the name of the labelled stories.
        scorer: the name of the encoder or baseline.
        operation: the operation; None for a baseline.
        runs: the values of each run.
        metrics: the keys of the metrics, the main metric first.
    """

    data: str
    scorer: str
    operation: str | None
    runs: Sequence[RunValues]
    metrics: Sequence[str]
    _intervals: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)
    _p_values: dict[tuple[str, str], float] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The name by which the row is chosen: `SCORER OPERATION`, or the baseline."""
        return self.scorer if self.operation is None else f"{self.scorer} {self.operation}"

    @property
    def is_people(self) -> bool:
        """Whether this is the agreement of people with each other."""
        return self.scorer in PEOPLE

    @cached_property
    def median_run(self) -> RunValues:
        """The run whose main metric is the median; of an even number of runs the lower of the two
        in the middle."""
        values = [run.value(self.metrics[0]) for run in self.runs]
        order = sorted(
            range(len(values)), key=lambda i: -math.inf if math.isnan(values[i]) else values[i]
        )
        return self.runs[order[(len(order) - 1) // 2]]

    def mean(self, metric: str) -> float:
        """The mean of a metric over runs."""
        return float(np.mean([run.value(metric) for run in self.runs]))

    def sd(self, metric: str) -> float | None:
        """The standard deviation of a metric over runs, with n - 1; None for a single run."""
        return (
            float(np.std([run.value(metric) for run in self.runs], ddof=1))
            if len(self.runs) > 1
            else None
        )

    def points(self, metric: str) -> list[float]:
        """The means of a metric for each turning point, over stories and runs."""
        return [
            float(np.mean([mean_of_means(run.tables[metric][:, [k]]) for run in self.runs]))
            for k in range(self.median_run.tables[metric].shape[1])
        ]

    def counted(self, metric: str) -> int:
        """How many values the mean of a run is over: stories, or turning points."""
        return int((~np.isnan(self.median_run.tables[metric])).sum())

    def interval(self, metric: str) -> tuple[float, float]:
        """The 95 % bootstrap interval over stories of a metric, of the median run."""
        if metric not in self._intervals:
            self._intervals[metric] = bootstrap_interval(self.median_run.tables[metric])
        return self._intervals[metric]

    def p_value(self, other: Row, metric: str) -> float:
        """The p-value of the difference to another row, by a two-tailed paired permutation test
        over stories, of the median runs."""
        key = other.name, metric
        if key not in self._p_values:
            own, others = self.median_run.by_story(metric), other.median_run.by_story(metric)
            self._p_values[key] = paired_permutation_test(own, others)
        return self._p_values[key]


def make_rows(
    data: LabelledStories,
    scorer: str,
    is_encoder: bool,
    runs: Sequence[Scores],
    rule: Rule = "numbered",
) -> Iterator[Row]:
    """The rows of a scorer: one for each of its operations."""
    for name in runs[0].values:
        values = [run_values(data, scores.run, scores.values[name], rule) for scores in runs]
        yield Row(
            data.name,
            scorer,
            name if is_encoder else None,
            values,
            metrics_of(data.points is not None),
        )


def people_rows(data: LabelledStories) -> Iterator[Row]:
    """The rows of human agreement that can be computed: the ceiling of what scores can reach."""
    if data.second is not None:
        yield from make_rows(
            data, PEOPLE[0], False, [Scores("second group", {PEOPLE[0]: data.second})]
        )
    if any(len(annotations or ()) > 1 for annotations in data.annotations or ()):
        tables = {
            key: np.array(
                [[_leave_one_out(metric, annotations)] for annotations in data.annotations or ()]
            )
            for key, metric in METRICS.items()
        }
        runs = [RunValues("annotators", tables, math.nan)]
        yield Row(data.name, PEOPLE[1], None, runs, metrics_of(turning_points=False))


def _leave_one_out(metric: Metric, annotations: Sequence[Sequence[float]] | None) -> float:
    """Of each annotator of a story against the mean of the others, the mean of a metric where it is
    defined."""
    labels = np.array(annotations if annotations is not None else [], np.float64)
    if len(labels) < 2:
        return math.nan
    others = [np.delete(labels, i, axis=0).mean(axis=0) for i in range(len(labels))]
    return mean(metric.function(own, rest) for own, rest in zip(labels, others, strict=True)).value


def metrics_of(turning_points: bool) -> tuple[str, ...]:
    """The keys of the metrics, the main metric first, of turning points or of other labels."""
    return ("auc", PARTIAL) if turning_points else (*METRICS, PARTIAL)


def run_values(
    data: LabelledStories,
    run: str,
    scores: Sequence[Sequence[float] | None],
    rule: Rule = "numbered",
) -> RunValues:
    """The values of the metrics of one run. Stories without scores are undefined."""
    tables: dict[str, NDArray[np.float64]]
    if data.points is None:
        tables = {
            key: np.array(
                [
                    [math.nan if story is None else metric.function(story, labels)]
                    for story, labels in zip(scores, data.labels, strict=True)
                ]
            )
            for key, metric in METRICS.items()
        }
    else:
        tables = {
            "auc": np.array(
                [
                    (
                        [math.nan] * len(points)
                        if story_scores is None
                        else turning_point_areas(story_scores, story.windows, points, rule)
                    )
                    for story, story_scores, points in zip(
                        data.stories, scores, data.points, strict=True
                    )
                ]
            )
        }
    return RunValues(run, tables, _partial(data, scores))


def _partial(data: LabelledStories, scores: Sequence[Sequence[float] | None]) -> float:
    """Spearman of scores and labels given position and length (in words), with ranks within
    windows."""
    total = np.zeros((4, 4))
    for story, story_scores, labels in zip(data.stories, scores, data.labels, strict=True):
        if story_scores is None:
            continue
        lengths = [len(sentence.split()) for sentence in story.sentences]
        for lo, hi in story.windows:
            if hi - lo > 1:
                total += rank_products(
                    story_scores[lo:hi], labels[lo:hi], (range(lo, hi), lengths[lo:hi])
                )
    return partial_correlation(total)
