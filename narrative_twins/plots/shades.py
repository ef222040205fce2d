"""The colours of sentences by their scores: the same in the terminal, on pages and in notebooks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PALE = (0xFF, 0xFF, 0xFF)
STRONG = (0xF2, 0x9E, 0x4C)
"""The background of the least and the most salient sentence; text has a contrast of at least 7.5 to 1 on all shades."""


def shares(scores: list[float]) -> NDArray[np.float64]:
    """The scores scaled to 0 for the lowest of the story and 1 for the highest; all 0 if they are equal."""
    values = np.asarray(scores, np.float64)
    spread = np.ptp(values)
    return (values - values.min()) / spread if spread > 0 else np.zeros_like(values)


def shades(scores: list[float]) -> list[tuple[int, int, int]]:
    """The background colour of each score: `PALE` for the lowest of the story, `STRONG` for the highest."""
    share = shares(scores)
    colours = np.outer(1 - share, PALE) + np.outer(share, STRONG)
    return [(int(red), int(green), int(blue)) for red, green, blue in np.rint(colours)]
