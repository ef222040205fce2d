"""Two runs at once on the cores of one machine, by how long idle threads of OpenMP spin:

    python benchmarks/two_runs.py [--stories 400] [--spins 300000 2000] [--rounds 2]

A run is `narrative-twins corpus` on packaged stories, in a process of its own, with its start. For
each value of GOMP_SPINCOUNT (300,000 is what libgomp does by itself; `set` is what the commands set)
a run is timed alone, and two at the same time. Printed are the medians over rounds; two at once as
a multiple of one after the other, which is twice the time alone; and the time alone as a multiple
of that with the first value. Nothing else should run on the machine: under five minutes on two
cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from narrative_twins.data import load_story_twins

SET = "set"


def seconds(stories: Path, folder: Path, spins: str, runs: int) -> float:
    """Seconds until some runs, which start at the same time, have all ended."""
    unset = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    if spins != SET:
        environment["GOMP_SPINCOUNT"] = spins
    command = [sys.executable, "-m", "narrative_twins", "corpus", str(stories), "--quiet", "--out"]
    start = time.perf_counter()
    processes = [
        subprocess.Popen([*command, str(folder / str(run))], env=environment, text=True)
        for run in range(runs)
    ]
    if any([process.wait() for process in processes]):
        sys.exit("a run has failed")
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=400)
    parser.add_argument("--spins", nargs="+", default=["300000", SET])
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found: dict[tuple[str, int], list[float]] = {}
    with TemporaryDirectory() as scratch:
        stories = Path(scratch, "stories.jsonl")
        rows = load_story_twins(split="train")["story"][: options.stories]
        stories.write_text("".join(json.dumps({"sentences": row}) + "\n" for row in rows))
        for number in range(options.rounds):
            for spins in options.spins:
                for runs in (1, 2):
                    folder = Path(scratch, f"{number}-{spins}-{runs}")
                    folder.mkdir()
                    taken = seconds(stories, folder, spins, runs)
                    found.setdefault((spins, runs), []).append(taken)
    print(f"{os.cpu_count()} cores, load average before {load:.1f}, {len(rows)} stories a run")
    first = median(found[options.spins[0], 1])
    for spins in options.spins:
        alone, together = (median(found[spins, runs]) for runs in (1, 2))
        print(
            f"spins {spins}: alone {alone:.1f} s ({alone / first:.2f} of the first), two at once"
            f" {together:.1f} s ({together / (2 * alone):.2f} of one after the other)"
        )


if __name__ == "__main__":
    main()
