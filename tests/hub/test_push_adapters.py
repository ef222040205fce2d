"""Pushes of encoders with PEFT adapters: what is pushed is one plain checkpoint, which needs no
adapter library."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, pipeline

from narrative_twins import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    StoryEncoder,
    score_stories,
    trainable_encoder,
)
from narrative_twins.commands.cli import main
from narrative_twins.encoder.adapters import has_adapter
from narrative_twins.hub.facts import EncoderFacts
from narrative_twins.hub.push import push_encoder

from support.hub import Hub
from support.processes import run_command

peft = pytest.importorskip("peft")

NAME, TEXT = "somebody/encoder", "Omar cleaned a window. A man cried. Omar wrote a word."


def adapted(folder: str) -> SentenceTransformer:
    """An encoder with an adapter of random weights."""
    model = trainable_encoder(folder, pooling="first").cpu()
    model.add_adapter(
        peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False)
    )
    return model.eval()


def pushed(hub: Hub, folder: Path) -> Path:
    """The files that were pushed, in a folder."""
    for name, content in hub.files("models", NAME).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def scores(encoder: StoryEncoder) -> np.ndarray:
    (result,) = score_stories([TEXT], encoder)
    return np.array([list(values) for values in result.scores.values()])


def wrapped(model: SentenceTransformer, folder: Path) -> Path:
    """A folder of the adapter alone, as `transformers` writes it: no settings, no tokenizer."""
    model[0].auto_model.save_pretrained(folder)
    return folder


def saved(model: SentenceTransformer, folder: Path) -> Path:
    model.save_pretrained(str(folder))
    return folder


@pytest.mark.parametrize(
    "form",
    [
        wrapped,
        saved,
        lambda model, folder: model,
        lambda model, folder: StoryEncoder.from_sentence_transformer(model),
    ],
    ids=[
        "a folder of the adapter",
        "a folder of a SentenceTransformer",
        "a SentenceTransformer",
        "a StoryEncoder",
    ],
)
def test_what_is_pushed_is_a_plain_encoder(form, bert_folder, hub, tmp_path, monkeypatch):
    model = adapted(bert_folder)
    given = form(model, tmp_path / "given")
    # The folder of the adapter alone has the pooling of its base.
    pooling = "mean" if form is wrapped else "first"
    expected = scores(StoryEncoder.from_sentence_transformer(model, pooling=pooling))
    push_encoder(given, NAME, facts=EncoderFacts(name="Mine"))
    assert has_adapter(model[0].auto_model), "the encoder of the user keeps its adapter"
    folder = pushed(hub, tmp_path / "pushed")
    assert not list(folder.glob("adapter*")) and (folder / "config.json").is_file()
    assert "with an adapter (LORA) merged into it" in (folder / "README.md").read_text()
    monkeypatch.setitem(sys.modules, "peft", None)
    assert np.allclose(
        scores(StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32")),
        expected,
        atol=1e-6,
    )
    salience = pipeline("narrative-salience", model=str(folder), device="cpu", dtype="float32")
    assert np.allclose(list(salience(TEXT)["scores"].values()), expected, atol=1e-6)
    AutoModel.from_pretrained(folder)
    assert SentenceTransformer(str(folder), device="cpu").encode("Omar ran.").shape == (32,)


LOAD_ADAPTER = f"""
import json
import narrative_twins
from narrative_twins import StoryEncoder, score_stories, trainable_encoder
from transformers import pipeline

name = "somebody/adapter"
salience = pipeline("narrative-salience", model=name, device="cpu", dtype="float32")
encoders = [
    salience.encoder,
    StoryEncoder.from_pretrained(name, revision="main", device="cpu", dtype="float32"),
    StoryEncoder.from_sentence_transformer(trainable_encoder(name).cpu()),
]
print(json.dumps([list(next(iter(score_stories([{TEXT!r}], one))).scores.values()) for one in encoders]))
"""


def test_adapter_on_the_hub_is_loaded_with_its_base_on_the_hub(bert_folder, hub, tmp_path):
    model = adapted(bert_folder)
    expected = scores(StoryEncoder.from_sentence_transformer(model, pooling="mean"))
    folder = wrapped(model, tmp_path / "given")
    settings = (folder / "adapter_config.json").read_text()
    (folder / "adapter_config.json").write_text(settings.replace(bert_folder, "somebody/base"))
    hub.put("models", "somebody/base", Path(bert_folder))
    hub.put("models", "somebody/adapter", folder)
    environment = {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    own = {"HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "secret"}
    done = run_command(sys.executable, "-c", LOAD_ADAPTER, env=os.environ | environment | own)
    assert done.returncode == 0, done.stderr
    assert np.allclose(json.loads(done.stdout), expected, atol=1e-6)


def test_card_names_the_base_on_the_hub(bert_folder, hub, tmp_path):
    """Not the card beside the adapter, which says how an adapter is loaded."""
    model = adapted(bert_folder)
    model[0].auto_model.config._name_or_path = "somebody/base"
    push_encoder(model, NAME)
    card = ModelCard(hub.files("models", NAME)["README.md"].decode())
    assert (
        card.data.base_model == "somebody/base"
        and card.data.library_name == "sentence-transformers"
    )
    push_encoder(saved(adapted(bert_folder), tmp_path / "saved"), NAME, update=True)
    text = hub.files("models", NAME)["README.md"].decode()
    assert (
        "a local bert model, with an adapter (LORA) merged into it" in text
        and str(tmp_path) not in text
    )
    push_encoder(model, NAME, facts=EncoderFacts(base_model="my words"), update=True)
    assert "Base model: my words" in hub.files("models", NAME)["README.md"].decode()


def test_dry_run_shows_the_merged_encoder(bert_folder, hub, tmp_path, capsys):
    folder = wrapped(adapted(bert_folder), tmp_path / "given")
    assert main(["push", str(folder), "--to", NAME, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert (
        " model.safetensors" in shown
        and "1_Pooling/config.json" in shown
        and "adapter_model" not in shown
    )
    assert hub.asked == []


def test_adapters_that_cannot_be_merged_are_refused_before_the_push(bert_folder, hub, tmp_path):
    folder = wrapped(adapted(bert_folder), tmp_path / "given")
    settings = (folder / "adapter_config.json").read_text()
    (folder / "adapter_config.json").write_text(settings.replace(bert_folder, "/gone/base"))
    with pytest.raises(OSError, match="adapter of '/gone/base'.*base_model_name_or_path"):
        push_encoder(folder, NAME)
    config = peft.PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    prefixed = peft.get_peft_model(AutoModel.from_pretrained(bert_folder), config)
    with pytest.raises(ValueError, match=r"PREFIX_TUNING\) can't be merged"):
        push_encoder(StoryEncoder(prefixed, AutoTokenizer.from_pretrained(bert_folder)), NAME)
    assert hub.asked == []


def test_trainer_saves_and_pushes_a_trained_adapter_as_a_plain_encoder(bert_folder, hub, tmp_path):
    """Its checkpoints have the adapter alone, from which a run goes on."""
    rows = Dataset.from_list(
        [{"story": ["Omar ran.", "He fell."], "twin": ["He went fast.", "He fell down."]}] * 4
    )
    model = adapted(bert_folder)
    before = scores(StoryEncoder.from_sentence_transformer(model))
    arguments = NarrativeTwinsTrainingArguments(
        str(tmp_path / "run"), max_steps=2, save_steps=1, learning_rate=0.01, report_to="none", use_cpu=True,
        hub_model_id=NAME,
    )  # fmt: skip
    trainer = NarrativeTwinsTrainer(model, arguments, rows)
    trainer.train()
    expected = scores(StoryEncoder.from_sentence_transformer(model))
    assert not np.allclose(before, expected, atol=1e-4)
    trainer.save_encoder(tmp_path / "final")
    trainer.push_to_hub()
    for folder in (tmp_path / "final", pushed(hub, tmp_path / "pushed")):
        assert not list(folder.glob("adapter*"))
        found = StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32")
        assert np.allclose(scores(found), expected, atol=1e-6)
        assert "with an adapter (LORA) merged into it" in (folder / "README.md").read_text()
    assert has_adapter(model[0].auto_model)
    assert (tmp_path / "run" / "checkpoint-1" / "adapter_model.safetensors").is_file()
    resumed = NarrativeTwinsTrainer(adapted(bert_folder), arguments, rows)
    resumed.train(str(tmp_path / "run" / "checkpoint-1"))
    found = scores(StoryEncoder.from_sentence_transformer(resumed.model))
    assert np.allclose(found, expected, atol=1e-5)
