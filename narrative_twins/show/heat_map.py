"""Several stories as a heat map. Its colours are cividis, which looks nearly the same to
colour-blind readers."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from narrative_twins.plots.figures import TITLE, titled_figure
from narrative_twins.plots.shades import shares
from narrative_twins.plots.style import (
    LINE_HEIGHT,
    PAGE,
    check_figure,
    figure_style,
    fit_text,
    save_figure,
    shortened,
)
from narrative_twins.salience.result import StorySalience

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 240  # from the beginning of a story to its end


def plot_stories(
    results: Iterable[StorySalience],
    path: str | os.PathLike[str] | None = None,
    operation: str | None = None,
    *,
    width: float = PAGE,
) -> Figure:
    """Several stories as a heat map, one row per story. Every row has the full width, 240 columns,
    and is shaded from the least to the most salient sentence of its story. In longer stories, a
    column is the mean of neighbours. If there is no room for all names, the title says how many are
    hidden.

    Args:
        results: the results, from `score_stories`; read lazily, only names and scores are kept.
        path: also save the figure there; the suffix `.png` or `.svg` selects the format.
        operation: default the primary operation of the first story.
        width: in inches; 3.3 is about a column, 7 a page.

    Raises:
        ValueError: there is no story.
        ModuleNotFoundError, ValueError, OSError: as `StorySalience.plot`.
    """
    check_figure(path)
    names, rows = [], []
    for result in results:
        operation = operation or result.primary_operation
        names.append(shortened(result.name, 80, both_ends=True))
        values = shares(result.shaded(operation))
        # Blank if nothing in the story can be compared.
        rows.append(array("f", np.nan_to_num(values) if result.is_comparable else values))
    if not rows:
        raise ValueError("there is no story to plot")
    # Inches.
    row, below, left = min(0.2, 6 / len(rows)), 0.8, 0.1 + min(2.0, 0.32 * width)
    body, inner = max(0.2, row * len(rows)), width - left - 0.15
    height = TITLE + body + below
    step = int(np.ceil(LINE_HEIGHT / row))
    title = f"{operation}, {len(rows)} stor{'y' if len(rows) == 1 else 'ies'}"
    title += f" ({step - 1} of {step} names are not shown)" if step > 1 else ""
    with figure_style():
        figure = titled_figure(width, height, title)
        axes, scale = (
            figure.add_axes((left / width, y / height, inner / width, size / height), label=label)
            for y, size, label in ((below, body, "stories"), (0.3, 0.09, "scale"))
        )
        image = axes.imshow(
            np.stack([resample(values, COLUMNS) for values in rows]),
            cmap="cividis",
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest" if len(rows) < 500 else "antialiased",
            extent=(0, 1, len(rows), 0),
        )
        if row > LINE_HEIGHT:
            for y in range(1, len(rows)):
                axes.axhline(y, color="white", linewidth=0.8)
        labels = [fit_text(figure, name, left - 0.2, both_ends=True) for name in names[::step]]
        axes.set_yticks(np.arange(0, len(rows), step) + 0.5, labels)
        axes.set_xticks([0, 0.5, 1], ["beginning", "middle", "end"])
        axes.tick_params(left=False)
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(image, cax=scale, orientation="horizontal")
        bar.set_ticks([0, 1], labels=["least salient of its story", "most salient"])
        for part in (axes, scale):
            first, *_, last = part.get_xticklabels()
            # Inside of the figure.
            first.set_horizontalalignment("left")
            last.set_horizontalalignment("right")
    if path is not None:
        save_figure(figure, path)
    return figure


def resample(values: Sequence[float], size: int) -> NDArray[np.float64]:
    """Values stretched or shrunk to `size` values: the means of that many equal parts of the line
    they share evenly."""
    # The difference of the cumulative sum at two edges is the sum between them, fractions of values
    # included.
    total = np.concatenate([[0.0], np.cumsum(np.asarray(values, np.float64))])
    edges = np.linspace(0, len(values), size + 1)
    means: NDArray[np.float64] = (
        np.diff(np.interp(edges, np.arange(len(values) + 1), total)) * size / len(values)
    )
    return means
