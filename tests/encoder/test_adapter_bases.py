"""Adapters whose base is on the Hub: fetched, from the cache, or from a folder; and named encoders
of the package that are such adapters."""

import json
import re
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from transformers import AutoModel
from transformers.utils import logging

from narrative_twins import StoryEncoder, score_stories, trainable_encoder
from narrative_twins.encoder import loading
from narrative_twins.encoder.loading import encoder_path, encoder_settings

from support.models import encoder_of, save_base

peft = pytest.importorskip("peft")

BASE = "somebody/small-base"
STORY = ["Nadia found a map. It led to a mill. The mill burned down."]


@pytest.fixture(autouse=True)
def named(bert_folder, tmp_path, monkeypatch):
    """An encoder of the package with the name `small`, a random adapter of the base."""
    torch.manual_seed(5)
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=["query", "dense"])
    model = peft.get_peft_model(AutoModel.from_pretrained(bert_folder), config)
    for weight in model.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.1)
    model.base_model.model.config._name_or_path = BASE
    model.peft_config["default"].base_model_name_or_path = BASE
    model.save_pretrained(tmp_path / "small")
    monkeypatch.setitem(loading.PACKAGED, "small", tmp_path / "small")
    return model


def scores(**options):
    encoder = StoryEncoder.from_pretrained("small", device="cpu", dtype="float32", **options)
    return next(score_stories(STORY, encoder)).scores


def test_base_is_fetched_once_and_then_read_from_the_cache(
    named, hub, bert_folder, monkeypatch, capsys
):
    monkeypatch.setenv("TQDM_POSITION", "-1")  # bars also without a terminal
    logging.enable_progress_bar()  # commands that ran before have hidden them
    hub.put("models", BASE, Path(bert_folder))
    fetched = scores()
    assert "model.safetensors" in hub.downloaded
    assert "model.safetensors: 100%" in capsys.readouterr().err, "a download has a progress bar"
    adapted = StoryEncoder(named.merge_and_unload(), encoder_of("bert")[1])
    expected = next(score_stories(STORY, adapted)).scores
    for name, values in expected.items():
        assert fetched[name] == pytest.approx(values, abs=1e-6)
    trained = trainable_encoder("small")
    assert all(weight.requires_grad for weight in trained.parameters())
    hub.downloaded.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert scores() == fetched and not hub.downloaded
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    hub.fault = lambda method, path: pytest.fail("asked")
    assert scores(local_files_only=True) == fetched


def test_base_from_a_folder_needs_no_network(bert_folder, named, tmp_path):
    found = scores(base_folder=bert_folder)
    adapted = StoryEncoder(named.merge_and_unload(), encoder_of("bert")[1])
    for name, values in next(score_stories(STORY, adapted)).scores.items():
        assert found[name] == pytest.approx(values, abs=1e-6)
    with pytest.raises(OSError, match="no base at 'nowhere'; correct base_folder"):
        scores(base_folder="nowhere")
    with pytest.raises(OSError, match="base_folder= is for adapters, and encoder .* is none"):
        StoryEncoder.from_pretrained("default", base_folder=bert_folder)
    (tmp_path / "file.txt").write_text("text")
    for wrong in (tmp_path, tmp_path / "file.txt"):
        with pytest.raises(
            OSError, match=f"no folder with a config.json.* is the folder of '{BASE}'"
        ):
            scores(base_folder=wrong)
    save_base(tmp_path / "another")
    with pytest.raises(OSError, match=f"it is for '{BASE}', and '.*another' is another model"):
        scores(base_folder=tmp_path / "another")


@pytest.mark.parametrize("name", ["Multilingual", "multilingal", "BASE", "base ", "defualt"])
def test_misspelt_names_of_encoders_are_told_the_names(name):
    similar = (
        "multilingual" if "m" in name.lower() else "base" if "b" in name.lower() else "default"
    )
    with pytest.raises(OSError, match=f"no encoder '{name}'; do you mean '{similar}'?.* 'base', "):
        StoryEncoder.from_pretrained(name)


def test_an_empty_name_of_an_encoder_is_an_error():
    with pytest.raises(OSError, match="name of the encoder is empty; encoders"):
        StoryEncoder.from_pretrained("")


@pytest.mark.parametrize("offline", [True, False])
def test_without_network_and_cache_one_sentence_says_what_to_do(offline, monkeypatch, tmp_path):
    def unreachable(*_, **__):
        raise ConnectionError("name or service not known")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(loading, "get_hf_file_metadata", unreachable)
    for load in (StoryEncoder.from_pretrained, trainable_encoder):
        with pytest.raises(OSError) as error:
            load("small", cache_dir=tmp_path / "empty")
        reason = "offline mode is set" if offline else "name or service not known"
        assert str(error.value) == (
            f"encoder 'small' can't be loaded without its base '{BASE}': the Hub can't be reached"
            f" ({reason}), and there is no copy in the cache; connect once, or give the folder of"
            " the base: base_folder= (--base-folder DIR)"
        )


@pytest.mark.parametrize(
    ("name", "base", "size"),
    [
        ("multilingual", "intfloat/multilingual-e5-small", 6e6),
        ("base", "sentence-transformers/all-mpnet-base-v2", 12e6),
    ],
)
def test_adapters_of_the_package_fit_a_base_of_their_size(name, base, size, tmp_path):
    """The base, which is not in the package, has as many layers, of the same width."""
    folder = loading.PACKAGED[name]
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == base
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < size
    save_base(tmp_path, name)
    encoder = StoryEncoder.from_pretrained(
        name, base_folder=tmp_path, device="cpu", dtype="float32"
    )
    assert (encoder.pooling, encoder.prompt, encoder.context_tokens) == ("mean", "", 512)
    assert encoder.is_english == (name == "base")
    plain = StoryEncoder.from_pretrained(tmp_path, device="cpu", dtype="float32")
    changed, same = encoder.model.state_dict(), plain.model.state_dict()
    names = {name for name in same if not torch.equal(changed[name], same[name])}
    linear = r"layer.*\.(query|key|value|dense|q|k|v|o)\.weight"
    layers = {name for name in same if re.search(linear, name)}
    assert names == layers and len(names) == 72


def test_names_of_the_package_come_before_folders(tmp_path, monkeypatch, bert_folder):
    (tmp_path / "default").mkdir()
    monkeypatch.chdir(tmp_path)
    assert encoder_path("default") == encoder_path(None) == str(loading.DEFAULT_ENCODER)
    assert encoder_path("./default") == "./default"
    encoder = StoryEncoder.from_pretrained("small", base_folder=bert_folder)
    # Another adapter of the same base is another encoder.
    settings = encoder_settings("small", encoder)
    assert settings["model"] == "small"
    assert settings["model fingerprint"] != loading.fingerprint(bert_folder, None)
    assert encoder.model.name_or_path == str(tmp_path / "small")
