"""Tables of a comparison in the layouts of papers: chosen rows under names of one's own, with empty
cells for rows that the comparison does not have. As in the paper, only the best row of a table is
bold, and standard deviations are over n."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from narrative_twins.evaluation.comparison import PARTIAL, PEOPLE, Comparison, metrics_of
from narrative_twins.evaluation.metrics import METRICS
from narrative_twins.evaluation.tables import Cell, Table, figure, figure_and_spread

BOLD = "Bold: the best of the table."
SEVERAL_RUNS = "Of several runs: mean ± standard deviation (over n)."


@dataclass(frozen=True)
class Line:
    """A line of a table: its name there, and its scorer and operation in the comparison; no
    operation for baselines."""

    name: str
    scorer: str
    operation: str | None = None


def mean_and_sd(
    comparison: Comparison, data: str, line: Line, metric: str
) -> tuple[float, float | None] | None:
    """The mean of a metric over the runs of a line, and the standard deviation over n, None of a
    single run; None if the comparison does not have the line."""
    keys = ["data", "scorer", "operation", "metric"]
    is_line = comparison.runs[keys] == [data, line.scorer, line.operation or "", metric]
    values = comparison.runs["value"][is_line.all(axis=1)].to_numpy(float)
    if not values.size:
        return None
    return float(np.mean(values)), float(np.std(values)) if values.size > 1 else None


def wide_table(
    comparison: Comparison,
    data: str,
    scorers: Mapping[str, str],
    operations: Sequence[str],
    caption: str,
) -> Table:
    """A line for each scorer, and for each operation a group of columns with all metrics.

    Args:
        comparison: the result of `evaluate`.
        data: the name of a set of labelled stories.
        scorers: names of lines, with the scorer of each.
        operations: the names of the operations.
        caption: of the table.

    Raises:
        ValueError: the comparison has no such stories.
    """
    metrics = _metrics(comparison, data)
    lines = {
        name: [Line(name, scorer, operation) for operation in operations]
        for name, scorer in scorers.items()
    }
    cells = _cells(comparison, data, [line for row in lines.values() for line in row], metrics)
    rows = [
        [Cell(name), *(cells[line, metric] for line in row for metric in metrics)]
        for name, row in lines.items()
    ]
    columns = ["", *[METRICS[metric].label for _ in operations for metric in metrics]]
    groups = [("", 1), *((operation, len(metrics)) for operation in operations)]
    return Table(caption, columns, rows, _notes(cells.values()), groups)


def long_table(
    comparison: Comparison, data: str, sections: Mapping[str, Sequence[Line]], caption: str
) -> Table:
    """A line for each row of a comparison, and a column for each metric; for turning points a
    column for each of them and one for their mean.

    Args:
        comparison: the result of `evaluate`.
        data: the name of a set of labelled stories.
        sections: headings, with the lines below each; an empty heading is left out.
        caption: of the table.

    Raises:
        ValueError: the comparison has no such stories.
    """
    metrics = _metrics(comparison, data)
    points = next(
        summary.points_per_story for summary in comparison.summaries if summary.name == data
    )
    labels = ["mean AUC"] if points else [METRICS[metric].label for metric in metrics]
    columns = ["", *(f"TP{k + 1}" for k in range(points)), *labels]
    rows: list[list[Cell]] = []
    cells = _cells(comparison, data, [each for part in sections.values() for each in part], metrics)
    for heading, lines in sections.items():
        rows += [[Cell(heading)]] * bool(heading)
        for line in lines:
            by_point: Sequence[float | None] = [None] * points
            if points and cells[line, metrics[0]].text:
                by_point = comparison.by_point(data, line.scorer, line.operation or "")
            areas = [Cell(figure(value)) for value in by_point]
            rows.append([Cell(line.name), *areas, *(cells[line, metric] for metric in metrics)])
    return Table(caption, columns, rows, _notes(cells.values()))


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
    """The cells of lines by metric; the best line by each metric is bold. People are not
    compared."""
    cells = {}
    for metric in metrics:
        values = {line: mean_and_sd(comparison, data, line, metric) for line in lines}
        means = [
            value[0]
            for line, value in values.items()
            if value and line.scorer not in PEOPLE and not math.isnan(value[0])
        ]
        for line, value in values.items():
            is_best = bool(value and means and value[0] == max(means)) and line.scorer not in PEOPLE
            cells[line, metric] = Cell(figure_and_spread(*value) if value else "", is_best)
    return cells


def _notes(cells: Iterable[Cell]) -> list[str]:
    """What bold and spreads mean; nothing if all cells are empty."""
    texts = [cell.text for cell in cells if cell.text]
    several = any("±" in text for text in texts)
    return [" ".join([BOLD] + [SEVERAL_RUNS] * several)] if texts else []
