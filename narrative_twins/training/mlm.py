"""The masked-language-model baseline: an encoder trained on the texts of narrative twins, without
the pairing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    set_seed,
)

from narrative_twins.data.rows import TWINS_COLUMNS
from narrative_twins.encoder import loading
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.encoder.tokenizer import StoryTokenizer
from narrative_twins.training.batches import checked_rows, flat_text
from narrative_twins.training.trainer import (
    MaskedLanguageModelTrainingArguments,
    StoryTrainer,
    check_class,
    check_precision,
)


def masked_language_model(name: str | Path | None = None, **options: Any) -> Any:
    """Load an encoder with its masked-language-model head for training, in float32. Raises
    `OSError` if it can't be loaded.

    Args:
        name: folder or Hub id of any encoder; None for the default. A missing head is initialized.
        options: for `from_pretrained` of the model, such as `revision`, `token` or
            `attn_implementation`.
    """
    name = str(name) if name is not None else loading.default_encoder()
    model = loading.load_model(AutoModelForMaskedLM, name, **{"dtype": torch.float32, **options})
    settings = loading.read_checkpoint_settings(name, **loading.hub_options(options))
    model.base_model.checkpoint_settings = settings
    return model


class MaskedTextsCollator:
    """Collates rows from `tokenized_rows` into one batch of all their texts, in which `mask` masks
    tokens."""

    def __init__(self, mask: DataCollatorForLanguageModeling) -> None:
        self.mask = mask

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        batch: dict[str, torch.Tensor] = self.mask(
            [{"input_ids": ids} for row in rows for ids in row["input_ids"]]
        )
        return batch


class MaskedLanguageModelTrainer(StoryTrainer):
    """A `Trainer` for an encoder that predicts masked tokens in the texts of narrative twins.
    `encoder` is the encoder without its head.

    Batches are counted in rows, as by `NarrativeTwinsTrainer`, so that both take the same number of
    steps: a batch of 128 has the stories, twins, distractors and distractor twins of 128 rows, up
    to 512 texts, each cut at the context; with `distractors=False`, only the stories and twins. The
    loss is the mean over the masked tokens of all of them, and of all processes and accumulated
    batches. If a batch exceeds the memory, set `mini_batch_size`, the number of texts in a forward
    pass; the loss is the same.

    Evaluations include the metrics of the evaluator, from the pooled vectors of the current
    encoder. Curves of loss and validation are written to `curves.json` and `curves.png` in the
    output folder.

    Args:
        model: the model, from `masked_language_model`, or the folder or Hub id to load it from;
            None for the default. Or give `model_init`, a function that returns the model, for
            example for `hyperparameter_search`.
        train_dataset, eval_dataset: rows as for `NarrativeTwinsTrainer`, or several data sets in a
            dict.
        pooling: how the encoder pools, `"mean"` or `"first"`; default as in the checkpoint, else
            `"mean"`.
        evaluator: a `SalienceEvaluator`, `TwinsEvaluator` or several in a `SequentialEvaluator`.
        processing_class: the tokenizer; default that of the model.
        options: other arguments of `Trainer`, such as `callbacks`.

    Raises:
        RowError: a row is invalid; names the data set and the row.
        ValueError: a setting is invalid, the model is not a text encoder, or its tokenizer has no
            mask token.
    """

    args: MaskedLanguageModelTrainingArguments

    def __init__(
        self,
        model: Any = None,
        args: MaskedLanguageModelTrainingArguments | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        *,
        pooling: loading.Pooling | None = None,
        evaluator: BaseEvaluator | None = None,
        processing_class: Any = None,
        model_init: Any = None,
        **options: Any,
    ) -> None:
        args = args or MaskedLanguageModelTrainingArguments("masked_language_model_output")
        check_class(args, MaskedLanguageModelTrainingArguments)
        set_seed(args.seed)
        first = model
        if model_init is not None:
            self.model_init = model_init
            first = self.call_model_init()
        elif not isinstance(model, torch.nn.Module):
            first = masked_language_model(model)
        if not hasattr(first, "base_model"):
            raise TypeError(
                f"model is {type(first).__name__}, not a masked language model of transformers;"
                " pass the folder or Hub id of an encoder"
            )
        check_precision(first)
        tokenizer = processing_class or AutoTokenizer.from_pretrained(
            first.name_or_path, trust_remote_code=False
        )
        self.evaluator = evaluator
        self._pooling = pooling
        self._collates = options.get("data_collator") is None
        self._set_encoder(first, tokenizer, args.context_tokens)
        rows = {"train_dataset": train_dataset, "eval_dataset": eval_dataset}
        for name, data in rows.items():
            if data is not None:
                rows[name] = tokenized_rows(
                    checked_rows(data, name)[0], self.encoder.tokenizer, args.distractors
                )
        super().__init__(
            None if model_init is not None else first,
            args,
            processing_class=tokenizer,
            model_init=model_init,
            **rows,
            **options,
        )
        self.set_objective()
        # Then `Trainer` counts the masked tokens of a step; whether the model itself uses their
        # number does not matter.
        self.model_accepts_loss_kwargs = True

    def _set_encoder(self, model: Any, tokenizer: Any, context_tokens: int | None) -> None:
        self.encoder = StoryEncoder(
            model.base_model, tokenizer, pooling=self._pooling, context_tokens=context_tokens
        )

    def set_objective(self) -> None:
        if self.encoder.model is not self.model.base_model:
            self._set_encoder(self.model, self.processing_class, self.args.context_tokens)
        if self._collates:
            probability = self.args.mlm_probability
            self.data_collator = MaskedTextsCollator(
                DataCollatorForLanguageModeling(self.processing_class, mlm_probability=probability)
            )

    @property
    def transformer(self) -> Any:
        return self.encoder.model

    @property
    def objective_for_card(self) -> str:
        share = self.args.mlm_probability
        texts = "" if self.args.distractors else " of stories and twins, without distractors"
        return (
            f"masked language modeling (MaskedLanguageModelTrainer) of {share:.0%} of the"
            f" tokens{texts}"
        )

    def save_weights(self, folder: str | Path) -> None:
        if self.args.should_save:
            self.encoder.save_pretrained(folder)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        """The sum of the losses of the masked tokens of a batch, divided by the number of masked
        tokens in all batches of a step (`num_items_in_batch`), or in this batch if it is None.
        Models themselves compute the mean of a batch, most of them regardless of the number."""
        inputs = dict(inputs)
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        masked = labels != -100
        loss = torch.nn.functional.cross_entropy(
            outputs.logits[masked].float(),
            labels[masked],
            reduction="sum",
            label_smoothing=self.args.label_smoothing_factor,
        )
        if num_items_in_batch is None:
            loss = loss / masked.sum().clamp(min=1)
        else:
            # With several GPUs in one process, the number is repeated for each of them.
            count = torch.as_tensor(num_items_in_batch, device=loss.device).flatten()[0]
            loss = loss / count.clamp(min=1)
            if self.args.average_tokens_across_devices:
                # The number is that of all processes, and their gradients are averaged, not summed.
                loss = loss * self.args.world_size
        return (loss, outputs) if return_outputs else loss

    def training_step(
        self, model: Any, inputs: Any, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """A step of training, in mini-batches if `mini_batch_size` is set."""
        loss = torch.zeros((), device=self.args.device)
        *parts, last = mini_batches(inputs, self.args.mini_batch_size)
        # Processes may have different numbers of mini-batches: they exchange gradients after the
        # last one only.
        with self.accelerator.no_sync(model) if parts else nullcontext():
            for part in parts:
                loss += super().training_step(model, part, num_items_in_batch)
        return loss + super().training_step(model, last, num_items_in_batch)

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        """Evaluate as `Trainer` does, and add the metrics of the evaluator."""
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        if self.evaluator is not None:
            state = self.state
            found = self.evaluator(self.encoder, epoch=state.epoch, steps=state.global_step)
            output.metrics.update({f"{metric_key_prefix}_{name}": found[name] for name in found})
        return output


def tokenized_rows(rows: Any, tokens: StoryTokenizer, distractors: bool = True) -> Dataset:
    """Rows of narrative twins, or those of several data sets in a dict, with the `input_ids` of
    each of their texts, or only of stories and twins, cut at the context."""
    columns = TWINS_COLUMNS if distractors else ("story", "twin")
    found = []
    for data in rows.values() if isinstance(rows, dict) else [rows]:
        for row in data:
            texts = []
            for column in columns:
                if row.get(column) is not None:
                    sentences, _ = flat_text(row[column])
                    ids, _ = tokens.tokenize_joined(tokens.texts(sentences))
                    kept = ids[: tokens.max_text_tokens]
                    texts.append(np.concatenate([tokens.head, kept, tokens.tail]).tolist())
            found.append(texts)
    return Dataset.from_dict({"input_ids": found})


def mini_batches(
    batch: Mapping[str, torch.Tensor], size: int | None
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield a batch in parts of `size` texts, short texts first, without surplus padding; None: the
    batch as it is."""
    if size is None:
        yield dict(batch)
        return
    order = batch["attention_mask"].sum(dim=1).argsort()
    for start in range(0, len(order), size):
        part = order[start : start + size]
        used = batch["attention_mask"][part].any(dim=0)
        yield {key: value[part][:, used] for key, value in batch.items()}
