"""Encoders with PEFT adapters: loaded and saved with the adapter merged into the weights, with the
same vectors."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, pipeline

from narrative_twins import StoryEncoder, extras, trainable_encoder
from narrative_twins.encoder.adapters import has_adapter, merge_adapters, merged_copy

from support.hostile_checkpoints import MODEL, edited, evil
from support.models import encoder_of, modules

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.usefixtures("any_release_of_peft")

TEXT = "Nadia found a map. It led to a mill."
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
BASE = "base_model_name_or_path"
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
        found = model.cpu().eval()(**tokenizer(TEXT, return_tensors="pt")).last_hidden_state
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
    expected = states(model, tokenizer)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    merged = merged_copy(model)
    assert has_adapter(model) and not has_adapter(merged)
    assert torch.allclose(states(merged, tokenizer), expected, atol=1e-9)
    assert set(merged.state_dict()) == set(encoder_of("bert")[0].state_dict())
    after = model.state_dict()
    assert set(after) == set(before) and all(torch.equal(after[key], before[key]) for key in before)
    # One that is switched off is removed.
    model.disable_adapters()
    found = states(merged_copy(model), tokenizer)
    assert torch.allclose(found, states(model, tokenizer), atol=1e-9)


def test_only_the_active_adapter_is_merged():
    model, tokenizer = encoder_of("bert")
    for name in ("one", "two"):
        model.add_adapter(peft.LoraConfig(r=3, target_modules=["key"]), name)
        changed(model)
    model.double().set_adapter("one")
    found = states(merged_copy(model), tokenizer)
    assert torch.allclose(found, states(model, tokenizer), atol=1e-9)


def test_saved_encoder_with_an_adapter_is_plain(bert_folder, tmp_path):
    """Wrapped by the library; the encoder itself keeps its adapter. One that was added by
    transformers is pushed in tests/hub."""
    tokenizer = AutoTokenizer.from_pretrained(bert_folder)
    model = peft.get_peft_model(AutoModel.from_pretrained(bert_folder), KINDS["lora"]())
    encoder = StoryEncoder(changed(model), tokenizer)
    encoder.save_pretrained(tmp_path)
    assert has_adapter(encoder.model) and not list(tmp_path.glob("adapter_*"))
    expected = states(model, tokenizer)
    for found in (
        AutoModel.from_pretrained(tmp_path),
        SentenceTransformer(str(tmp_path), device="cpu")[0].auto_model,
    ):
        assert torch.allclose(states(found, tokenizer), expected, atol=1e-5)


def test_adapter_folder_is_loaded_with_pooling_and_tokenizer_of_its_base(wrapped, first):
    folder, expected = wrapped
    tokenizer = AutoTokenizer.from_pretrained(first)
    encoder = StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32")
    salience = pipeline("narrative-salience", model=str(folder), device="cpu", dtype="float32")
    trained = trainable_encoder(folder)
    assert encoder.pooling == salience.encoder.pooling == "first"
    assert trained[1].pooling_mode == "cls"
    assert all(weight.requires_grad for weight in trained.parameters())
    for model in (encoder.model, salience.model, trained[0].auto_model):
        assert not has_adapter(model)
        assert torch.allclose(states(model, tokenizer), expected, atol=1e-5)
    # Libraries would apply an adapter in the same folder a second time.
    with pytest.raises(ValueError, match="has an adapter .*; save in another folder"):
        encoder.save_pretrained(folder)
    encoder.save_pretrained(folder / "plain")
    names = set(load_file(folder / "plain" / "model.safetensors"))
    assert names == set(load_file(Path(first) / "model.safetensors"))


def test_adapter_with_its_own_tokenizer_and_pooling(bert_folder, tmp_path):
    """As a `SentenceTransformer` writes it."""
    model = trainable_encoder(bert_folder, pooling="first")
    model.add_adapter(KINDS["lora"]())
    expected = states(changed(model)[0].auto_model, model.tokenizer)
    model.save_pretrained(str(tmp_path / "adapter"))
    encoder = StoryEncoder.from_pretrained(tmp_path / "adapter", device="cpu", dtype="float32")
    assert encoder.pooling == "first"
    assert torch.allclose(states(encoder.model, model.tokenizer), expected, atol=1e-5)


def pickled(folder):
    (folder / WEIGHTS).unlink()
    evil(folder / "adapter_model.bin")


def weights(change):
    """A change of the weights of an adapter."""
    return lambda folder: save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def without_values(tensors):
    return {name: tensor * torch.nan for name, tensor in tensors.items()}


DAMAGES = {
    f"no base at '/gone'; correct {BASE}": edited(CONFIG, **{BASE: "/gone"}),
    "MAGIC": edited(CONFIG, peft_type="MAGIC"),
    "no adapter_model.safetensors; save the model": pickled,
    "can't be loaded": lambda folder: (folder / WEIGHTS).write_bytes(b"none"),
    "weights of the adapter are missing": weights(lambda tensors: dict([*tensors.items()][::2])),
    "can't be loaded.*(not finite|NaNs detected|merged)": weights(without_values),
    "both an adapter": lambda folder: save_file({"some": torch.ones(1)}, folder / MODEL),
}
"""Damages of an adapter, by what is said of them."""


@pytest.mark.parametrize("problem", DAMAGES)
def test_broken_adapters_are_refused(problem, wrapped, monkeypatch):
    folder, _ = wrapped
    monkeypatch.chdir(folder)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    DAMAGES[problem](folder)
    for load in (StoryEncoder.from_pretrained, trainable_encoder):
        with pytest.raises(OSError, match=problem):
            load(folder)
    assert not (folder / "executed").exists()


PLAIN = {
    "names": {"target_modules": ["query", "dense"]},
    "a pattern": {"target_modules": r".*layer\.1\..*(key|value)"},
    "its scale": {"target_modules": ["value"], "use_rslora": True, "lora_alpha": 5},
    "normal numbers": {"target_modules": ["key"], "init_lora_weights": "gaussian"},
}


@pytest.mark.parametrize("options", PLAIN)
def test_plain_lora_is_merged_without_the_library(options, first, tmp_path, monkeypatch):
    """As by `peft`, to 1e-6 in float32."""
    config = peft.LoraConfig(r=3, **PLAIN[options])
    adapted = changed(peft.get_peft_model(AutoModel.from_pretrained(first), config))
    adapted.save_pretrained(tmp_path)
    monkeypatch.setattr(extras, "version", Mock(side_effect=PackageNotFoundError))
    model = StoryEncoder.from_pretrained(tmp_path, device="cpu", dtype="float32").model
    expected = adapted.merge_and_unload().state_dict()
    plain = AutoModel.from_pretrained(first).state_dict()
    assert any(not torch.equal(weight, plain[name]) for name, weight in expected.items())
    for name, weight in model.state_dict().items():
        assert torch.allclose(weight, expected[name], atol=1e-6), name
    tensors = load_file(tmp_path / WEIGHTS)
    wrong = min(tensors)
    for change in (
        tensors | {"x.lora_A.weight": torch.ones(1)},
        tensors | {wrong: tensors[wrong][:-1]},
    ):
        save_file(change, tmp_path / WEIGHTS)
        with pytest.raises(OSError, match="1 weights of the adapter are missing or not part"):
            StoryEncoder.from_pretrained(tmp_path)


def test_adapter_without_the_library(wrapped, monkeypatch):
    monkeypatch.setattr(extras, "version", Mock(side_effect=PackageNotFoundError))
    with pytest.raises(OSError, match=r"pip install 'narrative_twins\[peft\]'"):
        StoryEncoder.from_pretrained(wrapped[0])


def test_adapter_that_cannot_be_merged():
    model, _ = encoder_of("bert")
    config = peft.PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    with pytest.raises(ValueError, match=r"PREFIX_TUNING\) can't be merged .*LoRA"):
        merged_copy(peft.get_peft_model(model, config))
    model, _ = encoder_of("bert")
    model.add_adapter(KINDS["lora"]())
    model.is_quantized = True
    with pytest.raises(ValueError, match="quantized"):
        merge_adapters(model)
