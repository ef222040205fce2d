"""The parts of training scripts: settings, rows and validation. Whole scripts are in
tests/test_training_examples.py."""

import pytest
from datasets import Dataset, DatasetDict

from narrative_twins import NarrativeTwinsTrainingArguments
from narrative_twins.training.script import (
    DEFAULTS,
    SMOKE,
    ScriptArguments,
    labelled_stories,
    parse_arguments,
    select_split,
    train_and_validation,
    validation_evaluator,
)

ROWS = Dataset.from_list(
    [{"story": [f"Story {n}."], "twin": ["Twin."], "negative": ["Other."]} for n in range(5)]
)


@pytest.fixture
def config(tmp_path):
    return tmp_path / "run.yaml"


def parsed(*argv, defaults=DEFAULTS):
    argv = ["--use_cpu", *map(str, argv)]
    return parse_arguments(NarrativeTwinsTrainingArguments, defaults, SMOKE, argv=argv)


def test_precedence_is_flags_smoke_file_base_defaults(config):
    config.write_text("base: base.yaml\nseed: 7\nlearning_rate: 1e-4\nmini_batch_size: null\n")
    base = "base: ../lowest.yaml\nseed: 6\nencoder: some/one\noperations: [deletion, shifting]\n"
    (config.parent / "base.yaml").write_text(base)
    lowest = config.parents[1] / "lowest.yaml"
    lowest.write_text("max_steps: 30\nmini_batch_size: 4\nencoder: no/one\n")
    defaults = {"max_steps": 40, "save_steps": 40, "seed": 5}
    arguments, script = parsed("--config", config, defaults=defaults)
    assert (arguments.max_steps, arguments.save_steps, arguments.seed) == (30, 40, 7)
    assert (arguments.learning_rate, arguments.mini_batch_size) == (1e-4, None)
    assert (script.encoder, script.operations) == ("some/one", ["deletion", "shifting"])
    arguments, script = parsed("--config", config, "--smoke", "--seed", 9, defaults=defaults)
    assert (arguments.max_steps, arguments.seed) == (SMOKE["max_steps"], 9)
    assert script.encoder is None, "the default encoder"
    assert parsed("--smoke", "--max_steps=1")[0].max_steps == 1
    config.write_text("smoke: true")
    assert parsed("--config", config)[0].max_steps == SMOKE["max_steps"]


def test_errors_name_the_setting(config, capsys):
    for text, message in (
        ("lerning_rate: 3e-5", "run.yaml: unknown setting 'lerning_rate'"),
        ("learning_rate: high", "invalid float value: 'high'"),
    ):
        config.write_text(text)
        with pytest.raises(SystemExit):
            parsed("--config", config)
        printed = capsys.readouterr().err
        assert message in printed and len(printed.splitlines()) <= 3, "without a list of all flags"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["01234", "4"]),
        ({"eval_source": "file", "max_train_rows": 1}, ["0", "3"]),
        ({"train_source": "file"}, ["3", None]),
    ],
)
def test_rows_for_training_and_validation(settings, expected):
    sources = {
        None: DatasetDict(train=ROWS, validation=ROWS.select([4])),
        "file": DatasetDict(train=ROWS.select([3])),
    }
    sets = train_and_validation(sources.__getitem__, ScriptArguments(**settings))
    assert [rows and "".join(row["story"][0][6] for row in rows) for rows in sets] == expected
    with pytest.raises(ValueError, match="no split 'validation', only train, test"):
        select_split(DatasetDict(train=ROWS, test=ROWS), "validation")


def test_evaluators_depend_on_the_data():
    labels = {"labels": DatasetDict(train=ROWS)}
    with_points = {"story": ["A.", "B."], "turning_points": [0, 1]}
    rows = [{"story": ["A."], "turning_points": None}, with_points]
    script = ScriptArguments(salience_source="labels", max_eval_rows=3, operations=["deletion"])
    assert len(labelled_stories(labels.get, script, rows)) == 3
    assert labelled_stories(labels.get, ScriptArguments(), rows) == [with_points]
    assert labelled_stories(labels.get, ScriptArguments(), None) == []
    for lone in (None, [{"story": ["A."], "twin": ["B."], "negative": None}]):
        assert validation_evaluator(script, lone, [], 40) is None
    labelled = [{"story": ["A.", "B."], "counts": [1, 0]}]
    salience, twins = validation_evaluator(script, ROWS, labelled, 40).evaluators
    assert [operation.name for operation in salience.operations] == ["deletion"]
    assert (salience.name, twins.name, len(twins.rows)) == ("salience", "twins", 5)
    assert salience.context_tokens == twins.context_tokens == 40, "the context of training"
