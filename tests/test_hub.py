"""Encoders by their Hub id, with the real client against a server on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub import serve
from models import modules
from sentence_transformers import SentenceTransformer
from transformers import pipeline

TEXT = "Omar cleaned a window. A man cried. Omar wrote a word."
LOAD = f"""
import json
import narrative_twins
from transformers import pipeline

salience = pipeline("narrative-salience", model="somebody/encoder", device="cpu")
print(json.dumps([salience.encoder.pooling, salience({TEXT!r})["scores"]["deletion"]]))
"""


def load(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Load the encoder in a process of its own."""
    environment = os.environ | {"HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"} | environment
    return subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def checkpoint(bert_folder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    parts = [modules.Transformer(bert_folder), modules.Pooling(32, pooling_mode="cls")]
    SentenceTransformer(modules=parts).save_pretrained(str(folder), create_model_card=False)
    return folder


def test_a_private_encoder_from_the_hub_and_then_offline(checkpoint, tmp_path):
    """Pooling and all come from the Hub with the user's token; after one load the network is not needed."""
    here = pipeline("narrative-salience", model=str(checkpoint), device="cpu")
    expected = ["first", pytest.approx(here(TEXT)["scores"]["deletion"], abs=1e-5)]
    with serve(checkpoint, "somebody/encoder", token="secret") as (address, asked):
        refused = load(tmp_path, HF_ENDPOINT=address, HF_HUB_OFFLINE="0", HF_TOKEN="wrong")
        assert refused.returncode != 0
        assert asked == []
        loaded = load(tmp_path, HF_ENDPOINT=address, HF_HUB_OFFLINE="0", HF_TOKEN="secret")
        assert loaded.returncode == 0, loaded.stderr
        assert json.loads(loaded.stdout) == expected
        assert {"model.safetensors", "tokenizer.json", "modules.json", "1_Pooling/config.json"} <= set(asked)
    offline = load(tmp_path, HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr
    assert json.loads(offline.stdout) == expected
