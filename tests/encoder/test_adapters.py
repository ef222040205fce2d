"""Encoders with PEFT adapters: loaded and saved with the adapter merged into the weights, with the
same vectors."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, pipeline

from narrative_twins import StoryEncoder, trainable_encoder
from narrative_twins.encoder.adapters import has_adapter, merge_adapters, merged_copy
from narrative_twins.training.mlm import masked_language_model

from support.hostile_checkpoints import Code
from support.models import encoder_of, modules

peft = pytest.importorskip("peft")

TEXT = "Nadia found a map. It led to a mill."
KINDS = {
    "lora": lambda: peft.LoraConfig(r=2, target_modules=["query", "value"], bias="lora_only"),
    "dora": lambda: peft.LoraConfig(r=2, target_modules=["query", "dense"], use_dora=True),
    "with a trained layer": lambda: peft.LoraConfig(
        r=2, target_modules=["key"], modules_to_save=["LayerNorm"]
    ),
    "ia3": lambda: peft.IA3Config(target_modules=["value", "dense"], feedforward_modules=["dense"]),
}


def changed(model):
    """The model with random weights in its adapters, which are zero or one at first."""
    torch.manual_seed(3)
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data += 0.1 * torch.randn(weight.shape)
    return model.eval()


def states(model, tokenizer) -> torch.Tensor:
    """The states of the tokens of a text, as unit vectors."""
    with torch.no_grad():
        found = model.cpu()(**tokenizer(TEXT, return_tensors="pt")).last_hidden_state
    return torch.nn.functional.normalize(found, dim=-1)


@pytest.fixture(scope="module")
def first(bert_folder, tmp_path_factory) -> str:
    """A base with first-token pooling."""
    folder = tmp_path_factory.mktemp("first")
    parts = [modules.Transformer(bert_folder), modules.Pooling(32, pooling_mode="cls")]
    SentenceTransformer(modules=parts).save_pretrained(str(folder), create_model_card=False)
    return str(folder)


@pytest.fixture
def wrapped(first, tmp_path):
    """An adapter as `PeftModel.save_pretrained` writes it, without a tokenizer; its folder and its
    states."""
    model = changed(peft.get_peft_model(AutoModel.from_pretrained(first), KINDS["lora"]()))
    model.save_pretrained(tmp_path / "wrapped")
    return tmp_path / "wrapped", states(model, AutoTokenizer.from_pretrained(first))


@pytest.mark.parametrize("kind", KINDS)
def test_merged_copy_has_the_same_states(kind):
    model, tokenizer = encoder_of("bert")
    model.add_adapter(KINDS[kind]())
    changed(model.double())
    expected, before = (
        states(model, tokenizer),
        {key: v.clone() for key, v in model.state_dict().items()},
    )
    merged = merged_copy(model)
    assert has_adapter(model) and not has_adapter(merged)
    assert torch.allclose(states(merged, tokenizer), expected, atol=1e-9)
    assert set(merged.state_dict()) == set(encoder_of("bert")[0].state_dict())
    after = model.state_dict()
    assert set(after) == set(before) and all(torch.equal(after[key], before[key]) for key in before)


def test_adapter_that_is_switched_off_is_not_merged():
    model, tokenizer = encoder_of("bert")
    expected = states(model, tokenizer)
    model.add_adapter(KINDS["with a trained layer"]())
    changed(model).disable_adapters()
    assert torch.equal(states(merged_copy(model), tokenizer), expected)


def test_only_the_active_adapter_is_merged():
    model, tokenizer = encoder_of("bert")
    model.add_adapter(KINDS["lora"](), "one")
    changed(model)
    model.add_adapter(peft.LoraConfig(r=3, target_modules=["key"]), "two")
    changed(model)
    model.double().set_adapter("one")
    assert torch.allclose(
        states(merged_copy(model), tokenizer), states(model, tokenizer), atol=1e-9
    )


def test_saved_encoder_with_an_adapter_is_plain(bert_folder, tmp_path):
    """Also one wrapped in a `PeftModel`; the encoder itself keeps its adapter."""
    tokenizer = AutoTokenizer.from_pretrained(bert_folder)
    for number, wrap in enumerate((False, True)):
        model = AutoModel.from_pretrained(bert_folder)
        if wrap:
            model = peft.get_peft_model(model, KINDS["lora"]())
        else:
            model.add_adapter(KINDS["lora"]())
        encoder = StoryEncoder(changed(model), tokenizer)
        encoder.save_pretrained(tmp_path / str(number))
        assert has_adapter(encoder.model)
        assert not list((tmp_path / str(number)).glob("adapter_*"))
        expected = states(model, tokenizer)
        for found in (
            AutoModel.from_pretrained(tmp_path / str(number)),
            SentenceTransformer(str(tmp_path / str(number)), device="cpu")[0].auto_model.eval(),
        ):
            assert torch.allclose(states(found, tokenizer), expected, atol=1e-5)


def test_saved_pipeline_of_a_model_with_an_adapter_is_plain(bert_folder, tmp_path):
    model, tokenizer = (
        AutoModel.from_pretrained(bert_folder),
        AutoTokenizer.from_pretrained(bert_folder),
    )
    model.add_adapter(KINDS["lora"]())
    pipeline("narrative-salience", model=changed(model), tokenizer=tokenizer).save_pretrained(
        tmp_path / "saved"
    )
    assert not list((tmp_path / "saved").glob("adapter_*"))
    found = AutoModel.from_pretrained(tmp_path / "saved")
    assert torch.allclose(states(found, tokenizer), states(model, tokenizer), atol=1e-5)


def test_saving_a_merged_encoder_beside_its_adapter_is_refused(wrapped):
    """Libraries would apply the adapter a second time."""
    folder, _ = wrapped
    encoder = StoryEncoder.from_pretrained(folder, device="cpu")
    with pytest.raises(ValueError, match="has an adapter .*; save .* in another folder"):
        encoder.save_pretrained(folder)
    assert not (folder / "model.safetensors").exists()


def test_adapter_folder_is_loaded_with_pooling_and_tokenizer_of_its_base(wrapped, first):
    folder, expected = wrapped
    encoder = StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32")
    assert encoder.pooling == "first" and not has_adapter(encoder.model)
    encoder.save_pretrained(folder / "plain")
    assert set(load_file(folder / "plain" / "model.safetensors")) == set(
        load_file(Path(first) / "model.safetensors")
    )
    assert torch.allclose(
        states(encoder.model, AutoTokenizer.from_pretrained(first)), expected, atol=1e-5
    )
    salience = pipeline("narrative-salience", model=str(folder), device="cpu", dtype="float32")
    assert salience.encoder.pooling == "first"
    assert torch.allclose(states(salience.model, salience.tokenizer), expected, atol=1e-5)


def test_trainable_encoder_of_an_adapter_is_merged_and_trains_all_weights(wrapped):
    folder, expected = wrapped
    model = trainable_encoder(folder)
    transformer = model[0].auto_model
    assert not has_adapter(transformer) and all(
        weight.requires_grad for weight in model.parameters()
    )
    assert model[1].pooling_mode == "cls"
    assert torch.allclose(states(transformer.eval(), model.tokenizer), expected, atol=1e-5)


def test_masked_language_model_of_an_adapter(wrapped, first):
    folder, expected = wrapped
    model = masked_language_model(folder).eval()
    assert torch.allclose(
        states(model.base_model, AutoTokenizer.from_pretrained(first)), expected, atol=1e-5
    )


def test_adapter_with_its_own_tokenizer_and_pooling(bert_folder, tmp_path):
    """As a `SentenceTransformer` writes it."""
    model = trainable_encoder(bert_folder, pooling="first")
    model.add_adapter(KINDS["lora"]())
    expected = states(changed(model)[0].auto_model, model.tokenizer)
    model.save_pretrained(str(tmp_path / "adapter"))
    encoder = StoryEncoder.from_pretrained(tmp_path / "adapter", device="cpu", dtype="float32")
    assert encoder.pooling == "first"
    assert torch.allclose(states(encoder.model, model.tokenizer), expected, atol=1e-5)


def edit(folder: Path, **settings) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (
            lambda folder: edit(folder, base_model_name_or_path="/gone/base"),
            "adapter of '/gone/base'.*base_model_name",
        ),
        (lambda folder: edit(folder, base_model_name_or_path=None), "names no base"),
        (lambda folder: edit(folder, base_model_name_or_path=str(folder)), "is itself an adapter"),
        (lambda folder: edit(folder, peft_type="MAGIC"), "MAGIC"),
        (lambda folder: (folder / "adapter_config.json").write_text("[]"), "adapter_config.json"),
        (
            lambda folder: (folder / "adapter_model.safetensors").unlink(),
            "no adapter_model.safetensors",
        ),
        (
            lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"none"),
            "can't be loaded",
        ),
        (lambda folder: thin(folder), "weights of the adapter are missing"),
        (
            lambda folder: save_file({"some": torch.ones(1)}, folder / "model.safetensors"),
            "both an adapter",
        ),
    ],
)
def test_broken_adapters_are_refused(break_it, problem, wrapped):
    folder, _ = wrapped
    break_it(folder)
    for load in (StoryEncoder.from_pretrained, trainable_encoder):
        with pytest.raises(OSError, match=problem):
            load(folder)


def thin(folder: Path) -> None:
    """Remove half of the weights of an adapter."""
    weights = load_file(folder / "adapter_model.safetensors")
    save_file(
        {key: weights[key] for key in list(weights)[::2]}, folder / "adapter_model.safetensors"
    )


def test_adapter_without_the_library(wrapped, monkeypatch):
    folder, _ = wrapped
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(OSError, match="pip install peft"):
        StoryEncoder.from_pretrained(folder)


def test_adapter_that_cannot_be_merged():
    model, _ = encoder_of("bert")
    config = peft.PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    with pytest.raises(ValueError, match=r"PREFIX_TUNING\) can't be merged .*LoRA"):
        merged_copy(peft.get_peft_model(model, config))
    with pytest.raises(ValueError, match="quantized"):
        model, _ = encoder_of("bert")
        model.add_adapter(KINDS["lora"]())
        model.is_quantized = True
        merge_adapters(model)


def test_pickled_adapter_is_refused_before_it_is_opened(wrapped, monkeypatch):
    folder, _ = wrapped
    (folder / "adapter_model.safetensors").unlink()
    (folder / "adapter_model.bin").write_bytes(pickle.dumps(Code(folder / "executed")))
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    with pytest.raises(
        OSError, match="no adapter_model.safetensors; save the adapter with save_pretrained"
    ):
        StoryEncoder.from_pretrained(folder, device="cpu")
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("kind", ["lora", "with a trained layer"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_adapter_with_values_that_are_not_finite_is_refused(kind, value, first, tmp_path):
    peft.get_peft_model(AutoModel.from_pretrained(first), KINDS[kind]()).save_pretrained(tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    names = [name for name in load_file(file) if "LayerNorm" in name or "lora" in name]
    save_file(
        {**load_file(file), names[0]: torch.full_like(load_file(file)[names[0]], value)}, file
    )
    with pytest.raises(OSError, match="can't be loaded.*(not finite|NaNs detected|merged)"):
        StoryEncoder.from_pretrained(tmp_path, device="cpu")
