"""Arguments of the trainers: those of transformers and sentence-transformers, and those of the objectives."""

from __future__ import annotations

from dataclasses import dataclass, field

from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import TrainingArguments


@dataclass
class StoryTrainingArguments:
    """What all training on stories has in common, with the paper's settings as defaults: five epochs, learning rate
    3e-5 falling to 0, weight decay 0.01."""

    learning_rate: float = field(default=3e-5, metadata={"help": "The initial learning rate for AdamW."})
    num_train_epochs: float = field(default=5.0, metadata={"help": "Total number of training epochs to perform."})
    weight_decay: float = field(default=0.01, metadata={"help": "Weight decay for AdamW if we apply some."})
    context_tokens: int | None = field(
        default=None, metadata={"help": "Tokens read at once, special ones included; default what the model can."}
    )


@dataclass
class NarrativeTwinsTrainingArguments(StoryTrainingArguments, SentenceTransformerTrainingArguments):
    """Arguments of `NarrativeTwinsTrainer`: those of sentence-transformers and transformers, with the paper's settings
    as defaults, and those of the objective."""

    twins: str = field(
        default="narrative",
        metadata={"help": "'narrative' twins (rows without one get a dropout twin) or 'dropout' twins for all."},
    )
    distractors: bool = field(default=True, metadata={"help": "Whether distractors take part."})
    in_story_negatives: bool = field(
        default=True, metadata={"help": "Whether other windows of the same story are negatives."}
    )
    temperature: float = field(default=0.05, metadata={"help": "What cosine similarities are divided by."})
    gather_across_devices: bool = field(
        default=False, metadata={"help": "Whether the negatives are those of all processes."}
    )
    mini_batch_size: int | None = field(
        default=None, metadata={"help": "Texts encoded at a time, with gradient caching; default all of a batch."}
    )
    window_batch_size: int | None = field(
        default=None, metadata={"help": "Rows in a batch where stories have several windows; default as others."}
    )


@dataclass
class MaskedLanguageModelTrainingArguments(StoryTrainingArguments, TrainingArguments):
    """Arguments of `MaskedLanguageModelTrainer`: those of transformers, with the paper's settings as defaults."""

    mlm_probability: float = field(default=0.15, metadata={"help": "The share of tokens that are to be guessed."})
