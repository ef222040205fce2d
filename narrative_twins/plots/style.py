"""The style of all figures: colours, fonts, text that fits its space, and PNG or SVG files.

Colours are the palette of Okabe and Ito, which colour-blind readers can tell apart. Text is never
parsed as mathematics or TeX, and is shortened if it does not fit. Fonts are the user's own
matplotlib settings, and installed ones for letters that these lack. pyplot is not used.
"""

from __future__ import annotations

import io
import logging
import os
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrative_twins.extras import check_extra
from narrative_twins.plots.fonts import tell_missing, with_fallbacks
from narrative_twins.text import shortened
from narrative_twins.writing import atomic_write, check_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""The colours of Okabe and Ito without yellow, too pale on white; highest contrast first."""
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P")

INK = "#1b1b1f"  # text, in HTML pages too
MUTED = "#6b6b75"  # axes and notes
# Inches: the width of a figure as wide as a page (a column is about 3.3), the height of a line of
# text.
PAGE, LINE_HEIGHT = 7.0, 0.13
NOTEBOOK_DPI = 110  # a figure as wide as a page has 770 pixels, which fit a cell

_STYLE = {
    "font.size": 7,
    "text.color": INK,
    "text.parse_math": False,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "svg.fonttype": "none",
    # Ids in an SVG are hashes, which would differ between two equal figures.
    "svg.hashsalt": "narrative_twins",
}
_FONTS = ("font.family", "font.sans-serif", "font.serif", "font.monospace")
_TEXT_OF_SVG = b"text{unicode-bidi:plaintext}"
"""Text is from right to left if its first letter is, as in a PNG."""
_FINDER = logging.getLogger("matplotlib.font_manager")
_LOCK = threading.RLock()
"""Held while figures are drawn, since matplotlib's settings are global to the process."""


def line_style(number: int) -> dict[str, Any]:
    """Return the colour, line style and marker of line `number`, from 0, as options of matplotlib.
    The first 84 lines look different; in black and white, the first 12."""
    return {
        "color": PALETTE[number % len(PALETTE)],
        "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


@contextmanager
def figure_style(text: str = "") -> Iterator[None]:
    """Draw and save figures in the style of the package within the `with` block. Of the user's
    settings of matplotlib, only the fonts apply; others follow for letters of `text` that these
    lack."""
    check_extra("plot")
    from matplotlib import rcParams, style

    with _LOCK, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        fonts = {name: value for name, value in rcParams.items() if name in _FONTS}
        fonts["font.family"] = with_fallbacks(fonts["font.family"], text)
        _FINDER.addFilter(_is_not_of_weights)
        try:
            with style.context(["default", _STYLE | fonts]):
                yield
        finally:
            _FINDER.removeFilter(_is_not_of_weights)


def _is_not_of_weights(record: logging.LogRecord) -> bool:
    """Return whether a message is not that a font has no bold letters, as many fonts have none."""
    return "font weight" not in str(record.msg)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches. Draw on the figure within `figure_style`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    # Notebooks show it as the value of a cell whatever matplotlib's backend is; others are shown
    # only after `%matplotlib inline`.
    figure._repr_png_ = partial(render, figure, "png", NOTEBOOK_DPI)  # type: ignore[attr-defined]
    return figure


def render(figure: Figure, form: str, dpi: int = 200) -> bytes:
    """Return a figure as the bytes of a file in the format `form`, `"png"` or `"svg"`. Equal
    figures give equal bytes. An SVG has text as text, not as outlines. A warning is logged if a PNG
    lacks letters."""
    data = io.BytesIO()
    # None leaves an entry out.
    names = ("Date", "Creator", "Format", "Type") if form == "svg" else ("Software",)
    with figure_style():
        if form == "png":
            tell_missing(figure)
        figure.savefig(data, format=form, dpi=dpi, metadata=dict.fromkeys(names))
    return data.getvalue().replace(b"</style>", _TEXT_OF_SVG + b"</style>", 1)


def check_figure(path: str | os.PathLike[str] | None) -> None:
    """Raise an error if no figure can be drawn or, if there is a `path`, saved there.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the suffix of the path is neither `.png` nor `.svg`.
        OSError: no file can be written there.
    """
    check_extra("plot")
    if path is None:
        return
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise ValueError(
            f"{os.fspath(path)!r} is not a PNG or SVG file; use a name that ends in .png or .svg"
        )
    check_writable(path)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Save a figure as a `.png` or `.svg` file. Raises the errors of `check_figure`."""
    check_figure(path)
    with atomic_write(path) as file:
        file.write(render(figure, Path(path).suffix.lower()[1:]))


def write_line(
    figure: Figure, x: float, y: float, text: str, max_width: float, **style: Any
) -> None:
    """Write a text as one line, shortened to at most `max_width` inches. `x` and `y` are inches
    from the lower left corner of the figure; `style` has options of `Figure.text`."""
    width, height = figure.get_size_inches()
    line = fit_text(figure, text, max_width, **style)
    figure.text(x / width, y / height, line, va="baseline", **style)


def fit_text(figure: Figure, text: str, max_width: float, **style: Any) -> str:
    """Return a text as one line, shortened to at most `max_width` inches when drawn in `style`."""
    # About 30 characters fit an inch: a first cut, so that a long text need not be measured.
    line = shortened(text, int(max_width * 30) + 2)
    probe = figure.text(0, 0, line, **style)
    while len(line) > 1:
        probe.set_text(line)
        # Characters missing from the font are drawn in another font by SVG viewers: East Asian ones
        # as wide as high.
        wide = sum(unicodedata.east_asian_width(char) in "WF" for char in line)
        drawn = probe.get_window_extent().width / figure.dpi
        width = max(drawn, wide * float(probe.get_fontsize()) / 72)
        if width <= max_width:
            break
        length = min(len(line) - 1, int(len(line) * max_width / width) + 1)
        line = shortened(text, length)
    probe.remove()
    return line
