"""Narrative twins against dropout twins, by the number of rows and epochs.

    python research/paper/twins_by_rows.py --state runs/twins-by-rows --base MINILM_FOLDER --data DATA

Trains an encoder with each kind of twins, with and without distractors, on 430, 860 and all rows of
the package, for one and for three epochs, with five seeds: 120 runs with the settings of
`configs/reproduce/stories.yaml`. First seeds come first. Each run is a file in STATE/runs with the
scores of the labelled stories by summarization; a complete run is not repeated, nor, without
`--again`, one whose ranks are in `results/twins_by_rows.json`. `--only` chooses runs by their names,
such as "*-none-*-seed43", so that several commands can share the work.

DATA is a folder with roc_val.json, stories with labels by people.
"""

import argparse
import fnmatch
import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml
from datasets import Dataset

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.data import load_story_salience, load_story_twins
from narrative_twins.training.trainer import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    trainable_encoder,
)
from narrative_twins.writing import atomic_write

CONFIG = Path(__file__).parent / "configs" / "reproduce" / "stories.yaml"
RESULTS = Path(__file__).parent / "results" / "twins_by_rows.json"
SEEDS = (43, 127, 263, 347, 461)
ROWS = (430, 860, 1721)
EPOCHS = (1, 3)
TWINS = ("narrative", "dropout")


@dataclass(frozen=True)
class Run:
    seed: int
    distractors: bool
    epochs: int
    rows: int
    twins: str

    @property
    def name(self) -> str:
        kind = "distractors" if self.distractors else "none"
        return f"{self.twins}-{kind}-{self.rows}-{self.epochs}-seed{self.seed}"


def all_runs() -> list[Run]:
    """All runs, those of the first seed first, and with distractors first."""
    parts = (SEEDS, (True, False), EPOCHS, ROWS, TWINS)
    return [Run(*each) for each in itertools.product(*parts)]


def train(run: Run, base: str, rows: Dataset) -> StoryEncoder:
    """The trained encoder of a run."""
    settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    settings["learning_rate"] = float(settings["learning_rate"])  # 5e-5 is text in YAML
    settings |= {"num_train_epochs": run.epochs, "save_strategy": "no", "disable_tqdm": True}
    settings |= {"twins": run.twins, "distractors": run.distractors, "seed": run.seed}
    model = trainable_encoder(base)
    with TemporaryDirectory() as folder:
        arguments = NarrativeTwinsTrainingArguments(
            folder, use_cpu=not torch.cuda.is_available(), logging_strategy="no", **settings
        )
        NarrativeTwinsTrainer(model, arguments, rows.take(run.rows)).train()
    return StoryEncoder.from_sentence_transformer(model)


def scored(encoder: StoryEncoder, stories: Dataset) -> list[list[float]]:
    """By story, the score of each sentence by summarization."""
    results = score_stories(stories["story"], encoder, operations="summarization")
    return [[round(score, 6) for score in each.scores["summarization"]] for each in results]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--state", type=Path, required=True, help="folder of all that is made")
    add("--base", required=True, help="folder or Hub id of the encoder to start from")
    add("--data", type=Path, default=Path("data"), help="folder of research data")
    add("--only", default="*", help="a pattern of names of runs (default: all)")
    add("--again", action="store_true", help="repeat runs whose ranks are in the results")
    options = parser.parse_args()
    ranked = set() if options.again else set(json.loads(RESULTS.read_text(encoding="utf-8")))
    stories = load_story_salience(str(options.data / "roc_val.json"), "train")
    # The first rows of the file are about one theme.
    rows = load_story_twins(split="train").shuffle(seed=0)
    runs = [run for run in all_runs() if fnmatch.fnmatch(run.name, options.only)]
    folder = options.state / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    for number, run in enumerate(runs, 1):
        file = folder / f"{run.name}.json"
        if file.exists() or run.name in ranked:
            continue
        start = time.monotonic()
        scores = scored(train(run, options.base, rows), stories)
        minutes = (time.monotonic() - start) / 60
        record: dict[str, Any] = {"minutes": round(minutes, 2), "scores": scores}
        with atomic_write(file) as out:
            out.write(json.dumps(record) + "\n")
        print(f"{number} of {len(runs)}: {run.name}, {minutes:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
