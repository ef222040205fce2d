"""Train the baseline: masked language modeling on the texts of narrative twins, with the trainer
and the collator of transformers.

    accelerate launch research/paper/train_mlm.py --smoke
    accelerate launch research/paper/train_mlm.py --config research/paper/configs/roc_mlm.yaml --seed 43

Stories, twins and distractors are separate texts, in which 15 % of the tokens are predicted;
`--rows synopses` uses the longer stories. A batch is counted in rows, with all texts of each: if it
exceeds the memory, `--per_device_train_batch_size 32 --gradient_accumulation_steps 4` has the same
loss. Validation, the number of steps and output files are as in train_roc.py and train_wiki.py, for
comparison.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
    set_seed,
)

from narrative_twins import StoryEncoder
from narrative_twins.data import (
    load_story_salience,
    load_story_twins,
    load_turning_points,
    load_window_twins,
)
from narrative_twins.data.rows import TWINS_COLUMNS, is_nested
from narrative_twins.encoder import loading
from narrative_twins.training.curves_and_card import CurvesCallback, write_card
from narrative_twins.training.script import (
    DEFAULTS,
    SMOKE,
    ScriptArguments,
    labelled_stories,
    parse_arguments,
    run_training,
    train_and_validation,
    validation_evaluator,
)
from narrative_twins.training.trainer import setting

DEFAULTS = DEFAULTS | {
    "output_dir": "runs/mlm",
    "encoder": "google-bert/bert-base-uncased",
    "per_device_train_batch_size": 128,
    "learning_rate": 3e-5,
    "num_train_epochs": 5.0,
    "weight_decay": 0.01,
}
SMOKE = SMOKE | {"output_dir": "runs/mlm-smoke"}
LOADERS = {
    "stories": (load_story_twins, load_story_salience),
    "synopses": (load_window_twins, load_turning_points),
}


@dataclass
class Recipe(ScriptArguments):
    rows: Literal["stories", "synopses"] = setting("stories", "The kind of rows to train on.")


@dataclass
class MaskedTrainingArguments(TrainingArguments):
    mlm_probability: float = setting(0.15, "The share of tokens to predict.")
    distractors: bool = setting(True, "Whether to use the distractors.")
    context_tokens: int | None = setting(
        None, "Maximum tokens per text, with special ones; if not set, the model's limit."
    )


class MaskedTrainer(Trainer):
    """The trainer of transformers, whose evaluations include the metrics of an evaluator, and which
    saves the encoder without its head."""

    def __init__(self, model: Any, args: Any, *rows: Any, encoder: StoryEncoder, evaluator: Any):
        tokenizer = encoder.tokenizer.tokenizer
        mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=args.mlm_probability)

        def collator(rows: list[dict[str, Any]]) -> Any:
            return mask([{"input_ids": ids} for row in rows for ids in row["input_ids"]])

        train, validation = rows
        if validation is None and evaluator is not None:
            validation = train.select([])  # Trainer evaluates only if there are rows for the loss.
        options: Any = {"compute_loss_func": mean_over_masked_tokens}
        super().__init__(model, args, collator, train, validation, **options)
        self.encoder, self.evaluator = encoder, evaluator
        self.add_callback(CurvesCallback())
        # For the model card.
        self.transformer, self.facts = encoder.model, {}
        texts = "" if args.distractors else " of stories and twins, without distractors"
        share = f"{args.mlm_probability:.0%}"
        self.objective_for_card = f"masked language modeling of {share} of the tokens{texts}"

    def get_eval_dataloader(self, *args: Any) -> Any:
        """Of all rows: `dataloader_drop_last` is for training only."""
        dropped, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        loader = super().get_eval_dataloader(*args)
        self.args.dataloader_drop_last = dropped
        return loader

    def evaluation_loop(self, *args: Any, **options: Any) -> Any:
        output = super().evaluation_loop(*args, **options)
        metrics = {} if self.evaluator is None else self.evaluator(self.encoder)
        output.metrics.update({f"eval_{name}": value for name, value in metrics.items()})
        return output

    def save_encoder(self, folder: Path) -> None:
        if self.args.should_save:
            self.encoder.save_pretrained(folder)
            write_card(self, folder)


def mean_over_masked_tokens(
    outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None
) -> torch.Tensor:
    """The mean over the masked tokens of all batches of a step; models have the mean of a batch."""
    masked = labels != -100
    logits = outputs.logits[masked].float()
    total = torch.nn.functional.cross_entropy(logits, labels[masked], reduction="sum")
    return total / (masked.sum() if num_items_in_batch is None else num_items_in_batch).clamp(min=1)


def tokenized(rows: Any, encoder: StoryEncoder, distractors: bool) -> Any:
    """Rows with the token ids of each of their texts, cut at the context."""

    def ids_of(row: dict[str, Any]) -> dict[str, Any]:
        contents = [row.get(name) for name in TWINS_COLUMNS[: 4 if distractors else 2]]
        texts = [
            " ".join(sum(content, []) if is_nested(content) else content)
            for content in contents
            if content is not None
        ]
        options = {"truncation": True, "max_length": encoder.context_tokens}
        return {"input_ids": encoder.tokenizer.tokenizer(texts, **options)["input_ids"]}

    return rows and rows.map(ids_of, remove_columns=rows.column_names)


def main() -> None:
    arguments, script = parse_arguments(
        MaskedTrainingArguments, DEFAULTS, SMOKE, script=Recipe, description=__doc__
    )
    load_twins, load_labelled = LOADERS[script.rows]
    train, validation = train_and_validation(load_twins, script)
    labelled = labelled_stories(load_labelled, script, validation)
    set_seed(arguments.seed)
    name = script.encoder or loading.default_encoder()
    model = loading.load_model(
        AutoModelForMaskedLM,
        name,
        dtype=torch.float32,
        attn_implementation=script.attn_implementation,
    )
    pooling = script.pooling or loading.read_checkpoint_settings(name).pooling or "mean"
    tokenizer = loading.load_tokenizer(name)
    encoder = StoryEncoder(
        model.base_model,
        tokenizer,
        pooling=pooling,
        prompt=script.prompt,
        context_tokens=arguments.context_tokens,
    )
    trainer = MaskedTrainer(
        model,
        arguments,
        tokenized(train, encoder, arguments.distractors),
        tokenized(validation, encoder, arguments.distractors),
        encoder=encoder,
        evaluator=validation_evaluator(script, validation, labelled, arguments.context_tokens),
    )
    run_training(trainer, script)


if __name__ == "__main__":
    main()
