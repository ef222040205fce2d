"""Training story encoders on narrative twins: the trainer and its arguments."""

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
    """Trains a story encoder on narrative twins.

    It is a `SentenceTransformerTrainer`, and so a `Trainer`, whose data are rows of narrative twins as
    `narrative_twins.data` gives them (or several such data sets in a dict, each batch coming from one of them), and
    whose loss and collator are `NarrativeTwinsLoss` and `TwinsCollator` unless others are given. Rows are checked
    before training starts (of a stream, as they come). Loss and validation curves are kept in `curves.json` and
    `curves.png` of the output folder. No row of the data gets into the model card.

    An encoder in bfloat16 is trained with float32 copies of its weights (`MasterWeightsAdamW`), which takes less time
    than float32 and, on a CPU, than `bf16=True`.

    Args:
        model: the encoder, from `trainable_encoder`.
        args: the arguments.
        train_dataset, eval_dataset: rows with `story` and perhaps `twin`, `negative` and `negative_twin`.
        options: the others of `SentenceTransformerTrainer`, such as `evaluator` and `callbacks`.

    Raises:
        RowError: a row can't be trained on; names the data set and the row.
        ValueError: dropout twins are asked for, or a row has no twin, and the model has no dropout.
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
        train_dataset, lone = checked_rows(train_dataset, "train_dataset", args.disable_tqdm)
        eval_dataset, _ = checked_rows(eval_dataset, "eval_dataset", args.disable_tqdm)
        if model is not None:
            # Anything but an empty list keeps the card from making examples of rows.
            model.model_card_data.widget = [{}]
            if args.twins == "dropout" or lone is not None:
                require_dropout(model, lone)
        super().__init__(model=model, args=args, train_dataset=train_dataset, eval_dataset=eval_dataset, **options)
        self.add_callback(CurvesCallback())
        if isinstance(self.data_collator, TwinsCollator):
            self.add_callback(_EpochCallback(self.data_collator))
        _forget_rows(self.model.model_card_data)

    @property
    def transformer(self) -> Any:
        """The `transformers` model of the encoder."""
        return self.model[0].auto_model

    def save_weights(self, folder: str | Path) -> None:
        """Save the encoder as a plain sentence-transformers checkpoint, without its card."""
        self.save_model(str(folder), _internal_call=True)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """As ever; columns that are None in some rows are counted as empty there."""
        data = self.train_dataset, self.eval_dataset
        self.train_dataset, self.eval_dataset = map(_countable, data)
        super().add_model_card_callback(default_args_dict)
        self.train_dataset, self.eval_dataset = data

    def get_data_collator(self, model: Any, args: Any, processing_class: Any = None) -> Any:
        """The collator of the arguments."""
        transformer = getattr(model[0], "auto_model", None)
        if transformer is None:
            raise ValueError(
                f"{type(model[0]).__name__} as the first module is not a transformer; use trainable_encoder"
            )
        tokens = story_tokenizer(transformer, model.tokenizer, module_settings(model), args.context_tokens)
        return TwinsCollator(tokens, twins=args.twins, distractors=args.distractors, seed=args.seed)

    def get_default_loss(self, model: Any) -> torch.nn.Module:
        """The loss of the arguments."""
        args = self.args
        return NarrativeTwinsLoss(
            model,
            args.temperature,
            distractors=args.distractors,
            in_story_negatives=args.in_story_negatives,
            gather_across_devices=args.gather_across_devices,
            mini_batch_size=args.mini_batch_size,
        )

    def get_batch_sampler(self, dataset: Any, batch_size: int, *args: Any, **kwargs: Any) -> Any:
        """As ever, with `window_batch_size` rows where stories have several windows."""
        if self.args.window_batch_size is not None and is_nested(dataset[0]["story"]):
            batch_size = self.args.window_batch_size
        return super().get_batch_sampler(dataset, batch_size, *args, **kwargs)

    def get_multi_dataset_batch_sampler(self, *args: Any, **kwargs: Any) -> Any:
        """As ever, for batches of more than one size."""
        sampler = super().get_multi_dataset_batch_sampler(*args, **kwargs)
        if self.args.window_batch_size is not None:
            # Where several processes share the batches, those of another size are taken for incomplete and left out.
            sampler.batch_size = None  # type: ignore[assignment]
        return sampler


class _EpochCallback(TrainerCallback):
    """Tells the collator which epoch it is, so that each draws anew, and a resumed one as it would have."""

    def __init__(self, collator: TwinsCollator) -> None:
        self.collator = collator

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # A fraction of an epoch where training is resumed within it, and perhaps a hair less than a whole number.
        self.collator.epoch = int((state.epoch or 0) + 1e-6)


def _forget_rows(card: Any) -> None:
    """Take the rows of data sets, which may not be free to publish, out of what is known for the model card."""
    card.widget = []
    card.predict_example = None
    for known in (*card.train_datasets, *card.eval_datasets):
        for key in ("examples_table", "examples", "_example_columns"):
            known.pop(key, None)


def _countable(data: Any) -> Any:
    """Data sets for the statistics of the model card, which would ask None how long it is."""
    if isinstance(data, DatasetDict):
        return DatasetDict({name: _countable(one) for name, one in data.items()})
    if not isinstance(data, Dataset):
        return data

    def empty(feature: Any) -> Any:
        if not isinstance(feature, Value):
            return []
        return "" if "string" in feature.dtype else 0

    def full(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {
            name: [empty(data.features[name]) if one is None else one for one in column]
            for name, column in rows.items()
        }

    return data.with_transform(full)
