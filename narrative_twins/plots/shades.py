"""The colours of sentences by their scores: the same in the terminal, on pages and in notebooks."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Colour: TypeAlias = tuple[int, int, int]

PALE = (0xFF, 0xFF, 0xFF)
STRONG = (0xF2, 0x9E, 0x4C)
"""The background of the least and the most salient sentence; text has a contrast of at least 7.5 to
1 on all shades."""
PALE_DARK = (0x21, 0x1E, 0x1B)
STRONG_DARK = (0x94, 0x50, 0x0F)
"""The same on a dark page, for light text, with a contrast of at least 5 to 1."""


def shares(scores: list[float]) -> NDArray[np.float64]:
    """The scores scaled to 0 for the lowest of the story and 1 for the highest; all 0 if they are
    equal."""
    values = np.asarray(scores, np.float64)
    spread = np.ptp(values)
    return (values - values.min()) / spread if spread > 0 else np.zeros_like(values)


def shades(scores: list[float], pale: Colour = PALE, strong: Colour = STRONG) -> list[Colour]:
    """The background colour of each score: `pale` for the lowest of the story, `strong` for the
    highest."""
    share = shares(scores)
    colours = np.outer(1 - share, pale) + np.outer(share, strong)
    return [(int(red), int(green), int(blue)) for red, green, blue in np.rint(colours)]
