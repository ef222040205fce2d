"""Data: narrative twins to train on, and people's judgments to evaluate by, as `datasets`.

```python
from narrative_twins.data import load_story_twins

twins = load_story_twins(split="train")
```
"""

from __future__ import annotations

from narrative_twins.data.builders import (
    StorySalienceBuilder,
    StoryTwinsBuilder,
    TurningPointsBuilder,
    WindowTwinsBuilder,
)
from narrative_twins.data.loading import load_story_salience, load_story_twins, load_turning_points, load_window_twins
from narrative_twins.data.rows import RowError, check_twins_row
from narrative_twins.data.sources import PUBLISHED

__all__ = [
    "PUBLISHED",
    "RowError",
    "StorySalienceBuilder",
    "StoryTwinsBuilder",
    "TurningPointsBuilder",
    "WindowTwinsBuilder",
    "check_twins_row",
    "load_story_salience",
    "load_story_twins",
    "load_turning_points",
    "load_window_twins",
]
