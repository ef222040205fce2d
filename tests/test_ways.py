"""The two ways through the package that docs/architecture.md describes, file by file: what runs is what
is written there, and it is little."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import datasets
import pytest
from transformers import pipeline

import narrative_twins

from support.models import encoder_of
from support.tracing import modules_run

ROOT = Path(__file__).parent.parent
STORY = "Omar cleaned a window. A man cried. Omar wrote a word."


def documented(heading: str) -> list[str]:
    """The modules that a section of the architecture lists, in its order."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split(f"### {heading}\n")[1].split("\n#")[0]
    files = re.findall(r"^\d+\. `([\w/]+)\.py`", section, re.M)
    return [file.replace("/", ".") for file in files]


def test_the_way_of_a_story(bert_folder):
    assert narrative_twins.__version__  # imported before the pipeline, so that the task is known

    def score():
        pipeline("narrative-salience", model=bert_folder, device="cpu", dtype="float32")(STORY)

    returns = modules_run(score)
    assert list(returns) == documented("From a story to its scores")
    assert len(returns) <= 14
    # See docs/architecture.md for what counts as a return.
    assert max(returns.values()) <= 4 and sum(returns.values()) <= 24, returns


@pytest.mark.slow
def test_the_way_of_a_training_step(tmp_path, monkeypatch):
    from narrative_twins.training.trainer import NarrativeTwinsTrainer

    class StepDone(Exception):
        """Ends the training after a step."""

    def step(self, *arguments, **options):
        original(self, *arguments, **options)
        raise StepDone

    def train():
        try:
            train_wiki.main()
        except StepDone:
            pass

    monkeypatch.syspath_prepend(ROOT / "examples")
    import train_wiki

    for part in encoder_of("bert"):
        part.save_pretrained(tmp_path / "encoder")
    monkeypatch.chdir(tmp_path)
    original = NarrativeTwinsTrainer.training_step
    monkeypatch.setattr(NarrativeTwinsTrainer, "training_step", step)
    options = ["--smoke", "--encoder", str(tmp_path / "encoder"), "--report_to", "none"]
    monkeypatch.setattr(sys, "argv", ["train_wiki.py", *options, "--use_cpu", "true"])
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    found = list(modules_run(train))
    assert found == documented("From a script to a step of training") and len(found) <= 16
