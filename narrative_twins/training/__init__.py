"""Training story encoders: collator, loss, trainers, evaluators, and what training scripts share."""

from __future__ import annotations

from narrative_twins.training.arguments import (
    MaskedLanguageModelTrainingArguments,
    NarrativeTwinsTrainingArguments,
    StoryTrainingArguments,
)
from narrative_twins.training.collator import TwinsCollator
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.mlm import MaskedLanguageModelTrainer, masked_language_model
from narrative_twins.training.optimizer import MasterWeightsAdamW
from narrative_twins.training.trainable import trainable_encoder
from narrative_twins.training.trainer import NarrativeTwinsTrainer

__all__ = [
    "MaskedLanguageModelTrainer",
    "MaskedLanguageModelTrainingArguments",
    "MasterWeightsAdamW",
    "NarrativeTwinsLoss",
    "NarrativeTwinsTrainer",
    "NarrativeTwinsTrainingArguments",
    "SalienceEvaluator",
    "StoryTrainingArguments",
    "TwinsCollator",
    "TwinsEvaluator",
    "masked_language_model",
    "trainable_encoder",
]
