"""Two tellings of a story, sentence by sentence: the way through both of them on which they are most alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = ((1, 1), (1, 0), (0, 1))
"""How a path goes on, in sentences of the story and of the twin; of equally good steps the first is taken."""


def similarity_matrix(story: NDArray[np.floating[Any]], twin: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The cosine similarities of n vectors and m others, of shape (n, m). A vector of zeros is like nothing: 0.0."""
    return _unit(story) @ _unit(twin).T


def best_path(similarities: NDArray[np.floating[Any]]) -> list[tuple[int, int]]:
    """The monotone path through a matrix that adds up to most, by dynamic time warping.

    A path goes from cell (0, 0) to cell (n − 1, m − 1) by the steps of `STEPS`, and is worth the sum of its cells, both
    ends included:

        total[i, j] = similarities[i, j] + max(total[i − 1, j − 1], total[i − 1, j], total[i, j − 1])

    Cells of one anti-diagonal i + j do not depend on each other and are computed at once, O(n·m) in all. Read from the
    end, ties go to the step in both tellings, then to the one in the story. Since sentences are mostly a little alike,
    a step in both is worth less than two steps, and is rarely taken.

    Args:
        similarities: of n sentences of the story and m of the twin, of shape (n, m).

    Returns:
        The cells (i, j) of the path, in order.

    Raises:
        ValueError: the matrix is empty, or has a cell that is no number.
    """
    cells = np.asarray(similarities, np.float64)
    if cells.ndim != 2 or not cells.size or not np.isfinite(cells).all():
        raise ValueError(f"similarities of shape {cells.shape}: a matrix of numbers is needed, at least one")
    n, m = cells.shape
    # Cell (i, j) stands in row i + j + 2, column i + 1, between cells outside the matrix, which no path goes through.
    totals = np.full((n + m + 1, n + 1), -np.inf)
    totals[0, 0] = 0
    for diagonal in range(n + m - 1):
        lo, hi = max(0, diagonal - m + 1), min(n, diagonal + 1)
        both, story, twin = (_before(totals, diagonal, lo, hi, step) for step in STEPS)
        rows = np.arange(lo, hi)
        totals[diagonal + 2, lo + 1 : hi + 1] = cells[rows, diagonal - rows] + np.maximum(np.maximum(both, story), twin)
    i, j = n - 1, m - 1
    path = [(i, j)]
    while (i, j) != (0, 0):
        # The first of the largest.
        down, right = max(STEPS, key=lambda step: _before(totals, i + j, i, i + 1, step)[0])
        i, j = i - down, j - right
        path.append((i, j))
    return path[::-1]


def _before(totals: NDArray[np.float64], diagonal: int, lo: int, hi: int, step: tuple[int, int]) -> NDArray[np.float64]:
    """The totals from which a step leads to the cells `lo` to `hi` of an anti-diagonal."""
    down, right = step
    return totals[diagonal + 2 - down - right, lo + 1 - down : hi + 1 - down]


def _unit(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    rows = np.asarray(vectors, np.float64)
    units: NDArray[np.float64] = rows / np.maximum(
        np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny
    )
    return units
