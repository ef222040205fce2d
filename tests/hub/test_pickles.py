"""Repositories on the Hub whose weights are in pickles: refused before they are downloaded."""

from __future__ import annotations

import pytest

from narrative_twins import StoryEncoder, trainable_encoder

from support.hostile_checkpoints import evil_index, evil_parts, pickled
from support.models import small


@pytest.mark.parametrize("damage", [evil_parts, evil_index, pickled])
def test_pickles_are_never_downloaded(damage, hub, tmp_path):
    small("bert").save_pretrained(tmp_path / "model")
    damage(tmp_path / "model")
    hub.put("models", "somebody/encoder", tmp_path / "model")
    for load in (StoryEncoder.from_pretrained, trainable_encoder):
        with pytest.raises(OSError, match="save the model as safetensors with save_pretrained"):
            load("somebody/encoder")
    assert hub.asked and not [path for path in hub.given if path.endswith(".bin")]
    assert not list(tmp_path.rglob("executed"))
