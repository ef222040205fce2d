"""Score packaged stories in one process with all threads, and in several processes that share the
threads:

    python benchmarks/processes.py [--stories 400] [--processes 2] [--rounds 3]

A round runs both in turn. Times are medians over rounds, without the seconds until the first
result, in which processes start and load the encoder; these are printed next to them. Ratios are
medians of the ratios within a round.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from statistics import median

import torch
from tqdm.auto import tqdm

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.data import load_story_twins


def seconds(stories: list[list[str]], encoder: StoryEncoder, processes: int) -> tuple[float, float]:
    """Seconds until the results of the first buffer, and of a story after that."""
    start, skipped = time.perf_counter(), 32 * processes
    results = score_stories(stories, encoder, processes=processes)
    list(islice(results, skipped))
    first = time.perf_counter()
    rest = sum(1 for _ in results)
    return first - start, (time.perf_counter() - first) / rest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="folder or Hub id (default: the default encoder)")
    parser.add_argument("--stories", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    stories = load_story_twins(split="train")["story"][: options.stories]
    encoder = StoryEncoder.from_pretrained(options.model)
    ways = (1, options.processes)
    rounds = [
        [seconds(stories, encoder, count) for count in ways]
        for _ in tqdm(range(options.rounds), desc="rounds")
    ]
    print(f"{torch.get_num_threads()} threads, {len(stories)} stories, {options.rounds} rounds")
    for way, count in enumerate(ways):
        start, each = (median(times[way][part] for times in rounds) for part in (0, 1))
        faster = median(times[0][1] / times[way][1] for times in rounds)
        print(
            f"{count} process(es): {1 / each:.1f} stories a second, {faster:.2f} times as fast;"
            f" start {start:.1f} s"
        )


if __name__ == "__main__":
    main()
