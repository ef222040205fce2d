"""The figures of a plan."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lines import Points, curves_of_runs, lines_figure
from output import Output, sample_sd
from plan import CurvesSpec, SalienceSpec, SizesSpec
from workspace import Workspace

from narrative_twins import StorySalience
from narrative_twins.books.story_files import read_story_files
from narrative_twins.evaluation.labelled_stories import LabelledStories
from narrative_twins.evaluation.scorers import encoder_runs
from narrative_twins.evaluation.tables import Cell, Table, figure
from narrative_twins.plots.style import MUTED, figure_style
from narrative_twins.stories.story import Story
from narrative_twins.training.reports import Curves
from narrative_twins.writing import file_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def make_curves(spec: CurvesSpec, workspace: Workspace) -> Output:
    """Curves of several runs, by epoch, or by step if a run has no epochs, with the mean and the
    standard deviation over seeds."""
    runs = {
        label: list(map(_read_curves, workspace.folders(run).values()))
        for label, run in spec.runs.items()
    }
    seeds = [curves for run in runs.values() for curves in run]
    by_epoch = bool(seeds) and all("epoch" in curves for curves in seeds)
    found = curves_of_runs(runs, list(spec.quantities), by_epoch)
    label = "epoch" if by_epoch else "step"
    return _lines_output(spec, found, workspace, {"curves": found}, label=label)


def make_sizes(spec: SizesSpec, workspace: Workspace) -> Output:
    """Validation at the end of training by millions of parameters, a line for each quantity with
    the standard deviation over seeds."""
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for run in spec.runs.values():
        sizes = workspace.results_of(run, "train_results.json")
        final = workspace.results_of(run, "eval_results.json")
        for key, text in spec.quantities.items():
            values = [metrics[key] for metrics in final if metrics.get(key) is not None]
            if sizes and values:
                millions = sizes[0]["parameters"] / 1e6
                point = millions, float(np.mean(values)), sample_sd(values).item()
                lines.setdefault(text, []).append(point)
    label = "parameters in millions"
    found = {"agreement": lines} if lines else {}
    return _lines_output(spec, found, workspace, {"lines": lines}, label=label, log=True)


def _lines_output(
    spec: CurvesSpec | SizesSpec,
    panels: Mapping[str, Mapping[str, Points]],
    workspace: Workspace,
    values: Mapping[str, object],
    **options: Any,
) -> Output:
    """A figure of lines, unless there are none."""
    caption = workspace.caption(f"{spec.caption} Of several seeds: mean and standard deviation.")
    labelled = {spec.quantities.get(key, key): lines for key, lines in panels.items()}
    title = workspace.title(spec.caption)
    plots = {spec.name: lines_figure(labelled, title=title, **options)} if panels else {}
    trained = any(workspace.folders(run) for run in spec.runs.values())
    empty = [
        text for key, text in spec.quantities.items() if trained and not _has(key, text, panels)
    ]
    hints = [f"No run has measured: {', '.join(empty)}."] if empty else []
    missing = workspace.commands(spec.runs.values())
    return Output(spec.name, caption, values, figures=plots, missing=missing, hints=hints)


def _has(key: str, text: str, panels: Mapping[str, Mapping[str, Points]]) -> bool:
    """Whether a quantity is a panel, or a line of one."""
    return key in panels or any(text in lines for lines in panels.values())


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
    stories = [story for file in spec.files for story in _stories_in(file)]
    points: list[Sequence[int]] = [[] for _ in stories]
    labelled = workspace.labelled[spec.data] if spec.data else LabelledStories("none", [], [])
    place = {str(story.id): i for i, story in enumerate(labelled.stories)}
    where = workspace.sources[spec.data] if spec.data else "a figure without data"
    for name in spec.ids or ([] if stories else list(place)[:1]):
        i = place[_full_id(name, place, f"figures.{spec.name}.ids: {where}")]
        stories.append(labelled.stories[i])
        points.append(labelled.points[i] if labelled.points else [])
    return stories, points


def _stories_in(file: Path) -> Iterator[Story]:
    """The story of a text, which is named by the file, or the stories of a file of rows."""
    for document in read_story_files([str(file)], named=False):
        if document.problem is not None:
            raise ValueError(f"{document.name}: {document.problem}")
        text = document.content
        yield Story.parse({"id": file.stem, "text": text} if isinstance(text, str) else text)


def _full_id(name: str, ids: Collection[str], where: str) -> str:
    """The id of a name that is an id, or the beginning of a single one."""
    found = [name] if name in ids else [one for one in ids if one.startswith(name)]
    if len(found) == 1:
        return found[0]
    near = found or difflib.get_close_matches(name, ids, n=3, cutoff=0.4)
    problem = f"several stories that begin with {name!r}" if found else f"no story {name!r}"
    hint = f"; did you mean {' or '.join(map(repr, near[:3]))}?" if near else ""
    raise ValueError(f"{where} has {problem}{hint}")


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
