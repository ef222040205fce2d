"""Base of the trainers: fast training steps, resuming, and saving and pushing the encoder with its
model card."""

from __future__ import annotations

import logging
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.evaluation import BaseEvaluator, SequentialEvaluator
from transformers.trainer_utils import HubStrategy, has_length

from narrative_twins.encoder.attention import training_attention, using_attention
from narrative_twins.encoder.precision import fast_linear_layers
from narrative_twins.hub.cards import encoder_card
from narrative_twins.hub.facts import EncoderFacts
from narrative_twins.hub.push import HubError, create_repository, full_id, push_encoder
from narrative_twins.training.card import training_facts
from narrative_twins.training.optimizer import optimizer_for
from narrative_twins.training.resuming import check_shards, warn_of_process_count
from narrative_twins.training.trainable import check_checkpoint_files, last_complete_checkpoint

logger = logging.getLogger(__name__)


class StoryTrainer:
    """Mixin for trainers of story encoders; put it before the `transformers` trainer among the base
    classes.

    With `push_to_hub=True` in the arguments, the encoder is also pushed whenever a checkpoint is
    saved, unless with `hub_strategy="end"`, and by `save_model`. The training waits for each push.

    Attributes:
        facts: facts for the model card that the trainer does not know: attributes of
            `EncoderFacts`, for example `{"training_data": "20,000 twins (CC BY 4.0)", "license":
            "apache-2.0"}`, and `evaluation_set`, the name of the data that the evaluators use.
    """

    args: Any
    state: Any
    model: Any
    evaluator: Any
    hub_model_id: Any
    train_dataset: Any
    model_init: Any
    is_deepspeed_enabled: bool
    is_fsdp_enabled: bool

    def __init__(self, *args: Any, **options: Any) -> None:
        self.facts: dict[str, Any] = {}
        # Changes of the model for the time of training, which are undone at its end.
        self._changes = ExitStack()
        super().__init__(*args, **options)

    @property
    @abstractmethod
    def transformer(self) -> Any:
        """The `transformers` model of the encoder."""

    @abstractmethod
    def set_objective(self) -> None:
        """Set collator and loss, as far as they were not given, to the current model and
        arguments."""

    @abstractmethod
    def save_weights(self, folder: str | Path) -> None:
        """Save the encoder as a sentence-transformers checkpoint without its card. Called by all
        processes."""

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **options: Any
    ) -> Any:
        """Train as `transformers.Trainer.train` does.

        `resume_from_checkpoint=True` skips checkpoints that were not complete when the run stopped.
        Warns if another number of processes has saved the checkpoint. A ValueError if a file of it
        is missing or damaged, with which training would go on to other weights, or if it was saved
        with FSDP and the run is without, or the other way round; a FloatingPointError if the loss
        is not finite.
        """
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_complete_checkpoint(Path(self.args.output_dir)) or True
        if isinstance(resume_from_checkpoint, (str, Path)) and not self.is_deepspeed_enabled:
            checkpoint = Path(resume_from_checkpoint)
            check_shards(checkpoint, self.is_fsdp_enabled)
            other_count = warn_of_process_count(checkpoint, self.args)
            if not self.is_fsdp_enabled:
                check_checkpoint_files(checkpoint, self.args, random_state=not other_count)
        with ExitStack() as self._changes:
            return super().train(resume_from_checkpoint, *args, **options)  # type: ignore[misc]

    def _hp_search_setup(self, trial: Any) -> None:
        """Set the arguments of a trial. `transformers` calls it in `train`, after `model_init`, so
        the objective is set to the new model and arguments here, and the model is prepared for fast
        training."""
        super()._hp_search_setup(trial)  # type: ignore[misc]
        if self.model_init is not None:
            self.set_objective()
        self._changes.pop_all().close()
        self._changes.enter_context(fast_linear_layers(self.model))
        self._changes.enter_context(
            using_attention(self.transformer, training_attention(self.transformer))
        )

    def get_train_dataloader(self) -> Any:
        """The data loader of training. Raises ValueError if it has no batch, with which
        `transformers` would only stop at once."""
        loader = super().get_train_dataloader()  # type: ignore[misc]
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
            return super().get_eval_dataloader(*args, **options)  # type: ignore[misc]
        finally:
            self.args.dataloader_drop_last = dropped

    def training_step(self, *args: Any, **options: Any) -> torch.Tensor:
        """A step of training. Raises `FloatingPointError` if the loss is not finite, before
        anything is saved."""
        loss: torch.Tensor = super().training_step(*args, **options)  # type: ignore[misc]
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss.item()} in step {self.state.global_step + 1}, so the weights"
                f" are of no use; {self._advice()}. Earlier checkpoints in {self.args.output_dir}"
                " are complete"
            )
        return loss

    def _advice(self) -> str:
        """What to change after a loss that is not finite."""
        weights = {weight.dtype for weight in self.transformer.parameters()}
        used = "float16" if self.args.fp16 or torch.float16 in weights else None
        used = used or ("bfloat16" if self.args.bf16 or torch.bfloat16 in weights else "float32")
        other = {
            "float16": ", or train in bfloat16 or float32",
            "bfloat16": ", or train in float32",
            "float32": "",
        }
        return (
            f"lower the learning rate ({self.args.learning_rate:g}){other[used]} (training is in"
            f" {used})"
        )

    def get_optimizer_cls_and_kwargs(self, args: Any, model: Any = None) -> tuple[Any, Any]:
        """The optimizer of the arguments; AdamW keeps float32 copies of weights in lower
        precision."""
        kind, settings = super().get_optimizer_cls_and_kwargs(args, model)  # type: ignore[misc]
        return optimizer_for(self.model, kind), settings

    @property
    def evaluators(self) -> Iterator[BaseEvaluator]:
        """The evaluators; a `SequentialEvaluator` is replaced by its members."""
        remaining = [self.evaluator] if self.evaluator is not None else []
        while remaining:
            evaluator = remaining.pop(0)
            if isinstance(evaluator, SequentialEvaluator):
                remaining = [*evaluator.evaluators, *remaining]
            else:
                yield evaluator

    def encoder_facts(self) -> EncoderFacts:
        """The facts for the model card of the encoder in its current state."""
        known = dict(self.facts)
        evaluation_set = known.pop("evaluation_set", "validation rows of the training data")
        return replace(training_facts(self, evaluation_set), **known)

    def save_encoder(self, folder: str | Path) -> None:
        """Save the encoder as a sentence-transformers checkpoint with its card."""
        self.save_weights(folder)
        if self.args.should_save:
            (Path(folder) / "README.md").write_text(
                str(encoder_card(self.encoder_facts())), encoding="utf-8"
            )

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Create the repository of the encoder if it does not exist. Called before the training if
        it is to push, and raises HubError if that would fail."""
        if self.is_world_process_zero():  # type: ignore[attr-defined]
            args = self.args
            token, private = (
                token or args.hub_token,
                (private if private is not None else args.hub_private_repo),
            )
            self.hub_model_id = create_repository(
                self._hub_name, private=bool(private), token=token
            )
        self.push_in_progress = None

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Push the encoder after a checkpoint was saved. `transformers` calls this in all
        processes, and would push the output folder with the arguments and logs. A push that fails
        is only warned of, and the training goes on.
        """
        if self.args.hub_strategy == HubStrategy.END:
            return
        step = self.state.global_step
        try:
            self.push_to_hub(f"Training in progress, step {step}")
        except HubError as error:
            logger.warning(
                "the encoder of step %d was not pushed, and training goes on: %s", step, error
            )

    @property
    def _hub_name(self) -> str:
        return str(
            self.hub_model_id
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
        args: Any = self.args
        token = token or args.hub_token
        with tempfile.TemporaryDirectory() as folder:
            self.save_encoder(folder)
            if not self.is_world_process_zero():  # type: ignore[attr-defined]
                return None
            return push_encoder(
                folder,
                full_id(self._hub_name, token),
                private=bool(private if private is not None else args.hub_private_repo),
                update=True,
                revision=revision or args.hub_revision,
                token=token,
                message=commit_message,
            )
