"""What a user adds in one place is known everywhere: an operation, a baseline and a metric. Formats
of output and of books and recipes are added in the tests of their subpackages."""

import json
import sys
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
    name = "brevity"
    meaning = "how short the sentence is"

    def orders(self, window):
        return [window.base]

    def scores(self, window, vectors):
        return np.array([-float(len(STORY[i])) for i in range(window.lo, window.hi)])


class Vowels(Baseline):
    name = "vowels"
    meaning = "how many vowels the sentence has"

    def scores(self, story):
        return np.array([sum(map(text.count, "aeiou")) for text in story.sentences], float)


@pytest.fixture
def labels(tmp_path) -> str:
    return str(write_rows(tmp_path / "labels.jsonl", [{"story": STORY, "choices": [1, 3, 3]}]))


@pytest.fixture(autouse=True)
def registries():
    with patch.dict(OPERATIONS), patch.dict(BASELINES), patch.dict(METRICS):
        yield


def test_what_is_registered_is_evaluated_and_scored(labels, bert_folder):
    register_operation(Brevity)
    register_baseline(Vowels)
    METRICS["hit"] = Metric("Hit", lambda a, b: float(np.argmax(a) == np.argmax(b)))
    table = run("evaluate", labels, "--model", f"tiny={bert_folder}").out
    assert all(words in table for words in ("tiny brevity", "vowels", " Hit "))
    line = evaluate({}, labels, baselines="vowels").line("labels", "vowels")
    assert line["counted"]["auc"] == 1 and line["mean"]["hit"] in (0.0, 1.0)
    options = ["--model", bert_folder, "--operations", "brevity", "--format", "json"]
    (result,) = json.loads(run("score", labels, *options).out)
    assert result["scores"] == {"brevity": [-18.0, -17.0, -18.0, -9.0]}


OPENING = """
from narrative_twins import Operation, register_operation

@register_operation
class Opening(Operation):
    name = "opening"
    meaning = "how much the sentence is like the first of its window"

    def orders(self, window):
        return [(i,) for i in range(window.lo, window.hi)]

    def scores(self, window, vectors):
        return self.similarity(vectors[0], vectors)

def halves(text):
    return text.split("; ")
"""
ON_ONE_LINE = {"text": "Nadia found a map; it led to a mill. ; She wept."}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A user's module in a folder that is not on the path of modules."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    (tmp_path / "my_opening.py").write_text(OPENING, encoding="utf-8")
    yield tmp_path / "my_opening.py"
    sys.modules.pop("my_opening", None)


def test_a_module_is_imported_by_commands(module, bert_folder, tmp_path):
    """By its file, also after its operation; by its name, in the working folder. What it defines is
    a part of the settings, by which runs are resumed."""
    write_rows(tmp_path / "in.jsonl", [ON_ONE_LINE])
    score = ["score", tmp_path / "in.jsonl", "--model", bert_folder, "--operations", "opening"]
    score += ["--import", module, "--split", f"{module}:halves"]
    (row,) = run(*score, "--format", "jsonl").rows
    assert row["scores"]["opening"][0] == pytest.approx(1) and len(row["sentences"]) == 3
    out = run(*score, "--similarity", "euclidean", "--format", "json").out
    assert json.loads(out)[0]["scores"]["opening"][0] == 0, "the similarity is the option's"
    rows = [{"story": ["A.", "B b.", "C c c."], "labels": [1, 0, 2]}] * 2
    write_rows(tmp_path / "labels.jsonl", rows)
    evaluate = ["evaluate", tmp_path / "labels.jsonl", "--model", bert_folder, "--import", module]
    assert "opening" in run(*evaluate, "--operations", "opening").out
    corpus = ["corpus", "in.jsonl", "-o", "out", "--model", bert_folder, "--exact"]
    corpus += ["--operations", "opening", "--import", "my_opening", "--split", "my_opening:halves"]
    assert run(*corpus, cwd=tmp_path).code == run(*corpus, cwd=tmp_path).code == 0
    settings = json.loads((tmp_path / "out" / "_run.json").read_text(encoding="utf-8"))
    assert settings["operations"] == ["opening of my_opening"]
    assert settings["splitter"] == "halves"


@pytest.mark.slow
def test_other_processes_import_the_module(module, bert_folder, tmp_path):
    write_rows(tmp_path / "in.jsonl", [ON_ONE_LINE] * 3)
    options = ["--model", bert_folder, "--operations", "opening", "--import", module, "--exact"]
    options += ["--split", f"{module}:halves"]
    score = ["score", tmp_path / "in.jsonl", *options, "--format", "jsonl"]
    assert run(*score, "--processes", 2).rows == run(*score).rows
    corpus = ["corpus", tmp_path / "in.jsonl", *options, "--shard-rows", 2, "--processes", 2]
    assert run(*corpus, "-o", tmp_path / "out").code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--import", "no_module"], "no_module can't be imported: ModuleNotFoundError: No module"),
        (["--import", "wrong.py"], "wrong.py can't be imported: SyntaxError: "),
        (["--import", "json.py"], "json.py can't be imported: "),
        (["--operations", "opening"], "'opening' is not one of 'deletion', "),
        (["--split", "my_opening:thirds"], "from a text to its sentences, in commands MODULE:"),
        (["--split", "my_opening:__doc__"], "splitter='my_opening:__doc__': choose "),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else "",
)
def test_what_can_not_be_imported(module, tmp_path, arguments, problem):
    for name in ("wrong", "json"):
        (tmp_path / f"{name}.py").write_text("def", encoding="utf-8")
    done = run("score", "story.txt", *arguments, cwd=tmp_path)
    assert done.code in (1, 2) and problem in done.err and done.err.count("\n") == 1


def test_what_is_not_registered_is_reported():
    register_baseline(Vowels)
    for names, problem in (
        ("tails", "^unknown baseline 'tails'; choose from .*; did you mean 'trail'?"),
        (["trail", "x"], "^unknown baseline 'x'; choose from [^;]*$"),
        ([], "no baseline given; choose from "),
        (["vowels", Vowels()], "two different instances have the name 'vowels'"),
        (Vowels, "^a baseline is a name or `Baseline`, not "),
    ):
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
