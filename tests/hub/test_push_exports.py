"""Exported models are pushed with their encoder, and load from the Hub without its weights for
torch."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from narrative_twins import export_encoder, score_stories
from narrative_twins.hub.push import push_encoder

from support.models import small
from support.processes import run_python

NAME = "somebody/encoder"
TEXT = "Omar cleaned a window. A man cried. Omar wrote a word."
LOAD = f"""
import json
import sys

sys.modules["torch"] = None
from narrative_twins import StoryEncoder, score_stories

encoder = StoryEncoder.from_pretrained({NAME!r}, backend="onnx")
print(json.dumps([dict(result.scores) for result in score_stories([{TEXT!r}], encoder)]))
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    small().save_pretrained(folder)
    export_encoder(small(), folder)
    return folder


def test_exports_are_pushed_and_loaded_without_torch(checkpoint, hub, tmp_path, monkeypatch):
    (expected,) = score_stories([TEXT], small())
    (checkpoint / "onnx" / "notes.txt").write_text("not part of the export")
    push_encoder(checkpoint, NAME)
    pushed = hub.files("models", NAME)
    assert {name for name in pushed if "/" in name and not name.startswith("1_")} == {
        "onnx/model.onnx"
    }
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    hub.given.clear()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    (found,) = json.loads(run_python("-c", LOAD))
    for name, scores in expected.scores.items():
        assert found[name] == pytest.approx(scores, abs=1e-5)
    assert "model.safetensors" not in hub.given and "onnx/model.onnx" in hub.given


def test_exports_of_other_weights_are_refused(checkpoint, hub, tmp_path):
    """As after more training in the same folder."""
    shutil.copytree(checkpoint, tmp_path / "run")
    small("bert-cased").save_pretrained(tmp_path / "run")
    with pytest.raises(
        ValueError, match="export it again .`narrative-twins export .* --backend onnx"
    ):
        push_encoder(tmp_path / "run", NAME)
    assert hub.files("models", NAME) is None


def test_exports_are_not_pushed_unchecked(checkpoint, hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'narrative_twins\[onnx\]'"):
        push_encoder(checkpoint, NAME)
    assert hub.files("models", NAME) is None
