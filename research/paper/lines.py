"""Lines with their spread, in panels one below the other; the curves of training runs as such
lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from output import sample_sd

from narrative_twins.plots.style import PAGE, figure_style, line_style, new_figure
from narrative_twins.text import one_line
from narrative_twins.training.reports import Curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points: TypeAlias = Sequence[tuple[float, float, float]]
"""Points of a line: position, value, and the spread around the value, 0 for none."""

_PANEL = 2.2  # inches


def lines_figure(
    panels: Mapping[str, Mapping[str, Points]],
    *,
    title: str,
    label: str,
    log: bool = False,
    width: float = PAGE,
) -> Figure:
    """A panel for each quantity, with a line for each name and a band of its spread around it.

    Args:
        panels: the quantities, with the points of each line. A name has the same style in all
            panels, and all names are in the legend of the first; nan is a gap.
        title: a line above.
        label: of the horizontal axis.
        log: whether the horizontal axis is logarithmic.
        width: in inches.
    """
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    with figure_style():
        figure = new_figure(width, 0.4 + _PANEL * max(1, len(panels)))
        figure.set_layout_engine("constrained")
        figure.suptitle(one_line(title), size=8, weight="bold")
        for position, (quantity, lines) in enumerate(panels.items(), start=1):
            axes = figure.add_subplot(len(panels), 1, position)
            for name, points in lines.items():
                style = line_style(names.index(name))
                at, values, spread = np.array(points, np.float64).reshape(-1, 3).T
                axes.plot(at, values, **style, label=one_line(name))
                if spread.any():
                    axes.fill_between(
                        at, values - spread, values + spread, color=style["color"], alpha=0.15, lw=0
                    )
            axes.set(xlabel=label, ylabel=one_line(quantity), xscale="log" if log else "linear")
            axes.grid(alpha=0.3)
            for name in names:
                # Without points, so that the legend of the first panel has the lines of all panels.
                if position == 1 and name not in lines:
                    axes.plot([], [], **line_style(names.index(name)), label=one_line(name))
            if position == 1 and names:
                axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def curves_of_runs(
    runs: Mapping[str, Sequence[Curves]], names: Sequence[str], by_epoch: bool = False
) -> dict[str, dict[str, Points]]:
    """The curves of several runs for `lines_figure`: for each of the named quantities a line for
    each run that has it.

    Args:
        runs: names, with the curves of each seed. The line is their mean, its spread the standard
            deviation (over n - 1), at the steps that all seeds have.
        names: of the quantities, such as `eval_loss`.
        by_epoch: whether positions are epochs, which are the curve `epoch`, and not steps.
    """
    panels: dict[str, dict[str, Points]] = {}
    for name in names:
        for run, seeds in runs.items():
            found = [dict(curves[name]) for curves in seeds if name in curves]
            steps = sorted(set.intersection(*map(set, found))) if found else []
            if steps:
                values = np.array([[curve[step] for step in steps] for curve in found])
                mean, spread = values.mean(axis=0).tolist(), sample_sd(values).tolist()
                epochs = dict(seeds[0]["epoch"]) if by_epoch else {}
                points = zip([epochs.get(step, step) for step in steps], mean, spread, strict=True)
                panels.setdefault(name, {})[run] = list(points)
    return panels
