"""Repositories on the Hub whose weights are in pickles: refused before they are downloaded."""

from __future__ import annotations

import pytest

from narrative_twins import StoryEncoder, trainable_encoder

from support.hostile_checkpoints import evil_index, evil_parts, evil_pickle, pickled
from support.models import small


@pytest.mark.parametrize("load", [StoryEncoder.from_pretrained, trainable_encoder])
@pytest.mark.parametrize("damage", [evil_pickle, evil_parts, evil_index, pickled])
def test_pickles_are_never_downloaded(damage, load, hub, tmp_path):
    small("bert").save_pretrained(tmp_path / "model")
    damage(tmp_path / "model")
    hub.put("models", "somebody/encoder", tmp_path / "model")
    with pytest.raises(OSError, match="save the model as safetensors with save_pretrained"):
        load("somebody/encoder")
    assert hub.asked
    downloads = [path for method, path in hub.asked if method == "GET" and path.endswith(".bin")]
    assert not downloads
    assert not list(tmp_path.rglob("executed"))
