"""The figures of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from layouts import Line, mean_and_sd
from lines import Points, curves_of_runs, lines_figure
from output import Output
from plan import CurvesSpec, LinesSpec, SalienceSpec, TableSpec
from workspace import Workspace

from narrative_twins import StorySalience
from narrative_twins.evaluation.comparison import Comparison
from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.evaluation.metrics import METRICS
from narrative_twins.evaluation.scorers import encoder_runs
from narrative_twins.evaluation.tables import Cell, Table, figure
from narrative_twins.plots.style import MUTED, figure_style
from narrative_twins.stories.story import Story
from narrative_twins.training.reporting import Curves
from narrative_twins.writing import file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    lines: dict[str, Points] = {}
    for operation in table.operations:
        points = [
            (place, value[0], value[1] or 0.0)
            for place, row in enumerate(table.rows)
            if (
                value := mean_and_sd(
                    comparison, summary.name, Line("", row.name, operation), metric
                )
            )
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
    """Every sentence of some stories with its scores by the first seed of a run, and the turning
    points that the data have."""
    stories, points = _stories(spec, workspace)
    folders = list(workspace.folders(spec.run).values())[:1]
    # The scores are saved, and not computed again.
    runs = encoder_runs(
        LabelledStories(spec.name, stories, []),
        spec.run,
        [folder / "final" for folder in folders],
        folder=workspace.out / spec.name,
        loading=workspace.loading,
    )
    results = [
        StorySalience(
            story, {name: list(values[i] or ()) for name, values in by_operation.items()}, index=i
        )
        for by_operation in (scores.values for scores in runs)
        for i, story in enumerate(stories)
    ]
    caption = workspace.caption(spec.caption)
    marks = [
        {sentence: _turning_points(own, sentence) for sentence in sorted(set(own))}
        for own in points
    ]
    table = _salience_table(results, marks, caption) if results else None
    plots = {
        file_name(f"{spec.name}-{story.name}"): _marked_plot(story, marks[i])
        for i, story in enumerate(results)
    }
    missing = [] if folders else workspace.commands([spec.run])[:1]
    values = {
        "run": spec.run,
        "stories": [
            {**story.json(), "turning_points": points[i]} for i, story in enumerate(results)
        ],
    }
    return Output(spec.name, caption, values, table, plots, missing)


def _turning_points(points: Sequence[int], sentence: int) -> str:
    """The names of the turning points that are at a sentence."""
    return " ".join(f"TP{k}" for k, point in enumerate(points, start=1) if point == sentence)


def _marked_plot(result: StorySalience, marks: Mapping[int, str]) -> Figure:
    """The curves of a story, with a line at each mark of a sentence and its name at the bottom."""
    plot = result.plot()
    with figure_style():
        for axes in plot.axes:
            for sentence, name in marks.items():
                axes.axvline(sentence + 1, color=MUTED, lw=0.8, zorder=0)
                axes.text(
                    sentence + 1.1, 0.02, name, transform=axes.get_xaxis_transform(), color=MUTED
                )
    return plot


def _stories(spec: SalienceSpec, workspace: Workspace) -> tuple[list[Story], list[Sequence[int]]]:
    """The stories of the files, and those of the ids, or else the first of the data; and the
    sentences of the turning points of each, if the data have them."""
    stories = [
        Story.parse({"id": file.stem, "text": file.read_text(encoding="utf-8")})
        for file in spec.files
    ]
    points: list[Sequence[int]] = [[] for _ in stories]
    labelled = workspace.labelled[spec.data] if spec.data else LabelledStories("none", [], [])
    place = {str(story.id): i for i, story in enumerate(labelled.stories)}
    for name in spec.ids or ([] if stories else list(place)[:1]):
        if name not in place:
            where = workspace.sources[spec.data] if spec.data else "a figure without data"
            raise ValueError(f"figures.{spec.name}.ids: no story {name!r} in {where}")
        stories.append(labelled.stories[place[name]])
        points.append(labelled.points[place[name]] if labelled.points else [])
    return stories, points


def _salience_table(
    results: Sequence[StorySalience], marks: Sequence[Mapping[int, str]], caption: str
) -> Table:
    """A row for each sentence, with its mark, in bold the highest score of its window."""
    operations = list(results[0].scores)
    rows: list[list[Cell]] = []
    for result, own in zip(results, marks, strict=True):
        rows.append([Cell(result.name)])
        best = {
            (name, max(range(lo, hi), key=lambda i, scores=result.scores[name]: scores[i]))
            for name in operations
            for lo, hi in result.windows
        }
        for i, sentence in enumerate(result.sentences):
            cells = [Cell(figure(result.scores[name][i]), (name, i) in best) for name in operations]
            mark = f" [{own[i]}]" if i in own else ""
            rows.append([Cell(f"{i + 1}. {sentence}{mark}"), *cells])
    note = "Bold: the highest score of a window and operation."
    if any(marks):
        note += " TP: the turning points."
    return Table(caption, ["", *operations], rows, [note], names=r"p{0.5\linewidth}")
