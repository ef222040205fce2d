r"""Compare the ranks of faster settings with those of exact scores in float32 (`make ranks`):

    python benchmarks/ranks.py FOLDER [--model FOLDER_OR_ID] [--out benchmarks/results/ranks.json] \
        [--only roc_val.json]

FOLDER contains `roc_val.json` (five-sentence stories with human labels) and `tripod_train.json`
(film synopses with turning points); missing files are skipped. For each setting and operation: the
Spearman correlation with the exact scores, mean over windows; and the agreement with human labels,
Spearman (stories) or AUC of turning points (synopses), with that of the exact scores for
comparison. For exact times, use `make speed`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from narrative_twins import OPERATIONS, StoryEncoder, StorySalience, score_stories
from narrative_twins.data import load_story_salience, load_turning_points
from narrative_twins.evaluation.agreement import agreement_with_turning_points, agreement_with_votes
from narrative_twins.evaluation.metrics import spearman
from narrative_twins.files import AtomicFile


class Setting(NamedTuple):
    """Options of the encoder and of `score_stories`, and the operations that they affect."""

    encoder: dict[str, Any]
    engine: dict[str, Any]
    operations: Sequence[str] = tuple(OPERATIONS)


EXACT = Setting({"dtype": "float32"}, {})
THREE = ("deletion", "disruption", "summarization")
SETTINGS = {
    "roc_val.json": {
        'dtype="bfloat16"': Setting({"dtype": "bfloat16"}, {}),
        "one-pass": Setting({"dtype": "float32"}, {"approximate": "one-pass"}),
        "max_shifts=1": Setting({"dtype": "float32"}, {"max_shifts": 1}, ("shifting",)),
        "max_shifts=2": Setting({"dtype": "float32"}, {"max_shifts": 2}, ("shifting",)),
    },
    "tripod_train.json": {
        "one-pass": Setting({"dtype": "float32"}, {"approximate": "one-pass"}),
        "max_shifts=1": Setting({"dtype": "float32"}, {"max_shifts": 1}, ("shifting",)),
        "max_shifts=2": Setting({"dtype": "float32"}, {"max_shifts": 2}, ("shifting",)),
        "context_tokens=256": Setting({"dtype": "float32", "context_tokens": 256}, {}, THREE),
    },
}


def read(path: Path, limit: int | None = None) -> tuple[list[dict[str, Any]], Any]:
    """The stories of a file, at most `limit`, and a function that measures the agreement of their
    scores with the human labels."""
    if path.name.startswith("roc"):
        rows = next(iter(load_story_salience(path).values()))[:limit]
        return [{"sentences": row} for row in rows["story"]], lambda found: agreement_with_votes(
            found, rows["counts"]
        )
    rows = next(iter(load_turning_points(path).values()))[:limit]
    texts = zip(rows["story"], rows["windows"], strict=True)
    stories = [{"sentences": sentences, "windows": windows} for sentences, windows in texts]
    return stories, lambda found: agreement_with_turning_points(found, rows["turning_points"])


def scored(
    model: str | None, stories: list[dict[str, Any]], setting: Setting
) -> tuple[list[StorySalience], float]:
    """The scored stories, and the time it took in seconds."""
    options = {"context_tokens": 512, **setting.encoder}
    encoder = StoryEncoder.from_pretrained(model, device="cpu", **options)
    start = time.perf_counter()
    engine = {
        "operations": list(setting.operations),
        "on_truncation": "ignore",
        "progress": True,
        **setting.engine,
    }
    results = list(score_stories(stories, encoder, **engine))
    return results, time.perf_counter() - start


def correlation(
    exact: Iterable[StorySalience], found: Iterable[StorySalience], operation: str
) -> float:
    """Spearman correlation of scores, mean over windows of three or more sentences whose scores are
    not all equal."""
    values = [
        spearman(a.scores[operation][lo:hi], b.scores[operation][lo:hi])
        for a, b in zip(exact, found, strict=True)
        for lo, hi in a.windows
        if hi - lo > 2
    ]
    return float(np.nanmean(values))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--model", help="folder or Hub id of the encoder (default: the default encoder)"
    )
    parser.add_argument("--out", default="benchmarks/results/ranks.json")
    parser.add_argument("--only", choices=list(SETTINGS), action="append")
    arguments = parser.parse_args()
    report: dict[str, Any] = {}
    for file in arguments.only or SETTINGS:
        path = arguments.folder / file
        if not path.exists():
            print(f"skipped: no {path} (stories can't be redistributed; set DATA=)")
            continue
        stories, agreement = read(path)
        kind = "spearman" if file.startswith("roc") else "auc"
        exact, seconds = scored(arguments.model, stories, EXACT)
        baseline = {name: agreement(exact)[f"{name}_{kind}"].value for name in EXACT.operations}
        report[file] = {"exact": {"seconds": seconds, "agreement": baseline}}
        print(f"{file}: {len(stories)} stories; exact, float32: {seconds:.0f} s")
        print(
            f"  {'setting':<20}{'operation':<15}{'Spearman with exact':>20}{kind + ' with labels':>22}"
            "   exact"
        )
        for name, setting in SETTINGS[file].items():
            found, seconds = scored(arguments.model, stories, setting)
            measured = agreement(found)
            report[file][name] = {"seconds": seconds, "rank": {}, "agreement": {}}
            for operation in setting.operations:
                rank, value = (
                    correlation(exact, found, operation),
                    measured[f"{operation}_{kind}"].value,
                )
                report[file][name]["rank"][operation] = rank
                report[file][name]["agreement"][operation] = value
                print(
                    f"  {name:<20}{operation:<15}{rank:>20.4f}{value:>22.4f} "
                    f" {baseline[operation]:.4f}",
                    flush=True,
                )
            with AtomicFile(arguments.out) as out:
                out.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
