"""The comparison of encoders and baselines with human labels, in one table for each set of labelled
stories."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.evaluation.metrics import METRICS, label_entropy, mean
from narrative_twins.evaluation.rows import PARTIAL, Row, metrics_of
from narrative_twins.evaluation.tables import (
    Cell,
    Table,
    figure,
    figure_and_spread,
    interval,
    p_value,
)
from narrative_twins.plots.intervals import intervals_figure
from narrative_twins.plots.style import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHA = 0.05
"""The level of significance."""


@dataclass(frozen=True)
class DataSummary:
    """What is known of labelled stories without any scores.

    Attributes:
        name, stories, sentences: the name, and how many stories and sentences there are.
        points_per_story: the number of turning points of a story; 0 for other labels.
        left_out: of these, how many are outside of the window with their number; 0 if they are
            scored all the same.
        entropy: the mean entropy of the labels of a story in bits; None for turning points.
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
        left_out, points = 0, data.points
        if points is not None and rule == "numbered":
            windows = [story.windows for story in data.stories]
            pairs = [
                pair
                for spans, marks in zip(windows, points, strict=True)
                for pair in zip(spans, marks, strict=True)
            ]
            left_out = sum(not lo <= mark < hi for (lo, hi), mark in pairs)
        entropy = None if points is not None else mean(map(label_entropy, data.labels)).value
        per_story = 0 if points is None else len(points[0])
        return cls(data.name, len(data), sum(map(len, data.stories)), per_story, left_out, entropy)

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
                f", {number:,} turning points, of which {self.left_out:,}"
                f" ({self.left_out / number:.1%}) are "
            )
            text += "outside of the window of their number and left out"
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
        return best_rows(self.rows_of(data), metric)

    def to_dict(self) -> dict[str, Any]:
        """All figures and the values of all stories as JSON data; None for what is undefined."""
        data = [
            {**vars(summary), "perplexity": summary.perplexity, "against": self.against}
            for summary in self.summaries
        ]
        notes = [{"data": name, "note": note} for name, note in self.notes]
        return {"data": data, "rows": [self._row(row) for row in self.rows], "notes": notes}

    def _row(self, row: Row) -> dict[str, Any]:
        metrics = {}
        for metric in row.metrics:
            tested = metric in row.median_run.tables
            metrics[metric] = {
                "mean": _number(row.mean(metric)),
                "sd": None if row.sd(metric) is None else _number(row.sd(metric)),
                "interval": [_number(limit) for limit in row.interval(metric)] if tested else None,
                "p": _number(self.p_value(row, metric)) if tested else None,
                "counted": row.counted(metric) if tested else None,
                "turning_points": (
                    list(map(_number, row.points(metric)))
                    if tested and _has_points(row, metric)
                    else None
                ),
            }
        runs = [
            {
                "run": run.run,
                **{metric: _number(run.value(metric)) for metric in row.metrics},
                "values": {metric: _column(table) for metric, table in run.tables.items()},
            }
            for run in row.runs
        ]
        start = {
            "data": row.data,
            "name": row.name,
            "scorer": row.scorer,
            "operation": row.operation,
        }
        return start | {"median_run": row.median_run.run, "metrics": metrics, "runs": runs}

    def tables(self) -> list[Table]:
        """A table for each set of labelled stories."""
        return [self._table(summary) for summary in self.summaries]

    def _table(self, summary: DataSummary) -> Table:
        rows = self.rows_of(summary.name)
        metrics = metrics_of(summary.points_per_story > 0)
        tested = [metric for metric in metrics if metric != PARTIAL]
        points = range(summary.points_per_story)
        columns = ["", *(f"TP{k + 1}" for k in points)]
        for metric in tested:
            columns += [METRICS[metric].label, "95 % interval"]
        columns += ["given position and length"] + ["p"] * (self.against is not None)
        best = {metric: self.best(summary.name, metric) for metric in tested}
        lines = []
        for row in rows:
            cells = [
                Cell(row.name),
                *(Cell(figure(value)) for value in (row.points("auc") if points else [])),
            ]
            for metric in tested:
                text = figure_and_spread(row.mean(metric), row.sd(metric))
                cells += [
                    Cell(text, row.name in best[metric]),
                    Cell(interval(row.interval(metric))),
                ]
            cells.append(Cell(figure(row.mean(PARTIAL))))
            if self.against is not None:
                cells.append(Cell(p_value(self.p_value(row, metrics[0]))))
            lines.append(cells)
        return Table(
            f"{summary.name}: {summary.text}.",
            columns,
            lines,
            self._notes(summary, rows, metrics[0]),
        )

    def plot(self, data: str, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot the main metric of all rows of a set of stories with its intervals, best first; see
        `save_figure` for the path and the errors. matplotlib is needed."""
        rows = sorted(
            self.rows_of(data),
            key=lambda row: -np.nan_to_num(row.mean(row.metrics[0]), nan=-np.inf),
        )
        metric = METRICS[rows[0].metrics[0]]
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

    def _notes(self, summary: DataSummary, rows: Sequence[Row], main: str) -> list[str]:
        """What the columns of a table mean."""
        label = METRICS[main].label
        notes = [
            "Intervals are bootstraps over stories. Bold: the best, and what does not differ"
            " significantly from it (paired permutation test over stories, p ≥ 0.05)."
        ]
        if any(len(row.runs) > 1 for row in rows):
            notes.append(
                "Of several runs: mean ± standard deviation; intervals and tests are those of the"
                " median run."
            )
        if self.against is not None:
            notes.append(f"p: difference in {label} to {self.against}, by the same test.")
        notes.append(
            "Given position and length: Spearman with what position and number of words explain"
            " taken out of both ranks; empty if they explain all."
        )
        return [" ".join(notes), *(note for name, note in self.notes if name == summary.name)]


def best_rows(rows: Iterable[Row], metric: str) -> set[str]:
    """The names of the rows that are best by a metric, see `Comparison.best`."""
    compared = [row for row in rows if not row.is_people and not math.isnan(row.mean(metric))]
    if not compared:
        return set()
    first = max(compared, key=lambda row: row.mean(metric))
    return {row.name for row in compared if row is first or row.p_value(first, metric) >= ALPHA}


def _has_points(row: Row, metric: str) -> bool:
    return len(row.points(metric)) > 1


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _column(table: Any) -> list[Any]:
    """Values by story: numbers, or lists of the numbers of its turning points."""
    values = [[_number(value) for value in story] for story in np.asarray(table)]
    return values if table.shape[1] > 1 else [story[0] for story in values]
