"""What pictures share: one style, colours, text that fits, and PNG or SVG files that are written whole.

Colours are those of Okabe and Ito, which can be told apart whatever colours a reader sees. Every text is data: nothing
in it is mathematics or TeX, and what does not fit is cut short. Fonts are the reader's own settings of matplotlib;
pyplot and its state are left alone.
"""

from __future__ import annotations

import importlib.util
import io
import os
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrative_twins.files import AtomicFile
from narrative_twins.plots.printable import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGE_FORMATS = ("png", "svg")
"""The formats of pictures."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours without the yellow, which is too pale on white; those with most contrast come first."""
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P")

INK = (0x1B, 0x1B, 0x1F)
"""The colour of text, on pages too."""
FAINT = (0x6B, 0x6B, 0x75)
"""Of what frames a picture, and of notes."""
PAGE = 7.0
"""Width of a figure that fills a page, in inches; a column has about 3.3."""
NARROWEST, WIDEST = 2.5, 20.0
LINE = 0.13
"""Inches that a line of text takes."""


def hex_color(colour: tuple[int, int, int]) -> str:
    """A colour as CSS and matplotlib have it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


_STYLE = {
    "font.size": 7,
    "text.color": hex_color(INK),
    "text.parse_math": False,
    "axes.labelcolor": hex_color(INK),
    "axes.edgecolor": hex_color(FAINT),
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": hex_color(FAINT),
    "ytick.color": hex_color(FAINT),
    "xtick.labelcolor": hex_color(INK),
    "ytick.labelcolor": hex_color(INK),
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "narrative_twins",
}
_FONTS = ("font.family", "font.sans-serif", "font.serif", "font.monospace")
_TURN = threading.RLock()
"""Settings of matplotlib belong to the whole process, so threads take turns."""


def check_matplotlib() -> None:
    """Say what to install where matplotlib is missing.

    Raises:
        ModuleNotFoundError: it is.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError("plots need matplotlib: pip install narrative_twins[plot]")


def line_style(number: int) -> dict[str, Any]:
    """Colour, line and marker of the line of a number: different for 84 lines, and without colour for 12."""
    return {
        "color": PALETTE[number % len(PALETTE)],
        "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, to be drawn on within `figure_style`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _figure_class()(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def figure_style() -> Iterator[None]:
    """Within it figures are made and saved in one style, whatever the settings of the process are."""
    check_matplotlib()
    from matplotlib import rcParams, style

    with _TURN:
        fonts = {name: value for name, value in rcParams.items() if name in _FONTS}
        with style.context(["default", _STYLE | fonts]), _no_glyph_warnings():
            yield


def render(figure: Figure, form: str) -> bytes:
    """A figure as PNG or SVG: the same bytes for the same figure, and the text of an SVG as text."""
    data = io.BytesIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with figure_style():
        figure.savefig(data, format=form, dpi=200, metadata=nothing if form == "svg" else {"Software": None})
    return data.getvalue()


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, whole or not at all; its ending says whether as PNG or SVG."""
    with AtomicFile(os.fspath(path)) as file:
        file.write(render(figure, _form(path)))


def check_figure(path: str | os.PathLike[str] | None, width: float = PAGE) -> None:
    """Tell before anything is drawn what would keep a picture from being made.

    Args:
        path: where it goes, if it goes into a file.
        width: in inches.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: the figure would be too narrow for words, or huge, or the path names no PNG or SVG file.
        OSError: no file can be written there.
    """
    check_matplotlib()
    if not NARROWEST <= width <= WIDEST:
        raise ValueError(f"width={width}: a figure is {NARROWEST} to {WIDEST} inches wide")
    if path is not None:
        _form(path)
        AtomicFile(os.fspath(path))


def _form(path: str | os.PathLike[str]) -> str:
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in IMAGE_FORMATS:
        raise ValueError(f"{os.fspath(path)!r}: a picture is written as PNG or SVG; end its name in .png or .svg")
    return form


def write_line(figure: Figure, x: float, y: float, text: str, room: float, **style: Any) -> None:
    """A line of text at a place in inches, cut short to the room there is."""
    width, height = figure.get_size_inches()
    line = fit_text(figure, text, room, **style)
    figure.text(x / width, y / height, line, va="baseline", **style)


def fit_text(figure: Figure, text: str, room: float, both_ends: bool = False, **style: Any) -> str:
    """As much of a text as fits into so many inches, see `shortened`."""
    line = shortened(text, int(room * 30) + 2, both_ends)
    size = style.get("size", _STYLE["font.size"]) / 72
    probe = figure.text(0, 0, line, **style)
    while len(line) > 1:
        probe.set_text(line)
        # What a font lacks is as wide as what another font shows in its place.
        columns = sum(2 if unicodedata.east_asian_width(char) in "WF" else 0 for char in line) * 0.5 * size
        taken = max(probe.get_window_extent().width / figure.dpi, columns)
        if taken <= room:
            break
        line = shortened(text, min(len(line) - 1, int(len(line) * room / taken) + 1), both_ends)
    probe.remove()
    return line


@cache
def _figure_class() -> type[Figure]:
    from matplotlib.figure import Figure

    class QuietFigure(Figure):
        """A figure that does not warn of every letter its fonts lack, however it is drawn."""

        def draw(self, renderer: Any) -> None:
            with _TURN, _no_glyph_warnings():
                super().draw(renderer)

    return QuietFigure


@contextmanager
def _no_glyph_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
