"""Several stories as a heat map."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from narrative_twins.plots.figures import heat_figure
from narrative_twins.plots.shades import shares
from narrative_twins.plots.style import PAGE, check_figure, save_figure, shortened
from narrative_twins.salience.result import StorySalience

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_stories(
    results: Iterable[StorySalience],
    path: str | os.PathLike[str] | None = None,
    operation: str | None = None,
    *,
    width: float = PAGE,
) -> Figure:
    """Several stories as a heat map, one row per story. Every row has the full width, 240 columns,
    and is shaded from the least to the most salient sentence of its story. In longer stories, a
    column is the mean of neighbours.

    Args:
        results: the results, from `score_stories`; read lazily, only names and scores are kept.
        path: also save the figure there; the suffix `.png` or `.svg` selects the format.
        operation: default the primary operation of the first story.
        width: in inches; 3.3 is about a column, 7 a page.

    Raises:
        ValueError: there is no story.
        ModuleNotFoundError, ValueError, OSError: as `StorySalience.plot`.
    """
    check_figure(path, width)
    names, rows = [], []
    for result in results:
        operation = operation or result.primary_operation
        names.append(shortened(result.name, 80, both_ends=True))
        rows.append(array("f", shares(result.compared(operation))))
    if not rows:
        raise ValueError("there is no story to plot")
    title = f"{operation}, {len(rows)} stor{'y' if len(rows) == 1 else 'ies'}"
    figure = heat_figure(names, rows, title=title, width=width)
    if path is not None:
        save_figure(figure, path)
    return figure
