"""Several stories as a heat map."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

from narrative_twins.plots.figures import heat_figure
from narrative_twins.plots.printable import shortened
from narrative_twins.plots.style import PAGE, check_figure, save_figure
from narrative_twins.salience.result import StorySalience
from narrative_twins.show.highlights import shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_stories(
    results: Iterable[StorySalience],
    path: str | os.PathLike[str] | None = None,
    operation: str | None = None,
    *,
    width: float = PAGE,
) -> Figure:
    """Several stories as a heat map: a row a story, from its beginning to its end whatever its length, shaded from its
    least salient sentence to its most salient one. A story of more sentences than the picture has places (240) is
    shown by means of neighbours.

    Args:
        results: what `score_stories` gave; read lazily, and only names and scores are kept.
        path: also write the picture there, as PNG or SVG by the ending of the name.
        operation: default the lead operation of the first story.
        width: in inches; 3.3 is about a column, 7 a page.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: there is no story, the operation was not scored, or the path names no PNG or SVG file.
        OSError: no file can be written there.
    """
    check_figure(path, width)
    names, rows = [], []
    for result in results:
        operation = operation or result.primary_operation
        names.append(shortened(result.name, 80, both_ends=True))
        rows.append(array("f", shares(result.scores_of(operation))))
    if not rows:
        raise ValueError("there is no story to plot")
    title = f"{operation}, {len(rows)} stor{'y' if len(rows) == 1 else 'ies'}"
    figure = heat_figure(names, rows, title=title, width=width)
    if path is not None:
        save_figure(figure, path)
    return figure
