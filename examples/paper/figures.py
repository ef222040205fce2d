"""The figures of a plan."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from lines import Points, curves_of_runs, lines_figure
from output import Output
from plan import CurvesSpec, LinesSpec, SalienceSpec, TableSpec
from workspace import Workspace

from narrative_twins import StorySalience
from narrative_twins.evaluation.comparison import Comparison
from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.evaluation.metrics import METRICS
from narrative_twins.evaluation.scorers import EncoderScorer
from narrative_twins.evaluation.tables import Cell, Table, figure
from narrative_twins.stories.story import Story
from narrative_twins.training.reporting import Curves


def make_curves(spec: CurvesSpec, workspace: Workspace) -> Output:
    """Curves of several runs, with the mean and the standard deviation over seeds."""
    runs = {
        label: list(map(_read_curves, workspace.folders(run).values()))
        for label, run in spec.runs.items()
    }
    found = curves_of_runs(runs, list(spec.quantities))
    panels = {spec.quantities[key]: lines for key, lines in found.items()}
    caption = workspace.caption(f"{spec.caption} Of several seeds: mean and standard deviation.")
    plots = (
        {spec.name: lines_figure(panels, title=workspace.title(spec.caption), label="step")}
        if panels
        else {}
    )
    return Output(
        spec.name,
        caption,
        {"curves": found},
        figures=plots,
        missing=workspace.commands(spec.runs.values()),
    )


def _read_curves(folder: Path) -> Curves:
    """The curves of a run; none if there is no file of them."""
    file = folder / "curves.json"
    if not file.is_file():
        return {}
    try:
        return {
            name: [(step, value) for step, value in points]
            for name, points in json.loads(file.read_text()).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"{file} is not a file of curves; train the run again") from None


def make_lines(
    spec: LinesSpec, table: TableSpec, comparison: Comparison, workspace: Workspace
) -> Output:
    """The rows of a table from left to right, with a line for each operation."""
    (summary,) = comparison.summaries
    metric = spec.metric if not summary.points_per_story else "auc"
    rows = {(row.scorer, row.operation): row for row in comparison.rows}
    lines: dict[str, Points] = {}
    for operation in table.operations:
        found = [(place, rows.get((row.name, operation))) for place, row in enumerate(table.rows)]
        points = [
            (place, row.mean(metric), row.sd(metric) or 0.0)
            for place, row in found
            if row is not None
        ]
        lines |= {operation: points} if points else {}
    label = METRICS[metric].label
    caption = workspace.caption(
        f"{spec.caption} Of several seeds: mean and standard deviation.", table.data
    )
    ticks = [row.label for row in table.rows]
    title = workspace.title(spec.caption)
    plots = (
        {spec.name: lines_figure({label: lines}, title=title, label="", ticks=ticks)}
        if lines
        else {}
    )
    missing = workspace.commands(row.name for row in table.rows)
    return Output(
        spec.name, caption, {"metric": metric, "lines": lines}, figures=plots, missing=missing
    )


def make_salience(spec: SalienceSpec, workspace: Workspace) -> Output:
    """Every sentence of some stories with its scores by the first seed of a run."""
    stories = _stories(spec, workspace)
    folders = list(workspace.folders(spec.run).values())[:1]
    # The scores are saved, and not computed again.
    scorer = EncoderScorer(
        spec.run, [folder / "final" for folder in folders], loading=workspace.loading
    )
    data = LabelledStories(spec.name, stories, [])
    (workspace.out / spec.name).mkdir(exist_ok=True)
    found = [
        scores.values for scores in scorer.scores(data, workspace.out / spec.name, progress=False)
    ]
    results = [
        StorySalience(
            story, {name: list(values[i] or ()) for name, values in by_operation.items()}, index=i
        )
        for by_operation in found
        for i, story in enumerate(stories)
    ]
    caption = workspace.caption(spec.caption)
    table = _salience_table(results, caption) if results else None
    plots = {
        re.sub(r"[^\w-]+", "_", f"{spec.name}-{result.name}"): result.plot() for result in results
    }
    missing = [] if folders else workspace.commands([spec.run])[:1]
    values = {"run": spec.run, "stories": [result.to_dict() for result in results]}
    return Output(spec.name, caption, values, table, plots, missing)


def _stories(spec: SalienceSpec, workspace: Workspace) -> list[Story]:
    """The stories of the files, and those of the ids."""
    stories = [
        Story.parse({"id": file.stem, "text": file.read_text(encoding="utf-8")})
        for file in spec.files
    ]
    by_id = (
        {str(story.id): story for story in workspace.labelled[spec.data].stories}
        if spec.data
        else {}
    )
    if unknown := [story for story in spec.ids if story not in by_id]:
        raise ValueError(
            f"figures.{spec.name}.ids: no story {unknown[0]!r} in"
            f" {workspace.sources[spec.data or '']}"
        )
    return [*stories, *(by_id[story] for story in spec.ids)]


def _salience_table(results: Sequence[StorySalience], caption: str) -> Table:
    """A row for each sentence, in bold the highest score of its window."""
    operations = list(results[0].scores)
    rows: list[list[Cell]] = []
    for result in results:
        rows.append([Cell(result.name)])
        best = {
            (name, max(range(lo, hi), key=lambda i, scores=result.scores[name]: scores[i]))
            for name in operations
            for lo, hi in result.windows
        }
        for i, sentence in enumerate(result.sentences):
            cells = [Cell(figure(result.scores[name][i]), (name, i) in best) for name in operations]
            rows.append([Cell(f"{i + 1}. {sentence}"), *cells])
    note = "Bold: the highest score of a window and operation."
    return Table(caption, ["", *operations], rows, [note], names=r"p{0.5\linewidth}")
