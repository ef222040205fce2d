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

from narrative_twins import SalienceEvaluator, StoryEncoder, TwinsEvaluator
from narrative_twins.data import (
    load_story_salience,
    load_story_twins,
    load_turning_points,
    load_window_twins,
    select_split,
)
from narrative_twins.data.rows import TWINS_COLUMNS, is_nested
from narrative_twins.encoder import loading
from narrative_twins.training import ScriptArguments, parse_arguments, run_summary
from narrative_twins.training.reports import ReportCallback, write_card
from narrative_twins.training.trainer import EvaluateAtEndCallback, setting

DEFAULTS = {
    "output_dir": "runs/mlm",
    "encoder": "google-bert/bert-base-uncased",
    "per_device_train_batch_size": 128,
    "learning_rate": 3e-5,
    "num_train_epochs": 5.0,
    "weight_decay": 0.01,
    "logging_steps": 10,
    "eval_strategy": "steps",
    "eval_steps": 50,
    "save_steps": 50,
    "save_total_limit": 2,
}
SMOKE = {"output_dir": "runs/mlm-smoke"}
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
    """The trainer of transformers, whose evaluations include the metrics of evaluators, and which
    saves the encoder without its head."""

    def __init__(self, model: Any, args: Any, *rows: Any, encoder: StoryEncoder, evaluators: Any):
        tokenizer = encoder.tokenizer.tokenizer
        mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=args.mlm_probability)

        def collator(rows: list[dict[str, Any]]) -> Any:
            return mask([{"input_ids": ids} for row in rows for ids in row["input_ids"]])

        train, validation = rows
        if validation is None and evaluators:
            validation = train.select([])  # Trainer evaluates only if there are rows for the loss.
        options: Any = {"compute_loss_func": mean_over_masked_tokens}
        super().__init__(model, args, collator, train, validation, **options)
        self.encoder, self.evaluators = encoder, evaluators
        self.add_callback(ReportCallback())
        self.add_callback(EvaluateAtEndCallback())
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
        for evaluator in self.evaluators:
            metrics = evaluator(self.encoder)
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
    for name in ("lora", "triples_source", "estimate"):
        if getattr(script, name):
            raise SystemExit(f"--{name} is not for masked language modeling")
    load_twins, load_labelled = LOADERS[script.rows]
    data = load_twins(script.train_source)
    train = select_split(data, "train", script.max_train_rows)
    validation = None
    if script.eval_source is not None:
        data = load_twins(script.eval_source)
    if script.eval_source is not None or "validation" in data:
        validation = select_split(data, "validation", script.max_eval_rows)
    limit, evaluators = arguments.context_tokens, []
    labelled = [row for row in validation or () if row.get("turning_points") is not None]
    if script.salience_source is not None:
        labelled = load_labelled(script.salience_source)
        labelled = select_split(labelled, "validation", script.max_eval_rows)
    if labelled:
        evaluators.append(
            SalienceEvaluator(
                labelled,
                name="salience" if script.approximate is None else "one_pass",
                operations=script.operations,
                approximate=script.approximate,
                context_tokens=limit,
            )
        )
    pairs = [row for row in validation or () if row["twin"] and row["negative"]]
    if pairs:
        evaluators.append(TwinsEvaluator(pairs, name="twins", context_tokens=limit))

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
        evaluators=evaluators,
    )
    trainer.facts = script.card_facts()
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    trainer.save_encoder(Path(arguments.output_dir) / "final")
    if arguments.push_to_hub:
        trainer.push_to_hub()
    if trainer.is_world_process_zero():
        print(run_summary(trainer))


if __name__ == "__main__":
    main()
