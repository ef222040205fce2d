"""The story encoder: texts to vectors, with the window each token is pooled in."""

from narrative_twins.encoder.checkpoint import default_encoder as default_encoder
from narrative_twins.encoder.story_encoder import StoryEncoder as StoryEncoder
