"""The comparison of encoders and baselines with human labels: the values of the metrics of every
story and run, a row for each scorer, and a table for each set of labelled stories."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.evaluation.agreement import Rule, turning_point_areas
from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.evaluation.metrics import (
    METRICS,
    label_entropy,
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
from narrative_twins.evaluation.tables import (
    Cell,
    Table,
    figure,
    figure_and_spread,
    interval,
    p_value,
)
from narrative_twins.plots.figures import intervals_figure
from narrative_twins.plots.style import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEOPLE = ("people, second group", "people, one of them")
"""The names of the rows of human agreement: a second group of annotators against the first, and
each annotator against the mean of the others."""
PARTIAL = "partial"
"""The key of the partial Spearman correlation given position and length."""
ALPHA = 0.05
"""The level of significance."""


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
        """The mean of a metric over stories; of turning points the mean of their means."""
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
    _computed: dict[Any, Any] = field(default_factory=dict, repr=False)

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
        values = np.nan_to_num([run.value(self.metrics[0]) for run in self.runs], nan=-np.inf)
        order = np.argsort(values, kind="stable")
        return self.runs[int(order[(len(order) - 1) // 2])]

    def mean(self, metric: str) -> float:
        """The mean of a metric over runs."""
        return float(np.mean([run.value(metric) for run in self.runs]))

    def sd(self, metric: str, ddof: int = 1) -> float | None:
        """The standard deviation of a metric over n runs, with n - `ddof`; None for a single
        run."""
        values = [run.value(metric) for run in self.runs]
        return float(np.std(values, ddof=ddof)) if len(values) > 1 else None

    def points(self, metric: str) -> list[float]:
        """The means of a metric for each turning point, over stories and runs."""
        # A column for each turning point, by which the mean of means is taken of one.
        means = [mean_of_means(run.tables[metric].T[:, :, None]) for run in self.runs]
        return np.mean(means, axis=0).tolist()  # type: ignore[no-any-return]

    def counted(self, metric: str) -> int:
        """The number of stories, or turning points, that the mean of a run is over."""
        return int((~np.isnan(self.median_run.tables[metric])).sum())

    def interval(self, metric: str) -> tuple[float, float]:
        """The 95 % bootstrap interval over stories of a metric, of the median run."""
        if metric not in self._computed:
            self._computed[metric] = bootstrap_interval(self.median_run.tables[metric])
        limits: tuple[float, float] = self._computed[metric]
        return limits

    def p_value(self, other: Row, metric: str) -> float:
        """The p-value of the difference to another row, by a two-tailed paired permutation test
        over stories, of the median runs."""
        key = other.name, metric
        if key not in self._computed:
            self._computed[key] = paired_permutation_test(
                self.median_run.by_story(metric), other.median_run.by_story(metric)
            )
        return float(self._computed[key])

    def to_dict(self, against: Row | None) -> dict[str, Any]:
        """All figures and the values of all stories as JSON data, see `Comparison.to_dict`."""
        metrics = {}
        for metric in self.metrics:
            figures: dict[str, Any] = {"mean": self.mean(metric), "sd": self.sd(metric)}
            figures |= dict.fromkeys(("interval", "p", "counted", "turning_points"))
            if metric != PARTIAL:
                points = self.points(metric)
                figures["interval"] = self.interval(metric)
                if against is not None and against is not self:
                    figures["p"] = self.p_value(against, metric)
                figures["counted"] = self.counted(metric)
                figures["turning_points"] = points if len(points) > 1 else None
            metrics[metric] = figures
        runs = []
        for run in self.runs:
            values = {
                metric: (table if table.shape[1] > 1 else table[:, 0]).tolist()
                for metric, table in run.tables.items()
            }
            figures = {metric: run.value(metric) for metric in self.metrics}
            runs.append({"run": run.run, **figures, "values": values})
        return {
            "data": self.data,
            "name": self.name,
            "scorer": self.scorer,
            "operation": self.operation,
            "median_run": self.median_run.run,
            "metrics": metrics,
            "runs": runs,
        }


def metrics_of(turning_points: bool) -> tuple[str, ...]:
    """The keys of the metrics, the main metric first, of turning points or of other labels."""
    return ("auc", PARTIAL) if turning_points else (*METRICS, PARTIAL)


def make_rows(
    data: LabelledStories,
    scorer: str,
    is_encoder: bool,
    runs: Sequence[Scores],
    rule: Rule = "numbered",
) -> Iterator[Row]:
    """The rows of a scorer: one for each of its operations."""
    metrics = metrics_of(data.points is not None)
    for name in runs[0].values:
        values = [_run_values(data, scores.run, scores.values[name], rule) for scores in runs]
        yield Row(data.name, scorer, name if is_encoder else None, values, metrics)


def _run_values(
    data: LabelledStories, run: str, scores: Sequence[Sequence[float] | None], rule: Rule
) -> RunValues:
    """The values of the metrics of one run. Stories without scores are undefined."""
    tables: dict[str, NDArray[np.float64]] = {}
    if data.points is not None:
        areas = [
            [math.nan] * len(points)
            if story_scores is None
            else turning_point_areas(story_scores, story.windows, points, rule)
            for story, story_scores, points in zip(data.stories, scores, data.points, strict=True)
        ]
        tables["auc"] = np.array(areas)
    else:
        for key, metric in METRICS.items():
            values = [
                math.nan if story_scores is None else metric.function(story_scores, labels)
                for story_scores, labels in zip(scores, data.labels, strict=True)
            ]
            tables[key] = np.array(values)[:, None]
    # Spearman given position and length (in words), with ranks within windows.
    products = np.zeros((4, 4))
    for story, story_scores, labels in zip(data.stories, scores, data.labels, strict=True):
        lengths = [len(sentence.split()) for sentence in story.sentences]
        for lo, hi in story.windows:
            if story_scores is not None and hi - lo > 1:
                products += rank_products(
                    story_scores[lo:hi], labels[lo:hi], (range(lo, hi), lengths[lo:hi])
                )
    return RunValues(run, tables, partial_correlation(products))


def people_rows(data: LabelledStories) -> Iterator[Row]:
    """The rows of human agreement that can be computed: the ceiling of what scores can reach."""
    if data.second is not None:
        scores = Scores("second group", {PEOPLE[0]: data.second})
        (row,) = make_rows(data, PEOPLE[0], False, [scores])
        # As in the figures of the paper, both metrics are over the same stories.
        tables = row.runs[0].tables
        tables["auc"][np.isnan(tables["spearman"])] = math.nan
        yield row
    by_story = [np.array(labels or (), np.float64) for labels in data.annotations or ()]
    if any(len(labels) > 1 for labels in by_story):
        tables = {}
        for key, metric in METRICS.items():
            # Each annotator against the mean of the others, averaged over annotators.
            values = [
                mean(
                    metric.function(own, np.delete(labels, i, axis=0).mean(axis=0))
                    for i, own in enumerate(labels)
                    if len(labels) > 1
                ).value
                for labels in by_story
            ]
            tables[key] = np.array(values)[:, None]
        runs = [RunValues("annotators", tables, math.nan)]
        yield Row(data.name, PEOPLE[1], None, runs, metrics_of(turning_points=False))


def ranked_rows(rows: Iterable[Row], metric: str) -> list[Row]:
    """The rows by their mean of a metric, the best first; without rows of people and those that are
    undefined."""
    compared = [row for row in rows if not row.is_people and not math.isnan(row.mean(metric))]
    return sorted(compared, key=lambda row: -row.mean(metric))


@dataclass(frozen=True)
class DataSummary:
    """What is known of labelled stories without any scores.

    Attributes:
        name, stories, sentences: the name, and how many stories and sentences there are.
        points_per_story: the number of turning points of a story; 0 for other labels.
        left_out: of these, how many are outside of the window with their number; 0 if they are
            scored all the same.
        entropy: the mean entropy of the labels of a story in bits; None for turning points, and if
            a label is negative.
    """

    name: str
    stories: int
    sentences: int
    points_per_story: int
    left_out: int
    entropy: float | None

    @classmethod
    def of(cls, data: LabelledStories, rule: str) -> DataSummary:
        """Summarize labelled stories."""
        counts = data.name, len(data), sum(map(len, data.stories))
        if data.points is None:
            if any(label < 0 for labels in data.labels for label in labels):
                return cls(*counts, 0, 0, None)
            return cls(*counts, 0, 0, mean(map(label_entropy, data.labels)).value)
        left_out = 0
        if rule == "numbered":
            for story, points in zip(data.stories, data.points, strict=True):
                windows = zip(story.windows, points, strict=True)
                left_out += sum(not lo <= point < hi for (lo, hi), point in windows)
        return cls(*counts, len(data.points[0]), left_out, None)

    @property
    def perplexity(self) -> float | None:
        """Two to the power of the mean entropy: among how many sentences of a story annotators
        hesitate."""
        return None if self.entropy is None else float(2**self.entropy)

    @property
    def text(self) -> str:
        """The summary in words."""
        text = f"{self.stories:,} stories, {self.sentences:,} sentences"
        if self.points_per_story:
            number = self.stories * self.points_per_story
            text += (
                f", {number:,} turning points, {self.left_out:,} of them"
                f" ({self.left_out / number:.1%}) left out because they are outside of the window"
                " with their number"
            )
        if self.entropy is not None:
            text += (
                f"; entropy of the labels {self.entropy:.2f} bits, perplexity {self.perplexity:.2f}"
            )
        return text


@dataclass(frozen=True)
class Comparison:
    """The result of `evaluate`: a row for each encoder with each operation, and for each baseline.

    Attributes:
        summaries: of each set of labelled stories.
        rows: of all sets.
        against: the name of the row that all others are tested against, if any.
        notes: what to know about the figures of a set of stories: its name, and for example how
            many stories did not fit a context.
    """

    summaries: Sequence[DataSummary]
    rows: Sequence[Row]
    against: str | None = None
    notes: Sequence[tuple[str, str]] = ()

    def rows_of(self, data: str) -> list[Row]:
        """The rows of a set of labelled stories."""
        return [row for row in self.rows if row.data == data]

    def row(self, data: str, name: str) -> Row:
        """The row with a name, such as `default summarization` or `trail`; a `ValueError` if there
        is none."""
        found = {row.name: row for row in self.rows_of(data)}
        if name not in found:
            raise ValueError(
                f"there is no row {name!r} for {data}; choose from {', '.join(map(repr, found))}"
            )
        return found[name]

    def p_value(self, row: Row, metric: str) -> float | None:
        """The p-value of a row against the row `against`; None for that row itself, or if there is
        none."""
        if self.against is None or row.name == self.against:
            return None
        return row.p_value(self.row(row.data, self.against), metric)

    def best(self, data: str, metric: str) -> set[str]:
        """The names of the rows that are best by a metric: the highest mean, and all that do not
        differ significantly from it (p of at least 0.05). Rows of people are not compared."""
        rows = ranked_rows(self.rows_of(data), metric)
        return {row.name for row in rows if row is rows[0] or row.p_value(rows[0], metric) >= ALPHA}

    def to_dict(self) -> dict[str, Any]:
        """All figures and the values of all stories as JSON data; None for what is undefined."""
        content = {
            "data": [
                {**asdict(summary), "perplexity": summary.perplexity, "against": self.against}
                for summary in self.summaries
            ],
            "rows": [
                row.to_dict(self.row(row.data, self.against) if self.against else None)
                for row in self.rows
            ],
            "notes": [{"data": name, "note": note} for name, note in self.notes],
        }
        text = json.dumps(content)
        defined: dict[str, Any] = json.loads(text, parse_constant=lambda name: None)
        return defined

    def tables(self) -> list[Table]:
        """A table for each set of labelled stories."""
        return [self._table(summary) for summary in self.summaries]

    def _table(self, summary: DataSummary) -> Table:
        rows = self.rows_of(summary.name)
        points = range(summary.points_per_story)
        main, *others = metrics_of(summary.points_per_story > 0)
        tested = [main, *(metric for metric in others if metric != PARTIAL)]
        columns = ["", *(f"TP{k + 1}" for k in points)]
        for metric in tested:
            columns += [METRICS[metric].label, "95 % interval"]
        columns.append("given position and length")
        if self.against is not None:
            columns.append("p")
        best = {metric: self.best(summary.name, metric) for metric in tested}
        lines = []
        for row in rows:
            cells = [Cell(row.name)]
            if points:
                cells += [Cell(figure(value)) for value in row.points(main)]
            for metric in tested:
                text = figure_and_spread(row.mean(metric), row.sd(metric))
                cells.append(Cell(text, row.name in best[metric]))
                cells.append(Cell(interval(row.interval(metric))))
            cells.append(Cell(figure(row.mean(PARTIAL))))
            if self.against is not None:
                cells.append(Cell(p_value(self.p_value(row, main))))
            lines.append(cells)
        legend = [
            "Intervals are bootstraps over stories.",
            "Bold: the best, and what does not differ significantly from it (paired permutation"
            " test over stories, p ≥ 0.05).",
        ]
        if any(len(row.runs) > 1 for row in rows):
            legend.append(
                "Of several runs: mean ± standard deviation; intervals and tests are those of the"
                " median run."
            )
        if self.against is not None:
            label = METRICS[main].label
            legend.append(f"p: difference in {label} to {self.against}, by the same test.")
        legend.append(
            "Given position and length: Spearman with what position and number of words explain"
            " taken out of both ranks; empty if they explain all."
        )
        notes = [note for name, note in self.notes if name == summary.name]
        caption = f"{summary.name}: {summary.text}."
        return Table(caption, columns, lines, [" ".join(legend), *notes])

    def plot(self, data: str, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot the main metric of all rows of a set of stories with its intervals, best first; see
        `save_figure` for the path and the errors. matplotlib is needed."""
        rows = self.rows_of(data)
        metric = METRICS[rows[0].metrics[0]]
        rows.sort(key=lambda row: -np.nan_to_num(row.mean(metric.key), nan=-np.inf))
        figure = intervals_figure(
            [row.name for row in rows],
            [row.mean(metric.key) for row in rows],
            [row.interval(metric.key) for row in rows],
            title=f"{data}: agreement with people",
            label=f"{metric.label}, with 95 % bootstrap intervals over stories; dashed: chance",
            chance=metric.chance,
        )
        if path is not None:
            save_figure(figure, path)
        return figure
