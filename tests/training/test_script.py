"""The parts of training scripts: rows, validation and report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from datasets import Dataset, DatasetDict, IterableDataset

from narrative_twins import NarrativeTwinsTrainingArguments, SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.flags import ScriptArguments
from narrative_twins.training.script import (
    labelled_stories,
    metrics_table,
    select_split,
    train_and_validation,
    validation_evaluator,
)

ROWS = Dataset.from_list(
    [{"story": [f"Story {n}."], "twin": ["Twin."], "negative": ["Other."]} for n in range(5)]
)


def test_one_split():
    assert len(select_split(DatasetDict(train=ROWS, test=ROWS), "train", 2)) == 2
    assert len(select_split(DatasetDict(train=ROWS), "validation", 9)) == 5, (
        "a file has only the split train"
    )
    with pytest.raises(ValueError, match="no split 'validation', only train, test"):
        select_split(DatasetDict(train=ROWS, test=ROWS), "validation")


def test_a_stream_remains_one():
    stream = select_split({"train": ROWS.to_iterable_dataset()}, "train", 2)
    assert (
        isinstance(stream, IterableDataset)
        and [row["story"] for row in stream] == ROWS["story"][:2]
    )


def test_train_and_validation():
    sources = {
        None: DatasetDict(train=ROWS, validation=ROWS.select([4])),
        "file": DatasetDict(train=ROWS.select([3])),
    }

    def stories(**settings) -> list[list[str] | None]:
        found = train_and_validation(sources.__getitem__, ScriptArguments(**settings))
        return [None if rows is None else [row["story"][0][6] for row in rows] for rows in found]

    assert stories() == [["0", "1", "2", "3", "4"], ["4"]]
    assert stories(eval_source="file", max_train_rows=1) == [["0"], ["3"]]
    assert stories(train_source="file") == [["3"], None]


def test_judged_stories():
    labels = {"labels": DatasetDict(train=ROWS)}
    with_points = {"story": ["A.", "B."], "turning_points": [0, 1]}
    rows = [{"story": ["A."], "turning_points": None}, with_points]
    assert (
        len(
            labelled_stories(
                labels.get, ScriptArguments(salience_source="labels", max_eval_rows=3), rows
            )
        )
        == 3
    )
    assert labelled_stories(labels.get, ScriptArguments(), rows) == [with_points]
    assert (
        labelled_stories(labels.get, ScriptArguments(), None)
        == labelled_stories(labels.get, ScriptArguments(), ROWS)
        == []
    )


def test_evaluators_depend_on_the_data():
    script = ScriptArguments(operations=["deletion"])
    assert validation_evaluator(script, None) is None
    lone = [{"story": ["A."], "twin": ["B."], "negative": None}]
    assert validation_evaluator(script, lone) is None
    labelled = [{"story": ["A.", "B."], "counts": [1, 0]}]
    salience, twins = validation_evaluator(
        script, ROWS, labelled, SimpleNamespace(context_tokens=40)
    ).evaluators
    assert (salience.name, [operation.name for operation in salience.operations]) == (
        "salience",
        ["deletion"],
    )
    assert (twins.name, len(twins.rows)) == ("twins", 5)
    assert salience.context_tokens == twins.context_tokens == 40, "the context of training"


def test_metrics_table():
    metrics = {
        "eval_loss": 1.25,
        "eval_salience_deletion_spearman": 0.5,
        "eval_salience_deletion_auc": 0.75,
        "eval_salience_summarization_spearman": -0.125,
        "eval_salience_summarization_auc": 0.5,
        "eval_twins_accuracy": 1.0,
        "eval_runtime": 3.0,
    }
    evaluators = [
        SalienceEvaluator([{"story": ["A.", "B."], "counts": [1, 0]}], name="salience"),
        TwinsEvaluator([{"story": ["A."], "twin": ["B."], "negative": ["C."]}], name="twins"),
    ]
    assert [line.split() for line in metrics_table(metrics, evaluators)] == [
        ["Spearman", "AUC"],
        ["deletion", "0.500", "0.750"],
        ["summarization", "-0.125", "0.500"],
        ["loss", "1.250"],
        ["Twins", "nearer", "than", "distractors", "1.000"],
    ]
    assert metrics_table({"step": 3}, evaluators) == metrics_table({"step": 3}, []) == []


def test_without_validation_data_validation_is_turned_off(tmp_path, caplog):
    arguments = NarrativeTwinsTrainingArguments(
        str(tmp_path), eval_strategy="steps", eval_steps=1, report_to="none"
    )
    assert validation_evaluator(ScriptArguments(), None, arguments=arguments) is None
    assert (
        arguments.eval_strategy == "no" and "name validation rows with --eval_source" in caplog.text
    )
    # With validation rows, their loss is measured.
    arguments = NarrativeTwinsTrainingArguments(
        str(tmp_path), eval_strategy="steps", eval_steps=1, report_to="none"
    )
    lone = Dataset.from_list([{"story": ["a"], "twin": None, "negative": None}])
    assert validation_evaluator(ScriptArguments(), lone, arguments=arguments) is None
    assert arguments.eval_strategy == "steps"
