"""Compare the backends that can run the default encoder (`make backends`):

    python benchmarks/backends.py [--rounds 3] [--out benchmarks/results/backends.json]

Scored are stories, a synopsis and a chapter of the package (the chapter without shifting), in turn
by each backend in every round: times are medians over rounds, ratios are medians of the ratios
within a round to torch with `dtype="auto"`. Printed besides: the largest difference of its scores
from those of torch in float32, how long the encoder takes to load, and its peak memory (of a new
process that loads it and scores the stories).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import speed
import transformers

from narrative_twins import StoryEncoder, export_encoder, score_stories
from narrative_twins.encoder.backends import BACKENDS
from narrative_twins.files import AtomicFile

WORK: dict[str, dict[str, Any]] = {
    "stories": {},
    "synopses": {},
    "chapter": {"operations": ["deletion", "disruption", "summarization"]},
}

Load = Callable[[], StoryEncoder]


def loads(folder: Path) -> dict[str, Load]:
    """Functions that load the default encoder by each backend, by name; exports are in `folder`."""
    load = StoryEncoder.from_pretrained
    found: dict[str, Load] = {
        f"torch, {dtype}": partial(load, device="cpu", dtype=dtype) for dtype in ("auto", "float32")
    }
    for backend in BACKENDS:
        export_encoder(found["torch, float32"](), folder, backend)
        found[f"{backend}, float32"] = partial(load, folder, backend=backend)
    return found


def peak_memory(load: Load) -> float:
    """The peak memory, in MB, of a new process that loads an encoder and scores the stories."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_memory, (load,))


def _measure_memory(load: Load) -> float:
    list(score_stories(speed.load_stories("stories", 30), load()))
    return speed.peak_of_process()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--stories", type=int, default=30, help="number of five-sentence stories (default: 30)"
    )
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    transformers.logging.disable_progress_bar()
    with TemporaryDirectory() as folder:
        figures = compare(loads(Path(folder)), arguments)
    for line in table(figures, arguments.work):
        print(line)
    if arguments.out is not None:
        with AtomicFile(str(arguments.out)) as out:
            report = {"machine": speed.machine("cpu"), "backends": figures}
            out.write(json.dumps(report, indent=1) + "\n")


def compare(loads: dict[str, Load], arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The figures of each backend."""
    figures: dict[str, dict[str, Any]] = {}
    encoders = {}
    for name, load in loads.items():
        start = time.perf_counter()
        encoders[name] = load()
        figures[name] = {
            "load seconds": round(time.perf_counter() - start, 2),
            "peak MB": round(peak_memory(load)),
        }
    for work in arguments.work:
        stories = speed.load_stories(work, arguments.stories)
        runs = {
            name: partial(_scored, stories, encoder, on_truncation="ignore", **WORK[work])
            for name, encoder in encoders.items()
        }
        scored = {name: run() for name, run in runs.items()}  # once before the clock runs
        seconds = speed.measure(runs, arguments.rounds)
        for name, times in seconds.items():
            ratios = [a / b for a, b in zip(seconds["torch, auto"], times, strict=True)]
            figures[name][work] = {
                "seconds": round(median(times), 3),
                "times as fast": round(median(ratios), 2),
                "largest difference": _difference(scored[name], scored["torch, float32"]),
            }
    return figures


def _scored(stories: Any, encoder: StoryEncoder, **options: Any) -> list[Any]:
    return list(score_stories(stories, encoder, **options))


def _difference(found: list[Any], exact: list[Any]) -> float:
    """The largest difference of scores."""
    differences = [
        float(np.abs(np.subtract(a.scores[name], b.scores[name])).max())
        for a, b in zip(found, exact, strict=True)
        for name in a.scores
    ]
    return round(max(differences), 5)


def table(figures: dict[str, dict[str, Any]], work: list[str]) -> Iterator[str]:
    """A Markdown table of the figures."""
    columns = [f"{name} | times as fast | largest difference" for name in work]
    yield f"| backend | {' | '.join(columns)} | load | peak MB |"
    yield "|---" * (3 * len(work) + 3) + "|"
    for name, row in figures.items():
        cells = [
            f"{row[kind]['seconds']:.3g} s | {row[kind]['times as fast']:.2f} |"
            f" {row[kind]['largest difference']:.4f}"
            for kind in work
        ]
        yield f"| {name} | {' | '.join(cells)} | {row['load seconds']} s | {row['peak MB']} |"


if __name__ == "__main__":
    main()
