"""The tables of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from layouts import Line, long_table, mean_and_sd, wide_table
from output import Output, sample_sd
from plan import TableRow, TableSpec, TestsSpec
from workspace import Workspace

from narrative_twins.evaluation.comparison import Comparison, metrics_of
from narrative_twins.evaluation.labelled_stories import DataSummary
from narrative_twins.evaluation.metrics import METRICS
from narrative_twins.evaluation.tables import Cell, Table, figure, figure_and_spread, p_value


def make_table(spec: TableSpec, comparison: Comparison, workspace: Workspace) -> Output:
    """A table of a plan, with empty cells for what is missing."""
    (summary,) = comparison.summaries
    caption = workspace.caption(spec.caption, spec.data)
    missing, hints = _missing(spec.rows, spec.data, workspace)
    table = _table(spec, comparison, summary.name, caption)
    table = replace(table, notes=[*table.notes, *_notes(spec, comparison, workspace)])
    values = {
        "data": workspace.sources[spec.data],
        "perplexity": summary.perplexity,
        "rows": list(_values(spec, comparison, workspace)),
    }
    return Output(spec.name, caption, values, table, missing=missing, hints=hints)


def _missing(
    rows: Sequence[TableRow], data: str, workspace: Workspace
) -> tuple[list[str], list[str]]:
    """The commands that fill the empty cells of some rows, and hints."""
    commands = [line for row in rows for line in workspace.missing(row, data)]
    hints = filter(None, (workspace.hint(row, data) for row in rows))
    return list(dict.fromkeys(commands)), list(dict.fromkeys(hints))


def _table(spec: TableSpec, comparison: Comparison, data: str, caption: str) -> Table:
    groups: dict[str, list[TableRow]] = {}
    for row in spec.rows:
        groups.setdefault(row.group, []).append(row)
    sections = {}
    for operation in spec.operations if spec.layout == "sections" else [None]:
        for group, rows in groups.items():
            heading = ", ".join(filter(None, (operation, group)))
            lines = [Line(row.label, row.name, operation or row.operation) for row in rows]
            sections[heading] = lines
    if spec.layout == "wide":
        return wide_table(comparison, data, sections, spec.operations, caption)
    return long_table(comparison, data, sections, caption, spec.points)


def make_tests(spec: TestsSpec, comparison: Comparison, workspace: Workspace) -> Output:
    """The differences that a text names with their p-values, by the main metric."""
    (summary,) = comparison.summaries
    metric, *_ = metrics_of(summary.points_per_story > 0)
    caption = workspace.caption(spec.caption, spec.data)
    rows, entries, every = [], {}, []
    for name, pair in spec.pairs.items():
        every += pair
        first, second = (Line(row.label, row.name, row.operation) for row in pair)
        means = [mean_and_sd(comparison, summary.name, line, metric) for line in (first, second)]
        p = None
        if None not in means:
            p = comparison.tests(summary.name, metric, second.key, [first.key])[first.key]
        figures = [Cell(figure_and_spread(*(mean or (None, None)))) for mean in means]
        rows.append([Cell(name), *figures, Cell(p_value(p))])
        entries[name] = {
            **{
                line.key: mean and mean[0]
                for line, mean in zip((first, second), means, strict=True)
            },
            "p": p,
        }
    note = "p: two-tailed paired permutation test over stories, of the median runs."
    label = METRICS[metric].label
    table = Table(caption, ["", f"{label} of the first", "of the second", "p"], rows, [note])
    missing, hints = _missing(every, spec.data, workspace)
    return Output(spec.name, caption, {"tests": entries}, table, missing=missing, hints=hints)


def make_data(workspace: Workspace) -> Output:
    """Statistics of the labelled stories."""
    caption = workspace.caption("The labelled stories.")
    columns: dict[str, dict[str, str]] = {}
    for name, labelled in workspace.labelled.items():
        summary, stories = DataSummary.of(labelled, "numbered"), labelled.stories
        words = [len(text.split()) for story in stories for text in story.sentences]
        outside = f"{summary.left_out:,}" if summary.points_per_story else ""
        columns[name] = {
            "stories": f"{summary.stories:,}",
            "sentences": f"{summary.sentences:,}",
            "sentences of a story": _spread([len(story) for story in stories]),
            "words of a sentence": _spread(words),
            "turning points of a story": str(summary.points_per_story or ""),
            "turning points outside of the window with their number": outside,
            "entropy of the labels in bits": figure(summary.entropy),
            "perplexity of the labels": figure(summary.perplexity),
        }
    names = next(iter(columns.values()))
    rows = [[Cell(name), *(Cell(column[name]) for column in columns.values())] for name in names]
    table = Table(caption, ["", *columns], rows, ["±: standard deviation (over n - 1)."])
    return Output("data", caption, {"data": columns}, table)


def make_runs(workspace: Workspace) -> Output:
    """What the runs took: parameters, minutes and memory of the accelerator, and where they ran."""
    caption = workspace.caption("The training runs.")
    rows, entries = [], {}
    for name, run in workspace.plan.runs.items():
        found = workspace.results_of(name, "train_results.json")
        entries[name] = found
        millions = f"{found[0]['parameters'] / 1e6:.1f}" if found else ""
        minutes = _spread([each["train_runtime"] / 60 for each in found])
        memory = [each["gpu_memory"] / 1e9 for each in found if each.get("gpu_memory")]
        devices = ", ".join(dict.fromkeys(each["device"] for each in found))
        seeds = f"{len(workspace.folders(name))} of {len(run.seeds)}"
        cells = [name, seeds, millions, minutes, _spread(memory), devices]
        rows.append([Cell(text) for text in cells])
    columns = ["", "seeds", "million parameters", "minutes", "GB of the GPU", "device"]
    missing = workspace.commands(workspace.plan.runs)
    return Output(
        "runs", caption, {"runs": entries}, Table(caption, columns, rows), missing=missing
    )


def _spread(values: Sequence[float]) -> str:
    """A mean and a standard deviation with one decimal."""
    return f"{np.mean(values):.1f} ± {sample_sd(values):.1f}" if values else ""


def _notes(spec: TableSpec, comparison: Comparison, workspace: Workspace) -> list[str]:
    """How many runs there are, where some are missing; the perplexity of choices by language models
    next to that of people; and the notes of the comparison, for example of texts that do not fit a
    context."""
    notes, choices = [], []
    for row in spec.rows:
        found = of = 0
        if row.kind == "run":
            found, of = len(workspace.folders(row.name)), len(workspace.plan.runs[row.name].seeds)
        elif row.kind == "results":
            found, of = len(workspace.files(row.name)), workspace.plan.results[row.name].runs
        if 0 < found < of:
            notes.append(
                f"{row.label}: {found} of {of} {'seeds' if row.kind == 'run' else 'runs'}."
            )
        if values := workspace.perplexities(row, spec.data):
            sd = sample_sd(values).item() if len(values) > 1 else None
            choices.append(f"{row.label} {figure_and_spread(float(np.mean(values)), sd)}")
    if choices:
        people = figure(comparison.summaries[0].perplexity)
        notes.append(f"Perplexity of choices: people {people}; {'; '.join(choices)}.")
    names = {row.name for row in spec.rows}
    return notes + [note for _, note in comparison.notes if note.partition(":")[0] in names]


@cache
def _lines(comparison: Comparison) -> dict[tuple[str, str | None], dict[str, Any]]:
    """The lines of a comparison as JSON data, with standard deviations over n - 1."""
    lines = {(row["scorer"], row["operation"]): row for row in comparison.json()["rows"]}
    for (scorer, operation), line in lines.items():
        for metric, figures in line["metrics"].items():
            spread = mean_and_sd(comparison, line["data"], Line("", scorer, operation), metric)
            figures["sd"] = spread[1] if spread else None
    return lines


def _values(
    spec: TableSpec, comparison: Comparison, workspace: Workspace
) -> Iterator[dict[str, Any]]:
    """The rows as JSON data: the metrics are those of `results.json`, with standard deviations over
    n, None if the row is missing."""
    lines = _lines(comparison)
    for row in spec.rows:
        for operation in [row.operation] if spec.layout == "list" else spec.operations:
            entry = lines.get((row.name, operation), {"metrics": None, "runs": []})
            runs = [
                {key: value for key, value in run.items() if key != "values"}
                for run in entry["runs"]
            ]
            start: dict[str, Any] = {
                "name": row.label,
                "kind": row.kind,
                "scorer": row.name,
                "operation": operation,
            }
            if row.kind == "run":
                start["missing_seeds"] = workspace.missing_seeds(row.name)
            elif row.kind == "results":
                start["perplexities"] = workspace.perplexities(row, spec.data)
            yield start | {"metrics": entry["metrics"], "runs": runs}
