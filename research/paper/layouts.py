"""Tables of a comparison in the layouts of papers: chosen rows under names of one's own, with empty
cells for rows that the comparison does not have. As in the paper, what is significantly better than
most others below the same heading is bold, and standard deviations are over n - 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from output import sample_sd

from narrative_twins.evaluation.comparison import (
    ALPHA,
    PARTIAL,
    PEOPLE,
    Comparison,
    line_name,
    metrics_of,
)
from narrative_twins.evaluation.metrics import METRICS
from narrative_twins.evaluation.tables import Cell, Table, figure_and_spread

BOLD = (
    "Bold: significantly better than most of the other cells of this metric below the same heading"
    " (paired permutation test over stories, p < 0.05)."
)
SEVERAL_RUNS = "Of several runs: mean ± standard deviation (over n - 1)."
OVER_ALL = "Over all: the mean over all turning points, of which windows have different numbers."


@dataclass(frozen=True)
class Line:
    """A line of a table: its name there, and its scorer and operation in the comparison; no
    operation for baselines."""

    name: str
    scorer: str
    operation: str | None = None

    @property
    def key(self) -> str:
        """Its name in the comparison."""
        return line_name(self.scorer, self.operation or "")


def mean_and_sd(
    comparison: Comparison, data: str, line: Line, metric: str
) -> tuple[float, float | None] | None:
    """The mean of a metric over the runs of a line, and the standard deviation over n - 1, None of a
    single run; None if the comparison does not have the line."""
    keys = ["data", "scorer", "operation", "metric"]
    is_line = comparison.runs[keys] == [data, line.scorer, line.operation or "", metric]
    return _mean_and_sd(comparison.runs["value"][is_line.all(axis=1)].to_numpy(float))


def _mean_and_sd(values: Sequence[float]) -> tuple[float, float | None] | None:
    if not len(values):
        return None
    return float(np.mean(values)), sample_sd(values).item() if len(values) > 1 else None


def wide_table(
    comparison: Comparison,
    data: str,
    sections: Mapping[str, Sequence[Line]],
    operations: Sequence[str],
    caption: str,
) -> Table:
    """A line for each scorer, and for each operation a group of columns with all metrics.

    Args:
        comparison: the result of `evaluate`.
        data: the name of a set of labelled stories.
        sections: headings, with the lines below each; an empty heading is left out.
        operations: the names of the operations.
        caption: of the table.

    Raises:
        ValueError: the comparison has no such stories.
    """
    metrics = _metrics(comparison, data)
    rows: list[list[Cell]] = []
    for heading, scorers in sections.items():
        rows += [[Cell(heading)]] * bool(heading)
        lines = [
            [Line(line.name, line.scorer, operation) for operation in operations]
            for line in scorers
        ]
        cells = _cells(comparison, data, [line for row in lines for line in row], metrics)
        for row in lines:
            rows.append(
                [Cell(row[0].name), *(cells[line, metric] for line in row for metric in metrics)]
            )
    columns = ["", *[METRICS[metric].label for _ in operations for metric in metrics]]
    groups = [("", 1), *((operation, len(metrics)) for operation in operations)]
    return Table(caption, columns, rows, _notes(rows), groups)


def long_table(
    comparison: Comparison,
    data: str,
    sections: Mapping[str, Sequence[Line]],
    caption: str,
    points: bool = True,
) -> Table:
    """A line for each row of a comparison, and a column for each metric; for turning points a
    column for each of them, one for their mean and one for the mean over all.

    Args:
        comparison: the result of `evaluate`.
        data: the name of a set of labelled stories.
        sections: headings, with the lines below each; an empty heading is left out.
        caption: of the table.
        points: whether there is a column for each turning point.

    Raises:
        ValueError: the comparison has no such stories.
    """
    metrics = _metrics(comparison, data)
    number = next(each.points_per_story for each in comparison.summaries if each.name == data)
    columns = [METRICS[metric].label for metric in metrics]
    if number:
        names = [f"TP{k + 1}" for k in range(number)] if points else []
        columns = [*names, "mean AUC", "over all"]
    rows: list[list[Cell]] = []
    by_point, over_all = _turning_points(comparison, data)
    for heading, lines in sections.items():
        rows += [[Cell(heading)]] * bool(heading)
        cells = _cells(comparison, data, lines, metrics)
        for line in lines:
            own = [cells[line, metric] for metric in metrics]
            if number:
                place = line.scorer, line.operation or ""
                found = by_point.loc[[place]] if place in by_point.index else by_point[:0]
                areas = [found[k].to_numpy() for k in by_point.columns] if points else []
                all_ = over_all.loc[[place]].to_numpy() if len(found) else []
                areas = areas if found.size else [[]] * len(names)
                own = [*map(_area, areas), *own, _area(all_)]
            rows.append([Cell(line.name), *own])
    notes = _notes(rows)
    return Table(caption, ["", *columns], rows, [*notes, OVER_ALL] if number and notes else notes)


def _area(values: Sequence[float]) -> Cell:
    """The mean of the runs of a line with its spread."""
    return Cell(figure_and_spread(*(_mean_and_sd(values) or (None, None))))


def _turning_points(comparison: Comparison, data: str) -> tuple[pd.DataFrame, pd.Series]:
    """By scorer and operation, a row for each run: the mean AUC of each turning point, and the mean
    over all turning points."""
    values = comparison.values
    values = values[(values["data"] == data) & (values["metric"] == "auc")]
    runs = ["scorer", "operation", "run"]
    by_point = values.groupby([*runs, "point"])["value"].mean().unstack("point")
    over_all = values.groupby(runs)["value"].mean()
    return by_point.droplevel("run"), over_all.droplevel("run")


def _metrics(comparison: Comparison, data: str) -> list[str]:
    """The metrics of a set of stories that are tested."""
    for summary in comparison.summaries:
        if summary.name == data:
            return [
                metric for metric in metrics_of(summary.points_per_story > 0) if metric != PARTIAL
            ]
    raise ValueError(
        f"there are no stories {data!r}; choose from"
        f" {', '.join(s.name for s in comparison.summaries)}"
    )


def _cells(
    comparison: Comparison, data: str, lines: Sequence[Line], metrics: Sequence[str]
) -> dict[tuple[Line, str], Cell]:
    """The cells of the lines below a heading by metric."""
    cells = {}
    for metric in metrics:
        values = {line: mean_and_sd(comparison, data, line, metric) for line in lines}
        means = {line: value[0] for line, value in values.items() if value}
        best = better_than_most(comparison, data, metric, means)
        for line, value in values.items():
            cells[line, metric] = Cell(figure_and_spread(*value) if value else "", line in best)
    return cells


def better_than_most(
    comparison: Comparison, data: str, metric: str, means: Mapping[Line, float]
) -> set[Line]:
    """The lines, of those with these means, that are better than more than half of the others, each
    by a significant difference. People are not compared."""
    compared = {
        line: mean
        for line, mean in means.items()
        if line.scorer not in PEOPLE and not math.isnan(mean)
    }
    best = set()
    for line, mean in compared.items():
        lower = [other.key for other, value in compared.items() if value < mean]
        if 2 * len(lower) >= len(compared):
            p_values = comparison.tests(data, metric, line.key, lower)
            if 2 * sum(p < ALPHA for p in p_values.values()) > len(compared) - 1:
                best.add(line)
    return best


def _notes(rows: Iterable[Sequence[Cell]]) -> list[str]:
    """What bold and spreads mean; nothing if all cells are empty."""
    texts = [cell.text for _, *cells in rows for cell in cells if cell.text]
    several = any("±" in text for text in texts)
    return [" ".join([BOLD] + [SEVERAL_RUNS] * several)] if texts else []
