"""The configs of the paper's runs have the settings of the paper, and the baseline trains."""

import json
import runpy
from functools import cache
from pathlib import Path

import pytest
from plan import read_plan
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder
from narrative_twins.training.script_arguments import ScriptArguments, parse_arguments

from support.examples import EXAMPLES
from support.examples import run as run_script

ROOT = EXAMPLES.parent
PAPER = ROOT / "research" / "paper"
MAIN_CONFIGS = EXAMPLES / "configs"
CONFIGS = sorted(
    {
        # Decoders with LoRA are no runs of the paper.
        *(path for path in MAIN_CONFIGS.glob("*.yaml") if not path.stem.endswith("_lora")),
        *PAPER.glob("configs/*.yaml"),
        *PAPER.glob("configs/ablations/*"),
    }
)


def test_smoke_of_the_baseline(tmp_path, bert_folder):
    """Masked language modeling writes what the other training scripts write."""
    flags = ["--smoke", "--encoder", bert_folder, "--use_cpu", "--output_dir", tmp_path]
    flags += ["--pooling", "first", "--operations", "deletion", "--context_tokens", 200]
    out = run_script(PAPER / "train_mlm.py", *flags, "--max_steps", 2)
    assert "2 steps" in out and "on 1 process (cpu)" in out
    for file in ("final", "curves.json", "curves.png", "eval_results.json", "checkpoint-2"):
        assert (tmp_path / file).exists() and file in out.partition("written to")[2]
    measured = json.loads((tmp_path / "eval_results.json").read_text())
    assert {"eval_twins_accuracy", "eval_loss"} <= measured.keys() and measured["step"] == 2
    assert StoryEncoder.from_pretrained(tmp_path / "final", device="cpu").pooling == "first"
    assert len(SentenceTransformer(str(tmp_path / "final"), device="cpu")) == 2
    card = (tmp_path / "final" / "README.md").read_text(encoding="utf-8")
    assert "masked language modeling" in card


def script_of(config: Path) -> str:
    """The path of the training script of a config, from the root of the repository."""
    is_baseline = config.stem.endswith("mlm")
    kind = config.stem.split("_")[0]
    return "research/paper/train_mlm.py" if is_baseline else f"examples/train_{kind}.py"


content_of = cache(runpy.run_path)


def parsed(config: Path):
    """The training arguments and script arguments of a config, as its script parses them."""
    content = content_of(str(ROOT / script_of(config)))
    names = ("NarrativeTwinsTrainingArguments", "MaskedTrainingArguments")
    kind = next(content[name] for name in names if name in content)
    options = {"script": content.get("Recipe", ScriptArguments)}
    options["argv"] = ["--config", str(config), "--use_cpu"]
    return parse_arguments(kind, content["DEFAULTS"], content["SMOKE"], **options)


SETTINGS = {
    **{"num_train_epochs": 5, "learning_rate": 3e-5, "lr_scheduler_type": "linear", "seed": 43},
    **{"weight_decay": 0.01, "warmup_steps": 0, "max_grad_norm": 0, "bf16": True, "eval_steps": 50},
    **{"dataloader_drop_last": True, "temperature": 0.05, "pooling": "mean", "twins": "narrative"},
    **{"distractors": True, "in_story_negatives": True, "in_batch_negatives": True},
    "distractor_loss": "joint",
}
ABLATIONS = {
    "roc_no_distractors_released": {"distractor_loss": "separate"},
    "roc_only_distractors": {"in_batch_negatives": False},
    "wiki_only_distractors": {"in_batch_negatives": False, "in_story_negatives": False},
    "no_distractors": {"distractors": False},
    "no_in_story_negatives": {"in_story_negatives": False},
    "no_hard_negatives": {"distractors": False, "in_story_negatives": False},
    "no_distractors_no_in_batch": {"distractors": False, "in_batch_negatives": False},
    "first_token": {"pooling": "first"},
    "dropout_twins": {"twins": "dropout"},
    "roc_entities": {"distractors": False},
    "wiki_entities": {"distractors": False, "in_story_negatives": False},
}
"""What is changed, by name, or by name without the kind of stories."""
MAIN = {"wiki_dropout_twins", "wiki_no_distractors"}
"""Configs among the ablations that are rows of the paper's main table of synopses."""


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_configs_have_the_settings_of_the_paper(config):
    """Also those of ablations, which inherit them and change what they are called."""
    kind, _, ablation = config.stem.partition("_")
    shown = config.relative_to(ROOT).as_posix()
    assert f"launch {script_of(config)} --config {shown}" in config.read_text()
    arguments, script = parsed(config)
    assert arguments.output_dir == f"runs/{config.stem}-seed43", "no run overwrites another"
    assert script.encoder and script.train_source
    is_ablation, changes = config.parent.name == "ablations", {}
    if is_ablation:
        changes = ABLATIONS[config.stem if config.stem in ABLATIONS else ablation]
        base = {"roc": "roc_bert_large.yaml", "wiki": "wiki_ettin.yaml"}[kind]
        _, full = parsed(MAIN_CONFIGS / base)
        assert script.encoder == full.encoder
        assert (script.train_source == full.train_source) is (ablation != "entities")
    rows = (4 if is_ablation and config.stem not in MAIN else 16) if kind == "wiki" else 128
    assert arguments.per_device_train_batch_size == rows
    values = vars(arguments) | {"pooling": script.pooling or "mean"}
    expected = SETTINGS | changes
    if script_of(config).endswith("train_mlm.py"):
        expected = {name: value for name, value in expected.items() if name in values}
    assert {name: values[name] for name in expected} == expected


def test_the_plan_of_the_paper_has_every_config():
    runs = read_plan(PAPER / "plan.yaml").runs.values()
    assert {run.config.resolve() for run in runs} == {*CONFIGS}
    for run in runs:
        assert run.script.resolve() == ROOT / script_of(run.config)
        assert run.settings or run.name == run.config.stem
        untrained = run.settings.get("num_train_epochs") == 0
        assert run.seeds == ([43] if untrained else [43, 127, 263])
