"""Train the encoders of the package that are adapters: LoRA of the linear layers of a public base.

    python research/encoders/train_adapters.py DATA --encoder multilingual \\
        --base intfloat/multilingual-e5-small --out runs/multilingual
    python research/encoders/train_adapters.py DATA --encoder base \\
        --base sentence-transformers/all-mpnet-base-v2 --out runs/base-adapter

The data sets and losses are those of `train_votes.py`, whose docstring says what DATA has; its
stories are English. A second stage goes on with the adapter of the first. For the base encoder, it
learns its scores of both forms, of texts that nobody judged (`distilled.py`). For the multilingual
encoder, it learns the same scores of the encoder of `--teacher`, and translations of the package:
their votes, and triples in which a story has its translation as twin, and in the language of each
the distractor. `--out` gets a folder for each stage with `adapter`, which is a PEFT repository, and
`encoder`, with the adapter merged into its base. A run is resumed from its last checkpoint, and a
finished stage is not repeated.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import peft
import torch
from datasets import Dataset
from measuring import check_data
from safetensors.torch import load_file, save_file
from train_votes import MAX_SHIFTS, SETTINGS, WEIGHTS, data_sets, losses
from transformers import AutoConfig

from narrative_twins import StoryEncoder
from narrative_twins.data import load_story_salience, load_story_twins
from narrative_twins.encoder.adapters import load_adapter_weights
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.salience_loss import SalienceLoss
from narrative_twins.training.trainer import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    trainable_encoder,
)

LAYERS = {"mpnet": "q|k|v|o|dense", "bert": "query|key|value|dense"}
"""The linear layers that are adapted, by the kind of the base."""
RANK = 32
STAGES = {
    "base": ("adapter-base", "adapter-base-distilled"),
    "multilingual": ("adapter-english", "adapter-translations"),
}
"""The stages of each encoder, of which `train_votes.py` has the rows and the lengths of pieces."""
RATES = {
    "adapter-base": 4e-4,
    "adapter-base-distilled": 2e-4,
    "adapter-english": 1e-3,
    "adapter-translations": 5e-4,
}
TRANSLATED = {
    "translated votes": 1_120,
    "one pass: translated votes": 960,
    "translated twins": 1_440,
}
"""Rows of translations, in the second stage of the multilingual encoder; some are repeated."""
SETTINGS_OF_ADAPTER = "inference_mode lora_alpha peft_type peft_version r target_modules".split()
"""The settings of an adapter that are not the defaults of peft."""
AT_A_TIME = 24
"""How many texts of a batch of exact scores or twins are encoded at a time, for less memory."""


def with_adapter(base: str, start: Path | None, rank: int) -> Any:
    """A trainable encoder whose only trainable weights are a LoRA adapter: a new one of this rank,
    or the one in the folder `start`."""
    kind = AutoConfig.from_pretrained(base).model_type
    # The pooler is a linear layer too, on which no vector depends.
    targets = rf".*\.layer\..*\.({LAYERS[kind]})"
    config = peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=targets)
    model = trainable_encoder(base, adapter=config)
    if start is not None:
        load_adapter_weights(model[0].auto_model, start)
    return model


def translations(seed: int) -> dict[str, Dataset]:
    """The data sets of translations. Either text of a pair is the twin of the other, and has the
    distractor in its own language."""
    judged = load_story_salience(split="train", name="translations", distractors=True)
    judged = judged.select_columns(["story", "counts"]).shuffle(seed)
    triples = []
    for row in load_story_twins(split="train", name="translations"):
        for story, twin, negative in (
            ("story", "twin", "negative"),
            ("twin", "story", "negative_twin"),
        ):
            triples.append({"story": row[story], "twin": row[twin], "negative": row[negative]})
    found = dict.fromkeys(TRANSLATED, judged)
    found["translated twins"] = Dataset.from_list(triples).shuffle(seed)
    return {
        name: rows.repeat(-(-TRANSLATED[name] // len(rows))).take(TRANSLATED[name])
        for name, rows in found.items()
    }


def rows_and_losses(
    stage: str, model: Any, teacher: str, seed: int, data: Path, out: Path
) -> tuple[Any, Any]:
    """The data sets and losses of a stage, by name."""
    rows = data_sets(stage, teacher, seed, data, out)
    part: dict[str, Any] = {"mini_batch_size": AT_A_TIME}
    loss: dict[str, Any] = losses(model) | {
        "operations": SalienceLoss(model, WEIGHTS, max_shifts=MAX_SHIFTS, **part),
        "votes": SalienceLoss(model, "summarization", **part),
        "distilled stories": SalienceLoss(model, "summarization", **part),
        "twins": NarrativeTwinsLoss(model, **part),
        "window twins": NarrativeTwinsLoss(model, mini_batch_size=2),
    }
    for name in ("one pass: prose", "one pass: summaries", "one pass: distilled tales"):
        if name in rows:  # short pieces, which are in batches of stories without windows
            flat = [{"story": row["story"][0], "labels": row["labels"]} for row in rows[name]]
            rows[name] = Dataset.from_list(flat)
    if stage == "adapter-translations":
        rows |= translations(seed)
        loss["translated votes"] = loss["votes"]
        loss["one pass: translated votes"] = loss["one pass: votes"]
    return rows, {name: value for name, value in loss.items() if name in rows}


def fit(
    model: Any, stage: str, teacher: str, seed: int, data: Path, out: Path, **settings: Any
) -> None:
    """Train an encoder on the data of a stage; `settings` replace arguments of the trainer."""
    for module in model.modules():
        # Dropout of attention weights doubles the time of long texts on a CPU.
        if type(module).__name__.endswith("SelfAttention"):
            module.dropout.p = 0.0
    settings = {
        **SETTINGS,
        "warmup_steps": 0.05,
        "window_batch_size": 4,
        "learning_rate": RATES[stage],
        **settings,
    }
    arguments = NarrativeTwinsTrainingArguments(
        str(out),
        seed=seed,
        bf16=True,
        use_cpu=not torch.cuda.is_available(),
        logging_steps=10,
        report_to="none",
        save_strategy="steps",
        save_steps=25,
        save_total_limit=1,
        **settings,
    )
    rows, loss = rows_and_losses(stage, model, teacher, seed, data, out)
    trainer = NarrativeTwinsTrainer(model, arguments, rows, loss=loss)
    trainer.train(resume_from_checkpoint=any(out.glob("checkpoint-*")) or None)


def train(
    stage: str, base: str, start: Path | None, teacher: str, seed: int, data: Path, out: Path
) -> None:
    """Train a stage, and save its adapter and its encoder."""
    model = with_adapter(base, start, RANK)
    fit(model, stage, teacher, seed, data, out)
    model[0].auto_model.save_pretrained(out / "adapter")
    StoryEncoder.from_sentence_transformer(model).save_pretrained(out / "encoder")


def save_small(stage: Path, base_id: str, folder: Path) -> None:
    """Save the adapter of a stage as it is in the package: in float16, with the Hub id of its base
    and the pooling."""
    weights = load_file(stage / "adapter" / "adapter_model.safetensors")
    config = json.loads((stage / "adapter" / "adapter_config.json").read_text(encoding="utf-8"))
    config = {key: config[key] for key in SETTINGS_OF_ADAPTER} | {
        "base_model_name_or_path": base_id
    }
    for file in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(stage / "encoder" / file, folder / file)
    save_file(
        {key: value.half().contiguous() for key, value in weights.items()},
        folder / "adapter_model.safetensors",
        metadata={"format": "pt"},
    )
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / "adapter_config.json").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the research data")
    parser.add_argument("--encoder", choices=STAGES, required=True)
    parser.add_argument("--base", required=True, help="the base, a folder or Hub id")
    parser.add_argument("--base-id", help="the Hub id of the base, where --base is a folder")
    parser.add_argument(
        "--teacher",
        default="base",
        help="whose scores the multilingual encoder learns (default: base, of this package)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    check_data(options.data, "roc_stories.jsonl", "wiki_film_plots.jsonl")
    first_stage = options.out / STAGES["base"][0] / "encoder"
    teacher = str(first_stage) if options.encoder == "base" else options.teacher
    start = None
    for stage in STAGES[options.encoder]:
        folder = options.out / stage
        if not (folder / "encoder" / "modules.json").exists():
            begin = time.monotonic()
            train(stage, options.base, start, teacher, options.seed, options.data, folder)
            print(f"{stage}: {(time.monotonic() - begin) / 60:.0f} minutes", flush=True)
        start = folder / "adapter"
    assert start is not None
    save_small(start.parent, options.base_id or options.base, options.out / "adapter")


if __name__ == "__main__":
    main()
