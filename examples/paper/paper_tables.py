"""The tables of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from layouts import Line, long_table, mean_and_sd, wide_table
from output import Output
from plan import TableSpec
from workspace import Workspace

from narrative_twins.evaluation.comparison import Comparison
from narrative_twins.evaluation.tables import Table, figure, figure_and_spread


def make_table(spec: TableSpec, comparison: Comparison, workspace: Workspace) -> Output:
    """A table of a plan, with empty cells for what is missing."""
    (summary,) = comparison.summaries
    caption = workspace.caption(spec.caption, spec.data)
    missing = list(
        dict.fromkeys(line for row in spec.rows for line in workspace.missing(row, spec.data))
    )
    table = _table(spec, comparison, summary.name, caption)
    table = replace(table, notes=[*table.notes, *_notes(spec, comparison, workspace)])
    values = {
        "data": workspace.sources[spec.data],
        "perplexity": summary.perplexity,
        "rows": list(_values(spec, comparison, workspace)),
    }
    return Output(spec.name, caption, values, table, missing=missing)


def _table(spec: TableSpec, comparison: Comparison, data: str, caption: str) -> Table:
    if spec.layout == "wide":
        return wide_table(
            comparison, data, {row.label: row.name for row in spec.rows}, spec.operations, caption
        )
    if spec.layout == "sections":
        sections = {
            operation: [Line(row.label, row.name, operation) for row in spec.rows]
            for operation in spec.operations
        }
    else:
        sections = {"": [Line(row.label, row.name, row.operation) for row in spec.rows]}
    return long_table(comparison, data, sections, caption)


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
            sd = float(np.std(values)) if len(values) > 1 else None
            choices.append(f"{row.label} {figure_and_spread(float(np.mean(values)), sd)}")
    if choices:
        people = figure(comparison.summaries[0].perplexity)
        notes.append(f"Perplexity of choices: people {people}; {'; '.join(choices)}.")
    names = {row.name for row in spec.rows}
    return notes + [note for _, note in comparison.notes if note.partition(":")[0] in names]


def _values(
    spec: TableSpec, comparison: Comparison, workspace: Workspace
) -> Iterator[dict[str, Any]]:
    """The rows as JSON data: the metrics are those of `results.json`, with standard deviations over
    n, None if the row is missing."""
    lines = {(row["scorer"], row["operation"]): row for row in comparison.json()["rows"]}
    for (scorer, operation), line in lines.items():
        for metric, figures in line["metrics"].items():
            spread = mean_and_sd(comparison, line["data"], Line("", scorer, operation), metric)
            figures["sd"] = spread[1] if spread else None
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
