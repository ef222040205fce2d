"""How many decimals of scores hold whatever the number of threads:

    python benchmarks/threads.py [--threads 1 2] [--dtype float32]

The story of the README and twenty validation stories of the package are scored with each number of
threads. Printed are the largest difference from the first by operation, and for how many stories
the rounded scores and the ranks are the same.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.data import load_story_twins

README_STORY = Path(__file__).parents[1] / "examples/stories/window_cleaner.txt"
DECIMALS = (3, 4, 5, 6)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", help="folder or Hub id of the encoder (default: the default encoder)"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    stories = [README_STORY.read_text(encoding="utf-8"), *load_story_twins(split="validation[:20]")]
    encoder = StoryEncoder.from_pretrained(options.model, device="cpu", dtype=options.dtype)
    found = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        found.append(list(score_stories(stories, encoder)))
    for threads, results in zip(options.threads[1:], found[1:], strict=True):
        for name in results[0].scores:
            pairs = [
                (np.array(a.scores[name]), np.array(b.scores[name]))
                for a, b in zip(found[0], results, strict=True)
            ]
            largest = max(np.abs(a - b).max() for a, b in pairs)
            same = {
                n: sum(bool((a.round(n) == b.round(n)).all()) for a, b in pairs) for n in DECIMALS
            }
            ranks = sum(
                a.rank(name) == b.rank(name) for a, b in zip(found[0], results, strict=True)
            )
            decimals = ", ".join(f"{count} to {n} decimals" for n, count in same.items())
            print(
                f"{threads} threads, {name:<14} {largest:.1e}; same of {len(stories)}: {ranks}"
                f" ranks, {decimals}"
            )


if __name__ == "__main__":
    main()
