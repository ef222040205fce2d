"""Which sentences stand out, and in what colour: shared by the terminal, pages and pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from narrative_twins.salience.result import StorySalience

PALE = (0xFF, 0xFF, 0xFF)


STRONG = (0xF2, 0x9E, 0x4C)
"""The shades of the least and the most salient sentence; ink on any shade has a contrast of at least 7.5 to 1."""


MARK = "★"


BARS = "▁▂▃▄▅▆▇█"


def marked(result: StorySalience, operation: str) -> set[int]:
    """The sentences that stand out by an operation: the most salient fifth, at least one."""
    return {one.index for one in result.top(max(1, round(len(result) / 5)), operation)}


def shares(scores: list[float]) -> NDArray[np.float64]:
    """Where each score lies between the lowest of the story, 0, and the highest, 1; all 0 where they are equal."""
    values = np.asarray(scores, np.float64)
    spread = np.ptp(values)
    return (values - values.min()) / spread if spread > 0 else np.zeros_like(values)


def shades(scores: list[float]) -> list[tuple[int, int, int]]:
    """A colour for each score, from the lowest of the story to the highest."""
    share = shares(scores)
    colours = np.outer(1 - share, PALE) + np.outer(share, STRONG)
    return [(int(red), int(green), int(blue)) for red, green, blue in np.rint(colours)]


def shown_sentences(result: StorySalience, top: int | None) -> set[int]:
    """The sentences that are shown."""
    return set(range(len(result))) if top is None else {one.index for one in result.top(top)}


def window_title(w: int, lo: int, hi: int) -> str:
    """The heading over the sentences of a window; numbers count from 1."""
    return f"window {w + 1}: sentences {lo + 1} to {hi}"


def caption(result: StorySalience) -> str:
    """How to read the stars and shades of a story, and what to know of its scores."""
    legend = (
        f"{MARK} the most salient fifth by each operation; bars and shades go from the lowest score of the story to "
        f"the highest; sentences stand out by {result.primary_operation}."
    )
    return " ".join([legend, *result.notes])
