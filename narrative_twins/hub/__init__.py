"""Sharing on the Hugging Face Hub: cards, and pushing of encoders, data sets and the metric."""

from __future__ import annotations

from narrative_twins.hub.facts import DatasetFacts, EncoderFacts, Figure, read_facts
from narrative_twins.hub.push import HubError, encoder_files, full_id, push_dataset, push_encoder, push_metric

__all__ = [
    "DatasetFacts",
    "EncoderFacts",
    "Figure",
    "HubError",
    "encoder_files",
    "full_id",
    "push_dataset",
    "push_encoder",
    "push_metric",
    "read_facts",
]
