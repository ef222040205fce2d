"""Training arguments: those of transformers and sentence-transformers, and those of the training
objectives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import TrainingArguments
from transformers.trainer_utils import HubStrategy


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
        if self.mini_batch_size is not None and self.mini_batch_size < 1:
            raise ValueError(f"mini_batch_size={self.mini_batch_size} is not a count of 1 or more")
        strategy = HubStrategy(settings.hub_strategy)
        if settings.push_to_hub and strategy not in (HubStrategy.END, HubStrategy.EVERY_SAVE):
            raise ValueError(
                f"hub_strategy={strategy.value!r} would push optimizer states and other files of"
                " the training to the Hub; only encoders are pushed. Use 'every_save' or 'end', and"
                " keep the checkpoints of output_dir to resume"
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
    distractors: bool = setting(True, "Whether to use the distractors.")
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

    def __post_init__(self) -> None:
        super().__post_init__()
        strategy = getattr(self, "train_sampling_strategy", "random")
        if strategy != "random":
            raise ValueError(
                f"train_sampling_strategy={strategy!r} is ignored by sentence-transformers; remove"
                " it, and set mini_batch_size if batches of long stories exceed the memory"
            )


@dataclass
class MaskedLanguageModelTrainingArguments(StoryTrainingArguments, TrainingArguments):
    """Arguments of `MaskedLanguageModelTrainer`: those of `StoryTrainingArguments` and of
    transformers."""

    mlm_probability: float = setting(0.15, "The share of tokens to predict.")
