"""What the trainers of this package share: fast training steps, resuming, and an encoder that is saved and pushed with
its model card."""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentence_transformers.base.evaluation import BaseEvaluator, SequentialEvaluator

from narrative_twins.encoder.attention import training_attention, using_attention
from narrative_twins.encoder.precision import MatrixProducts
from narrative_twins.hub.cards import encoder_card
from narrative_twins.hub.facts import EncoderFacts
from narrative_twins.hub.push import full_id, push_encoder
from narrative_twins.training.card import training_facts
from narrative_twins.training.optimizer import optimizer_for
from narrative_twins.training.trainable import last_whole_checkpoint


class StoryTrainer:
    """Mixin for trainers of story encoders; it comes before the `transformers` trainer among the base classes.

    Attributes:
        facts: what the model card says and training itself does not know: attributes of `EncoderFacts`, for example
            `{"training_data": "20,000 twins (CC BY 4.0)", "license": "apache-2.0"}`, and `evaluation_set`, the name of
            the data that the evaluators use.
    """

    args: Any
    state: Any
    model: Any
    evaluator: Any
    hub_model_id: Any
    train_dataset: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        self.facts: dict[str, Any] = {}
        super().__init__(*args, **options)

    @property
    @abstractmethod
    def transformer(self) -> Any:
        """The `transformers` model of the encoder."""

    @abstractmethod
    def save_weights(self, folder: str | Path) -> None:
        """Save the encoder as a plain sentence-transformers checkpoint, without its card. Called by all processes."""

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **options: Any) -> Any:
        """Train, see `transformers.Trainer.train`. `resume_from_checkpoint=True` skips a checkpoint that a killed run
        did not finish."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_whole_checkpoint(Path(self.args.output_dir)) or True
        model = self.transformer
        with MatrixProducts(), using_attention(model, training_attention(model)):
            return super().train(resume_from_checkpoint, *args, **options)  # type: ignore[misc]

    def get_optimizer_cls_and_kwargs(self, args: Any, model: Any = None) -> tuple[Any, Any]:
        """The optimizer of the arguments, with float32 copies of weights of lower precision."""
        kind, settings = super().get_optimizer_cls_and_kwargs(args, model)  # type: ignore[misc]
        return optimizer_for(self.model, kind), settings

    @property
    def evaluators(self) -> Iterator[BaseEvaluator]:
        """The evaluators, those in a `SequentialEvaluator` one by one."""
        waiting = [self.evaluator] if self.evaluator is not None else []
        while waiting:
            evaluator = waiting.pop(0)
            if isinstance(evaluator, SequentialEvaluator):
                waiting = [*evaluator.evaluators, *waiting]
            else:
                yield evaluator

    def encoder_facts(self) -> EncoderFacts:
        """What the card says about the encoder as it is now."""
        known = dict(self.facts)
        evaluation_set = known.pop("evaluation_set", "validation rows of the training data")
        return replace(training_facts(self, evaluation_set), **known)

    def save_encoder(self, folder: str | Path) -> None:
        """Save the encoder as a plain sentence-transformers checkpoint, with its model card."""
        self.save_weights(folder)
        if self.args.should_save:
            (Path(folder) / "README.md").write_text(str(encoder_card(self.encoder_facts())), encoding="utf-8")

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **options: Any,
    ) -> str | None:
        """Push the encoder with its card, in the plain layout, and nothing else of the output folder. An earlier push
        is replaced. The repository is `hub_model_id` of the arguments, or has the name of the output folder.

        Args:
            commit_message: the message of the commit.
            blocking: has no effect (it is an argument of other trainers): the push is complete when this returns.
            token: of the Hub; default `hub_token` of the arguments, or the token of `hf auth login`.
            revision: the branch; default `hub_revision` of the arguments, or `main`.
            private: whether a new repository is private; default `hub_private_repo` of the arguments.
            options: attributes of `EncoderFacts` for the card; they are added to `facts`.

        Returns:
            The address of the repository; None in processes other than the first.

        Raises:
            HubError: it could not be pushed.
        """
        self.facts.update(options)
        args: Any = self.args
        token = token or args.hub_token
        with tempfile.TemporaryDirectory() as folder:
            self.save_encoder(folder)
            if not self.is_world_process_zero():  # type: ignore[attr-defined]
                return None
            name = self.hub_model_id or args.hub_model_id or Path(args.output_dir).absolute().name
            return push_encoder(
                folder,
                full_id(name, token),
                private=bool(private if private is not None else args.hub_private_repo),
                update=True,
                revision=revision or args.hub_revision,
                token=token,
                message=commit_message,
            )
