"""Plots of salience: of one story sentence by sentence, of several as a heat map. Plain data goes in, a matplotlib
`Figure` comes out. Shades are cividis, which looks nearly the same to everyone."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from narrative_twins.plots.printable import printable
from narrative_twins.plots.style import (
    FAINT,
    LINE,
    PAGE,
    figure_style,
    fit_text,
    hex_color,
    line_style,
    new_figure,
    write_line,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELLED = 10
"""The most sentences of a panel that are labelled."""
COLUMNS = 240
"""Places of a heat map from the beginning of a story to its end."""
DENSE = 120
"""Sentences from which on a line has no markers."""

_HEAD, _LEFT, _RIGHT, _NAME, _AXIS = 0.3, 0.55, 0.2, 0.24, 0.42
_DIGIT = 0.069
"""Inches: the title, the margins of a panel, its name, the numbers of sentences below the last one; a bold digit."""


def salience_figure(
    sentences: Sequence[str],
    windows: Sequence[tuple[int, int]],
    scores: Mapping[str, Sequence[float]],
    labelled: Mapping[str, Sequence[int]],
    *,
    title: str,
    notes: Iterable[str] = (),
    width: float = PAGE,
    bare: bool = False,
) -> Figure:
    """The scores of a story, a panel an operation, in story order. Lines break where windows do; dotted lines mark
    their borders, where those are far enough apart to be seen.

    Args:
        sentences: the sentences of the story.
        windows: half-open ranges of sentence indices.
        scores: by operation, a score a sentence.
        labelled: by operation, the indices of the sentences whose numbers stand over their scores, of which the first
            `LABELLED` are, or fewer where they have no room; the beginnings of these sentences stand below the panels.
        title: a line at the top.
        notes: sentences for the bottom.
        width: in inches.
        bare: leave out all that stands over and below the panels.
    """
    inner = width - _LEFT - _RIGHT
    fit = min(LABELLED, int(inner / (_DIGIT * (len(str(len(sentences))) + 0.5))))
    labelled = {name: places[:fit] for name, places in labelled.items()}
    key = [] if bare else sorted({i for places in labelled.values() for i in places})
    lines = [line for note in notes for line in textwrap.wrap(printable(note), int(width * 19)) if not bare]
    panel, below = 0.75 + 0.05 * width, _AXIS + LINE * (0 if bare else len(key) + len(lines) + 1)
    height = _HEAD * (not bare) + len(scores) * (_NAME + panel) + below
    with figure_style():
        figure = new_figure(width, height)
        if not bare:
            write_line(figure, 0.1, height - 0.2, title, width - 0.2, weight="bold", size=8)
        for number, (name, values) in enumerate(scores.items()):
            bottom = below + (len(scores) - 1 - number) * (_NAME + panel)
            place = _LEFT / width, bottom / height, inner / width, panel / height
            axes = figure.add_axes(place, label=f"panel {number}")
            axes.set_title(fit_text(figure, name, inner), loc="left", pad=3, size=7)
            _draw(axes, number, values, windows, labelled.get(name, ()), inner)
            axes.tick_params(labelbottom=number == len(scores) - 1)
            if number == len(scores) - 1:
                hidden = "" if _apart(windows, inner) else f" ({len(windows)} windows, too narrow to be marked)"
                axes.set_xlabel(f"sentence{hidden}", labelpad=2)
        _write_key(figure, below - _AXIS, {i: sentences[i] for i in key}, lines)
    return figure


def heat_figure(names: Sequence[str], shares: Sequence[Sequence[float]], *, title: str, width: float = PAGE) -> Figure:
    """Stories as a heat map, a row a story, each resample over the whole width whatever its length.

    Args:
        names: what to call the stories. Where there is no room for all, the title says how many are left out.
        shares: for each story a number from 0 to 1 a sentence.
        title: a line at the top.
        width: in inches.
    """
    row, below = min(0.2, 6 / len(names)), 0.8
    body, left = max(0.2, row * len(names)), 0.1 + min(2.0, 0.32 * width)
    height, inner = _HEAD + body + below, width - left - 0.15
    step = int(np.ceil(LINE / row))
    some = f" ({step - 1} of {step} stories without their names)" if step > 1 else ""
    with figure_style():
        figure = new_figure(width, height)
        write_line(figure, 0.1, height - 0.2, title + some, width - 0.2, weight="bold", size=8)
        axes = figure.add_axes((left / width, below / height, inner / width, body / height), label="stories")
        shown = axes.imshow(
            np.stack([resample(one, COLUMNS) for one in shares]),
            cmap="cividis",
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest" if len(names) < 500 else "antialiased",
            extent=(0, 1, len(names), 0),
        )
        if row > LINE:
            for place in range(1, len(names)):
                axes.axhline(place, color="white", linewidth=0.8)
        fit = [fit_text(figure, name, left - 0.2, both_ends=True) for name in names[::step]]
        axes.set_yticks(np.arange(0, len(names), step) + 0.5, fit)
        axes.set_xticks([0, 0.5, 1], ["beginning", "middle", "end"])
        axes.tick_params(left=False)
        axes.spines[:].set_visible(False)
        scale = figure.add_axes((left / width, 0.3 / height, inner / width, 0.09 / height), label="scale")
        bar = figure.colorbar(shown, cax=scale, orientation="horizontal")
        bar.set_ticks([0, 1], labels=["least salient of its story", "most salient"])
        for one in (axes, scale):
            _keep_ticks_inside(one)
    return figure


def resample(values: Sequence[float], places: int) -> NDArray[np.float64]:
    """Values that share a line evenly, as the means over as many even parts of it, shape `(places,)`."""
    total = np.concatenate([[0.0], np.cumsum(np.asarray(values, np.float64))])
    edges = np.linspace(0, len(values), places + 1)
    means: NDArray[np.float64] = np.diff(np.interp(edges, np.arange(len(values) + 1), total)) * places / len(values)
    return means


def space_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places between `low` and `high` in the given, rising order, moved apart so that neighbours have a gap between
    them; the gap shrinks where there is no room for it."""
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + gap if places else low))
    for at in reversed(range(len(places))):
        places[at] = min(places[at], high if at == len(places) - 1 else places[at + 1] - gap)
    return places


def _draw(
    axes: Axes,
    number: int,
    values: Sequence[float],
    windows: Sequence[tuple[int, int]],
    labelled: Iterable[int],
    width: float,
) -> None:
    """A panel of so many inches: a line a window, borders, and the numbers of some sentences over their scores."""
    n, style, scores = len(values), line_style(number), np.asarray(values, np.float64)
    borders = [lo for lo, _ in windows[1:]]
    if _apart(windows, width):
        for border in borders:
            axes.axvline(border + 0.5, label="border", color=hex_color(FAINT), lw=0.6, linestyle=(0, (1, 2)), zorder=0)
    dense = {"marker": "", "linestyle": "-", "linewidth": 0.6} if n > DENSE else {}
    places = np.insert(np.arange(1.0, n + 1), borders, np.nan)
    axes.plot(places, np.insert(scores, borders, np.nan), label="scores", **style | dense)
    if dense:
        # A window of one sentence is no line.
        alone = [lo for lo, hi in windows if hi - lo == 1]
        axes.plot(np.add(alone, 1), scores[alone], ".", color=style["color"], markersize=1.5)
    finite = scores[np.isfinite(scores)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    room = (high - low) or 1.0
    axes.set_xlim(0.5, n + 0.5)
    axes.set_xticks([tick for tick in axes.get_xticks() if 1 <= tick <= n and tick == int(tick)] or [1])
    # Over the highest score is a strip for numbers.
    axes.set_ylim(low - 0.1 * room, high + 0.5 * room)
    axes.locator_params(axis="y", nbins=4)
    axes.set_yticks([tick for tick in axes.get_yticks() if low - 0.1 * room <= tick <= high + 0.1 * room])
    _number(axes, [i for i in sorted(labelled) if np.isfinite(scores[i])], scores, number, width)


def _number(axes: Axes, chosen: list[int], scores: NDArray[np.float64], number: int, width: float) -> None:
    """Mark some sentences of a panel; their numbers stand in a row at its top, no two on each other."""
    digit, style = _DIGIT * len(scores) / width, line_style(number)
    size = digit * len(str(len(scores)))
    low, high = axes.get_xlim()
    places = space_labels([i + 1 for i in chosen], size + digit / 2, low + size / 2, high - size / 2)
    for i, place in zip(chosen, places, strict=True):
        axes.plot(i + 1, scores[i], label="labelled", color=style["color"], marker=style["marker"], markersize=5.5)
        axes.annotate(
            str(i + 1),
            (i + 1, scores[i]),
            (place, 0.99),
            textcoords=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            weight="bold",
            bbox={"facecolor": "white", "linewidth": 0, "pad": 0.5},
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": hex_color(FAINT), "shrinkA": 0, "shrinkB": 3},
        )


def _write_key(figure: Figure, top: float, sentences: Mapping[int, str], notes: Iterable[str]) -> None:
    """Numbered sentences and notes, a line each, from so many inches over the bottom down."""
    width, height = figure.get_size_inches()
    y = top
    for i, sentence in sentences.items():
        y -= LINE
        figure.text((_LEFT - 0.1) / width, y / height, str(i + 1), ha="right", va="baseline", weight="bold")
        write_line(figure, _LEFT, y, sentence, width - _LEFT - _RIGHT)
    y -= LINE / 2
    for note in notes:
        y -= LINE
        write_line(figure, 0.1, y, note, width - 0.2, color=hex_color(FAINT))


def _keep_ticks_inside(axes: Axes) -> None:
    """Let the first and the last label of a scale not stand out over its ends."""
    first, *_, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")


def _apart(windows: Sequence[tuple[int, int]], width: float) -> bool:
    """Whether the borders of windows can be seen apart in so many inches."""
    return len(windows) <= width * 12
