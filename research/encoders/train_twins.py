"""Train the encoder of twins: the paper's method, without votes of readers. The default encoder
starts from it.

    python research/encoders/train_twins.py DATA --base FOLDER_OR_ID --out FOLDER

DATA is a folder of research data that can't be redistributed: `roc_with_negatives.jsonl`
(five-sentence stories with human-written distractors, for training), `roc_val.json` and
`tripod_train.json` (human labels, for evaluation). The package's own two corpora complete the
training data. Finished runs are not repeated. On two CPU cores with bfloat16, everything takes
about an hour.

Each seed has two runs. One is a single epoch over three data sets, each batch from one of them:
stories with narrative twins and their distractors; stories with human distractors and dropout
twins; synopses in windows. The other is two epochs over the package's own corpora only. The weights
of a seed are nine parts of the first run and one of the second, which is as good as the first on
stories and a little better on synopses. The encoder has the mean of the weights of three seeds.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from averaging import mean_of_weights, save_small
from datasets import Dataset
from measuring import TWINS_NOTES, check_data, heading, load_metrics, row, write_card

from narrative_twins import StoryEncoder
from narrative_twins.data import load_story_twins, load_window_twins
from narrative_twins.training.trainer import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    trainable_encoder,
)

FIRST_CHANGES = {0: 80, 1: 600, 2: 250, 3: 413, 4: 1_800}
"""Maximum number of stories with human distractors, by the first sentence that the distractor
changes. Nearly all distractors change the last sentence only, which would teach an encoder little
more than that the end matters."""
EPOCHS = {"all": 1, "corpora": 2}
"""The two runs of a seed, and the number of epochs of each."""
PARTS = (9, 1)
NAMES = {
    "corpora": "on the two corpora alone",
    "all": "with human distractors too",
    "both": "one part of the former, nine of the latter",
}
SETTINGS = {
    "learning_rate": 5e-5,
    "warmup_steps": 0.05,
    "max_grad_norm": 0.0,
    "per_device_train_batch_size": 32,
    "window_batch_size": 8,
    "bf16": True,
    "use_cpu": not torch.cuda.is_available(),
}


def human_distractors(file: Path) -> Dataset:
    """Stories with human-written distractors, balanced by first changed sentence; a story may occur
    once for each."""
    generator = random.Random(7)
    by_first_change: dict[int, list[dict[str, list[str]]]] = {index: [] for index in FIRST_CHANGES}
    for entry in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        story = entry["sentences"]
        candidates: dict[int, list[list[str]]] = {}
        for negative in (distractor["sentences"] for distractor in entry["negatives"]):
            changed = [
                i
                for i in range(5)
                if len(story) == len(negative) == 5 and trim(story[i]) != trim(negative[i])
            ]
            if changed:
                candidates.setdefault(changed[0], []).append(negative)
        for index, negatives in candidates.items():
            by_first_change[index].append({"story": story, "negative": generator.choice(negatives)})
    for rows in by_first_change.values():
        generator.shuffle(rows)
    return Dataset.from_list(
        [row for index, rows in by_first_change.items() for row in rows[: FIRST_CHANGES[index]]]
    )


def trim(sentence: str) -> str:
    return sentence.strip(" .!?")


def train(base: str, kind: str, seed: int, data: Path, out: Path) -> None:
    """Train one run and save its encoder in float32."""
    model = trainable_encoder(base)
    rows = {
        "stories": load_story_twins(split="train"),
        "synopses": load_window_twins(split="train"),
    }
    if kind == "all":
        rows["human distractors"] = human_distractors(data / "roc_with_negatives.jsonl")
    trainer = NarrativeTwinsTrainer(
        model,
        NarrativeTwinsTrainingArguments(
            str(out),
            num_train_epochs=EPOCHS[kind],
            seed=seed,
            logging_steps=5,
            save_strategy="no",
            report_to="none",
            **SETTINGS,
        ),
        rows,
    )
    trainer.train()
    StoryEncoder.from_sentence_transformer(model).save_pretrained(out / "encoder")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the research data")
    parser.add_argument(
        "--base", default="sentence-transformers/all-MiniLM-L6-v2", help="the encoder to start from"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    data, out = arguments.data, arguments.out
    check_data(data, "roc_with_negatives.jsonl")

    runs = {
        kind: [out / f"seed-{seed}-{kind}" / "encoder" for seed in arguments.seeds]
        for kind in (*EPOCHS, "both")
    }
    for kind in EPOCHS:
        for seed, folder in zip(arguments.seeds, runs[kind], strict=True):
            if not (folder / "modules.json").exists():
                train(arguments.base, kind, seed, data, folder.parent)
    for *parts, folder in zip(*(runs[kind] for kind in EPOCHS), runs["both"], strict=True):
        mean_of_weights(parts, list(PARTS)).save_pretrained(folder)
    final = out / "encoder"
    save_small(mean_of_weights(runs["both"], [1] * len(runs["both"])), final)

    lines = [
        *heading(),
        row("not trained", [load_metrics(Path(arguments.base), out / "base.json", data)]),
    ]
    for kind, name in NAMES.items():
        metrics = [
            load_metrics(folder, folder.parent / "figures.json", data) for folder in runs[kind]
        ]
        lines.append(row(f"{name}, {len(metrics)} seeds", metrics))
    measured = load_metrics(final, out / "encoder.json", data)
    lines.append(row("**mean of these over seeds: this encoder**", [measured]))
    table = "\n".join(lines)
    print(table)
    settings = ", ".join(f"{k} {value}" for k, value in SETTINGS.items() if k != "use_cpu")
    write_card(
        final,
        "twins_encoder.yaml",
        f"{table}\n{TWINS_NOTES}",
        measured,
        objective=f" ({settings}; linear to 0)",
        seeds=", ".join(map(str, arguments.seeds)),
    )


if __name__ == "__main__":
    main()
