"""Compare the engine with the naive oracle on real stories, all four operations at both levels
(`make parity`):

    PYTHONPATH=tests python -m support.parity FOLDER

FOLDER contains `roc_val.json` (five-sentence stories, one window) and `tripod_train.json` (film
synopses, five even windows). Prints the largest difference of any score; the exit code is 1 if one
exceeds 1e-5.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import torch

from narrative_twins import Story, StoryEncoder, score_stories

from support.models import Learn, encoder_of
from support.oracle import Oracle

FILES = {"roc_val.json": 1, "tripod_train.json": 5}
TOLERANCE = 1e-5


def largest_difference(path: Path, windows: int, kind: str) -> float:
    """The largest difference of a score, which is printed by operation."""
    torch.set_num_threads(1)
    rows = json.loads(path.read_text(encoding="utf-8")).values()
    stories = [Story.parse([s for s in row["sentences"] if s.strip()], windows) for row in rows]
    model, tokenizer = encoder_of(kind, 8192, Learn(tuple(story.text for story in stories), 6000))
    oracle = Oracle(model, tokenizer)
    worst: dict[str, float] = {}
    for result in score_stories(stories, StoryEncoder(model, tokenizer)):
        for name, expected in oracle.score(result.sentences, result.windows).items():
            pairs = zip(expected, result.scores[name], strict=True)
            worst[name] = max(worst.get(name, 0.0), *(abs(a - b) for a, b in pairs))
    print(f"{path.name}, {windows} window(s), {kind}, {len(stories)} stories: {worst}", flush=True)
    return max(worst.values())


def main() -> int:
    folder = Path(sys.argv[1])
    missing = [name for name in FILES if not (folder / name).exists()]
    if missing:
        print(
            f"skipped: no {' and '.join(missing)} in {folder} (can't be redistributed; set DATA=)"
        )
        return 0
    with ProcessPoolExecutor(max_workers=2) as pool:
        jobs = [
            pool.submit(largest_difference, folder / name, windows, kind)
            for (name, windows), kind in product(FILES.items(), ("bert", "modernbert"))
        ]
        failed = any([job.result() > TOLERANCE for job in jobs])
    print("differences exceed the tolerance" if failed else f"all within {TOLERANCE}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
