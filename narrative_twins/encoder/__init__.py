"""The story encoder: texts to vectors, with the window each token is pooled in."""

from __future__ import annotations

from narrative_twins.encoder.checkpoint import default_encoder
from narrative_twins.encoder.story_encoder import StoryEncoder

__all__ = [
    "StoryEncoder",
    "default_encoder",
]
