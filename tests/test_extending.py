"""What a user adds in one place is known everywhere: an operation, a baseline and a metric. Formats
of output and of books and recipes are added in the tests of their subpackages."""

from __future__ import annotations

import json
from unittest.mock import patch

import numpy as np
import pytest

from narrative_twins import OPERATIONS, Operation, evaluate, register_operation
from narrative_twins.baselines import BASELINES, Baseline, register_baseline
from narrative_twins.commands.cli import main
from narrative_twins.evaluation.metrics import METRICS, Metric

STORY = ["Nadia found a map.", "It led to a mill.", "The mill was gone.", "She wept."]


@pytest.fixture
def labels(tmp_path) -> str:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"story": STORY, "choices": [1, 3, 3]}) + "\n")
    return str(path)


@pytest.fixture(autouse=True)
def registries():
    """What a test registers is gone after it."""
    with patch.dict(OPERATIONS), patch.dict(BASELINES), patch.dict(METRICS):
        yield


def evaluated(labels: str, bert_folder: str, capsys) -> str:
    """What the command prints on the labels."""
    assert main(["evaluate", labels, "--model", f"tiny={bert_folder}"]) == 0
    return capsys.readouterr().out


def test_an_operation(labels, bert_folder, capsys):
    @register_operation
    class Brevity(Operation):
        """Short sentences are salient."""

        name = "brevity"
        meaning = "how short the sentence is"

        def orders(self, window):
            return [window.base]

        def scores(self, window, vectors):
            return np.array([-float(len(STORY[i])) for i in range(window.lo, window.hi)])

    assert "tiny brevity" in evaluated(labels, bert_folder, capsys)
    story = ["score", labels, "--model", bert_folder, "--operations", "brevity", "--format", "json"]
    assert main(story) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["scores"] == {"brevity": [-18.0, -17.0, -18.0, -9.0]}


def test_a_baseline(labels, bert_folder, capsys):
    @register_baseline
    class Vowels(Baseline):
        """Sentences with many vowels are salient."""

        name = "vowels"
        meaning = "how many vowels the sentence has"

        def scores(self, story):
            return np.array([sum(map(text.count, "aeiou")) for text in story.sentences], float)

    assert "vowels" in evaluated(labels, bert_folder, capsys)
    line = evaluate({}, labels, baselines="vowels").line("labels", "vowels")
    assert line["counted"]["auc"] == 1


def test_a_metric(labels, bert_folder, capsys):
    def first_hit(scores, counts):
        return float(np.argmax(scores) == np.argmax(counts))

    METRICS["hit"] = Metric("hit", "Hit", first_hit, chance=0.25)
    assert "| Hit " in evaluated(labels, bert_folder, capsys).replace(" Hit |", "| Hit ")
    line = evaluate({}, labels, baselines="centre").line("labels", "centre")
    assert line["mean"]["hit"] in (0.0, 1.0)
