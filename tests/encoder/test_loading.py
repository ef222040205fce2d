"""Damaged and hostile checkpoints: each is refused in one line, by the package, the pipeline and
the command."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    pipeline,
)

from narrative_twins import StoryEncoder
from narrative_twins.commands.cli import main
from narrative_twins.encoder.loading import load_model
from narrative_twins.encoder.models import CheckpointError
from narrative_twins.making.alignment import SentenceEmbedder
from narrative_twins.training.mlm import masked_language_model
from narrative_twins.training.trainable import trainable_encoder

from support.hostile_checkpoints import (
    SETTINGS,
    TOKENIZER,
    WEIGHTS,
    evil_index,
    outside,
    pickled,
    weights,
    with_module,
)
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


@pytest.mark.parametrize(
    "case", [case for case in WEIGHTS if case != "code" and "config" not in case]
)
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


@pytest.mark.parametrize(
    "load", [StoryEncoder.from_pretrained, trainable_encoder, SentenceEmbedder]
)
@pytest.mark.parametrize("case", [case for case in WEIGHTS if case.startswith("evil ")])
def test_pickles_are_refused_before_they_are_opened(case, load, folder, monkeypatch):
    damage, problem = WEIGHTS[case]
    damage(folder)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    with pytest.raises(OSError, match=problem):
        load(folder)
    assert not (folder / "executed").exists()


@pytest.mark.parametrize(
    "name", ["sentence_transformers.models.Dense", "evil.Module", "evil.Pooling"]
)
def test_alignment_runs_no_code_of_modules(name, folder, monkeypatch):
    with_module(name)(folder)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    problem = (
        "pickle .2_Module/pytorch_model.bin.*save the model"
        if "Dense" in name
        else f"names '{name}', which is "
    )
    with pytest.raises(OSError, match=problem):
        SentenceEmbedder(folder)
    assert not (folder / "executed").exists()


def test_alignment_tells_what_does_not_fit_a_module(folder):
    with_module("sentence_transformers.models.Dense")(folder)
    (folder / "2_Module" / "pytorch_model.bin").unlink()
    with pytest.raises(OSError, match="can't be loaded: .*model.safetensors") as refused:
        SentenceEmbedder(folder)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "load", [StoryEncoder.from_pretrained, trainable_encoder, SentenceEmbedder]
)
@pytest.mark.parametrize("kind", ["pad_token", "mask_token", "unk_token"])
def test_special_tokens_without_an_embedding_are_refused(kind, load, folder):
    """They may not be in the first story that is scored, but in a later one."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({kind: "[NEW]"})
    tokenizer.save_pretrained(folder)
    with pytest.raises(
        ValueError, match=r"the tokenizer of .*encoder' has the id \d+ \('\[NEW\]'\), and the model"
    ):
        load(folder)


@pytest.mark.parametrize("load", [trainable_encoder, SentenceEmbedder])
def test_files_outside_of_the_folder_are_not_read(load, folder):
    outside(folder)
    with pytest.raises(OSError, match="outside of the folder"):
        load(folder)


@pytest.mark.parametrize(
    "index", ["model.safetensors.index.fp16.json", "part/model.safetensors.index.json"]
)
def test_indexes_of_other_names_are_checked(index, folder):
    evil_index(folder)
    (folder / "part").mkdir()
    (folder / "model.safetensors.index.json").rename(folder / index)
    shutil.copy(folder / "config.json", folder / "part")
    options = {"variant": "fp16"} if "fp16" in index else {"subfolder": "part"}
    with pytest.raises(OSError, match="names 'evil.bin', which is not in safetensors"):
        StoryEncoder.from_pretrained(folder, device="cpu", **options)


@pytest.mark.parametrize(
    "options",
    [{"weights_only": False}, {"variant": "fp16"}, {"use_safetensors": False}, {"subfolder": "."}],
)
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
    assert (
        code == 1
        and out == ""
        and err.count("\n") == 1
        and err.startswith(f"narrative-twins: {problem}")
    )
