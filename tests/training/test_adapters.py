"""A new adapter is trained alone, with the released peft: checkpoints, resuming, saving, loading."""

import json
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import pipeline

from narrative_twins import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    StoryEncoder,
    trainable_encoder,
)
from narrative_twins.encoder.adapters import ADAPTER_FILES, has_adapter, lora_config
from narrative_twins.training import ScriptArguments

from support.examples import EXAMPLES, run
from support.models import encoder_of
from support.twins_batches import QUIET, TWINS

peft = pytest.importorskip("peft")

TEXT = "Nadia found a map. It led to a mill. Her brother laughed."
SIZES = {"bert": "mean", "qwen3": "lasttoken"}
"""Kinds of encoders, and their pooling."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory) -> dict[str, str]:
    folders = {}
    for kind in SIZES:
        folders[kind] = str(tmp_path_factory.mktemp(kind))
        for part in encoder_of(kind):
            part.save_pretrained(folders[kind])
    return folders


def trainer_with_adapter(base: str, kind: str, folder: Path, **options) -> NarrativeTwinsTrainer:
    torch.manual_seed(5)
    adapter = peft.LoraConfig(r=2, target_modules="all-linear")
    model = trainable_encoder(base, pooling=SIZES[kind], adapter=adapter).cpu()
    settings = QUIET | {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, **options}
    arguments = NarrativeTwinsTrainingArguments(str(folder), learning_rate=0.01, **settings)
    rows = Dataset.from_list(TWINS[:4])
    validation = rows if "eval_strategy" in options else None
    return NarrativeTwinsTrainer(model, arguments, rows, validation)


def scores(folder: Path) -> list[float]:
    salience = pipeline("narrative-salience", model=str(folder), device="cpu", dtype="float32")
    return salience(TEXT).scores["deletion"]


@pytest.mark.parametrize("kind", SIZES)
def test_adapter_is_trained_resumed_and_saved(kind, bases, tmp_path):
    """Its base stays as it is; merged and alone, it gives the same scores, to 1e-5 in float32."""
    trainer = trainer_with_adapter(bases[kind], kind, tmp_path / "run")
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    trained = {name for name, weight in trainer.model.named_parameters() if weight.requires_grad}
    assert trained and all(".lora_" in name for name in trained)
    trainer.train()
    after = trainer.model.state_dict()
    assert {name for name in after if not torch.equal(after[name], before[name])} <= trained
    assert any(not torch.equal(after[name], before[name]) for name in trained)
    checkpoint = tmp_path / "run" / "checkpoint-1"
    assert (checkpoint / ADAPTER_FILES[1]).is_file() and not list(checkpoint.glob("model*"))

    resumed = trainer_with_adapter(bases[kind], kind, tmp_path / "run")
    resumed.train(str(checkpoint))
    for name, weight in resumed.model.state_dict().items():
        assert torch.equal(weight, after[name]), name

    trainer.save_encoder(tmp_path / "merged")
    trainer.save_encoder(tmp_path / "alone", merged=False)
    assert has_adapter(trainer.transformer)
    assert {path.name for path in (tmp_path / "alone").glob("*model*")} == {
        "adapter_model.safetensors"
    }
    settings = json.loads((tmp_path / "alone" / ADAPTER_FILES[0]).read_text())
    assert settings["base_model_name_or_path"] == bases[kind]
    card = (tmp_path / "alone" / "README.md").read_text()
    assert "with an adapter (LORA)" in card and "merged" not in card
    assert scores(tmp_path / "alone") == pytest.approx(scores(tmp_path / "merged"), abs=1e-5)
    assert scores(tmp_path / "merged") != pytest.approx(scores(bases[kind]), abs=1e-3)
    assert StoryEncoder.from_pretrained(tmp_path / "alone").pooling == SIZES[kind]
    # A folder with the weights of both kinds can't be loaded.
    trainer.save_encoder(tmp_path / "alone")
    trainer.save_encoder(tmp_path / "merged", merged=False)
    assert scores(tmp_path / "merged") == pytest.approx(scores(tmp_path / "alone"), abs=1e-5)


def test_best_checkpoint_of_an_adapter_is_loaded_at_the_end(bases, tmp_path):
    options = {"eval_strategy": "steps", "eval_steps": 1, "load_best_model_at_end": True}
    trainer = trainer_with_adapter(bases["bert"], "bert", tmp_path, **options)
    trainer.train()
    best = load_file(Path(trainer.state.best_model_checkpoint, ADAPTER_FILES[1]))
    state = peft.get_peft_model_state_dict(trainer.transformer)
    assert best.keys() == state.keys()
    assert all(torch.equal(best[name], state[name]) for name in best)


def test_adapter_with_other_settings_is_not_resumed_from(bases, tmp_path):
    trainer_with_adapter(bases["bert"], "bert", tmp_path).train()
    model = trainable_encoder(bases["bert"], adapter=lora_config({"targets": ["query"]})).cpu()
    arguments = NarrativeTwinsTrainingArguments(str(tmp_path), max_steps=2, **QUIET)
    trainer = NarrativeTwinsTrainer(model, arguments, Dataset.from_list(TWINS[:4]))
    with pytest.raises((ValueError, RuntimeError), match="adapter|size mismatch"):
        trainer.train(str(tmp_path / "checkpoint-1"))


def test_lora_in_a_config():
    assert ScriptArguments().adapter is None
    config = ScriptArguments(lora="{rank: 4, targets: [q_proj, v_proj], dropout: 0.1}").adapter
    assert (config.r, config.lora_alpha, config.lora_dropout) == (4, 8, 0.1)
    assert config.target_modules == {"q_proj", "v_proj"}
    assert ScriptArguments(lora={}).adapter.target_modules == "all-linear"
    with pytest.raises(ValueError, match="lora has no setting 'r', but rank, alpha"):
        _ = ScriptArguments(lora={"r": 4}).adapter
    with pytest.raises(ValueError, match="lora: 16 is no mapping"):
        ScriptArguments(lora="16")


@pytest.mark.parametrize("name", ["roc_qwen3_06b_lora", "roc_qwen3_8b_lora"])
def test_configs_of_decoders(name, bases, tmp_path):
    """Two steps with a random model of the same architecture; the adapter alone is saved."""
    config = EXAMPLES / "configs" / f"{name}.yaml"
    flags = ["--config", config, "--smoke", "--encoder", bases["qwen3"], "--use_cpu"]
    flags += ["--max_steps", 2, "--max_train_rows", 8, "--per_device_train_batch_size", 4]
    flags += ["--mini_batch_size", 2, "--dtype", "bfloat16", "--bf16", "true"]
    flags += ["--eval_strategy", "no", "--output_dir", tmp_path]
    assert "2 steps" in run("train_roc.py", *flags)
    weights = load_file(tmp_path / "final" / ADAPTER_FILES[1])
    changed = [bool(weight.any()) for key, weight in weights.items() if ".lora_B." in key]
    assert changed and all(changed), "all layers have been trained, from zeros"
    encoder = StoryEncoder.from_pretrained(tmp_path / "final", device="cpu")
    assert encoder.pooling == "lasttoken"
    assert encoder.prompt.startswith("Instruct: Given a story, ")
    assert encoder.prompt.endswith("\nQuery:")
    assert len(scores(tmp_path / "final")) == 3
