"""A proof that no row of a corpus is lost: stories recombined from those of the package are scored
by the command, which is killed at random points, and the folder is compared with that of a run
without interruption, byte by byte:

    python benchmarks/corpus_proof.py [--stories 100000] [--kills 20] [--exact]

It prints rows a second, and the peak of memory next to that of scoring a single shard. It fails if
the folders differ or the peak is over the limit.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from narrative_twins.data import load_story_twins

SENTENCES = 5
LIMIT = 300
"""MB that the peak of memory may be above that of a single shard."""


def write_corpus(path: Path, count: int, chance: random.Random) -> None:
    """Stories whose sentences are those of different stories of the package, each in its place."""
    stories = [row for row in load_story_twins(split="train")["story"] if len(row) == SENTENCES]
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            sentences = [chance.choice(stories)[place] for place in range(SENTENCES)]
            file.write(json.dumps({"id": number, "sentences": sentences}) + "\n")


class Run:
    """A process that scores.

    Attributes:
        peak: the highest resident memory that was seen, in MB.
        killed: whether it was killed before its end.
    """

    def __init__(
        self, command: list[str], kill_at: int | None = None, folder: Path | None = None
    ) -> None:
        self.peak, self.killed = 0.0, False
        self.start = time.perf_counter()
        with subprocess.Popen([*command, "--quiet"]) as process:
            while process.poll() is None:
                try:
                    self.peak = max(self.peak, psutil.Process(process.pid).memory_info().rss / 1e6)
                except psutil.NoSuchProcess:
                    break
                if kill_at is not None and folder is not None and scored(folder) >= kill_at:
                    # At any moment of a shard, not only after one is written.
                    time.sleep(random.random() / 2)
                    process.kill()
                    self.killed = process.wait() != 0
                time.sleep(0.02)
        self.seconds = time.perf_counter() - self.start
        if process.returncode and not self.killed:
            raise SystemExit(f"the command failed: {' '.join(command)}")


def scored(folder: Path) -> int:
    """The number of shards in a folder."""
    return sum(1 for _ in folder.glob("scores-*.parquet"))


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stories", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000, help="rows of a shard")
    parser.add_argument("--operations", default="summarization")
    parser.add_argument("--exact", action="store_true", help="instead of in one pass")
    parser.add_argument("--model", help="folder or Hub id (default: the default encoder)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_corpus(folder / "stories.jsonl", options.stories, chance)
        write_corpus(folder / "shard.jsonl", options.rows, chance)

        def command(source: str, out: str) -> list[str]:
            arguments = ["corpus", str(folder / source), "--out", str(folder / out)]
            arguments += ["--operations", options.operations, "--shard-rows", str(options.rows)]
            arguments += ["--exact"] * options.exact
            arguments += ["--model", options.model] * (options.model is not None)
            return [sys.executable, "-m", "narrative_twins", *arguments]

        alone = Run(command("shard.jsonl", "alone"))
        whole = Run(command("stories.jsonl", "expected"))
        shards = scored(folder / "expected")
        points = sorted(chance.sample(range(shards), min(options.kills, shards)))
        kills = peak = 0
        for point in points:
            run = Run(command("stories.jsonl", "found"), point, folder / "found")
            kills, peak = kills + run.killed, max(peak, round(run.peak))
        last = Run(command("stories.jsonl", "found"))
        peak = max(peak, round(whole.peak), round(last.peak))
        equal = contents(folder / "found") == contents(folder / "expected")
    print(
        f"{options.stories:,} stories in {shards} shards, killed {kills} times:"
        f" {'equal' if equal else 'NOT EQUAL'}"
    )
    print(
        f"{options.stories / whole.seconds:.0f} rows a second, loading included, in the run without"
        " interruption"
    )
    growth = peak - alone.peak
    print(
        f"peak of memory {peak:,} MB, {growth:+,.0f} MB more than a single shard ({alone.peak:,.0f}"
        f" MB); limit {LIMIT}"
    )
    sys.exit(0 if equal and growth <= LIMIT else 1)


if __name__ == "__main__":
    main()
