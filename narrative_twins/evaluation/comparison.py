"""The comparison of encoders and baselines with human labels: the long table of all values, its
group-bys (each run, means with intervals, tests), and a table for each set of labelled stories."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from narrative_twins.evaluation.labelled import DataSummary
from narrative_twins.evaluation.measure import LINE, PARTIAL, PEOPLE, by_story, metrics_of
from narrative_twins.evaluation.metrics import METRICS
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

ALPHA = 0.05
"""The level of significance."""
_NOTES = (
    "Intervals are bootstraps over stories.",
    "Bold: the best, and what does not differ significantly from it (paired permutation test over"
    " stories, p ≥ 0.05).",
)
_SEVERAL_RUNS = (
    "Of several runs: mean ± standard deviation; intervals and tests are those of the median run."
)
_GIVEN = (
    "Given position and length: Spearman with what position and number of words explain taken out"
    " of both ranks; empty if they explain all."
)


def line_name(scorer: str, operation: str) -> str:
    """The name of a line of a table: `SCORER OPERATION`, or the baseline."""
    return f"{scorer} {operation}".strip()


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `evaluate`.

    Attributes:
        values: the long table, with the columns `evaluation.measure.COLUMNS`: a row for each value
            of a metric of each story and run.
        summaries: of each set of labelled stories.
        against: the name of the line that all others are tested against, if any.
        notes: what to know about the figures of a set of stories: its name, and for example how
            many stories did not fit a context.
    """

    values: pd.DataFrame
    summaries: Sequence[DataSummary]
    against: str | None = None
    notes: Sequence[tuple[str, str]] = ()

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The `value` of each metric in each run: its mean over stories; of turning points the mean
        of their means."""
        return _group_by(
            self.values,
            [*LINE, "metric", "run"],
            lambda rows: {"value": float(mean_of_means(by_story(rows)))},
        )

    @cached_property
    def means(self) -> pd.DataFrame:
        """The `mean` of each metric over runs, with the `name` of the line; the standard deviation
        `sd` over n - 1, nan of one run; the median `run`, its 95 % bootstrap interval over stories,
        `low` and `high`, and how many of its stories or turning points are `counted`."""

        def summarize(rows: pd.DataFrame) -> dict[str, Any]:
            data, scorer, operation, metric = rows[[*LINE, "metric"]].iloc[0]
            array = self._medians[data, scorer, operation, metric]
            interval = (math.nan, math.nan) if metric == PARTIAL else bootstrap_interval(array)
            return {
                "name": line_name(scorer, operation),
                "mean": float(np.mean(rows["value"])),
                "sd": float(np.std(rows["value"], ddof=1)) if len(rows) > 1 else math.nan,
                "run": self._median_runs[data, scorer, operation],
                "low": interval[0],
                "high": interval[1],
                "counted": int((~np.isnan(array)).sum()),
            }

        return _group_by(self.runs, [*LINE, "metric"], summarize)

    def tests(self, others: Mapping[tuple[str, str], str]) -> dict[tuple[str, str, str], float]:
        """The p-values of differences between lines, by two-tailed paired permutation tests over
        stories of the median runs.

        Args:
            others: by data and metric the name of the line that all others are tested against.

        Returns:
            The p-values by data, name of the line and metric.
        """
        values = {
            (data, line_name(scorer, operation), metric): mean_of_means(array[:, None, :])
            for (data, scorer, operation, metric), array in self._medians.items()
            if (data, metric) in others
        }
        return {
            (data, name, metric): paired_permutation_test(array, values[data, other, metric])
            for (data, name, metric), array in values.items()
            if (other := others[data, metric]) != name
        }

    @cached_property
    def p_values(self) -> dict[tuple[str, str, str], float]:
        """The p-values of all lines against the line `against`, as in `tests`; empty without it."""
        pairs = {(data, metric) for data, _, _, metric in self._medians if metric != PARTIAL}
        return {} if self.against is None else self.tests(dict.fromkeys(pairs, self.against))

    def best(self, data: str, metric: str) -> set[str]:
        """The names of the lines that are best by a metric: the highest mean, and all that do not
        differ significantly from it (p of at least 0.05). People are not compared."""
        means = self.means[(self.means["data"] == data) & (self.means["metric"] == metric)]
        means = means[means["mean"].notna() & ~means["scorer"].isin(PEOPLE)]
        ranked = list(means.sort_values("mean", ascending=False, kind="stable")["name"])
        p_values = self.tests({(data, metric): ranked[0]}) if ranked else {}
        return {name for name in ranked if p_values.get((data, name, metric), 1.0) >= ALPHA}

    def line(self, data: str, name: str) -> pd.DataFrame:
        """The means of a line with a name, such as `default summarization` or `trail`, by metric; a
        `ValueError` if there is none."""
        lines = self.means[self.means["data"] == data]
        if name not in set(lines["name"]):
            names = ", ".join(map(repr, dict.fromkeys(lines["name"])))
            raise ValueError(f"there is no row {name!r} for {data}; choose from {names}")
        return lines[lines["name"] == name].set_index("metric")

    def by_point(self, data: str, scorer: str, operation: str) -> list[float]:
        """The mean AUC of each turning point, over stories and runs, of a line; empty for other
        labels."""
        line = (self.values[LINE] == [data, scorer, operation]).all(axis=1)
        runs = self.values[line & (self.values["point"] > 0)].groupby("run", sort=False)
        # A column for each turning point, by which the mean of means is taken of one.
        means = [mean_of_means(by_story(rows).T[:, :, None]) for _, rows in runs]
        return np.mean(means, axis=0).tolist() if means else []

    @cached_property
    def _median_runs(self) -> dict[Any, str]:
        """By line the run whose main metric is the median; of an even number of runs the lower of
        the two in the middle."""
        names = {}
        for line, rows in self.runs.groupby(LINE, sort=False):
            main = rows[rows["metric"] == rows["metric"].iloc[0]]
            order = np.argsort(np.nan_to_num(main["value"], nan=-np.inf), kind="stable")
            names[line] = main["run"].iloc[int(order[(len(order) - 1) // 2])]
        return names

    @cached_property
    def _medians(self) -> dict[Any, NDArray[np.float64]]:
        """By line and metric the values of the median run, shape (stories, turning points)."""
        groups = self.values.groupby([*LINE, "metric", "run"], sort=False)
        return {
            (*line, metric): by_story(rows)
            for (*line, metric, run), rows in groups
            if self._median_runs[tuple(line)] == run
        }

    def json(self) -> dict[str, Any]:
        """All figures and the values of all stories as JSON data; None for what is undefined."""
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
        name = line_name(scorer, operation)
        points = self.by_point(data, scorer, operation)
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
        arrays: dict[str, dict[str, Any]] = {}
        values = self.values[(self.values[LINE] == [data, scorer, operation]).all(axis=1)]
        for (run, metric), rows in values.groupby(["run", "metric"], sort=False):
            array = by_story(rows)
            runs.setdefault(run, {"run": run})[metric] = float(mean_of_means(array))
            if metric != PARTIAL:
                array = array if points else array[:, 0]
                arrays.setdefault(run, {})[metric] = array.tolist()
        return {
            "data": data,
            "name": name,
            "scorer": scorer,
            "operation": operation or None,
            "median_run": self._median_runs[data, scorer, operation],
            "metrics": metrics,
            "runs": [{**figures, "values": arrays[run]} for run, figures in runs.items()],
        }

    def tables(self) -> list[Table]:
        """A table for each set of labelled stories."""
        return [self._table(summary) for summary in self.summaries]

    def _table(self, summary: DataSummary) -> Table:
        data, points = summary.name, range(summary.points_per_story)
        main, *others = metrics_of(summary.points_per_story > 0)
        tested = [main, *(metric for metric in others if metric != PARTIAL)]
        columns = ["", *(f"TP{k + 1}" for k in points)]
        for metric in tested:
            columns += [METRICS[metric].label, "95 % interval"]
        columns += ["given position and length"] + ["p"] * (self.against is not None)
        best = {metric: self.best(data, metric) for metric in tested}
        rows = []
        for scorer, operation in (line[1:] for line in self._median_runs if line[0] == data):
            name = line_name(scorer, operation)
            line = self.line(data, name)
            cells = [Cell(name)]
            if points:
                cells += [Cell(figure(value)) for value in self.by_point(data, scorer, operation)]
            for metric in tested:
                mean, sd, low, high = line.loc[metric, ["mean", "sd", "low", "high"]]
                cells.append(Cell(figure_and_spread(mean, sd), name in best[metric]))
                cells.append(Cell(interval((low, high))))
            cells.append(Cell(figure(line["mean"][PARTIAL])))
            if self.against is not None:
                cells.append(Cell(p_value(self.p_values.get((data, name, main)))))
            rows.append(cells)
        legend = [*_NOTES]
        if self.means["sd"][self.means["data"] == data].notna().any():
            legend.append(_SEVERAL_RUNS)
        if self.against is not None:
            label = METRICS[main].label
            legend.append(f"p: difference in {label} to {self.against}, by the same test.")
        legend.append(_GIVEN)
        notes = [note for name, note in self.notes if name == data]
        return Table(f"{data}: {summary.text}.", columns, rows, [" ".join(legend), *notes])

    def plot(self, data: str, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot the main metric of all lines of a set of stories with its intervals, best first; see
        `save_figure` for the path and the errors. matplotlib is needed."""
        lines = self.means[self.means["data"] == data]
        metric = METRICS[lines["metric"].iloc[0]]
        lines = lines[lines["metric"] == metric.key].sort_values(
            "mean", ascending=False, kind="stable"
        )
        figure = intervals_figure(
            lines["name"].tolist(),
            lines["mean"].tolist(),
            list(zip(lines["low"], lines["high"], strict=True)),
            title=f"{data}: agreement with people",
            label=f"{metric.label}, with 95 % bootstrap intervals over stories; dashed: chance",
            chance=metric.chance,
        )
        if path is not None:
            save_figure(figure, path)
        return figure


def _group_by(
    table: pd.DataFrame, keys: list[str], summarize: Callable[[pd.DataFrame], dict[str, Any]]
) -> pd.DataFrame:
    """A row for each group of rows, in the order of the first of each."""
    rows = [
        dict(zip(keys, key, strict=True)) | summarize(rows)
        for key, rows in table.groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows, columns=None if rows else [*keys, "name", "value", "mean", "sd"])
