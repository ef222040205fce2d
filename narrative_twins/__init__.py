"""Narrative salience: which sentences of a story carry it.

```python
import narrative_twins
from transformers import pipeline

salience = pipeline("narrative-salience")
salience("Once upon a time ...")
```

or, without the pipeline, `narrative_twins.score_stories`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from narrative_twins.checkpoint import default_encoder
from narrative_twins.encoder import StoryEncoder
from narrative_twins.operations import OPERATIONS, Operation, Order, Window, register_operation
from narrative_twins.pipeline import SaliencePipeline, register_pipeline
from narrative_twins.result import SalientSentence, StorySalience
from narrative_twins.salience import score_stories
from narrative_twins.story import Story, StoryError, split_sentences

if TYPE_CHECKING:
    from narrative_twins import data, evaluation, metrics, show, training
    from narrative_twins.cards import DatasetFacts, EncoderFacts, Figure
    from narrative_twins.collator import TwinsCollator
    from narrative_twins.evaluation import SalienceEvaluator, TwinsEvaluator
    from narrative_twins.hub import HubError, push_dataset, push_encoder, push_metric
    from narrative_twins.losses import NarrativeTwinsLoss
    from narrative_twins.mlm import MaskedLanguageModelTrainer, MaskedLanguageModelTrainingArguments
    from narrative_twins.trainable import trainable_encoder
    from narrative_twins.training import NarrativeTwinsTrainer, NarrativeTwinsTrainingArguments

__version__ = "0.1.0"

__all__ = [
    "DatasetFacts",
    "EncoderFacts",
    "Figure",
    "HubError",
    "MaskedLanguageModelTrainer",
    "MaskedLanguageModelTrainingArguments",
    "NarrativeTwinsLoss",
    "NarrativeTwinsTrainer",
    "NarrativeTwinsTrainingArguments",
    "OPERATIONS",
    "Operation",
    "Order",
    "SalienceEvaluator",
    "SaliencePipeline",
    "SalientSentence",
    "Story",
    "StoryEncoder",
    "StoryError",
    "StorySalience",
    "TwinsCollator",
    "TwinsEvaluator",
    "Window",
    "data",
    "default_encoder",
    "evaluation",
    "metrics",
    "push_dataset",
    "push_encoder",
    "push_metric",
    "register_operation",
    "score_stories",
    "show",
    "split_sentences",
    "trainable_encoder",
    "training",
]

_LATER = {
    "DatasetFacts": "cards",
    "EncoderFacts": "cards",
    "Figure": "cards",
    "HubError": "hub",
    "MaskedLanguageModelTrainer": "mlm",
    "MaskedLanguageModelTrainingArguments": "mlm",
    "NarrativeTwinsLoss": "losses",
    "NarrativeTwinsTrainer": "training",
    "NarrativeTwinsTrainingArguments": "training",
    "SalienceEvaluator": "evaluation",
    "TwinsCollator": "collator",
    "TwinsEvaluator": "evaluation",
    "push_dataset": "hub",
    "push_encoder": "hub",
    "push_metric": "hub",
    "trainable_encoder": "trainable",
}
"""What comes from modules that bring further libraries with them, and is imported when it is used."""
_MODULES = ("data", "evaluation", "metrics", "show", "training")

register_pipeline()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
