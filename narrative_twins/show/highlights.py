"""Which sentences are highlighted, and in what colour: the same in the terminal, on pages and in figures."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.salience.result import StorySalience

Colour: TypeAlias = tuple[int, int, int]

PALE = (0xFF, 0xFF, 0xFF)
STRONG = (0xF2, 0x9E, 0x4C)
"""The background of the least and the most salient sentence; text has a contrast of at least 7.5 to 1 on all shades."""
PALE_DARK = (0x21, 0x1E, 0x1B)
STRONG_DARK = (0x94, 0x50, 0x0F)
"""The same on a dark page, for light text, with a contrast of at least 5 to 1."""
MARK = "★"
BARS = "▁▂▃▄▅▆▇█"
_ASCII = str.maketrans({MARK: "*", "─": "-", "━": "-", "│": "|", "…": ".", "·": "|"} | dict(zip(BARS, "12345678")))


def in_encoding(text: str, encoding: str) -> str:
    """Text that an encoding can write: itself, or with ASCII in place of stars, bars and lines, and `?` in place of
    other characters that the encoding lacks."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


def marked(result: StorySalience, operation: str) -> set[int]:
    """The indices of the most salient fifth of the sentences by an operation, at least one."""
    return {sentence.index for sentence in result.top(max(1, round(len(result) / 5)), operation)}


def shares(scores: list[float]) -> NDArray[np.float64]:
    """The scores scaled to 0 for the lowest of the story and 1 for the highest; all 0 if they are equal."""
    values = np.asarray(scores, np.float64)
    spread = np.ptp(values)
    return (values - values.min()) / spread if spread > 0 else np.zeros_like(values)


def shades(scores: list[float], pale: Colour = PALE, strong: Colour = STRONG) -> list[Colour]:
    """The background colour of each score: `pale` for the lowest of the story, `strong` for the highest."""
    share = shares(scores)
    colours = np.outer(1 - share, pale) + np.outer(share, strong)
    return [(int(red), int(green), int(blue)) for red, green, blue in np.rint(colours)]


def shown_sentences(result: StorySalience, top: int | None) -> set[int]:
    """The indices of the `top` most salient sentences; None for all."""
    return set(range(len(result))) if top is None else {sentence.index for sentence in result.top(top)}


def window_title(w: int, lo: int, hi: int) -> str:
    """The heading of a window; its numbers count from 1."""
    return f"window {w + 1}: sentences {lo + 1} to {hi}"


def caption(result: StorySalience) -> str:
    """The legend of stars and shades, and the notes on the scores."""
    legend = (
        f"{MARK} the most salient fifth by each operation; bars and shades go from the lowest score of the story to "
        f"the highest; sentences are highlighted by {result.primary_operation}."
    )
    return " ".join([legend, *result.notes])
