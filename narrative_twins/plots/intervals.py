"""A plot of figures with their intervals, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from narrative_twins.plots.style import (
    MUTED,
    PAGE,
    PALETTE,
    figure_style,
    fit_text,
    hex_color,
    new_figure,
    write_line,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW, _TITLE, _AXIS = 0.18, 0.35, 0.45  # inches


def intervals_figure(
    names: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[tuple[float, float]],
    *,
    title: str,
    label: str,
    chance: float | None = None,
    width: float = PAGE,
) -> Figure:
    """A dot with its interval for each name, in order from above.

    Args:
        names, values, intervals: of each row; nan for what is undefined, which is not drawn.
        title: a line above.
        label: of the axis.
        chance: a vertical line at this value.
        width: in inches.
    """
    left = 0.1 + min(2.4, 0.4 * width)
    body = _ROW * max(1, len(names))
    height = _TITLE + body + _AXIS
    with figure_style():
        figure = new_figure(width, height)
        write_line(figure, 0.1, height - 0.2, title, width - 0.2, weight="bold", size=8)
        axes = figure.add_axes(
            (left / width, _AXIS / height, (width - left - 0.2) / width, body / height),
            label="intervals",
        )
        rows = np.arange(len(names))
        for row, (value, (low, high)) in enumerate(zip(values, intervals, strict=True)):
            axes.plot([low, high], [row, row], color=hex_color(MUTED), linewidth=1)
            axes.plot([value], [row], color=PALETTE[0], marker="o", linestyle="")
        if chance is not None:
            axes.axvline(chance, color=PALETTE[1], linewidth=0.8, linestyle="--")
        axes.set_yticks(
            rows, [fit_text(figure, name, left - 0.2, both_ends=True) for name in names]
        )
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel(label, labelpad=2)
        axes.grid(axis="x", alpha=0.3)
        axes.tick_params(left=False)
    return figure
