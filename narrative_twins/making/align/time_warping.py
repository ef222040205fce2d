"""Alignment of two tellings of a story by dynamic time warping over the similarities of their
sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = ((1, 1), (1, 0), (0, 1))
"""Steps of a path, in sentences of the story and of the twin; among equally good steps the first is
used."""


def similarity_matrix(
    story: NDArray[np.floating[Any]], twin: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """The cosine similarities of n and m vectors, of shape (n, m); those of a zero vector are 0."""
    return _unit(story) @ _unit(twin).T


def best_path(similarities: NDArray[np.floating[Any]]) -> list[tuple[int, int]]:
    """The monotone path with the largest sum through a matrix of shape (n, m), by dynamic time
    warping in O(n·m).

    A path goes from cell (0, 0) to cell (n − 1, m − 1) by the steps of `STEPS`; its sum includes
    both ends:

        total[i, j] = similarities[i, j] + max(total[i − 1, j − 1], total[i − 1, j], total[i, j −
        1])

    Ties are broken from the end, in the order of `STEPS`. Since most similarities are above 0, a
    diagonal step usually adds less than two single steps, and is rare.

    Returns:
        The cells of the path in order: i is the index of a sentence of the story, j of the twin.

    Raises:
        ValueError: the matrix is empty, or has a cell that is not a finite number.
    """
    cells = np.asarray(similarities, np.float64)
    if cells.ndim != 2 or not cells.size or not np.isfinite(cells).all():
        raise ValueError(
            f"similarities of shape {cells.shape}: a non-empty matrix of finite numbers is needed"
        )
    n, m = cells.shape
    # The total of cell (i, j) is stored at [i + j + 2, i + 1], so that each anti-diagonal i + j is
    # a row: its cells do not depend on each other and are computed at once. Cells outside the
    # matrix are -inf, so no path uses them.
    totals = np.full((n + m + 1, n + 1), -np.inf)
    # The start of all paths: a cell (-1, -1), from which the first step leads to (0, 0).
    totals[0, 0] = 0
    for diagonal in range(n + m - 1):
        # The half-open range of i in this anti-diagonal.
        lo, hi = max(0, diagonal - m + 1), min(n, diagonal + 1)
        both, story, twin = (_before(totals, diagonal, lo, hi, step) for step in STEPS)
        rows = np.arange(lo, hi)
        totals[diagonal + 2, lo + 1 : hi + 1] = cells[rows, diagonal - rows] + np.maximum(
            np.maximum(both, story), twin
        )
    i, j = n - 1, m - 1
    path = [(i, j)]
    while (i, j) != (0, 0):
        # Trace back to the predecessor with the largest total; `max` returns the first of equal
        # ones.
        down, right = max(STEPS, key=lambda step: _before(totals, i + j, i, i + 1, step)[0])
        i, j = i - down, j - right
        path.append((i, j))
    return path[::-1]


def _before(
    totals: NDArray[np.float64], diagonal: int, lo: int, hi: int, step: tuple[int, int]
) -> NDArray[np.float64]:
    """The totals of the predecessors by one step of the cells `lo` to `hi` of an anti-diagonal."""
    down, right = step
    return totals[diagonal + 2 - down - right, lo + 1 - down : hi + 1 - down]


def _unit(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    rows = np.asarray(vectors, np.float64)
    units: NDArray[np.float64] = rows / np.maximum(
        np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny
    )
    return units
