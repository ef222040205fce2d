"""Narrative salience: how much each sentence matters to its story.

```python
import narrative_twins
from transformers import pipeline

salience = pipeline("narrative-salience")
salience("Once upon a time ...")
```

Without the pipeline: `narrative_twins.score_stories`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wrapt import when_imported

from narrative_twins.lazy import lazy_names

if TYPE_CHECKING:
    from narrative_twins import baselines, corpora, data, evaluation, show, training
    from narrative_twins.corpora.scorer import StoryScorer
    from narrative_twins.encoder.export import export_encoder
    from narrative_twins.encoder.loading import default_encoder
    from narrative_twins.encoder.story_encoder import StoryEncoder
    from narrative_twins.evaluation import metrics
    from narrative_twins.evaluation.run import evaluate
    from narrative_twins.hub.facts import DatasetFacts, EncoderFacts, Figure
    from narrative_twins.hub.push import HubError, push_dataset, push_encoder, push_metric
    from narrative_twins.pipeline import SaliencePipeline
    from narrative_twins.salience.books.extract import BookExtract
    from narrative_twins.salience.books.result import BookSalience
    from narrative_twins.salience.books.scoring import score_book
    from narrative_twins.salience.engine import score_stories
    from narrative_twins.salience.operations import (
        OPERATIONS,
        Operation,
        cosine,
        register_operation,
    )
    from narrative_twins.salience.result import SalientSentence, StorySalience
    from narrative_twins.stories.splitting import split_sentences
    from narrative_twins.stories.story import Order, Story, StoryError, Window
    from narrative_twins.training.arguments import (
        MaskedLanguageModelTrainingArguments,
        NarrativeTwinsTrainingArguments,
    )
    from narrative_twins.training.collator import TwinsCollator
    from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
    from narrative_twins.training.losses import NarrativeTwinsLoss
    from narrative_twins.training.mlm import MaskedLanguageModelTrainer
    from narrative_twins.training.salience_loss import JudgedStoriesCollator, SalienceLoss
    from narrative_twins.training.trainable import trainable_encoder
    from narrative_twins.training.trainer import NarrativeTwinsTrainer

__version__ = "0.1.0"

__all__ = [
    "BookExtract",
    "BookSalience",
    "DatasetFacts",
    "EncoderFacts",
    "Figure",
    "HubError",
    "JudgedStoriesCollator",
    "MaskedLanguageModelTrainer",
    "MaskedLanguageModelTrainingArguments",
    "NarrativeTwinsLoss",
    "NarrativeTwinsTrainer",
    "NarrativeTwinsTrainingArguments",
    "OPERATIONS",
    "Operation",
    "Order",
    "SalienceEvaluator",
    "SalienceLoss",
    "SaliencePipeline",
    "SalientSentence",
    "Story",
    "StoryEncoder",
    "StoryError",
    "StorySalience",
    "StoryScorer",
    "TwinsCollator",
    "TwinsEvaluator",
    "Window",
    "baselines",
    "corpora",
    "cosine",
    "data",
    "default_encoder",
    "evaluate",
    "evaluation",
    "export_encoder",
    "metrics",
    "push_dataset",
    "push_encoder",
    "push_metric",
    "register_operation",
    "score_book",
    "score_stories",
    "show",
    "split_sentences",
    "trainable_encoder",
    "training",
]

_LAZY = {
    "corpora.scorer": ("StoryScorer",),
    "encoder.loading": ("default_encoder",),
    "encoder.export": ("export_encoder",),
    "encoder.story_encoder": ("StoryEncoder",),
    "evaluation.run": ("evaluate",),
    "hub.facts": ("DatasetFacts", "EncoderFacts", "Figure"),
    "hub.push": ("HubError", "push_dataset", "push_encoder", "push_metric"),
    "pipeline": ("SaliencePipeline",),
    "salience.books.extract": ("BookExtract",),
    "salience.books.result": ("BookSalience",),
    "salience.books.scoring": ("score_book",),
    "salience.engine": ("score_stories",),
    "salience.operations": ("OPERATIONS", "Operation", "cosine", "register_operation"),
    "salience.result": ("SalientSentence", "StorySalience"),
    "stories.splitting": ("split_sentences",),
    "stories.story": ("Order", "Story", "StoryError", "Window"),
    "training.arguments": (
        "MaskedLanguageModelTrainingArguments",
        "NarrativeTwinsTrainingArguments",
    ),
    "training.collator": ("TwinsCollator",),
    "training.evaluators": ("SalienceEvaluator", "TwinsEvaluator"),
    "training.losses": ("NarrativeTwinsLoss",),
    "training.mlm": ("MaskedLanguageModelTrainer",),
    "training.salience_loss": ("JudgedStoriesCollator", "SalienceLoss"),
    "training.trainable": ("trainable_encoder",),
    "training.trainer": ("NarrativeTwinsTrainer",),
}
"""Public names by module. Most of these modules import large libraries, so they are only imported
when a name is used."""
_MODULES = {"metrics": "evaluation.metrics"} | {
    name: name
    for name in (
        "baselines",
        "corpora",
        "data",
        "encoder",
        "evaluation",
        "hub",
        "pipeline",
        "salience",
        "show",
        "stories",
    )
    + ("training",)
}
_lazy_name = lazy_names(__name__, _LAZY)


@when_imported("transformers.pipelines")
def _import_pipeline(module: ModuleType) -> None:
    """Make the task known as soon as there are pipelines: transformers takes seconds to import, so
    it is not imported only for that."""
    import_module("narrative_twins.pipeline")


@when_imported("narrative_twins.pipeline")
def _register_pipeline(module: ModuleType) -> None:
    module.register_pipeline()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    return _lazy_name(name)


def __dir__() -> list[str]:
    """All public names for tab completion, imported or not."""
    return [*__all__, "__version__"]
