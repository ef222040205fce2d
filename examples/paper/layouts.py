"""Tables of a comparison in the layouts of papers: chosen rows under names of one's own, with empty
cells for rows that the comparison does not have. As in the paper, only the best row of a table is
bold, and standard deviations are over n."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from narrative_twins.evaluation.comparison import PARTIAL, Comparison, Row, metrics_of, ranked_rows
from narrative_twins.evaluation.metrics import METRICS
from narrative_twins.evaluation.tables import Cell, Table, figure, figure_and_spread

BOLD = "Bold: the best of the table."
SEVERAL_RUNS = "Of several runs: mean ± standard deviation (over n)."


@dataclass(frozen=True)
class Line:
    """A line of a table: its name there, and the scorer and operation of its row; no operation for
    baselines."""

    name: str
    scorer: str
    operation: str | None = None


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
    chosen = {
        (name, operation): _row(comparison, data, Line(name, scorer, operation))
        for name, scorer in scorers.items()
        for operation in operations
    }
    best = _best(chosen.values(), metrics)
    lines = [
        [Cell(name)]
        + [
            _cell(chosen[name, operation], metric, best)
            for operation in operations
            for metric in metrics
        ]
        for name in scorers
    ]
    columns = ["", *[METRICS[metric].label for _ in operations for metric in metrics]]
    groups = [("", 1), *((operation, len(metrics)) for operation in operations)]
    return Table(caption, columns, lines, _notes(chosen.values()), groups)


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
    found = {line: _row(comparison, data, line) for lines in sections.values() for line in lines}
    best = _best(found.values(), metrics)
    for heading, lines in sections.items():
        rows += [[Cell(heading)]] * bool(heading)
        for line in lines:
            row = found[line]
            by_point = row.points("auc") if row and points else [None] * points
            cells = [Cell(figure(value)) for value in by_point]
            rows.append(
                [Cell(line.name), *cells, *(_cell(row, metric, best) for metric in metrics)]
            )
    return Table(caption, columns, rows, _notes(found.values()))


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


def _row(comparison: Comparison, data: str, line: Line) -> Row | None:
    """The row of a line; None if the comparison does not have it."""
    rows = comparison.rows_of(data)
    return next(
        (row for row in rows if (row.scorer, row.operation) == (line.scorer, line.operation)), None
    )


def _best(rows: Iterable[Row | None], metrics: Iterable[str]) -> set[tuple[str, str]]:
    """The name of the best row of a table by each metric, with the metric."""
    found = [row for row in rows if row is not None]
    return {(row.name, metric) for metric in metrics for row in ranked_rows(found, metric)[:1]}


def _cell(row: Row | None, metric: str, best: set[tuple[str, str]]) -> Cell:
    if row is None:
        return Cell("")
    text = figure_and_spread(row.mean(metric), row.sd(metric, ddof=0))
    return Cell(text, (row.name, metric) in best)


def _notes(rows: Iterable[Row | None]) -> list[str]:
    """What bold and spreads mean; nothing if all cells are empty."""
    found = [row for row in rows if row is not None]
    several = any(len(row.runs) > 1 for row in found)
    return [" ".join([BOLD] + [SEVERAL_RUNS] * several)] if found else []
