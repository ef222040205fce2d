"""Plots of salience as matplotlib figures: curves of one story, a heat map of several. The colour
map is cividis, which looks nearly the same to colour-blind readers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.plots.style import (
    LINE_HEIGHT,
    MUTED,
    PAGE,
    PALETTE,
    figure_style,
    fit_text,
    hex_color,
    line_style,
    new_figure,
    printable,
    write_line,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LABELS = 10  # numbered sentences per panel
HEAT_COLUMNS = 240  # columns of a heat map, from the beginning of a story to its end
MAX_MARKERS = 120  # a line of more sentences has no markers

# Inches: the title, the left and right margins and the name of a panel, the axis below the last
# panel; a bold digit.
_TITLE, _LEFT, _RIGHT, _NAME, _AXIS = 0.3, 0.55, 0.2, 0.24, 0.42
_DIGIT = 0.069


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
    """Curves of a story's scores in story order, one panel per operation. The lines are interrupted
    at window borders, which are drawn as dotted lines if there is room.

    Args:
        windows: half-open ranges of sentence indices.
        scores: by operation, one score per sentence.
        labelled: by operation, the indices of sentences to number, most important first: at most
            `MAX_LABELS`, fewer if there is no room. The first words of these sentences are listed
            below the panels.
        title, notes: a line above the panels, and sentences below them.
        width: in inches.
        bare: the panels only.
        unit: what the scores are of, for the axis.
    """
    inner = width - _LEFT - _RIGHT
    fit = min(MAX_LABELS, int(inner / (_DIGIT * (len(str(len(sentences))) + 0.5))))
    labelled = {name: indices[:fit] for name, indices in labelled.items()}
    key = [] if bare else sorted({i for indices in labelled.values() for i in indices})
    lines: list[str] = []
    for note in () if bare else notes:
        lines += textwrap.wrap(printable(note), int(width * 19))
    panel = 0.75 + 0.05 * width
    below = _AXIS + LINE_HEIGHT * (0 if bare else len(key) + len(lines) + 1)
    height = _TITLE * (not bare) + len(scores) * (_NAME + panel) + below
    with figure_style():
        figure = _titled(width, height, "" if bare else title)
        for number, (name, values) in enumerate(scores.items()):
            bottom = below + (len(scores) - 1 - number) * (_NAME + panel)
            box = _LEFT / width, bottom / height, inner / width, panel / height
            axes = figure.add_axes(box, label=f"panel {number}")
            axes.set_title(fit_text(figure, name, inner), loc="left", pad=3, size=7)
            _draw_panel(axes, number, values, windows, labelled.get(name, ()), inner)
            axes.tick_params(labelbottom=number == len(scores) - 1)
        hidden = f" ({len(windows)} windows, too narrow to be marked)"
        axes.set_xlabel(unit + hidden * (not _has_borders(windows, inner)), labelpad=2)
        _write_key(figure, below - _AXIS, {i: sentences[i] for i in key}, lines)
    return figure


def heat_figure(
    names: Sequence[str], shares: Sequence[Sequence[float]], *, title: str, width: float = PAGE
) -> Figure:
    """A heat map, `width` inches wide, with one row per story. `shares` has one number from 0 to 1
    for each sentence of each story; all rows have the full width. If there is no room for all
    names, the title says how many are hidden.
    """
    row, below = min(0.2, 6 / len(names)), 0.8
    body, left = max(0.2, row * len(names)), 0.1 + min(2.0, 0.32 * width)
    height, inner = _TITLE + body + below, width - left - 0.15
    step = int(np.ceil(LINE_HEIGHT / row))
    hidden = f" ({step - 1} of {step} names are not shown)" if step > 1 else ""
    with figure_style():
        figure = _titled(width, height, title + hidden)
        axes = figure.add_axes(
            (left / width, below / height, inner / width, body / height), label="stories"
        )
        image = axes.imshow(
            np.stack([resample(row_shares, HEAT_COLUMNS) for row_shares in shares]),
            cmap="cividis",
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest" if len(names) < 500 else "antialiased",
            extent=(0, 1, len(names), 0),
        )
        if row > LINE_HEIGHT:
            for y in range(1, len(names)):
                axes.axhline(y, color="white", linewidth=0.8)
        labels = [fit_text(figure, name, left - 0.2, both_ends=True) for name in names[::step]]
        axes.set_yticks(np.arange(0, len(names), step) + 0.5, labels)
        axes.set_xticks([0, 0.5, 1], ["beginning", "middle", "end"])
        axes.tick_params(left=False)
        axes.spines[:].set_visible(False)
        scale = figure.add_axes(
            (left / width, 0.3 / height, inner / width, 0.09 / height), label="scale"
        )
        bar = figure.colorbar(image, cax=scale, orientation="horizontal")
        bar.set_ticks([0, 1], labels=["least salient of its story", "most salient"])
        for part in (axes, scale):
            _keep_tick_labels_inside(part)
    return figure


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
    body = 0.18 * max(1, len(names))
    height = _TITLE + body + _AXIS
    with figure_style():
        figure = _titled(width, height, title)
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


def _titled(width: float, height: float, title: str) -> Figure:
    figure = new_figure(width, height)
    write_line(figure, 0.1, height - 0.2, title, width - 0.2, weight="bold", size=8)
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


def space_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Rising positions from `low` to `high`, moved so that neighbours are at least `gap` apart, or
    evenly spread if there is no room for that gap."""
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    positions: list[float] = []
    # First from left to right, moving labels right; then back, moving those beyond the right end
    # left.
    for position in wanted:
        positions.append(max(position, positions[-1] + gap if positions else low))
    for i in reversed(range(len(positions))):
        positions[i] = min(
            positions[i], high if i == len(positions) - 1 else positions[i + 1] - gap
        )
    return positions


def _draw_panel(
    axes: Axes,
    number: int,
    values: Sequence[float],
    windows: Sequence[tuple[int, int]],
    labelled: Iterable[int],
    width: float,
) -> None:
    """Draw a panel `width` inches wide: one line per window, window borders, and the numbers of
    some sentences."""
    n, style, scores = len(values), line_style(number), np.asarray(values, np.float64)
    borders = [lo for lo, _ in windows[1:]]
    if _has_borders(windows, width):
        dotted: dict[str, Any] = {
            "color": hex_color(MUTED),
            "lw": 0.6,
            "linestyle": (0, (1, 2)),
            "zorder": 0,
        }
        for border in borders:
            axes.axvline(border + 0.5, label="border", **dotted)
    dense = {"marker": "", "linestyle": "-", "linewidth": 0.6} if n > MAX_MARKERS else {}
    # NaN between two windows interrupts the line.
    numbers = np.insert(np.arange(1.0, n + 1), borders, np.nan)
    axes.plot(numbers, np.insert(scores, borders, np.nan), label="scores", **style | dense)
    if dense:
        # A window of one sentence has no line, so it gets a marker.
        alone = [lo for lo, hi in windows if hi - lo == 1]
        axes.plot(np.add(alone, 1), scores[alone], ".", color=style["color"], markersize=1.5)
    finite = scores[np.isfinite(scores)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    span = (high - low) or 1.0
    axes.set_xlim(0.5, n + 0.5)
    whole = [tick for tick in axes.get_xticks() if 1 <= tick <= n and tick == int(tick)]
    axes.set_xticks(whole or [1])
    # The numbers of sentences are written in the strip above the highest score.
    axes.set_ylim(low - 0.1 * span, high + 0.5 * span)
    axes.locator_params(axis="y", nbins=4)
    ticks = axes.get_yticks()
    axes.set_yticks([tick for tick in ticks if low - 0.1 * span <= tick <= high + 0.1 * span])
    chosen = [i for i in sorted(labelled) if np.isfinite(scores[i])]
    _label_sentences(axes, chosen, scores, number, width)


def _label_sentences(
    axes: Axes, chosen: list[int], scores: NDArray[np.float64], number: int, width: float
) -> None:
    """Mark some sentences of a panel, and write their numbers in a row at its top, without
    overlaps."""
    digit, style = _DIGIT * len(scores) / width, line_style(number)
    size = digit * len(str(len(scores)))
    low, high = axes.get_xlim()
    wanted = [i + 1 for i in chosen]
    positions = space_labels(wanted, size + digit / 2, low + size / 2, high - size / 2)
    marks = {"color": style["color"], "marker": style["marker"], "markersize": 5.5}
    line = {"arrowstyle": "-", "linewidth": 0.5, "color": hex_color(MUTED)}
    for i, position in zip(chosen, positions, strict=True):
        axes.plot(i + 1, scores[i], label="labelled", **marks)
        axes.annotate(
            str(i + 1),
            (i + 1, scores[i]),
            (position, 0.99),
            textcoords=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            weight="bold",
            bbox={"facecolor": "white", "linewidth": 0, "pad": 0.5},
            arrowprops=line | {"shrinkA": 0, "shrinkB": 3},
        )


def _write_key(
    figure: Figure, top: float, sentences: Mapping[int, str], notes: Iterable[str]
) -> None:
    """Write numbered sentences and notes, one per line, downwards from `top` inches above the
    bottom."""
    width, height = figure.get_size_inches()
    y = top
    for i, sentence in sentences.items():
        y -= LINE_HEIGHT
        figure.text(
            (_LEFT - 0.1) / width, y / height, str(i + 1), ha="right", va="baseline", weight="bold"
        )
        write_line(figure, _LEFT, y, sentence, width - _LEFT - _RIGHT)
    y -= LINE_HEIGHT / 2
    for note in notes:
        y -= LINE_HEIGHT
        write_line(figure, 0.1, y, note, width - 0.2, color=hex_color(MUTED))


def _keep_tick_labels_inside(axes: Axes) -> None:
    first, *_, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")


def _has_borders(windows: Sequence[tuple[int, int]], width: float) -> bool:
    """Whether a panel `width` inches wide has room for the window borders."""
    return len(windows) <= width * 12
