"""Repositories on the Hub whose weights are in pickles: refused before they are downloaded."""

from __future__ import annotations

import json
import os

from support.hostile_checkpoints import evil_index, evil_parts, evil_pickle, pickled
from support.models import small
from support.processes import run_python

LOAD = """
import json, sys
from narrative_twins import StoryEncoder, trainable_encoder

told = []
for name in sys.argv[1:]:
    for load in (StoryEncoder.from_pretrained, trainable_encoder):
        try:
            load(name)
            told.append("loaded")
        except OSError as error:
            told.append(str(error))
print(json.dumps(told))
"""


def test_pickles_are_downloaded_never(hub, tmp_path):
    damages = [evil_pickle, evil_parts, evil_index, pickled]
    for damage in damages:
        folder = tmp_path / damage.__name__
        small("bert").save_pretrained(folder)
        damage(folder)
        hub.put("models", f"somebody/{damage.__name__}", folder)
    environment = {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    environment |= {"HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "secret"}
    names = [f"somebody/{damage.__name__}" for damage in damages]
    told = json.loads(run_python("-c", LOAD, *names, env=os.environ | environment))
    assert len(told) == 8
    assert all("save the model as safetensors with save_pretrained" in text for text in told)
    downloads = [path for method, path in hub.asked if method == "GET" and path.endswith(".bin")]
    assert not downloads
    assert not list(tmp_path.rglob("executed"))
