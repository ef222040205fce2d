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
    from narrative_twins import metrics, show

__version__ = "0.1.0"

__all__ = [
    "OPERATIONS",
    "Operation",
    "Order",
    "SaliencePipeline",
    "SalientSentence",
    "Story",
    "StoryEncoder",
    "StoryError",
    "StorySalience",
    "Window",
    "default_encoder",
    "metrics",
    "register_operation",
    "score_stories",
    "show",
    "split_sentences",
]

register_pipeline()


def __getattr__(name: str) -> Any:
    # Modules that bring further libraries with them (scipy.stats, rich) are imported when they are used.
    if name in ("metrics", "show"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
