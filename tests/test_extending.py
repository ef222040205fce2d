"""What a user adds in one place is known everywhere: an operation, a baseline and a metric. Formats
of output and of books and recipes are added in the tests of their subpackages."""

from __future__ import annotations

import json
from unittest.mock import patch

import numpy as np
import pytest

from narrative_twins import OPERATIONS, Operation, evaluate, register_operation
from narrative_twins.baselines import BASELINES, Baseline, register_baseline
from narrative_twins.evaluation.metrics import METRICS, Metric

from support.command import run
from support.rows import write_rows

STORY = ["Nadia found a map.", "It led to a mill.", "The mill was gone.", "She wept."]


class Brevity(Operation):
    """Short sentences are salient."""

    name = "brevity"
    meaning = "how short the sentence is"

    def orders(self, window):
        return [window.base]

    def scores(self, window, vectors):
        return np.array([-float(len(STORY[i])) for i in range(window.lo, window.hi)])


class Vowels(Baseline):
    """Sentences with many vowels are salient."""

    name = "vowels"
    meaning = "how many vowels the sentence has"

    def scores(self, story):
        return np.array([sum(map(text.count, "aeiou")) for text in story.sentences], float)


@pytest.fixture
def labels(tmp_path) -> str:
    return str(write_rows(tmp_path / "labels.jsonl", [{"story": STORY, "choices": [1, 3, 3]}]))


@pytest.fixture(autouse=True)
def registries():
    """What a test registers is gone after it."""
    with patch.dict(OPERATIONS), patch.dict(BASELINES), patch.dict(METRICS):
        yield


def test_what_is_registered_is_evaluated_and_scored(labels, bert_folder):
    register_operation(Brevity)
    register_baseline(Vowels)
    METRICS["hit"] = Metric("hit", "Hit", lambda a, b: float(np.argmax(a) == np.argmax(b)), 0.25)
    table = run("evaluate", labels, "--model", f"tiny={bert_folder}").out
    assert all(words in table for words in ("tiny brevity", "vowels", " Hit "))
    line = evaluate({}, labels, baselines="vowels").line("labels", "vowels")
    assert line["counted"]["auc"] == 1 and line["mean"]["hit"] in (0.0, 1.0)
    options = ["--model", bert_folder, "--operations", "brevity", "--format", "json"]
    (result,) = json.loads(run("score", labels, *options).out)
    assert result["scores"] == {"brevity": [-18.0, -17.0, -18.0, -9.0]}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("tails", "^unknown baseline 'tails'; choose from .*; did you mean 'trail'?"),
        (["trail", "x"], "^unknown baseline 'x'; choose from [^;]*$"),
        ([], "no baseline given; choose from "),
        (["vowels", Vowels()], "two different instances have the name 'vowels'"),
        (Vowels, "^a baseline is a name or `Baseline`, not "),
        (5, "^a baseline is a name or `Baseline`, not 5"),
    ],
    ids=["near", "unknown", "none", "same name", "class", "number"],
)
def test_what_is_not_registered_is_reported(names, problem):
    register_baseline(Vowels)
    with pytest.raises((TypeError, ValueError), match=problem):
        BASELINES.resolve(names)


def test_items_are_resolved_by_name_and_a_class_replaces_only_itself():
    register_baseline(Vowels)
    names = ["vowels", "trail", "vowels"]
    assert [each.name for each in BASELINES.resolve(names)] == ["vowels", "trail"]
    assert [each.name for each in BASELINES.resolve(None)] == list(BASELINES)
    ours, before = Vowels(), BASELINES["vowels"]
    assert BASELINES.resolve(ours) == [ours] == BASELINES.resolve(iter([ours]))
    register_baseline(Vowels)
    assert BASELINES["vowels"] is not before and list(BASELINES)[-1] == "vowels"
    with pytest.raises(ValueError, match=r"baseline 'vowels' exists already \(Vowels\)"):
        register_baseline(type("Consonants", (Vowels,), {}))
