"""The style of all figures: colours, fonts, text that fits its space, and PNG or SVG files.

Colours are the palette of Okabe and Ito, which colour-blind readers can tell apart. Text is never
parsed as mathematics or TeX, and is shortened if it does not fit. Fonts are the user's own
matplotlib settings. pyplot is not used.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrative_twins.files import AtomicFile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGE_FORMATS = ("png", "svg")
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""The colours of Okabe and Ito without yellow, which is too pale on white; highest contrast
first."""
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P")

INK = (0x1B, 0x1B, 0x1F)  # text, in HTML pages too
MUTED = (0x6B, 0x6B, 0x75)  # axes and notes
# Inches: the width of a figure as wide as a page (a column is about 3.3), its limits, the height of
# a line of text.
PAGE = 7.0
MIN_WIDTH, MAX_WIDTH = 2.5, 20.0
LINE_HEIGHT = 0.13
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
NOTEBOOK_DPI = 110  # a figure as wide as a page has 770 pixels, which fit a cell


def hex_color(colour: tuple[int, int, int]) -> str:
    """A colour in the notation of CSS and matplotlib, such as `#1b1b1f`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


_STYLE = {
    "font.size": 7,
    "text.color": hex_color(INK),
    "text.parse_math": False,
    "axes.labelcolor": hex_color(INK),
    "axes.edgecolor": hex_color(MUTED),
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": hex_color(MUTED),
    "ytick.color": hex_color(MUTED),
    "xtick.labelcolor": hex_color(INK),
    "ytick.labelcolor": hex_color(INK),
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "narrative_twins",
}
_FONTS = ("font.family", "font.sans-serif", "font.serif", "font.monospace")
_LOCK = threading.RLock()
"""Held while figures are drawn, since matplotlib's settings are global to the process."""


def check_matplotlib() -> None:
    """Raise `ModuleNotFoundError`, with the command that installs matplotlib, if it is not
    installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError("plots need matplotlib: pip install narrative_twins[plot]")


def line_style(number: int) -> dict[str, Any]:
    """Colour, line style and marker of a line, by its number: different for 84 lines, for 12 even
    without colour."""
    return {
        "color": PALETTE[number % len(PALETTE)],
        "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, with its size in inches; draw on it within `figure_style`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _figure_class()(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def figure_style() -> Iterator[None]:
    """Within it, figures are drawn and saved in the package's style, with only the fonts of the
    user's settings."""
    check_matplotlib()
    from matplotlib import rcParams, style

    with _LOCK:
        fonts = {name: value for name, value in rcParams.items() if name in _FONTS}
        with style.context(["default", _STYLE | fonts]), _no_glyph_warnings():
            yield


def render(figure: Figure, form: str, dpi: int = 200) -> bytes:
    """A figure as PNG or SVG: equal figures give equal bytes. An SVG keeps text as text."""
    data = io.BytesIO()
    # None leaves an entry out.
    names = ("Date", "Creator", "Format", "Type") if form == "svg" else ("Software",)
    with figure_style():
        figure.savefig(data, format=form, dpi=dpi, metadata=dict.fromkeys(names))
    return data.getvalue()


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, completely or not at all; the suffix selects PNG or SVG."""
    with AtomicFile(os.fspath(path)) as file:
        file.write(render(figure, _image_format(path)))


def check_figure(path: str | os.PathLike[str] | None, width: float = PAGE) -> None:
    """Check, before anything is drawn, that a figure of a width in inches can be made, and saved if
    there is a path.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: the width is not from 2.5 to 20, or the suffix of the path is neither `.png` nor
            `.svg`.
        OSError: no file can be written there.
    """
    check_matplotlib()
    if not MIN_WIDTH <= width <= MAX_WIDTH:
        raise ValueError(
            f"width={width}: the width of a figure must be from {MIN_WIDTH} to {MAX_WIDTH} inches"
        )
    if path is not None:
        _image_format(path)
        AtomicFile(os.fspath(path))


def _image_format(path: str | os.PathLike[str]) -> str:
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in IMAGE_FORMATS:
        raise ValueError(
            f"{os.fspath(path)!r} is not a PNG or SVG file; use a name that ends in .png or .svg"
        )
    return form


def printable(text: str) -> str:
    """Text with U+FFFD for control characters, which could control a terminal and are not allowed
    in HTML, and for lone surrogates, which can't be encoded. Joiners and direction marks are
    kept."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Printable text with all runs of white space replaced by single spaces."""
    return printable(" ".join(text.split()))


def shortened(text: str, length: int, both_ends: bool = False) -> str:
    """The text as one line of at most `length` characters, with an ellipsis for what is left out:
    at the end, or in the middle with `both_ends`, for example for names. A text of megabytes is
    fast: only its ends are read.
    """
    limit = 4 * length + 40
    if len(text) <= limit and len(line := one_line(text)) <= length:
        return line
    tail = (length - 1) // 2 if both_ends else 0
    end = one_line(text[-limit:])[-tail:].lstrip() if tail else ""
    return one_line(text[:limit])[: length - 1 - tail].rstrip() + "…" + end


def write_line(
    figure: Figure, x: float, y: float, text: str, max_width: float, **style: Any
) -> None:
    """Write a line of text at a position in inches, shortened to at most `max_width` inches."""
    width, height = figure.get_size_inches()
    line = fit_text(figure, text, max_width, **style)
    figure.text(x / width, y / height, line, va="baseline", **style)


def fit_text(
    figure: Figure, text: str, max_width: float, both_ends: bool = False, **style: Any
) -> str:
    """As much of a text as fits into `max_width` inches; see `shortened`."""
    # About 30 characters fit an inch: a first cut, so that a long text need not be measured.
    line = shortened(text, int(max_width * 30) + 2, both_ends)
    size = style.get("size", _STYLE["font.size"]) / 72
    probe = figure.text(0, 0, line, **style)
    while len(line) > 1:
        probe.set_text(line)
        # Characters missing from the font are drawn in another font by SVG viewers: East Asian ones
        # as wide as high.
        fallback = sum(unicodedata.east_asian_width(char) in "WF" for char in line) * size
        width = max(probe.get_window_extent().width / figure.dpi, fallback)
        if width <= max_width:
            break
        length = min(len(line) - 1, int(len(line) * max_width / width) + 1)
        line = shortened(text, length, both_ends)
    probe.remove()
    return line


@cache
def _figure_class() -> type[Figure]:
    from matplotlib.figure import Figure

    class QuietFigure(Figure):
        """A figure that gives no warnings about characters missing from its fonts, and that
        notebooks show as the value of a cell whatever matplotlib's backend is: others are shown
        only after `%matplotlib inline`. pyplot, which would show it again at the end of the cell,
        does not know it."""

        def draw(self, renderer: Any) -> None:
            with _LOCK, _no_glyph_warnings():
                super().draw(renderer)

        def _repr_png_(self) -> bytes:
            return render(self, "png", dpi=NOTEBOOK_DPI)

    return QuietFigure


@contextmanager
def _no_glyph_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
