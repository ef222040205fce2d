"""The trainer of story encoders on narrative twins, and what all trainers of story encoders share:
runs that are resumed, and encoders that are saved and pushed with their card."""

from __future__ import annotations

import logging
import tempfile
from abc import abstractmethod
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.base.sampler import MultiDatasetDefaultBatchSampler
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss
from transformers import Trainer
from transformers.trainer_utils import HubStrategy, has_length

from narrative_twins.encoder.adapters import has_adapter, merged_copy
from narrative_twins.encoder.loading import module_settings
from narrative_twins.encoder.passes import using_attention
from narrative_twins.encoder.precision import fast_linear_layers
from narrative_twins.encoder.tokenizer import StoryTokenizer
from narrative_twins.hub.cards import encoder_card
from narrative_twins.hub.facts import EncoderFacts
from narrative_twins.hub.push import HubError, create_repository, full_id, push_encoder
from narrative_twins.training.arguments import (
    NarrativeTwinsTrainingArguments,
    StoryTrainingArguments,
)
from narrative_twins.training.collator import TwinsCollator
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.reporting import CurvesCallback, training_facts
from narrative_twins.training.salience_loss import SalienceLoss, judgments
from narrative_twins.training.sampling import (
    EpochCallback,
    check_first_batch,
    check_streams,
    checked_rows,
    is_stream,
    place_in_stream,
    rows_per_batch,
    whole_stream_loader,
)
from narrative_twins.training.trainable import (
    check_checkpoint_files,
    check_precision,
    last_complete_checkpoint,
    require_dropout,
)

logger = logging.getLogger(__name__)


class StoryTrainer(Trainer):
    """What trainers of story encoders share: fast training steps, exact resuming, and an encoder
    that is saved and pushed with its model card.

    With `push_to_hub=True` in the arguments, the encoder is also pushed whenever a checkpoint is
    saved, unless with `hub_strategy="end"`, and by `save_model`. The training waits for each push.

    Attributes:
        facts: facts for the model card that the trainer does not know: attributes of
            `EncoderFacts`, for example `{"training_data": "20,000 twins (CC BY 4.0)", "license":
            "apache-2.0"}`, and `evaluation_set`, the name of the data that the evaluators use.
    """

    args: Any
    model: Any
    evaluator: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        self.facts: dict[str, Any] = {}
        # Changes of the model for the time of training, which are undone at its end.
        self._changes = ExitStack()
        super().__init__(*args, **options)
        if self.is_fsdp_enabled:
            raise ValueError("FSDP is not supported; train without it (DDP, one encoder per GPU)")
        self.add_callback(CurvesCallback())

    @property
    @abstractmethod
    def transformer(self) -> Any:
        """The `transformers` model of the encoder."""

    @abstractmethod
    def set_objective(self) -> None:
        """Set collator and loss, unless they were given, for the current model and arguments."""

    @abstractmethod
    def save_weights(self, folder: str | Path) -> None:
        """Save the encoder as a sentence-transformers checkpoint without its card. Called by all
        processes."""

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **options: Any
    ) -> Any:
        """Train as `transformers.Trainer.train` does.

        `resume_from_checkpoint=True` skips checkpoints that were not complete when the run stopped.
        A ValueError if a file of the checkpoint is missing; a FloatingPointError if the loss is not
        finite.
        """
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_complete_checkpoint(Path(self.args.output_dir)) or True
        if isinstance(resume_from_checkpoint, (str, Path)) and not self.is_deepspeed_enabled:
            check_checkpoint_files(Path(resume_from_checkpoint), self.args)
        with ExitStack() as self._changes:
            return super().train(resume_from_checkpoint, *args, **options)

    def _hp_search_setup(self, trial: Any) -> None:
        """Set the arguments of a trial. `transformers` calls it in `train`, after `model_init`, so
        the objective is set for the new model and arguments here, and the model is prepared for
        fast training."""
        super()._hp_search_setup(trial)
        if self.model_init is not None:
            self.set_objective()
        self._changes.pop_all().close()
        if self.args.device.type == "cpu":
            self._changes.enter_context(fast_linear_layers(self.model))
            if self.args.bf16 and self.transformer.config._attn_implementation == "sdpa":
                # torch's attention with dropout is slow in bfloat16 on a CPU.
                self._changes.enter_context(using_attention(self.transformer, "eager"))

    def get_train_dataloader(self) -> Any:
        """The data loader of training. Raises ValueError if it has no batch, with which
        `transformers` would only stop at once."""
        loader = super().get_train_dataloader()
        if self.args.dataloader_drop_last and has_length(loader) and not len(loader):
            raise ValueError(
                f"the training rows do not fill a batch of {self.args.train_batch_size}, and"
                " dataloader_drop_last leaves incomplete batches out; use a smaller"
                " per_device_train_batch_size or dataloader_drop_last=False"
            )
        return loader

    def get_eval_dataloader(self, *args: Any, **options: Any) -> Any:
        """The data loader of evaluation, of all rows: `dataloader_drop_last` is for training
        only."""
        dropped = self.args.dataloader_drop_last
        self.args.dataloader_drop_last = False
        try:
            return super().get_eval_dataloader(*args, **options)
        finally:
            self.args.dataloader_drop_last = dropped

    def training_step(self, *args: Any, **options: Any) -> torch.Tensor:
        """A step of training. Raises `FloatingPointError` if the loss is not finite, before
        anything is saved."""
        loss: torch.Tensor = super().training_step(*args, **options)
        if not torch.isfinite(loss):
            other = ", or train without fp16 and bf16" if self.args.fp16 or self.args.bf16 else ""
            raise FloatingPointError(
                f"the loss is {loss.item()} in step {self.state.global_step + 1}, so the weights"
                f" are of no use; lower the learning rate ({self.args.learning_rate:g}){other}."
                f" Earlier checkpoints in {self.args.output_dir} are complete"
            )
        return loss

    @property
    def evaluators(self) -> list[BaseEvaluator]:
        """The evaluators; a `SequentialEvaluator` is replaced by its members."""
        if self.evaluator is None:
            return []
        return list(getattr(self.evaluator, "evaluators", [self.evaluator]))

    def encoder_facts(self) -> EncoderFacts:
        """The facts for the model card of the encoder in its current state."""
        known = dict(self.facts)
        evaluation_set = known.pop("evaluation_set", "validation rows of the training data")
        return replace(training_facts(self, evaluation_set), **known)

    def save_encoder(self, folder: str | Path) -> None:
        """Save the encoder as a sentence-transformers checkpoint with its card."""
        self.save_weights(folder)
        if self.args.should_save:
            self._write_card(folder)

    def _write_card(self, folder: str | Path) -> None:
        (Path(folder) / "README.md").write_text(
            str(encoder_card(self.encoder_facts())), encoding="utf-8"
        )

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Create the repository of the encoder if it does not exist. Called before the training if
        it is to push, and raises HubError if that would fail."""
        if self.is_world_process_zero():
            private = self.args.hub_private_repo if private is None else private
            self.hub_model_id = create_repository(
                self._hub_name, private=bool(private), token=token or self.args.hub_token
            )
        self.push_in_progress = None

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Push the encoder after a checkpoint was saved. `transformers` calls this in all
        processes, and would push the output folder with the arguments and logs. A push that fails
        is only warned of, and the training continues.
        """
        if self.args.hub_strategy == HubStrategy.END:
            return
        step = self.state.global_step
        try:
            self.push_to_hub(f"Training in progress, step {step}")
        except HubError as error:
            logger.warning(
                "the encoder of step %d was not pushed, and training continues: %s", step, error
            )

    @property
    def _hub_name(self) -> str:
        return str(
            getattr(self, "hub_model_id", None)
            or self.args.hub_model_id
            or Path(self.args.output_dir).absolute().name
        )

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **options: Any,
    ) -> str | None:
        """Push the encoder as a sentence-transformers checkpoint with its card, and no other files
        of the output folder, to the repository `hub_model_id` of the arguments or of the name of
        the output folder. An earlier push is replaced.

        Args:
            commit_message: the commit message.
            blocking: ignored: this always waits until the push is complete.
            token: Hub token; default `hub_token` of the arguments, or the token of `hf auth login`.
            revision: the branch; default `hub_revision` of the arguments, or `main`.
            private: whether a new repository is private; default `hub_private_repo` of the
                arguments.
            options: attributes of `EncoderFacts` for the card; added to `facts`.

        Returns:
            The URL of the repository; None in processes other than the first. A failed push raises
            a HubError.
        """
        self.facts.update(options)
        token = token or self.args.hub_token
        with tempfile.TemporaryDirectory() as folder:
            self.save_encoder(folder)
            if not self.is_world_process_zero():
                return None
            return push_encoder(
                folder,
                full_id(self._hub_name, token),
                private=bool(self.args.hub_private_repo if private is None else private),
                update=True,
                revision=revision or self.args.hub_revision,
                token=token,
                message=commit_message,
            )


class NarrativeTwinsTrainer(StoryTrainer, SentenceTransformerTrainer):
    """A `SentenceTransformerTrainer` for story encoders on narrative twins.

    Loss and collator are `NarrativeTwinsLoss` and `TwinsCollator` by default. Rows are checked
    before training starts, those of a stream as they are read. Loss and validation curves are
    written to `curves.json` and `curves.png` in the output folder. The model card shows no rows of
    the data.

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

    Attributes:
        first_epoch: the epoch in which the training began or was resumed.

    Raises:
        RowError: a row is invalid; names the data set and the row.
        ValueError: the arguments are of another class, set prompts for narrative twins, or can't be
            used with a stream; the weights are not in float32; `twins="dropout"` is set, or a row
            has no twin, and the model has no dropout; another loss than `MatryoshkaLoss` wraps
            `NarrativeTwinsLoss`.
    """

    training_args_class = NarrativeTwinsTrainingArguments
    args: NarrativeTwinsTrainingArguments
    first_epoch = 0

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
        check_class(args, NarrativeTwinsTrainingArguments)
        if isinstance(loss, SalienceLoss):
            # Judged stories alone are one of several data sets too: those with collators and checks
            # of their own.
            train_dataset = {"judged": train_dataset} if train_dataset else train_dataset
            eval_dataset = {"judged": eval_dataset} if eval_dataset else eval_dataset
            loss = {"judged": loss}
        data_sets: dict[str, Any] = {}
        for name, data in (("train_dataset", train_dataset), ("eval_dataset", eval_dataset)):
            check_streams(data, name, args)
            data_sets |= data if isinstance(data, dict) else {}
        self._given_loss: Any = self.get_default_loss if loss is None else loss
        if isinstance(loss, dict):
            self._given_loss = {**dict.fromkeys(data_sets, self.get_default_loss), **loss}
        self._others = [name for name, rows in data_sets.items() if not self._has_twins(name, rows)]
        self._collates = options.get("data_collator") is None
        train_dataset, self._twinless = checked_rows(
            train_dataset, "train_dataset", args.disable_tqdm, self._others
        )
        eval_dataset, _ = checked_rows(
            eval_dataset, "eval_dataset", args.disable_tqdm, self._others
        )
        for name, rows in data_sets.items():
            if self._is_judged(name) and isinstance(rows, Dataset):
                for number, row in enumerate(rows):
                    judgments(row, f"{name}, row {number}")
        if model is not None:
            self._check_model(model, args)
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
        for found in self.loss.values() if isinstance(self.loss, dict) else [self.loss]:
            _check_wrapper(found)
        self.add_callback(EpochCallback(self))

    def set_objective(self) -> None:
        self._check_model(self.model, self.args)
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
        given = self._given_loss
        return isinstance(given, dict) and isinstance(given[name], SalienceLoss)

    def _has_twins(self, name: str, rows: Any) -> bool:
        """Whether a data set has rows of narrative twins: always, unless its loss in a dict of
        losses is another."""
        loss = self._given_loss[name] if isinstance(self._given_loss, dict) else None
        if isinstance(loss, torch.nn.Module):
            return any(isinstance(module, NarrativeTwinsLoss) for module in loss.modules())
        # What a function will return is not known yet.
        return loss in (None, self.get_default_loss) or "story" in rows.column_names

    def _check_model(self, model: Any, args: NarrativeTwinsTrainingArguments) -> None:
        check_precision(model)
        if args.twins == "dropout":
            require_dropout(model, "twins='dropout'")
        elif self._twinless is not None:
            require_dropout(model, f"a row without a twin ({self._twinless})")

    @property
    def transformer(self) -> Any:
        return self.model[0].auto_model

    def save_weights(self, folder: str | Path) -> None:
        module: Any = self.model[0]
        adapted = self.transformer
        if has_adapter(adapted):
            # Saved with its adapter merged, as other libraries load it; training continues with the
            # adapter.
            module.model = merged_copy(adapted)
        try:
            self.save_model(str(folder), _internal_call=True)
        finally:
            module.model = adapted

    def _init_training_state(
        self,
        max_steps: int,
        epoch_steps: int,
        epochs: int,
        resume_from_checkpoint: str | None,
        trial: Any,
    ) -> tuple[int, int]:
        """The epoch to begin with, and how many of its batches were trained on already. `train`
        calls this, and takes all of the training for one epoch of a stream."""
        start: tuple[int, int] = super()._init_training_state(
            max_steps, epoch_steps, epochs, resume_from_checkpoint, trial
        )
        resumed = resume_from_checkpoint is not None and not self.args.ignore_data_skip
        if resumed and is_stream(self.train_dataset):
            accumulated = self.args.gradient_accumulation_steps
            start = place_in_stream(str(resume_from_checkpoint), accumulated)
        self.first_epoch = start[0]
        return start

    def _build_dataloader(self, dataset: Any, batch_size: int, dataset_kind: str) -> Any:
        """A data loader; `get_train_dataloader` and `get_eval_dataloader` call this. Each process
        reads the whole of a stream and takes its share of each batch."""
        if is_stream(dataset):
            # Otherwise the first process would make all batches, and cut them for the others
            # without regard to rows.
            self.accelerator.dataloader_config.dispatch_batches = False
            if dataset_kind == "train":
                check_first_batch(dataset, self.args)
            size = rows_per_batch(dataset, batch_size, self.args.window_batch_size)
            return whole_stream_loader(super()._build_dataloader(dataset, size, dataset_kind))
        loader = super()._build_dataloader(dataset, batch_size, dataset_kind)
        if isinstance(loader.batch_sampler, MultiDatasetDefaultBatchSampler):
            # With a batch size set, several processes would drop batches of another size as
            # incomplete.
            loader.batch_sampler.batch_size = None  # type: ignore[assignment]
        return loader

    def get_batch_sampler(
        self, dataset: Any, batch_size: int, drop_last: bool, *args: Any, **kwargs: Any
    ) -> Any:
        """The usual sampler, with `window_batch_size` rows per batch if stories have several
        windows."""
        size = rows_per_batch(dataset, batch_size, self.args.window_batch_size)
        return super().get_batch_sampler(dataset, size, drop_last, *args, **kwargs)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add no callback: the card is that of `encoder_facts`, which copies no rows into it."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        self._write_card(output_dir or self.args.output_dir)

    def get_data_collator(self, model: Any, args: Any, processing_class: Any = None) -> Any:
        """The collator with the settings of the arguments. Raises ValueError if these set prompts
        for twins."""
        tokens = StoryTokenizer.of_model(
            model[0].auto_model,
            model.tokenizer,
            module_settings(model).lowercase,
            args.context_tokens,
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


def check_class(args: Any, kind: type[StoryTrainingArguments]) -> None:
    """Raise a ValueError if the arguments of a trainer are of another class, such as that of
    transformers."""
    if not isinstance(args, kind):
        raise ValueError(
            f"args is of class {type(args).__name__}, which lacks the settings of this trainer; use"
            f" {kind.__name__}, which takes the same settings and more"
        )


def _check_wrapper(loss: torch.nn.Module) -> None:
    """Raise a ValueError if a loss wraps `NarrativeTwinsLoss` but would not change what it
    computes."""
    inner = loss.loss if type(loss) is MatryoshkaLoss else loss
    if not isinstance(inner, NarrativeTwinsLoss) and any(
        isinstance(module, NarrativeTwinsLoss) for module in inner.modules()
    ):
        raise ValueError(
            f"{type(inner).__name__} does not work around NarrativeTwinsLoss, which pools the"
            " windows of stories by itself; use NarrativeTwinsLoss alone or in MatryoshkaLoss"
        )
