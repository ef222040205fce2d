"""The comparison of encoders and baselines with human labels: the long table of all values, its
group-bys (each run, means with intervals, tests), and a table for each set of labelled stories."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from narrative_twins.evaluation.labelled_stories import DataSummary
from narrative_twins.evaluation.metrics import METRICS
from narrative_twins.evaluation.significance import (
    bootstrap_interval,
    mean_of_means,
    paired_permutation_tests,
)
from narrative_twins.evaluation.tables import (
    Cell,
    Table,
    figure,
    figure_and_spread,
    interval,
    p_value,
)

LINE = ["data", "scorer", "operation"]
"""The columns that identify a line of a table. The operation is empty for baselines."""
COLUMNS = [*LINE, "run", "metric", "story", "point", "value"]
"""The columns of the long table. `story` is an index, or -1 for a value over all stories; `point`
is the number of a turning point, from 1, or 0 for other labels; `value` is nan if undefined."""
PEOPLE = ("people, second group", "people, one of them")
"""The scorers of human agreement: a second group of annotators against the first, and each
annotator against the mean of the others."""
PARTIAL = "partial"
"""The metric of the partial Spearman correlation given position and length."""

ALPHA = 0.05
"""The level of significance."""
_NOTES = (
    "Intervals are bootstraps over stories.",
    "Bold: the best, and what does not differ significantly from it (paired permutation test over"
    " stories, p ≥ 0.05).",
)
_SEVERAL_RUNS = (
    "Of several runs: mean ± standard deviation; intervals and tests are of the median run."
)
_GIVEN = (
    "Given position and length: Spearman with what position and number of words explain taken out"
    " of both ranks; empty if they explain all."
)


def metrics_of(turning_points: bool) -> tuple[str, ...]:
    """Return the keys of the metrics for turning points or other labels, the main metric first."""
    return ("auc", PARTIAL) if turning_points else (*METRICS, PARTIAL)


def line_name(scorer: str, operation: str) -> str:
    """Return the name of a line of a table: `SCORER OPERATION`, or `SCORER` for a baseline."""
    return f"{scorer} {operation}".strip()


def long_table(
    data: str, scorer: str, operation: str, run: str, values: Mapping[str, NDArray[np.float64]]
) -> pd.DataFrame:
    """Return a table of `COLUMNS` with a row for each number in `values`, which has an array per
    metric: shape (stories, turning points), or (stories, 1) for other labels. The other arguments
    fill the columns of the same names."""
    tables = []
    for metric, array in values.items():
        stories, points = array.shape
        # The partial correlation is one value over all stories, so its story is -1; turning points
        # are numbered from 1.
        story = np.repeat(np.arange(stories) - (metric == PARTIAL), points)
        point = np.tile(np.arange(points) + (points > 1), stories)
        cells = (data, scorer, operation, run, metric, story, point, array.ravel())
        tables.append(pd.DataFrame(dict(zip(COLUMNS, cells, strict=True))))
    return pd.concat(tables, ignore_index=True)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `evaluate`.

    Attributes:
        values: the long table of `COLUMNS`: a row per line, run, metric, story and turning point.
        summaries: a summary of each set of labelled stories.
        against: the name of the line that all other lines are tested against; None for no tests.
        notes: notes on the figures, each after the name of its set of stories, for example how many
            stories did not fit a context.
    """

    values: pd.DataFrame
    summaries: Sequence[DataSummary]
    against: str | None = None
    notes: Sequence[tuple[str, str]] = ()

    @cached_property
    def _arrays(self) -> dict[tuple[str, ...], NDArray[np.float64]]:
        """Arrays of the values, shape (stories, turning points), by line, metric and run."""
        groups = self.values.groupby([*LINE, "metric", "run"], sort=False)
        return {
            key: rows["value"].to_numpy(np.float64).reshape(-1, rows["point"].nunique())
            for key, rows in groups
        }

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A table with a row for each run and metric: `value` is the mean over stories, or, for
        turning points, the mean over turning points of the means over stories."""
        rows = [(*key, float(mean_of_means(array))) for key, array in self._arrays.items()]
        return pd.DataFrame(rows, columns=[*LINE, "metric", "run", "value"])

    @cached_property
    def means(self) -> pd.DataFrame:
        """A table with a row for each line and metric: `name` of the line; `mean` and standard
        deviation `sd` over runs (n - 1; nan for one run); median `run`, its 95 % bootstrap interval
        over stories from `low` to `high`, and the number of its values that are `counted`."""
        rows = []
        for key, values in self.runs.groupby([*LINE, "metric"], sort=False)["value"]:
            _, scorer, operation, metric = key
            array = self._medians[key]
            limits = (math.nan, math.nan) if metric == PARTIAL else bootstrap_interval(array)
            figures = values.mean(), values.std(), self._median_runs[key[:3]], *limits
            counted = int((~np.isnan(array)).sum())
            rows.append((*key, line_name(scorer, operation), *figures, counted))
        columns = [*LINE, "metric", "name", "mean", "sd", "run", "low", "high", "counted"]
        return pd.DataFrame(rows, columns=columns)

    def tests(
        self, data: str, metric: str, other: str, lines: Collection[str] | None = None
    ) -> dict[str, float]:
        """Return by name the p-value of the difference in a metric between the line `other` and
        each of `lines` (None: all), in two-tailed paired permutation tests of median runs over
        stories."""
        values = {
            line_name(scorer, operation): mean_of_means(array[:, None, :])
            for (of, scorer, operation, key), array in self._medians.items()
            if (of, key) == (data, metric)
        }
        names = [name for name in values if name != other and (lines is None or name in lines)]
        tested = paired_permutation_tests([values[name] for name in names], values[other])
        return dict(zip(names, tested, strict=True))

    @cached_property
    def p_values(self) -> dict[tuple[str, str, str], float]:
        """The p-values of all lines against the line `against`, by (data, name of the line,
        metric); empty if `against` is None."""
        pairs = {(data, metric) for data, *_, metric in self._medians if metric != PARTIAL}
        return {
            (data, name, metric): p
            for data, metric in pairs
            if self.against is not None
            for name, p in self.tests(data, metric, self.against).items()
        }

    def best(self, data: str, metric: str) -> set[str]:
        """Return the names of the best lines by a metric: the line with the highest mean, and all
        lines that do not differ significantly from that line (p ≥ 0.05). `PEOPLE` are left out."""
        means = self.means[(self.means["data"] == data) & (self.means["metric"] == metric)]
        means = means[means["mean"].notna() & ~means["scorer"].isin(PEOPLE)]
        ranked = list(means.sort_values("mean", ascending=False, kind="stable")["name"])
        p_values = self.tests(data, metric, ranked[0]) if ranked else {}
        return {name for name in ranked if p_values.get(name, 1.0) >= ALPHA}

    def line(self, data: str, name: str) -> pd.DataFrame:
        """Return the rows of `means` for the line `name`, such as `default summarization` or
        `trail`, indexed by metric. Raises a `ValueError` if there is no such line."""
        lines = self.means[self.means["data"] == data]
        if name not in set(lines["name"]):
            names = ", ".join(map(repr, dict.fromkeys(lines["name"])))
            raise ValueError(f"there is no row {name!r} for {data}; choose from {names}")
        return lines[lines["name"] == name].set_index("metric")

    def by_point(self, data: str, scorer: str, operation: str) -> list[float]:
        """Return the AUC of each turning point, averaged over stories and runs, for a scorer's
        operation; an empty list if the labels are not turning points."""
        # A column for each turning point, by which the mean of means is taken of one.
        means = [
            mean_of_means(array.T[:, :, None])
            for key, array in self._arrays.items()
            if key[:3] == (data, scorer, operation) and array.shape[1] > 1
        ]
        return np.mean(means, axis=0).tolist() if means else []

    @cached_property
    def _median_runs(self) -> dict[tuple[str, ...], str]:
        """The name of the median run of each line, by (data, scorer, operation). Runs are ordered
        by the main metric; of two in the middle, the lower counts."""
        # Means over runs would hide how much stories differ, which intervals and tests need.
        names = {}
        for line, rows in self.runs.groupby(LINE, sort=False):
            main = rows[rows["metric"] == rows["metric"].iloc[0]]
            order = np.argsort(np.nan_to_num(main["value"], nan=-np.inf), kind="stable")
            names[line] = main["run"].iloc[int(order[(len(order) - 1) // 2])]
        return names

    @cached_property
    def _medians(self) -> dict[tuple[str, ...], NDArray[np.float64]]:
        """By line and metric, the values of the median run, shape (stories, turning points)."""
        arrays = self._arrays.items()
        return {key[:4]: array for key, array in arrays if self._median_runs[key[:3]] == key[4]}

    def json(self) -> dict[str, Any]:
        """Return all figures, and the values of all stories, as JSON data; None stands for nan."""
        content = {
            "data": [
                {**asdict(summary), "perplexity": summary.perplexity, "against": self.against}
                for summary in self.summaries
            ],
            "rows": [self._line_json(*line) for line in self._median_runs],
            "notes": [{"data": name, "note": note} for name, note in self.notes],
        }
        defined: dict[str, Any] = json.loads(json.dumps(content), parse_constant=lambda name: None)
        return defined

    def _line_json(self, data: str, scorer: str, operation: str) -> dict[str, Any]:
        """Return the figures of a line, and the values of each of its runs, as JSON data."""
        name, points = line_name(scorer, operation), self.by_point(data, scorer, operation)
        metrics: dict[str, Any] = {}
        for metric, row in self.line(data, name).iterrows():
            is_mean = metric != PARTIAL
            metrics[metric] = {
                "mean": row["mean"],
                "sd": row["sd"],
                "interval": (row["low"], row["high"]) if is_mean else None,
                "p": self.p_values.get((data, name, metric)),
                "counted": row["counted"] if is_mean else None,
                "turning_points": points if is_mean and points else None,
            }
        runs: dict[str, dict[str, Any]] = {}
        for (*line, metric, run), array in self._arrays.items():
            if line == [data, scorer, operation]:
                entry = runs.setdefault(run, {"run": run, "values": {}})
                entry[metric] = float(mean_of_means(array))
                if metric != PARTIAL:
                    entry["values"][metric] = (array if points else array[:, 0]).tolist()
        return {
            "data": data,
            "name": name,
            "scorer": scorer,
            "operation": operation or None,
            "median_run": self._median_runs[data, scorer, operation],
            "metrics": metrics,
            "runs": list(runs.values()),
        }

    def tables(self) -> list[Table]:
        """Return a table for each set of labelled stories."""
        return [self._table(summary) for summary in self.summaries]

    def _table(self, summary: DataSummary) -> Table:
        """Return the table of a set of labelled stories, with a row for each line."""
        data = summary.name
        main, *others = metrics_of(summary.points_per_story > 0)
        best = {metric: self.best(data, metric) for metric in (main, *others) if metric != PARTIAL}
        columns = ["", *(f"TP{k + 1}" for k in range(summary.points_per_story))]
        for metric in best:
            columns += [METRICS[metric].label, "95 % interval"]
        columns += ["given position and length"] + ["p"] * (self.against is not None)
        rows = [self._row(line, best) for line in self._median_runs if line[0] == data]
        notes = [note for name, note in self.notes if name == data]
        legend = self._legend(data, METRICS[main].label)
        return Table(f"{data}: {summary.text}.", columns, rows, [legend, *notes])

    def _row(self, key: tuple[str, ...], best: Mapping[str, Collection[str]]) -> list[Cell]:
        """Return the cells of the line `key`: data, scorer and operation. `best` has the names of
        the best lines by metric; the metric that is tested is the first."""
        data, scorer, operation = key
        name = line_name(scorer, operation)
        line = self.line(data, name)
        cells = [Cell(name), *(Cell(figure(v)) for v in self.by_point(data, scorer, operation))]
        for metric, names in best.items():
            mean, sd, low, high = line.loc[metric, ["mean", "sd", "low", "high"]]
            cells.append(Cell(figure_and_spread(mean, sd), name in names))
            cells.append(Cell(interval((low, high))))
        cells.append(Cell(figure(line["mean"][PARTIAL])))
        if self.against is not None:
            cells.append(Cell(p_value(self.p_values.get((data, name, next(iter(best)))))))
        return cells

    def _legend(self, data: str, tested: str) -> str:
        """Return what the columns of a table mean; `tested` is the label of the metric of p."""
        sentences = [*_NOTES]
        if self.means["sd"][self.means["data"] == data].notna().any():
            sentences.append(_SEVERAL_RUNS)
        if self.against is not None:
            sentences.append(f"p: difference in {tested} to {self.against}, by the same test.")
        return " ".join([*sentences, _GIVEN])
