"""Training of story encoders on narrative twins: the arguments, the encoder to start from, and the
trainer; and what all trainers share: exact resuming, and encoders that are saved with their card.
"""

from __future__ import annotations

import inspect
import json
import logging
import tempfile
from abc import abstractmethod
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerModelCardData,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.sampler import MultiDatasetDefaultBatchSampler
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig, Trainer
from transformers.trainer import (
    OPTIMIZER_NAME,
    SCHEDULER_NAME,
    TRAINER_STATE_NAME,
    TRAINING_ARGS_NAME,
)
from transformers.trainer_utils import HubStrategy

from narrative_twins.encoder import loading
from narrative_twins.encoder.adapters import has_adapter, merged_copy
from narrative_twins.encoder.tokenizer import StoryTokenizer, check_vocabulary, model_limit
from narrative_twins.hub.push import HubError, full_id, push_encoder
from narrative_twins.training.batches import (
    EpochCallback,
    TwinsCollator,
    checked_rows,
    is_stream,
    place_in_stream,
    rows_per_batch,
    whole_stream_loader,
)
from narrative_twins.training.losses import SETTINGS, NarrativeTwinsLoss
from narrative_twins.training.reporting import CurvesCallback, write_card
from narrative_twins.training.salience_loss import SalienceLoss, judgments

logger = logging.getLogger(__name__)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def setting(default: Any, text: str) -> Any:
    """A field of arguments, with the text of its flag for `--help`."""
    return field(default=default, metadata={"help": text})


@dataclass
class StoryTrainingArguments:
    """Arguments of all trainers of this package, with defaults of the paper: 5 epochs, learning
    rate 3e-5 decaying linearly to 0, weight decay 0.01. Others, such as batch size and gradient
    clipping, are those of transformers.

    Raises:
        ValueError: a setting is invalid, or asks for pushes of the state of training.
    """

    learning_rate: float = setting(3e-5, "The initial learning rate for AdamW.")
    num_train_epochs: float = setting(5.0, "Total number of training epochs to perform.")
    weight_decay: float = setting(0.01, "The weight decay for AdamW.")
    distractors: bool = setting(True, "Whether to use the distractors.")
    context_tokens: int | None = setting(
        None, "Maximum tokens per text, with special ones; if not set, the model's limit."
    )
    mini_batch_size: int | None = setting(
        None,
        "Texts encoded at a time, if a batch exceeds the memory; same gradient. If not set, all.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        settings: Any = self
        if settings.push_to_hub and settings.hub_strategy not in ("end", "every_save"):
            raise ValueError(
                f"hub_strategy={settings.hub_strategy.value!r}: only encoders are pushed, not the"
                " state of training; use 'every_save' or 'end'"
            )


@dataclass
class NarrativeTwinsTrainingArguments(StoryTrainingArguments, SentenceTransformerTrainingArguments):
    """Arguments of `NarrativeTwinsTrainer`: those of `StoryTrainingArguments`, of
    sentence-transformers and of transformers, and those of the objective, with the paper's settings
    as defaults."""

    twins: str = setting(
        "narrative",
        "'narrative': dropout twins only for rows without a twin; 'dropout': for all rows.",
    )
    in_story_negatives: bool = setting(True, "Whether other windows of a story are negatives.")
    in_batch_negatives: bool = setting(True, "Whether texts of other rows are negatives.")
    distractor_loss: Literal["joint", "separate"] = setting(
        "joint",
        "'joint': distractors are negatives of stories; 'separate': they are pairs in a loss of"
        " their own.",
    )
    temperature: float = setting(0.05, "Cosine similarities are divided by this.")
    gather_across_devices: bool = setting(False, "Whether processes share their negatives.")
    window_batch_size: int | None = setting(
        None, "Rows per batch if stories have several windows; if not set, as for others."
    )


def trainable_encoder(
    name: str | Path | None = None,
    *,
    pooling: loading.Pooling | None = None,
    dropout: float = 0.1,
    **options: Any,
) -> SentenceTransformer:
    """Load an encoder for training: a transformer and its pooling, in float32.

    Args:
        name: folder or Hub id of a sentence-transformers model or any `AutoModel` encoder, or of a
            PEFT adapter of one; None for the default. The adapter is merged into its base, and all
            weights are trained; to train an adapter only, add a new one:
            `model.add_adapter(peft.LoraConfig(...))`.
        pooling: `"mean"` or `"first"`; default as in the checkpoint, else `"mean"`.
        dropout: the `attention_dropout` of models whose configuration has no dropout, such as
            ModernBERT; dropout twins need some.
        options: for `from_pretrained` of the model, such as `revision`, `token` or
            `attn_implementation`.

    Raises:
        OSError: the model can't be loaded, or its weights do not fit it.
        ValueError: the pooling is unknown, or the tokenizer is that of another model.
    """
    if name is None:
        name = loading.default_encoder()
    else:
        name, options = loading.resolve_name(name, options)
    hub = loading.hub_options(options)
    # `Transformer` loads the model again, without checks.
    loading.check_checkpoint(name, pooling=pooling, **options)
    saved = loading.read_checkpoint_settings(name, pooling, **hub).pooling
    kind = loading.check_pooling(pooling or saved or "mean")
    adapter = loading.adapter_at(name, **options)
    tokenizer = loading.load_tokenizer(name, **hub)
    if adapter is not None:
        name, hub = adapter.base, adapter.base_hub
    config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub)
    changes = {}
    if not has_dropout(config) and hasattr(config, "attention_dropout"):
        changes["attention_dropout"] = dropout
    transformer = Transformer(
        name,
        model_kwargs={"dtype": "float32", **loading.SAFELY, **loading.without_hub(options), **hub},
        config_kwargs={**hub, **changes},
        processor_kwargs=hub,
    )
    if adapter is not None:
        loading.merge_adapter(transformer.auto_model, adapter)
        transformer.processor = tokenizer
    check_vocabulary(name, transformer.tokenizer, transformer.auto_model)
    transformer.max_seq_length = model_limit(transformer.auto_model, transformer.tokenizer)
    card = SentenceTransformerModelCardData(
        local_files_only=Path(name).exists(),
        generate_widget_examples=False,
        tags=["narrative-salience"],
    )
    pooled = PoolingModule(
        transformer.get_embedding_dimension(), pooling_mode="mean" if kind == "mean" else "cls"
    )
    return SentenceTransformer(modules=[transformer, pooled], model_card_data=card)


def has_dropout(config: Any) -> bool:
    """Whether an encoder of this configuration has dropout, other than in a classifier head."""
    return any(
        isinstance(value, float) and value > 0
        for key, value in config.to_dict().items()
        if "dropout" in key and "classifier" not in key
    )


class StoryTrainer(Trainer):
    """What trainers of story encoders share: exact resuming, and an encoder that is saved and
    pushed with its model card.

    With `push_to_hub=True` in the arguments, the encoder is also pushed whenever a checkpoint is
    saved, unless with `hub_strategy="end"`, and by `save_model`. The training waits for each push.

    Attributes:
        facts: facts for the model card that the trainer does not know: attributes of
            `EncoderFacts`, for example `{"training_data": "20,000 twins (CC BY 4.0)", "license":
            "apache-2.0"}`, and `evaluation_set`, the name of the data that the evaluators use.
    """

    args: Any
    model: Any
    model_init: Any
    evaluator: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        self.facts: dict[str, Any] = {}
        super().__init__(*args, **options)
        if self.is_fsdp_enabled:
            raise ValueError("FSDP is not supported; train without it (DDP, one encoder per GPU)")
        self.add_callback(CurvesCallback())

    @property
    @abstractmethod
    def transformer(self) -> Any:
        """The `transformers` model of the encoder."""

    @property
    @abstractmethod
    def objective_for_card(self) -> str:
        """The objective and its settings, for the model card. (`objective` is the value of a trial
        of `hyperparameter_search`, which `transformers` sets.)"""

    @abstractmethod
    def set_objective(self) -> None:
        """Set collator and loss, unless they were given, for the current model and arguments."""

    @abstractmethod
    def save_weights(self, folder: str | Path) -> None:
        """Save the encoder as a sentence-transformers checkpoint without its card. Called by all
        processes."""

    def train(
        self, resume_from_checkpoint: str | Path | bool | None = None, *args: Any, **options: Any
    ) -> Any:
        """Train as `transformers.Trainer.train` does.

        `resume_from_checkpoint=True` skips checkpoints that were not complete when the run stopped.
        A ValueError if the checkpoint has no state of the optimizer, without which `transformers`
        would resume with other weights; a FloatingPointError if the loss is not finite.
        """
        checkpoint = resume_from_checkpoint
        if checkpoint is True:
            checkpoint = last_complete_checkpoint(Path(self.args.output_dir)) or True
        if isinstance(checkpoint, (str, Path)):
            checkpoint = str(checkpoint)
            for name in () if self.is_deepspeed_enabled else (OPTIMIZER_NAME, SCHEDULER_NAME):
                if not Path(checkpoint, name).is_file():
                    raise ValueError(
                        f"{checkpoint}/{name} is missing; resume from another checkpoint, or start"
                        " over"
                    )
        return super().train(checkpoint, *args, **options)

    def call_model_init(self, trial: Any = None) -> Any:
        """A new model. `model_init` may have several arguments with defaults, as
        `trainable_encoder` has."""
        make = self.model_init
        arguments = inspect.signature(make).parameters.values()
        if len(arguments) > 1 and not any(
            argument.default is argument.empty and argument.kind not in _VARIADIC
            for argument in arguments
        ):
            self.model_init = lambda: make()
        return super().call_model_init(trial)

    def _hp_search_setup(self, trial: Any) -> None:
        """Set the arguments of a trial. `transformers` calls it in `train`, after `model_init`, so
        the objective is set for the new model and arguments here."""
        super()._hp_search_setup(trial)
        if self.model_init is not None:
            self.set_objective()

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
            raise FloatingPointError(
                f"the loss is {loss.item()} in step {self.state.global_step + 1}; lower the"
                f" learning rate ({self.args.learning_rate:g}) or train without fp16 and bf16,"
                f" and resume from a checkpoint in {self.args.output_dir}"
            )
        return loss

    def save_encoder(self, folder: str | Path) -> None:
        """Save the encoder as a sentence-transformers checkpoint with its card."""
        self.save_weights(folder)
        if self.args.should_save:
            write_card(self, folder)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Push the encoder after a checkpoint was saved. `transformers` calls this in all
        processes, and would push the output folder with the arguments and logs. If a push fails, a
        warning is logged, and the training continues."""
        step = self.state.global_step
        try:
            if self.args.hub_strategy != HubStrategy.END:
                self.push_to_hub(f"Training in progress, step {step}")
        except HubError as error:
            logger.warning("the encoder of step %d was not pushed: %s", step, error)

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
            token, revision, private: of the repository; default those of the arguments.
            options: attributes of `EncoderFacts` for the card; added to `facts`.

        Returns:
            The URL of the repository; None in processes other than the first. A failed push raises
            a HubError.
        """
        self.facts.update(options)
        args = self.args
        token = token or args.hub_token
        with tempfile.TemporaryDirectory() as folder:
            self.save_encoder(folder)
            if not self.is_world_process_zero():
                return None
            return push_encoder(
                folder,
                full_id(args.hub_model_id or Path(args.output_dir).absolute().name, token),
                private=bool(args.hub_private_repo if private is None else private),
                update=True,
                revision=revision or args.hub_revision,
                token=token,
                commit_message=commit_message,
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
        options: other arguments of `SentenceTransformerTrainer`, such as `evaluator`.

    Raises:
        RowError: a row is invalid; names the data set and the row.
        ValueError: the arguments are of another class, or set prompts for narrative twins; the
            weights are not in float32; a dropout twin is needed and the model has no dropout.
    """

    training_args_class = NarrativeTwinsTrainingArguments
    args: NarrativeTwinsTrainingArguments
    first_epoch = 0
    """The epoch in which the training began or was resumed."""

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
        # The kind of a loss decides how its rows are read: losses of functions are made for that.
        self.model_init = options.get("model_init")
        first = model
        if first is None and loss is not None and self.model_init is not None:
            first = self.call_model_init()
        made = made_with(loss, first)
        if self.model_init is None:
            loss = made
        if isinstance(made, SalienceLoss):
            # Judged stories alone are one of several data sets too: those with collators and checks
            # of their own.
            train_dataset = {"judged": train_dataset} if train_dataset else train_dataset
            eval_dataset = {"judged": eval_dataset} if eval_dataset else eval_dataset
            loss, made = {"judged": loss}, {"judged": made}
        sets: dict[str, Any] = {}
        for data in (train_dataset, eval_dataset):
            sets |= data if isinstance(data, dict) else {}
        losses = made if isinstance(made, dict) else {}
        self._judged = [name for name in sets if isinstance(losses.get(name), SalienceLoss)]
        self._others = [name for name in sets if not has_twins(losses.get(name))]
        self._given_loss: Any = loss or self.get_default_loss
        if isinstance(loss, dict):
            self._given_loss = {**dict.fromkeys(sets, self.get_default_loss), **loss}
        self._collates = options.get("data_collator") is None
        train_dataset, self._twinless = checked_rows(train_dataset, "train_dataset", self._others)
        eval_dataset, _ = checked_rows(eval_dataset, "eval_dataset", self._others)
        for name in self._judged:
            if isinstance(sets[name], Dataset):
                for number, row in enumerate(sets[name]):
                    judgments(row, f"{name}, row {number}")
        if model is not None:
            self._check_model(model, args)
        super().__init__(
            model=model,
            args=args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            # A copy, since the losses of a dict are replaced.
            loss=dict(self._given_loss) if isinstance(loss, dict) else self._given_loss,
            **options,
        )
        if self.model_init is not None:
            self.set_objective()
        self.add_callback(EpochCallback(self))

    def set_objective(self) -> None:
        self._check_model(self.model, self.args)
        given, prepared = self._given_loss, self.prepare_loss
        self.loss: Any = (
            {name: prepared(loss, self.model) for name, loss in given.items()}
            if isinstance(given, dict)
            else prepared(given, self.model)
        )
        if self._collates:
            self.data_collator = self.get_data_collator(
                self.model, self.args, self.processing_class
            )

    def _check_model(self, model: Any, args: NarrativeTwinsTrainingArguments) -> None:
        if not hasattr(model, "parameters"):
            raise TypeError(
                f"model is {type(model).__name__}, not a SentenceTransformer; load it:"
                " trainable_encoder(model)"
            )
        check_precision(model)
        reason = "twins='dropout'" if args.twins == "dropout" else self._twinless
        if reason is not None and not has_dropout(model[0].auto_model.config):
            raise ValueError(
                f"{reason} needs an encoder with dropout, or its dropout twin would be the same"
                " vector; load it with trainable_encoder(...)"
            )

    @property
    def transformer(self) -> Any:
        return self.model[0].auto_model

    @property
    def objective_for_card(self) -> str:
        described = []
        for name, loss in (self.loss if isinstance(self.loss, dict) else {"": self.loss}).items():
            settings = loss.get_config_dict() if hasattr(loss, "get_config_dict") else {}
            listed = ", ".join(f"{key} {value}" for key, value in settings.items())
            described.append(f"{name}: {type(loss).__name__} ({listed})".removeprefix(": "))
        return f"{'; '.join(described)}; {self.args.twins} twins"

    def save_weights(self, folder: str | Path) -> None:
        module: Any = self.model[0]
        adapted = self.transformer
        if has_adapter(adapted):
            # Other libraries load it with its adapter merged; training continues with the adapter.
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
        """Add no callback: `write_card` writes the card, and copies no rows into it."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = output_dir or self.args.output_dir
        self.model.save_pretrained(folder, create_model_card=False)
        torch.save(self.args, Path(folder) / TRAINING_ARGS_NAME)
        write_card(self, folder)

    def get_data_collator(self, model: Any, args: Any, processing_class: Any = None) -> Any:
        """The collator with the settings of the arguments. Raises ValueError if these set prompts
        for twins."""
        prompted = args.prompts or {}
        if isinstance(prompted, str) or set(prompted) - set(self._others):
            raise ValueError(
                f"prompts={args.prompts!r}: narrative twins are encoded without prompts, as stories"
                " are scored; give prompts for other data sets only, as a dict with their names"
            )
        limit = model_limit(model[0].auto_model, model.tokenizer, args.context_tokens)
        tokens = StoryTokenizer(model.tokenizer, limit, loading.module_settings(model).lowercase)
        plain = super().get_data_collator(model, args, processing_class)
        others = {
            name: made_with(self._given_loss[name], model).collator(tokens)
            if name in self._judged
            else plain
            for name in self._others
        }
        return TwinsCollator(
            tokens, twins=args.twins, distractors=args.distractors, seed=args.seed, others=others
        )

    def add_dataset_name_column(self, dataset: Any, dataset_name: str | None = None) -> Any:
        """A copy of a data set whose rows have its name. (sentence-transformers changes the data
        set itself, which may be given under several names, each with a loss.)"""
        dataset = copy(dataset) if isinstance(dataset, Dataset) else dataset
        return super().add_dataset_name_column(dataset, dataset_name)

    def get_default_loss(self, model: Any) -> torch.nn.Module:
        """The loss with the settings of the arguments."""
        return NarrativeTwinsLoss(model, **{name: getattr(self.args, name) for name in SETTINGS})


def has_twins(loss: torch.nn.Module | None) -> bool:
    """Whether a data set has rows of narrative twins, by the loss that is given for it, if any."""
    return loss is None or any(isinstance(part, NarrativeTwinsLoss) for part in loss.modules())


def made_with(loss: Any, model: Any) -> Any:
    """A loss, or a dict of losses by data set; a function makes it of the model."""
    if isinstance(loss, dict):
        return {name: made_with(each, model) for name, each in loss.items()}
    return loss if loss is None or isinstance(loss, torch.nn.Module) else loss(model)


def check_class(args: Any, kind: type[StoryTrainingArguments]) -> None:
    """Raise a ValueError if the arguments of a trainer are of another class, such as that of
    transformers."""
    if not isinstance(args, kind):
        raise ValueError(
            f"args is of class {type(args).__name__}, which lacks the settings of this trainer; use"
            f" {kind.__name__}, which takes the same settings and more"
        )


def check_precision(model: torch.nn.Module) -> None:
    """Raise a ValueError if trained weights are in a precision that rounds small updates away."""
    for weight in model.parameters():
        if weight.requires_grad and weight.dtype in (torch.bfloat16, torch.float16):
            raise ValueError(
                f"the weights are in {weight.dtype}, in which small updates are rounded away; load"
                " the encoder in float32, and set bf16=True in the arguments"
            )


def last_complete_checkpoint(folder: Path) -> str | None:
    """The last checkpoint in a folder with a valid trainer state, the file that is written last.
    Raises a ValueError if there are checkpoints, but none is complete."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name[11:]), reverse=True)
    for checkpoint in found:
        try:
            json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
            return str(checkpoint)
        except (OSError, ValueError):
            logger.warning("%s is incomplete and is skipped", checkpoint)
    if found:
        raise ValueError(f"no checkpoint in {folder} is complete; start over without resuming")
    return None
