"""Stories: sentences in order, the windows they fall into, and how files of them are read."""

from __future__ import annotations

from narrative_twins.stories.reading import InputFormat, count_stories, read_stories
from narrative_twins.stories.splitting import Splitter, split_sentences
from narrative_twins.stories.story import Story, StoryError, Windows, partition
from narrative_twins.stories.windows import Order, Span, Window, even_windows

__all__ = [
    "InputFormat",
    "Order",
    "Span",
    "Splitter",
    "Story",
    "StoryError",
    "Window",
    "Windows",
    "count_stories",
    "even_windows",
    "partition",
    "read_stories",
    "split_sentences",
]
