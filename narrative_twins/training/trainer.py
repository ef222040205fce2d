"""Training of story encoders on narrative twins and on votes: the arguments, the encoder to start
from, and the trainer, which resumes exactly and saves encoders with their card."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from datasets import IterableDataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import AutoConfig, Trainer, TrainerCallback
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.trainer_utils import HubStrategy

from narrative_twins.data.rows import RowError, is_nested
from narrative_twins.encoder import loading
from narrative_twins.encoder.adapters import (
    ADAPTER_FILES,
    adapted,
    has_adapter,
    load_adapter_weights,
    merged_copy,
)
from narrative_twins.encoder.tokenizer import StoryTokenizer, check_vocabulary, model_limit
from narrative_twins.hub.push import full_id, push_encoder
from narrative_twins.training.losses import SETTINGS, NarrativeTwinsLoss, WindowLoss, has_dropout
from narrative_twins.training.reports import ReportCallback, write_card
from narrative_twins.training.shared_batches import JoinedBatches, SharedBatches

logger = logging.getLogger(__name__)


def setting(default: Any, text: str) -> Any:
    """Return a dataclass field with a default; `text` is the help of its flag."""
    return field(default=default, metadata={"help": text})


@dataclass
class NarrativeTwinsTrainingArguments(SentenceTransformerTrainingArguments):
    """Arguments of `NarrativeTwinsTrainer`: the arguments of sentence-transformers, with the
    paper's defaults (5 epochs, learning rate 3e-5 decaying linearly to 0, weight decay 0.01) and
    pushes at the end only; and the settings of `NarrativeTwinsLoss`."""

    learning_rate: float = setting(3e-5, "The initial learning rate for AdamW.")
    num_train_epochs: float = setting(5.0, "Total number of training epochs to perform.")
    weight_decay: float = setting(0.01, "The weight decay for AdamW.")
    hub_strategy: HubStrategy | str = setting("end", "When to push, as for transformers.")
    twins: str = setting("narrative", "'narrative', or 'dropout' for dropout twins only.")
    distractors: bool = setting(True, "Whether to use the distractors.")
    in_story_negatives: bool = setting(True, "Whether other windows of a story are negatives.")
    in_batch_negatives: bool = setting(True, "Whether texts of other rows are negatives.")
    distractor_loss: Literal["joint", "separate"] = setting(
        "joint", "'joint': negatives of stories; 'separate': pairs in a loss of their own."
    )
    temperature: float = setting(0.05, "Cosine similarities are divided by this.")
    gather_across_devices: bool = setting(True, "Whether processes share their negatives.")
    context_tokens: int | None = setting(None, "Maximum tokens per text; default: the model's.")
    mini_batch_size: int | None = setting(None, "Texts encoded at a time, for less memory.")
    window_batch_size: int | None = setting(None, "Rows per batch of stories in windows.")


class _Loaded(Transformer):
    """A `Transformer` of sentence-transformers for a model that is already loaded."""

    def _load_model(self, *args: Any, **options: Any) -> Any:
        """Return the model in `options`."""
        return options["model"]


def trainable_encoder(
    name: str | Path | None = None,
    *,
    pooling: loading.Pooling | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    adapter: Any = None,
    dtype: str = "float32",
    **options: Any,
) -> SentenceTransformer:
    """Load an encoder for training: a transformer and its pooling.

    Args:
        name: `"default"`, `"base"` or `"multilingual"`, the encoders of this package; or folder or
            Hub id of a sentence-transformers model or any `AutoModel` encoder, or of a PEFT adapter
            of one; None for the default. The adapter is merged into its base, and all weights are
            trained unless `adapter` is set.
        pooling, prompt, prompt_name: see `StoryEncoder`; saved with the encoder.
        adapter: the configuration of a new adapter, such as `peft.LoraConfig(r=16,
            target_modules="all-linear")`. Only its weights are trained, in float32.
        dtype: the precision of the weights; `"bfloat16"` is for weights that are not trained.
        options: for `from_pretrained` of the model, such as `revision`, `token` or
            `attn_implementation`. If the configuration has no dropout, as in ModernBERT,
            `attention_dropout` is 0.1 by default, since dropout twins need some.

    Raises:
        OSError: the model can't be loaded, or its weights do not fit it.
        ValueError: the pooling or the prompt is unknown, or the tokenizer belongs to another model.
        ImportError: `adapter` is set, and peft is not installed.
    """
    name, options = loading.resolve_name(name, options)
    hub = loading.hub_options(options)
    base, base_hub = loading.adapter_at(name, **options) or (name, hub)
    of_base = {"trust_remote_code": bool(options.get("trust_remote_code")), **base_hub}
    config = AutoConfig.from_pretrained(base, **of_base)
    if not has_dropout(config) and hasattr(config, "attention_dropout"):
        options.setdefault("attention_dropout", 0.1)
    model = loading.load_story_model(name, pooling=pooling, dtype=dtype, **options)
    settings = model.checkpoint_settings.with_prompt(prompt, prompt_name)
    kind = loading.supported_pooling(pooling or settings.pooling or model.default_pooling)
    kwargs = {"config_kwargs": of_base, "processor_kwargs": of_base}
    transformer = _Loaded(str(base), model_kwargs={"model": model}, **kwargs)
    # Checkpoints save the name of the class.
    transformer.__class__ = Transformer
    if base != name:
        transformer.processor = loading.load_tokenizer(name, **hub)
    check_vocabulary(name, transformer.tokenizer, model)
    transformer.max_seq_length = model_limit(model, transformer.tokenizer)
    if adapter is not None:
        transformer.model = adapted(model, adapter)
    mode: Any = "cls" if kind == "first" else kind
    size = transformer.get_embedding_dimension()
    return SentenceTransformer(
        modules=[transformer, PoolingModule(size, mode, settings.include_prompt)],
        **settings.saved_prompts(),
    )


class NarrativeTwinsTrainer(SentenceTransformerTrainer):
    """A `SentenceTransformerTrainer` for story encoders on narrative twins and on votes.

    The loss, `NarrativeTwinsLoss` or another `WindowLoss`, makes the collator, and checks all rows
    before training starts. Loss and validation curves are written to `curves.json` and `curves.png`
    in the output folder, and results at the end of training to `eval_results.json` and
    `train_results.json`. With `eval_strategy="steps"` the last step is evaluated, too. The model
    card shows no rows of the data.

    Args:
        model: the encoder, from `trainable_encoder`.
        args: the arguments; default the settings of the paper.
        train_dataset, eval_dataset: rows for the loss, as loaded by `narrative_twins.data`. The
            default loss needs `story`, and uses `twin`, `negative` and `negative_twin` where they
            are set. Several data sets may be in a dict; each batch has rows of one of them.
        loss: a loss in place of the default, or its class; `MatryoshkaLoss` may wrap it. A dict has
            losses by data set; data sets that are missing in the dict have the default loss. Losses
            of sentence-transformers in the dict take rows in the format of that library.
        options: other arguments of `SentenceTransformerTrainer`, such as `evaluator`.

    Attributes:
        facts: facts for the model card that the trainer does not know: attributes of
            `EncoderFacts`, for example `{"training_data": "20,000 twins (CC BY 4.0)", "license":
            "apache-2.0"}`, and `evaluation_set`, the name of the data that the evaluators use.

    Raises:
        RowError: a row is invalid; names the data set and the row.
        TypeError: a data set is a list, or a stream; rows are memory-mapped, so they need not be
            streamed.
        ValueError: the arguments are of another class, or set prompts for narrative twins; the
            weights are not in float32; a dropout twin is needed and the model has no dropout.

    Example:
        ```python
        from narrative_twins import NarrativeTwinsTrainer, trainable_encoder
        from narrative_twins.data import load_story_twins

        rows = load_story_twins(split="train[:8]")
        trainer = NarrativeTwinsTrainer(trainable_encoder(), train_dataset=rows)
        ```
    """

    training_args_class = NarrativeTwinsTrainingArguments
    args: NarrativeTwinsTrainingArguments

    def __init__(
        self,
        model: SentenceTransformer,
        args: NarrativeTwinsTrainingArguments | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        loss: Any = None,
        **options: Any,
    ) -> None:
        if not isinstance(model, SentenceTransformer):
            raise TypeError(
                f"model is {type(model).__name__}, not a SentenceTransformer; load it:"
                " trainable_encoder(model)"
            )
        check_precision(model)
        self.facts: dict[str, Any] = {}
        self.args = args or NarrativeTwinsTrainingArguments("narrative_twins_output")
        if not isinstance(self.args, NarrativeTwinsTrainingArguments):
            raise ValueError(
                f"args is of class {type(args).__name__}, which lacks the settings of this trainer;"
                " use NarrativeTwinsTrainingArguments, which takes the same settings and more"
            )
        self.loss: Any = self._losses(model, loss, [train_dataset, eval_dataset])
        super().__init__(
            model=model,
            args=self.args,
            train_dataset=checked_rows(train_dataset, "train_dataset", self.loss),
            eval_dataset=checked_rows(eval_dataset, "eval_dataset", self.loss),
            loss=self.loss,
            **options,
        )
        if self.is_fsdp_enabled:
            self._set_up_fsdp()
        self.add_callback(ReportCallback())
        self.add_callback(EpochCallback(self))
        self.add_callback(EvaluateAtEndCallback())

    def _set_up_fsdp(self) -> None:
        """Set what FSDP needs to save and resume encoders. Raises ValueError for its version 1."""
        plugin = self.accelerator.state.fsdp_plugin
        if plugin.fsdp_version != 2:
            raise ValueError(
                "FSDP of version 1 is not supported; set fsdp_version: 2 in the configuration of"
                " accelerate, or version: 2 in fsdp_config"
            )
        # Encoders are saved whole, whatever the configuration says.
        plugin.set_state_dict_type("FULL_STATE_DICT")
        pooler = getattr(self.transformer, "pooler", None)
        if pooler is not None:
            # It has no gradients, and thus no state in the optimizer; FSDP resumes only if all
            # trainable weights have one.
            pooler.requires_grad_(False)

    def _losses(self, model: Any, loss: Any, data: Sequence[Any]) -> Any:
        """Return the loss as a module. For a dict, return a dict with a loss for each data set in
        `data` or in `loss`; the default loss if `loss` lacks one."""
        if not isinstance(loss, dict):
            return self.prepare_loss(loss or self.get_default_loss, model)
        names = dict.fromkeys(name for sets in data if isinstance(sets, dict) for name in sets)
        losses = {**dict.fromkeys(names, self.get_default_loss), **loss}
        return {name: self.prepare_loss(each, model) for name, each in losses.items()}

    def get_default_loss(self, model: Any) -> torch.nn.Module:
        """Return the default loss, with the settings of the arguments."""
        return NarrativeTwinsLoss(model, **{name: getattr(self.args, name) for name in SETTINGS})

    def get_data_collator(self, model: Any, args: Any, processing_class: Any = None) -> Any:
        """Return the collator of the loss, or a `CollatorByDataset` for a dict of losses. Raises
        ValueError if the arguments set prompts for a `WindowLoss`."""
        limit = model_limit(model[0].auto_model, model.tokenizer, args.context_tokens)
        tokens = StoryTokenizer(model.tokenizer, limit, loading.module_settings(model))
        plain = super().get_data_collator(model, args, processing_class)
        several, prompts = isinstance(self.loss, dict), args.prompts or {}
        collators = {}
        for name, loss in (self.loss if several else {"": self.loss}).items():
            part = window_loss(loss)
            collators[name] = plain if part is None else part.collator(tokens, args.seed)
            is_prompted = name in prompts if several and isinstance(prompts, dict) else prompts
            if part is not None and is_prompted:
                raise ValueError(
                    f"prompts={prompts!r}: narrative twins have the prompt of the encoder, as"
                    " stories that are scored: trainable_encoder(prompt=...); give prompts by the"
                    " names of other data sets only"
                )
        return CollatorByDataset(collators) if several else collators[""]

    def train(
        self, resume_from_checkpoint: str | Path | bool | None = None, *args: Any, **options: Any
    ) -> Any:
        """Train as `transformers.Trainer.train` does; `resume_from_checkpoint=True` skips
        incomplete checkpoints. Raises ValueError if the checkpoint lacks the state of the optimizer
        or its schedule, and FloatingPointError if the loss is not finite."""
        checkpoint = resume_from_checkpoint
        if checkpoint is True:
            folder = Path(self.args.output_dir)
            checkpoint = last_complete_checkpoint(folder)
            if checkpoint is None:
                raise ValueError(
                    f"no checkpoint in {folder} is complete; start over without resuming"
                )
        if isinstance(checkpoint, (str, Path)):
            checkpoint = str(checkpoint)
            # DeepSpeed and FSDP have files of their own.
            is_plain = not (self.is_deepspeed_enabled or self.is_fsdp_enabled)
            for name in (OPTIMIZER_NAME, SCHEDULER_NAME) if is_plain else ():
                if not Path(checkpoint, name).is_file():
                    advice = "resume from another checkpoint, or start over"
                    raise ValueError(f"{checkpoint}/{name} is missing; {advice}")
        return super().train(checkpoint, *args, **options)

    def training_step(self, *args: Any, **options: Any) -> torch.Tensor:
        """Return the loss of a step of training; raise FloatingPointError if it is not finite."""
        loss: torch.Tensor = super().training_step(*args, **options)
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss.item()} in step {self.state.global_step + 1}; lower the"
                f" learning rate ({self.args.learning_rate:g}) or train without fp16 and bf16"
            )
        return loss

    def evaluation_loop(self, *args: Any, **options: Any) -> Any:
        """Evaluate as sentence-transformers does. Evaluators call the transformer in the encoder,
        for which FSDP does not gather the weights outside its layers: gather them first."""
        gather: Any = getattr(self.model, "unshard", None)
        if self.is_fsdp_enabled and gather is not None:
            gather()
        return super().evaluation_loop(*args, **options)

    def get_batch_sampler(self, dataset: Any, batch_size: int, *args: Any, **options: Any) -> Any:
        """Return the usual sampler. For stories with several windows, its batches have
        `window_batch_size` rows, if set."""
        batch_size = self._rows_of_batch(dataset, batch_size)
        return super().get_batch_sampler(dataset, batch_size, *args, **options)

    def _rows_of_batch(self, dataset: Any, batch_size: int) -> int:
        """Return how many rows of a data set are in a batch of one process."""
        windowed = self.args.window_batch_size
        if windowed is not None and is_nested(dataset[0].get("story")):
            return windowed
        return batch_size

    def get_multi_dataset_batch_sampler(
        self, dataset: Any, batch_samplers: Any, *args: Any, **options: Any
    ) -> Any:
        """Return the usual sampler of whole batches, which the processes share."""
        processes = self.args.world_size
        joined: Any = [JoinedBatches(sampler, processes) for sampler in batch_samplers]
        mixed = super().get_multi_dataset_batch_sampler(dataset, joined, *args, **options)
        return SharedBatches(mixed, processes)

    def get_train_dataloader(self) -> Any:
        """Return the data loader of training. Raises ValueError if no step could be made, as a data
        set has too few rows for a batch."""
        data: Any = self.train_dataset
        several, processes = isinstance(data, Mapping), self.args.world_size
        for name, rows in data.items() if several else [("", data)]:
            size = processes * self._rows_of_batch(rows, self.args.train_batch_size)
            dropped = self.args.dataloader_drop_last or (processes > 1 and not several)
            if dropped and len(rows) < size:
                raise ValueError(
                    f"the training data{f' {name!r}' if name else ''} has {len(rows)} rows, and a"
                    f" batch {size}, of which an incomplete one is left out; lower"
                    " per_device_train_batch_size or window_batch_size"
                )
        return super().get_train_dataloader()

    def _build_dataloader(self, dataset: Any, batch_size: int, dataset_kind: str) -> Any:
        """Return a data loader; `dataloader_drop_last` applies to training only."""
        dropped = self.args.dataloader_drop_last
        self.args.dataloader_drop_last = dropped and dataset_kind == "train"
        try:
            return super()._build_dataloader(dataset, batch_size, dataset_kind)
        finally:
            self.args.dataloader_drop_last = dropped

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Do nothing, since the callback of sentence-transformers would copy rows of the training
        data into the model card. `write_card` writes the card instead."""

    @property
    def transformer(self) -> Any:
        """The `transformers` model of the encoder."""
        return self.model[0].auto_model

    @property
    def objective_for_card(self) -> str:
        """The losses and their settings as text, for the model card."""
        described = []
        for name, loss in (self.loss if isinstance(self.loss, dict) else {"": self.loss}).items():
            settings = loss.get_config_dict() if hasattr(loss, "get_config_dict") else {}
            listed = ", ".join(f"{key} {value}" for key, value in settings.items())
            described.append(f"{name}: {type(loss).__name__} ({listed})".removeprefix(": "))
        return "; ".join(described)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save the encoder with its card, by default in the output folder. `state_dict` is set by
        FSDP, in all processes: the weights, which were gathered for the first one."""
        if not self.args.should_save:
            return
        folder, trained = output_dir or self.args.output_dir, self.transformer
        if state_dict is not None:
            weights = {name.removeprefix("0.model."): each for name, each in state_dict.items()}
            # Called by sentence-transformers, which would save the share of this process.
            trained.save_pretrained = partial(trained.save_pretrained, state_dict=weights)
        try:
            self.model.save_pretrained(folder, create_model_card=False)
        finally:
            vars(trained).pop("save_pretrained", None)
        write_card(self, folder)

    def _load_from_checkpoint(self, checkpoint_path: str, model: Any = None) -> None:
        """Load the weights of a checkpoint, of which an adapter's are all."""
        if self.is_fsdp_enabled:
            Trainer._load_from_checkpoint(self, checkpoint_path, model)
        elif hasattr(self.transformer, "get_base_model"):
            load_adapter_weights(self.transformer, checkpoint_path)
        else:
            super()._load_from_checkpoint(checkpoint_path)

    def save_encoder(self, folder: str | Path, *, merged: bool = True) -> None:
        """Save the encoder as a sentence-transformers checkpoint with its card. An adapter is
        merged into the saved weights; with `merged=False`, the adapter is saved alone, and its base
        is loaded by name. All processes must call this method. Raises ValueError if an adapter
        that FSDP trains is to be merged."""
        module: Any = self.model[0]
        trained = self.transformer
        if merged and has_adapter(trained):
            if self.is_fsdp_enabled:
                raise ValueError(
                    "FSDP spreads the weights of the base over processes, so the adapter can't be"
                    " merged into them; save it alone: merged=False"
                )
            # Other libraries load it with its adapter merged; training continues with the adapter.
            module.model = merged_copy(trained)
        if self.args.should_save:
            _remove_weights(Path(folder), adapters=merged or not has_adapter(trained))
        try:
            self.save_model(str(folder), _internal_call=True)
        finally:
            module.model = trained

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        *,
        merged: bool = True,
        **facts: Any,
    ) -> str | None:
        """Push the encoder with its card, and no other files of the output folder, to the
        `hub_model_id` of the arguments or the name of the output folder. An earlier push is
        replaced. `merged` is as for `save_encoder`; `facts` are added to `trainer.facts`.
        `blocking` is ignored: the call waits for the push. Returns the URL of the repository, or
        None except in the first process."""
        self.facts.update(facts)
        args = self.args
        token = token or args.hub_token
        with tempfile.TemporaryDirectory() as folder:
            self.save_encoder(folder, merged=merged)
            if not self.is_world_process_zero():
                return None
            return push_encoder(
                folder,
                full_id(args.hub_model_id or Path(args.output_dir).absolute().name, token),
                merged=merged,
                private=bool(args.hub_private_repo),
                update=True,
                revision=revision or args.hub_revision,
                token=token,
                commit_message=commit_message,
            )


class CollatorByDataset:
    """Collates rows by the collator of their data set, which is named by their `dataset_name`."""

    def __init__(self, collators: Mapping[str, Any]) -> None:
        self.collators = collators
        # Required by the samplers of sentence-transformers.
        labels = (label for each in collators.values() for label in each.valid_label_columns)
        self.valid_label_columns = list(dict.fromkeys(labels))

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate rows of one data set into a batch, which also has their `dataset_name`."""
        name = rows[0]["dataset_name"]
        return {**self.collators[name](rows), "dataset_name": name}


class EpochCallback(TrainerCallback):
    """Sets the epoch of collators and samplers when an epoch begins, for their random choices."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_epoch_begin(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        epoch = int(state.epoch or 0)
        collator = self.trainer.data_collator
        for each in getattr(collator, "collators", {"": collator}).values():
            if hasattr(each, "epoch"):
                each.epoch = epoch
        # `transformers` and accelerate set the epoch of two samplers at most; a run that is resumed
        # on several processes has three.
        sampler = getattr(train_dataloader, "batch_sampler", None)
        while sampler is not None:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            sampler = getattr(sampler, "batch_sampler", None)


class EvaluateAtEndCallback(TrainerCallback):
    """Evaluates after the last step, also if it is not a multiple of `eval_steps`."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        is_last = state.global_step >= state.max_steps
        control.should_evaluate |= is_last and args.eval_strategy == "steps"


def window_loss(loss: torch.nn.Module) -> WindowLoss | None:
    """Return the `WindowLoss` that a loss is or (like `MatryoshkaLoss`) contains; else None."""
    return next((part for part in loss.modules() if isinstance(part, WindowLoss)), None)


def checked_rows(data: Any, name: str, loss: Any) -> Any:
    """Check the rows of a data set, or of a dict of data sets, by their loss, and return a copy.
    Rows for other losses than a `WindowLoss` are not checked. Raises RowError with the `name` of
    the data set if a row is invalid or there are no rows, and TypeError for a stream or a list."""
    if isinstance(data, dict):
        losses = loss if isinstance(loss, dict) else dict.fromkeys(data, loss)
        return {
            key: checked_rows(rows, f"{name}[{key!r}]", losses[key]) for key, rows in data.items()
        }
    part = window_loss(loss) if isinstance(loss, torch.nn.Module) else None
    if data is None or part is None:
        return data
    if isinstance(data, (list, tuple)):
        raise TypeError(f"{name} is a {type(data).__name__}; pass Dataset.from_list(rows)")
    if isinstance(data, IterableDataset):
        raise TypeError(
            f"{name} is a stream; load its rows without streaming=True, or with"
            " Dataset.from_generator: they are on disk, and need not fit the memory"
        )
    if not len(data):
        raise RowError(name, "there are no rows; at least one is needed")
    for number, row in enumerate(data):
        part.check_row(row, f"{name}, row {number}")
    # Copied, as sentence-transformers adds the name to the rows, which may have several names.
    return copy(data)


def check_precision(model: torch.nn.Module) -> None:
    """Raise a ValueError if trainable weights are in a precision that rounds small updates away."""
    for weight in model.parameters():
        if weight.requires_grad and weight.dtype in (torch.bfloat16, torch.float16):
            raise ValueError(
                f"the weights are in {weight.dtype}, in which small updates are rounded away; load"
                " the encoder in float32, and set bf16=True in the arguments"
            )


def last_complete_checkpoint(folder: Path) -> str | None:
    """Return the last checkpoint in a folder with a readable trainer state, which is written last;
    None if there is none. Incomplete ones are logged."""
    steps = [path for path in folder.glob("checkpoint-*") if path.name[11:].isdecimal()]
    for checkpoint in sorted(steps, key=lambda path: int(path.name[11:]), reverse=True):
        try:
            json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
            return str(checkpoint)
        except (OSError, ValueError):
            logger.warning("%s is incomplete and is skipped", checkpoint)
    return None


def _remove_weights(folder: Path, *, adapters: bool) -> None:
    """Remove the adapter of an earlier run from a folder, or with `adapters=False` its weights of a
    whole model: a folder with both can't be loaded."""
    whole = (
        "model.safetensors",
        "model.safetensors.index.json",
        "model-?????-of-?????.safetensors",
    )
    for pattern in ADAPTER_FILES if adapters else whole:
        for path in folder.glob(pattern):
            path.unlink()
