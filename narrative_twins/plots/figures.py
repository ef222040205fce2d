"""The curves of the scores of one story as a matplotlib figure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from narrative_twins.plots.style import (
    LINE_HEIGHT,
    MUTED,
    PAGE,
    figure_style,
    fit_text,
    line_style,
    new_figure,
    write_line,
)
from narrative_twins.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LABELS = 10  # numbered sentences per panel
MAX_MARKERS = 120  # a line of more sentences has no markers

# Inches: the title, the left and right margins and the name of a panel, the axis below the last
# panel; a bold digit.
_TITLE, _LEFT, _RIGHT, _NAME, _AXIS = 0.3, 0.55, 0.2, 0.24, 0.42
_DIGIT = 0.069
_POINTER = {"arrowstyle": "-", "linewidth": 0.5, "color": MUTED, "shrinkA": 0, "shrinkB": 3}


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
    unit: str = "sentence",
) -> Figure:
    """Return a figure of the scores of a story in story order, with one panel and one curve per
    operation. A curve is interrupted at window borders, which are dotted lines if there is room.

    Args:
        sentences: the sentences, or other units, in order.
        windows: half-open ranges of sentence indices.
        scores: by operation, one score per sentence.
        labelled: by operation, the indices of sentences to number, most important first: at most
            `MAX_LABELS`, if there is room. Below the panels are the first words of these sentences.
        title, notes: the line above the panels, and the sentences below them.
        width: the width of the figure in inches.
        bare: leave out the title, the first words of sentences and the notes.
        unit: what is scored, for the label of the horizontal axis.
    """
    inner = width - _LEFT - _RIGHT
    fit = min(MAX_LABELS, int(inner / (_DIGIT * (len(str(len(sentences))) + 0.5))))
    labelled = {name: indices[:fit] for name, indices in labelled.items()}
    key: list[int] = []
    lines: list[str] = []
    panel, below, height = 0.75 + 0.05 * width, _AXIS + LINE_HEIGHT, 0.0
    if bare:
        below = _AXIS
    else:
        key = sorted({i for indices in labelled.values() for i in indices})
        lines = [line for note in notes for line in textwrap.wrap(one_line(note), int(width * 19))]
        below += LINE_HEIGHT * (len(key) + len(lines))
        height = _TITLE
    height += len(scores) * (_NAME + panel) + below
    has_borders = len(windows) <= inner * 12
    with figure_style(" ".join([title, *scores, *lines, *(sentences[i] for i in key)])):
        figure = new_figure(width, height)
        write_line(
            figure, 0.1, height - 0.2, "" if bare else title, width - 0.2, weight="bold", size=8
        )
        for number, (name, values) in enumerate(scores.items()):
            bottom = below + (len(scores) - 1 - number) * (_NAME + panel)
            box = _LEFT / width, bottom / height, inner / width, panel / height
            axes = figure.add_axes(box, label=f"panel {number}")
            axes.set_title(fit_text(figure, name, inner), loc="left", pad=3, size=7)
            _draw_curve(axes, number, np.asarray(values, np.float64), windows)
            if has_borders:
                _draw_borders(axes, windows)
            _number_sentences(axes, number, values, sorted(labelled.get(name, ())), inner)
            axes.tick_params(labelbottom=number == len(scores) - 1)
        hidden = "" if has_borders else f" ({len(windows)} windows, too narrow to be marked)"
        axes.set_xlabel(unit + hidden, labelpad=2)
        _write_below(figure, below - _AXIS, {i + 1: sentences[i] for i in key}, lines)
    return figure


def _write_below(figure: Figure, y: float, key: Mapping[int, str], notes: Iterable[str]) -> None:
    """Write the first words of the sentences in `key`, each with its number, and the lines of the
    notes, from `y` inches above the lower edge of the figure downwards."""
    width, height = figure.get_size_inches()
    for number, sentence in key.items():
        y -= LINE_HEIGHT
        x = (_LEFT - 0.1) / width
        figure.text(x, y / height, str(number), ha="right", va="baseline", weight="bold")
        write_line(figure, _LEFT, y, sentence, width - _LEFT - _RIGHT)
    y -= LINE_HEIGHT / 2
    for line in notes:
        y -= LINE_HEIGHT
        write_line(figure, 0.1, y, line, width - 0.2, color=MUTED)


def space_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move the ascending positions `wanted` between `low` and `high`, at least `gap` apart, or
    evenly spread if there is no room: `([1, 1, 9], 2, 0, 10)` gives `[1, 3, 9]`."""
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    # First from left to right, moving labels right; then back, moving those beyond the right end
    # left.
    positions: list[float] = []
    for position in wanted:
        positions.append(max(position, low))
        low = positions[-1] + gap
    for i in reversed(range(len(positions))):
        positions[i] = min(positions[i], high)
        high = positions[i] - gap
    return positions


def _draw_borders(axes: Axes, windows: Sequence[tuple[int, int]]) -> None:
    """Draw a dotted line between each two windows."""
    for lo, _ in windows[1:]:
        axes.axvline(lo + 0.5, label="border", color=MUTED, lw=0.6, ls=(0, (1, 2)), zorder=0)


def _draw_curve(
    axes: Axes, number: int, scores: np.ndarray, windows: Sequence[tuple[int, int]]
) -> None:
    """Draw panel `number` with a line of scores per window, and a strip for numbers above them."""
    n, style, borders = len(scores), line_style(number), [lo for lo, _ in windows[1:]]
    if n > MAX_MARKERS:
        style |= {"marker": "", "linestyle": "-", "linewidth": 0.6}
        # A window of one sentence has no line, so it gets a marker.
        alone = [lo for lo, hi in windows if hi - lo == 1]
        axes.plot(np.add(alone, 1), scores[alone], ".", color=style["color"], markersize=1.5)
    # NaN between two windows interrupts the line.
    numbers = np.insert(np.arange(1.0, n + 1), borders, np.nan)
    axes.plot(numbers, np.insert(scores, borders, np.nan), label="scores", **style)
    low, high = scores.min(), scores.max()
    space = 0.1 * ((high - low) or 1.0)
    axes.set_xlim(0.5, n + 0.5)
    whole = [tick for tick in axes.get_xticks() if 1 <= tick <= n and tick == int(tick)]
    axes.set_xticks(whole or [1])
    axes.set_ylim(low - space, high + 5 * space)
    axes.locator_params(axis="y", nbins=4)
    axes.set_yticks([tick for tick in axes.get_yticks() if low - space <= tick <= high + space])


def _number_sentences(
    axes: Axes, number: int, scores: Sequence[float], indices: Sequence[int], width: float
) -> None:
    """Mark the sentences `indices` in panel `number`, and write their numbers, from 1, in a row at
    the top of the panel, without overlaps. The panel is `width` inches wide."""
    style = line_style(number) | {"linestyle": "", "markersize": 5.5}
    digit = _DIGIT * len(scores) / width
    size = digit * len(str(len(scores)))
    low, high = axes.get_xlim()
    wanted = [i + 1 for i in indices]
    positions = space_labels(wanted, size + digit / 2, low + size / 2, high - size / 2)
    for i, position in zip(indices, positions, strict=True):
        axes.plot(i + 1, scores[i], label="labelled", **style)
        axes.annotate(
            str(i + 1),
            (i + 1, scores[i]),
            (position, 0.99),
            textcoords=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            weight="bold",
            bbox={"facecolor": "white", "linewidth": 0, "pad": 0.5},
            arrowprops=_POINTER,
        )
