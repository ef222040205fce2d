"""The trainer of story encoders on narrative twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, DatasetDict, Value
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss

from narrative_twins.encoder.adapters import has_adapter, merged_copy
from narrative_twins.encoder.checkpoint import module_settings
from narrative_twins.encoder.models import story_tokenizer
from narrative_twins.training.arguments import (
    NarrativeTwinsTrainingArguments,
    check_arguments,
    check_sampling,
)
from narrative_twins.training.collator import TwinsCollator
from narrative_twins.training.curves import CurvesCallback
from narrative_twins.training.judgments import judgments
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.salience_loss import SalienceLoss
from narrative_twins.training.sampling import EpochCallback, TwinsSampling
from narrative_twins.training.sharding import ShardedTraining, set_sharding
from narrative_twins.training.story_trainer import StoryTrainer
from narrative_twins.training.streams import check_streams
from narrative_twins.training.trainable import checked_rows, require_dropout


class NarrativeTwinsTrainer(
    TwinsSampling, ShardedTraining, StoryTrainer, SentenceTransformerTrainer
):
    """A `SentenceTransformerTrainer` for story encoders on narrative twins.

    Loss and collator are `NarrativeTwinsLoss` and `TwinsCollator` by default. Rows are checked
    before training starts, those of a stream as they are read. Loss and validation curves are
    written to `curves.json` and `curves.png` in the output folder. The model card shows no rows of
    the data.

    An encoder in bfloat16 is trained with float32 copies of its weights (`MasterWeightsAdamW`),
    which is faster than float32 and, on a CPU, than `bf16=True`.

    Args:
        model: the encoder, from `trainable_encoder`; or give `model_init`, a function that returns
            it, for example for `hyperparameter_search`. Each run then starts from a new model, with
            loss and collator as the arguments of its trial say.
        args: the arguments; default those of the paper.
        train_dataset, eval_dataset: rows with `story` and perhaps `twin`, `negative` and
            `negative_twin`, as loaded by `narrative_twins.data`; or several data sets in a dict,
            each batch with rows of one of them.
        loss: a loss in place of the default, or a function of the model that returns it. With a
            dict of losses, data sets may also have other rows, for other losses, in the format of
            sentence-transformers; data sets without a loss in the dict have the default.
            `MatryoshkaLoss` may wrap `NarrativeTwinsLoss`. Data sets with `SalienceLoss` have
            judged stories, as loaded by `load_story_salience`.
        options: other arguments of `SentenceTransformerTrainer`, such as `evaluator` and
            `callbacks`.

    Raises:
        RowError: a row is invalid; names the data set and the row.
        ValueError: the arguments are of another class, set prompts for narrative twins, or can't be
            followed with a stream; a setting does not work with FSDP; `twins="dropout"` is set, or
            a row has no twin, and the model has no dropout; another loss than `MatryoshkaLoss`
            wraps `NarrativeTwinsLoss`.
    """

    training_args_class = NarrativeTwinsTrainingArguments
    args: NarrativeTwinsTrainingArguments

    def __init__(
        self,
        model: SentenceTransformer | None = None,
        args: NarrativeTwinsTrainingArguments | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        loss: Any = None,
        **options: Any,
    ) -> None:
        args = args or NarrativeTwinsTrainingArguments("narrative_twins_output")
        check_arguments(args, NarrativeTwinsTrainingArguments)
        if isinstance(loss, SalienceLoss):
            # Judged stories alone are one of several data sets too: those with collators and checks
            # of their own.
            train_dataset, eval_dataset = (
                {"judged": data} if data else data for data in (train_dataset, eval_dataset)
            )
            loss = {"judged": loss}
        check_sampling(args)
        for name, data in (("train_dataset", train_dataset), ("eval_dataset", eval_dataset)):
            check_streams(data, name, args)
        data_sets = {**_data_sets(train_dataset), **_data_sets(eval_dataset)}
        self._given_loss: Any = self.get_default_loss if loss is None else loss
        if isinstance(loss, dict):
            self._given_loss = {**dict.fromkeys(data_sets, self.get_default_loss), **loss}
        self._others = [name for name, rows in data_sets.items() if not self._has_twins(name, rows)]
        self._collates = options.get("data_collator") is None
        train_dataset, twinless = checked_rows(
            train_dataset, "train_dataset", args.disable_tqdm, self._others
        )
        eval_dataset, _ = checked_rows(
            eval_dataset, "eval_dataset", args.disable_tqdm, self._others
        )
        self._twinless = twinless
        for name, rows in data_sets.items():
            if self._is_judged(name) and isinstance(rows, Dataset):
                for number, row in enumerate(rows):
                    judgments(row, f"{name}, row {number}")
        if model is not None:
            self._check_dropout(model, args)
        super().__init__(
            model=model,
            args=args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            loss=dict(self._given_loss) if isinstance(self._given_loss, dict) else self._given_loss,
            **options,
        )
        if self.model_init is not None:
            self.set_objective()
        losses = list(self.loss.values()) if isinstance(self.loss, dict) else [self.loss]
        for found in losses:
            _check_wrapper(found)
        set_sharding(self, self.transformer, losses)
        self.add_callback(CurvesCallback())
        self.add_callback(EpochCallback(self))
        _remove_rows(self.model.model_card_data)

    def set_objective(self) -> None:
        self._check_dropout(self.model, self.args)
        given = self._given_loss
        self.loss: Any = (
            {name: self.prepare_loss(loss, self.model) for name, loss in given.items()}
            if isinstance(given, dict)
            else self.prepare_loss(given, self.model)
        )
        if self._collates:
            self.data_collator = self.get_data_collator(
                self.model, self.args, self.processing_class
            )

    def _is_judged(self, name: str) -> bool:
        """Whether the loss of a data set is `SalienceLoss`."""
        return isinstance(self._given_loss, dict) and isinstance(
            self._given_loss[name], SalienceLoss
        )

    def _has_twins(self, name: str, rows: Any) -> bool:
        """Whether a data set has rows of narrative twins: always, unless its loss in a dict of
        losses is another."""
        loss = self._given_loss[name] if isinstance(self._given_loss, dict) else None
        if isinstance(loss, torch.nn.Module):
            return any(isinstance(module, NarrativeTwinsLoss) for module in loss.modules())
        # What a function will return is not known yet.
        return loss in (None, self.get_default_loss) or "story" in rows.column_names

    def _check_dropout(
        self, model: SentenceTransformer, args: NarrativeTwinsTrainingArguments
    ) -> None:
        if args.twins == "dropout" or self._twinless is not None:
            require_dropout(model, self._twinless)

    @property
    def transformer(self) -> Any:
        return self.model[0].auto_model

    def save_weights(self, folder: str | Path) -> None:
        module: Any = self.model[0]
        adapted = self.transformer
        if has_adapter(adapted):
            # Saved with its adapter merged, as other libraries load it; training goes on with the
            # adapter.
            module.model = merged_copy(adapted)
        try:
            self.save_model(str(folder), _internal_call=True)
        finally:
            module.model = adapted

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add the callback as `SentenceTransformerTrainer` does; its statistics count None as an
        empty value."""
        # If this list is not empty, no rows are copied into the card as widget examples.
        self.model.model_card_data.widget = [{}]
        data = self.train_dataset, self.eval_dataset
        self.train_dataset, self.eval_dataset = map(_without_none, data)
        super().add_model_card_callback(default_args_dict)
        self.train_dataset, self.eval_dataset = data

    def get_data_collator(self, model: Any, args: Any, processing_class: Any = None) -> Any:
        """The collator with the settings of the arguments. Raises ValueError if these set prompts
        for twins."""
        transformer = getattr(model[0], "auto_model", None)
        if transformer is None:
            raise ValueError(
                f"the first module, {type(model[0]).__name__}, is not a transformer; use"
                " trainable_encoder"
            )
        tokens = story_tokenizer(
            transformer, model.tokenizer, module_settings(model), args.context_tokens
        )
        if args.prompts and not (
            isinstance(args.prompts, dict) and set(args.prompts) <= set(self._others)
        ):
            raise ValueError(
                f"prompts={args.prompts!r}: narrative twins are encoded without prompts, as stories"
                " are scored; remove them, or give a dict with the names of data sets that have a"
                " loss other than NarrativeTwinsLoss"
            )
        plain = super().get_data_collator(model, args, processing_class)
        others = {
            name: self._given_loss[name].collator(tokens) if self._is_judged(name) else plain
            for name in self._others
        }
        return TwinsCollator(
            tokens, twins=args.twins, distractors=args.distractors, seed=args.seed, others=others
        )

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


def _data_sets(data: Any) -> dict[str, Any]:
    """The data sets in a dict of them; otherwise none."""
    return dict(data) if isinstance(data, dict) else {}


def _check_wrapper(loss: torch.nn.Module) -> None:
    """Raise a ValueError if a loss wraps `NarrativeTwinsLoss` but would not change what it
    computes."""
    inner = loss.loss if type(loss) is MatryoshkaLoss else loss
    if not isinstance(inner, NarrativeTwinsLoss) and any(
        isinstance(m, NarrativeTwinsLoss) for m in inner.modules()
    ):
        raise ValueError(
            f"{type(inner).__name__} does not work around NarrativeTwinsLoss, which pools the"
            " windows of stories by itself; use NarrativeTwinsLoss alone or in MatryoshkaLoss"
        )


def _remove_rows(card: Any) -> None:
    """Remove the rows of data sets, which may not be free to publish, from the data of the model
    card."""
    card.widget = []
    card.predict_example = None
    for known in (*card.train_datasets, *card.eval_datasets):
        for key in ("examples_table", "examples", "_example_columns"):
            known.pop(key, None)


def _without_none(data: Any) -> Any:
    """The data with None replaced by empty values, for the model card, whose statistics take the
    length of each."""
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
