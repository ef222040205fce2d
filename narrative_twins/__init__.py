"""Narrative salience: how much each sentence matters to its story.

```python
import narrative_twins
from transformers import pipeline

salience = pipeline("narrative-salience")
salience("Once upon a time ...")
```

Without the pipeline: `narrative_twins.score_stories`. The public names are listed in
`__init__.pyi`, and imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import lazy_loader
from wrapt import when_imported

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


@when_imported("transformers.pipelines")
def _import_pipeline(module: ModuleType) -> None:
    """Import `narrative_twins.pipeline` once the user has imported `transformers.pipelines`.
    Importing both along with this package would take seconds."""
    import_module("narrative_twins.pipeline")


@when_imported("narrative_twins.pipeline")
def _register_pipeline(module: ModuleType) -> None:
    """Register the task `narrative-salience` once `narrative_twins.pipeline` is imported."""
    module.register_pipeline()
