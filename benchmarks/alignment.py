"""Time the alignment of two texts, compared with a library for dynamic time warping in C:

    python benchmarks/alignment.py

Prints the best time of five runs on random similarities of n by n sentences. Needs `pip install
dtw-python`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import dtw
import numpy as np

from narrative_twins.making.alignment import best_path

SIZES = (30, 100, 300, 1000)
RUNS = 5


def milliseconds(function: Callable[[], object]) -> float:
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds) * 1000


def main() -> None:
    print("sentences    best_path   dtw-python")
    for size in SIZES:
        similarities = np.random.default_rng(size).uniform(-1, 1, (size, size))
        ours = milliseconds(lambda cells=similarities: best_path(cells))
        library = milliseconds(
            lambda cells=similarities: dtw.dtw(-cells, step_pattern="symmetric1")
        )
        print(f"{size:>4} x {size:<4}  {ours:>7.2f} ms   {library:>7.2f} ms")


if __name__ == "__main__":
    main()
