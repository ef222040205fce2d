"""A short training run that test_trainer.py kills and resumes: `train_tiny.py SETTINGS OUTPUT
[resume]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer

from narrative_twins.training.arguments import NarrativeTwinsTrainingArguments
from narrative_twins.training.trainer import NarrativeTwinsTrainer


def main(settings: dict, output: Path, resume: bool) -> None:
    """Train with the given settings and save the final model in OUTPUT/final."""
    model = SentenceTransformer(
        settings["model"], device="cpu", model_kwargs={"dtype": settings.get("dtype", "float32")}
    )
    sets = {name: Dataset.from_list(rows) for name, rows in settings["rows"].items()}
    args = NarrativeTwinsTrainingArguments(
        str(output), use_cpu=True, report_to="none", disable_tqdm=True, **settings["arguments"]
    )
    trainer = NarrativeTwinsTrainer(
        model, args, sets if len(sets) > 1 else next(iter(sets.values()))
    )
    trainer.train(resume_from_checkpoint=resume or None)
    trainer.save_model(str(output / "final"))
    trainer.save_state()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), "resume" in sys.argv)
