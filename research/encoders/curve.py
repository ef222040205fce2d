r"""Is more judged data worth writing? Agreement with readers against the number of judged stories.

    python research/encoders/curve.py DATA --base runs/twins/encoder --out runs/curve
    python research/encoders/curve.py DATA --base runs/twins/encoder --out runs/curve-taught \
        --labels runs/taught/stories.json

From the encoder of twins, summarization learns the votes of the package's everyday stories, stories
and distractors, each text once, in the order of a seed. The learning rate stays constant after its
warmup, so the encoder after the first 256 texts is that of a run on 256 texts. Measured are the
package's validation stories and the human labels of `roc_val.json` in DATA, all of them, since
nothing is chosen here. With `--labels`, the texts are stories of ROCStories that an encoder
labelled (`train_votes.py --stage taught`) in place of the judged ones. Seeds that are done are not
repeated; a seed takes 20 minutes on two slow CPU cores.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from datasets import Dataset, concatenate_datasets
from measuring import check_data, heading, row
from train_votes import SETTINGS
from transformers import TrainerCallback

from narrative_twins.data import load_story_salience
from narrative_twins.training.evaluators import SalienceEvaluator
from narrative_twins.training.salience_loss import SalienceLoss
from narrative_twins.training.trainer import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    trainable_encoder,
)

SIZES = (0, 256, 512, 1_024, 2_048, 3_840)
"""Judged texts; multiples of the batch size."""


def judged_texts(seed: int) -> Dataset:
    """The everyday stories, and the stories and distractors of the package, in the order of a
    seed."""
    everyday = load_story_salience(split="train", name="everyday")
    stories = load_story_salience(split="train", distractors=True)
    return concatenate_datasets(
        [rows.select_columns(["story", "counts"]) for rows in (everyday, stories)]
    ).shuffle(seed)


class Curve(TrainerCallback):
    """Measures the encoder in training when it has seen each number of texts."""

    def __init__(self, evaluators: list[SalienceEvaluator], batch_size: int) -> None:
        self.evaluators, self.batch_size = evaluators, batch_size
        self.found: dict[int, dict[str, float]] = {}

    def measure(self, texts: int, model: Any) -> None:
        if texts in SIZES:
            self.found[texts] = {
                name: value for one in self.evaluators for name, value in one(model).items()
            }

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        self.measure(0, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.measure(state.global_step * self.batch_size, model)


def run(
    base: str, seed: int, texts: Dataset, evaluators: list[SalienceEvaluator], out: Path
) -> dict[int, dict[str, float]]:
    """The metrics after each number of texts in one run."""
    model = trainable_encoder(base)
    settings = SETTINGS | {
        "learning_rate": 3e-5,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 8,
        "bf16": False,
    }
    arguments = NarrativeTwinsTrainingArguments(
        str(out), seed=seed, save_strategy="no", logging_steps=10, report_to="none", **settings
    )
    curve = Curve(evaluators, arguments.per_device_train_batch_size)
    rows, loss = texts.take(max(SIZES)), SalienceLoss(model, "summarization")
    NarrativeTwinsTrainer(model, arguments, rows, loss=loss, callbacks=[curve]).train()
    return curve.found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the research data")
    parser.add_argument(
        "--base", required=True, help="the encoder to start from, a folder or Hub id"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--labels", type=Path, help="stories that an encoder labelled, in JSON")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    check_data(arguments.data)
    arguments.out.mkdir(parents=True, exist_ok=True)
    labelled = {
        "everyday": load_story_salience(split="validation", name="everyday"),
        "stories": load_story_salience(split="validation"),
        "rocstories": load_story_salience(str(arguments.data / "roc_val.json"), "train"),
    }
    operations = ("summarization", "deletion")
    evaluators = [
        SalienceEvaluator(rows, name=name, operations=operations) for name, rows in labelled.items()
    ]
    runs = []
    for seed in arguments.seeds:
        file = arguments.out / f"seed-{seed}.json"
        if not file.exists():
            texts = judged_texts(seed)
            if arguments.labels:
                rows = json.loads(arguments.labels.read_text(encoding="utf-8"))
                texts = Dataset.from_list(rows).shuffle(seed)
            found = run(arguments.base, seed, texts, evaluators, arguments.out)
            file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        runs.append(json.loads(file.read_text(encoding="utf-8")))
    columns = {f"{name}: {of}": f"{name}_{of}_spearman" for name in labelled for of in operations}
    print("\n".join(heading(columns, "judged texts")))
    for size in SIZES:
        print(row(f"{size:,}", [found[str(size)] for found in runs], columns))


if __name__ == "__main__":
    main()
