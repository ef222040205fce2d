"""The trainer of story encoders on narrative twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, DatasetDict, Value
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from transformers import TrainerCallback

from narrative_twins.data.rows import is_nested
from narrative_twins.encoder.checkpoint import module_settings, story_tokenizer
from narrative_twins.training.arguments import NarrativeTwinsTrainingArguments
from narrative_twins.training.collator import TwinsCollator
from narrative_twins.training.curves import CurvesCallback
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.story_trainer import StoryTrainer
from narrative_twins.training.trainable import checked_rows, require_dropout


class NarrativeTwinsTrainer(StoryTrainer, SentenceTransformerTrainer):
    """A `SentenceTransformerTrainer` for story encoders on narrative twins.

    Loss and collator are `NarrativeTwinsLoss` and `TwinsCollator` by default. Rows are checked before training starts,
    those of a stream as they are read. Loss and validation curves are written to `curves.json` and `curves.png` in the
    output folder. The model card shows no rows of the data.

    An encoder in bfloat16 is trained with float32 copies of its weights (`MasterWeightsAdamW`), which is faster than
    float32 and, on a CPU, than `bf16=True`.

    Args:
        model: the encoder, from `trainable_encoder`.
        train_dataset, eval_dataset: rows with `story` and perhaps `twin`, `negative` and `negative_twin`, as loaded by
            `narrative_twins.data`; or several data sets in a dict, each batch with rows of one of them.
        options: other arguments of `SentenceTransformerTrainer`, such as `evaluator` and `callbacks`.

    Raises:
        RowError: a row is invalid; names the data set and the row.
        ValueError: `twins="dropout"` is set, or a row has no twin, and the model has no dropout.
    """

    training_args_class = NarrativeTwinsTrainingArguments
    args: NarrativeTwinsTrainingArguments

    def __init__(
        self,
        model: SentenceTransformer | None = None,
        args: NarrativeTwinsTrainingArguments | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        **options: Any,
    ) -> None:
        args = args or NarrativeTwinsTrainingArguments("narrative_twins_output")
        train_dataset, twinless = checked_rows(train_dataset, "train_dataset", args.disable_tqdm)
        eval_dataset, _ = checked_rows(eval_dataset, "eval_dataset", args.disable_tqdm)
        if model is not None:
            # If this list is not empty, no rows are copied into the card as widget examples.
            model.model_card_data.widget = [{}]
            if args.twins == "dropout" or twinless is not None:
                require_dropout(model, twinless)
        super().__init__(model=model, args=args, train_dataset=train_dataset, eval_dataset=eval_dataset, **options)
        self.add_callback(CurvesCallback())
        if isinstance(self.data_collator, TwinsCollator):
            self.add_callback(_EpochCallback(self.data_collator))
        _remove_rows(self.model.model_card_data)

    @property
    def transformer(self) -> Any:
        return self.model[0].auto_model

    def save_weights(self, folder: str | Path) -> None:
        self.save_model(str(folder), _internal_call=True)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add the callback as `SentenceTransformerTrainer` does; its statistics count None as an empty value."""
        data = self.train_dataset, self.eval_dataset
        self.train_dataset, self.eval_dataset = map(_without_none, data)
        super().add_model_card_callback(default_args_dict)
        self.train_dataset, self.eval_dataset = data

    def get_data_collator(self, model: Any, args: Any, processing_class: Any = None) -> Any:
        """The collator with the settings of the arguments."""
        transformer = getattr(model[0], "auto_model", None)
        if transformer is None:
            raise ValueError(
                f"the first module, {type(model[0]).__name__}, is not a transformer; use trainable_encoder"
            )
        tokens = story_tokenizer(transformer, model.tokenizer, module_settings(model), args.context_tokens)
        return TwinsCollator(tokens, twins=args.twins, distractors=args.distractors, seed=args.seed)

    def get_default_loss(self, model: Any) -> torch.nn.Module:
        """The loss with the settings of the arguments."""
        args = self.args
        return NarrativeTwinsLoss(
            model,
            args.temperature,
            distractors=args.distractors,
            in_story_negatives=args.in_story_negatives,
            in_batch_negatives=args.in_batch_negatives,
            distractor_loss=args.distractor_loss,
            gather_across_devices=args.gather_across_devices,
            mini_batch_size=args.mini_batch_size,
        )

    def get_batch_sampler(self, dataset: Any, batch_size: int, *args: Any, **kwargs: Any) -> Any:
        """The usual sampler, with `window_batch_size` rows per batch if stories have several windows."""
        if self.args.window_batch_size is not None and is_nested(dataset[0]["story"]):
            batch_size = self.args.window_batch_size
        return super().get_batch_sampler(dataset, batch_size, *args, **kwargs)

    def get_multi_dataset_batch_sampler(self, *args: Any, **kwargs: Any) -> Any:
        """The usual sampler, made to work with batches of different sizes."""
        sampler = super().get_multi_dataset_batch_sampler(*args, **kwargs)
        if self.args.window_batch_size is not None:
            # With a batch size set, several processes would drop batches of another size as incomplete.
            sampler.batch_size = None  # type: ignore[assignment]
        return sampler


class _EpochCallback(TrainerCallback):
    """Updates the epoch of the collator, on which its random choices depend."""

    def __init__(self, collator: TwinsCollator) -> None:
        self.collator = collator

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # A fraction if training is resumed within an epoch; rounding may put it slightly below a whole number.
        self.collator.epoch = int((state.epoch or 0) + 1e-6)


def _remove_rows(card: Any) -> None:
    """Remove the rows of data sets, which may not be free to publish, from the data of the model card."""
    card.widget = []
    card.predict_example = None
    for known in (*card.train_datasets, *card.eval_datasets):
        for key in ("examples_table", "examples", "_example_columns"):
            known.pop(key, None)


def _without_none(data: Any) -> Any:
    """The data with None replaced by empty values, for the model card, whose statistics take the length of each."""
    if isinstance(data, DatasetDict):
        return DatasetDict({name: _without_none(rows) for name, rows in data.items()})
    if not isinstance(data, Dataset):
        return data

    def empty(feature: Any) -> Any:
        if not isinstance(feature, Value):
            return []
        return "" if "string" in feature.dtype else 0

    def filled(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {
            name: [empty(data.features[name]) if value is None else value for value in column]
            for name, column in rows.items()
        }

    return data.with_transform(filled)
