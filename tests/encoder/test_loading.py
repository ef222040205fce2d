"""Damaged and hostile checkpoints: each is refused in one line, by the package, the pipeline and the command."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM, pipeline

from narrative_twins import StoryEncoder
from narrative_twins.commands.cli import main
from narrative_twins.encoder.loading import load_model
from narrative_twins.encoder.models import CheckpointError
from narrative_twins.making.align.embedding import SentenceEmbedder
from narrative_twins.training.mlm import masked_language_model
from narrative_twins.training.trainable import trainable_encoder

from support.hostile_checkpoints import SETTINGS, TOKENIZER, WEIGHTS, other_config, outside, pickled, weights
from support.models import small

STORY = "Nadia found a map. It led to a mill. The mill was gone."


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    small("bert").save_pretrained(folder)
    return folder


@pytest.fixture
def folder(base, tmp_path):
    return Path(shutil.copytree(base, tmp_path / "encoder"))


@pytest.mark.parametrize("case", WEIGHTS | SETTINGS | TOKENIZER)
def test_checkpoint_is_refused_in_one_line(case, folder, tmp_path, capsys, caplog):
    damage, problem = (WEIGHTS | SETTINGS | TOKENIZER)[case]
    damage(folder)
    with pytest.raises((OSError, ValueError), match=problem) as refused:
        StoryEncoder.from_pretrained(folder, device="cpu")
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 800
    (story := tmp_path / "story.txt").write_text(STORY)
    capsys.readouterr()
    assert main(["score", str(story), "--model", str(folder), "--device", "cpu"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err == f"narrative-twins: {refused.value}\n"
    assert "LOAD REPORT" not in caplog.text
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("case", [case for case in WEIGHTS if case != "code" and "config" not in case])
def test_pipeline_does_not_load_it_in_another_way(case, folder):
    damage, problem = WEIGHTS[case]
    damage(folder)
    with pytest.raises(CheckpointError, match=problem):
        pipeline("narrative-salience", model=str(folder), device="cpu")


@pytest.mark.parametrize("load", [trainable_encoder, masked_language_model, SentenceEmbedder])
@pytest.mark.parametrize("case", ["no layer 1", "other sizes", "pickle", "truncated", "zero"])
def test_training_and_alignment_refuse_it_too(case, load, folder):
    damage, problem = WEIGHTS[case]
    damage(folder)
    with pytest.raises(OSError, match=problem):
        load(folder)


@pytest.mark.parametrize("load", [trainable_encoder, SentenceEmbedder])
def test_files_outside_of_the_folder_are_not_read(load, folder):
    outside(folder)
    with pytest.raises(OSError, match="outside of the folder"):
        load(folder)


def test_pickles_are_loaded_on_request(folder):
    expected = StoryEncoder.from_pretrained(folder, device="cpu").model.state_dict()
    pickled(folder)
    found = StoryEncoder.from_pretrained(folder, device="cpu", allow_pickle=True).model.state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    loaded = pipeline("narrative-salience", model=str(folder), device="cpu", model_kwargs={"allow_pickle": True})
    assert len(loaded(STORY)["sentences"]) == 3
    assert trainable_encoder(folder, allow_pickle=True).encode(STORY).shape == (32,)


@pytest.mark.parametrize("options", [{"variant": "fp16"}, {"use_safetensors": False}, {"subfolder": "."}])
def test_no_option_lets_pickles_in(options, folder):
    pickled(folder)
    (folder / "pytorch_model.fp16.bin").write_bytes((folder / "pytorch_model.bin").read_bytes())
    with pytest.raises(OSError, match="can't be loaded"):
        StoryEncoder.from_pretrained(folder, device="cpu", **options)


@pytest.mark.parametrize("stored", [5, [], {"unknown": 1}])
def test_invalid_settings_in_the_configuration(stored, folder):
    """As plain `AutoModel` and a pipeline with its own code load them."""
    model = AutoModel.from_pretrained(folder)
    model.config.narrative_twins = stored
    with pytest.raises(ValueError, match="in config.json is invalid"):
        StoryEncoder(model, AutoTokenizer.from_pretrained(folder))


def test_language_models_fit_as_encoders(folder, caplog):
    """They have a head that an encoder does not need, and no pooler."""
    config = BertConfig.from_pretrained(folder)
    BertForMaskedLM(config).save_pretrained(folder)
    with caplog.at_level(logging.WARNING):
        assert StoryEncoder.from_pretrained(folder, device="cpu").pooling == "mean"
        load_model(AutoModelForMaskedLM, folder)
    assert "LOAD REPORT" not in caplog.text
    AutoModel.from_pretrained(folder).save_pretrained(folder)
    assert masked_language_model(folder).base_model.checkpoint_settings.pooling == "mean"


def test_buffers_of_earlier_releases_fit(folder):
    weights(lambda found: found | {"embeddings.position_ids": torch.arange(5)[None]})(folder)
    assert StoryEncoder.from_pretrained(folder, device="cpu").pooling == "mean"


def test_tokenizer_of_another_model_is_refused(folder):
    change = weights(lambda found: found | {"embeddings.word_embeddings.weight": torch.ones(50, 32)})
    change(folder)
    other_config(vocab_size=50)(folder)
    with pytest.raises(ValueError, match="the tokenizer has the id .*, and the model 50 ids"):
        StoryEncoder.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--dtype", "int8", "dtype 'int8' is not supported"),
        ("--dtype", "nonsense", "dtype 'nonsense' is not supported"),
        ("--dtype", "complex64", "dtype 'complex64' is not supported"),
        ("--device", "nonsense", "device 'nonsense' can't be used"),
        ("--device", "cuda:99", "device 'cuda:99' can't be used"),
        ("--device", "cpu:7x", "device 'cpu:7x' can't be used"),
    ],
)
def test_unsupported_precisions_and_devices(option, value, problem, base, tmp_path, capsys):
    (story := tmp_path / "story.txt").write_text(STORY)
    code = main(["score", str(story), "--model", str(base), option, value])
    out, err = capsys.readouterr()
    assert code == 1 and out == "" and err.count("\n") == 1 and err.startswith(f"narrative-twins: {problem}")
