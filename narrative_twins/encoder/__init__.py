"""The story encoder: turns texts, and windows within texts, into vectors."""

from narrative_twins.encoder.loading import default_encoder as default_encoder
from narrative_twins.encoder.loading import encoder_path as encoder_path
from narrative_twins.encoder.story_encoder import StoryEncoder as StoryEncoder
