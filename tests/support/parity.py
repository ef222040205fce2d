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


def compare(path: Path, windows: int, kind: str) -> tuple[str, dict[str, float], int]:
    """A description of the comparison, the largest difference for each operation, and the number of
    stories."""
    torch.set_num_threads(1)
    rows = json.loads(path.read_text(encoding="utf-8")).values()
    stories = [Story.parse([s for s in row["sentences"] if s.strip()], windows) for row in rows]
    model, tokenizer = encoder_of(kind, 8192, Learn(tuple(story.text for story in stories), 6000))
    oracle = Oracle(model, tokenizer)
    worst: dict[str, float] = {}
    for result in score_stories(stories, StoryEncoder(model, tokenizer)):
        for name, expected in oracle.score(result.sentences, result.windows).items():
            found = max(abs(a - b) for a, b in zip(expected, result.scores[name], strict=True))
            worst[name] = max(worst.get(name, 0.0), found)
    return f"{path.name}, {windows} window(s), {kind}", worst, len(stories)


def main() -> int:
    folder = Path(sys.argv[1])
    missing = [name for name in FILES if not (folder / name).exists()]
    if missing:
        print(
            f"skipped: no {' and '.join(missing)} in {folder} (stories can't be redistributed; set"
            " DATA=)"
        )
        return 0
    failed = False
    with ProcessPoolExecutor(max_workers=2) as pool:
        jobs = [
            pool.submit(compare, folder / name, windows, kind)
            for (name, windows), kind in product(FILES.items(), ("bert", "modernbert"))
        ]
        for job in jobs:
            description, worst, count = job.result()
            failed |= max(worst.values()) > TOLERANCE
            print(
                f"{description}, {count} stories: "
                + ", ".join(f"{name} {value:.1e}" for name, value in worst.items()),
                flush=True,
            )
    print("differences exceed the tolerance" if failed else f"all within {TOLERANCE}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
