"""Flags and YAML files of training scripts: precedence and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrative_twins.training.arguments import NarrativeTwinsTrainingArguments
from narrative_twins.training.flags import DEFAULTS, SMOKE, parse_arguments


@pytest.fixture
def config(tmp_path) -> Path:
    return tmp_path / "run.yaml"


def parsed(*argv, defaults=DEFAULTS, smoke=SMOKE):
    return parse_arguments(NarrativeTwinsTrainingArguments, defaults, smoke, argv=["--use_cpu", *map(str, argv)])


def refused(capsys, *argv) -> str:
    with pytest.raises(SystemExit) as stopped:
        parsed(*argv)
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert not printed.out and printed.err.count("\n") == 1
    return printed.err


def test_precedence_is_flags_smoke_file_defaults(config):
    config.write_text("max_steps: 30\nseed: 7\neval_steps: 20\nlearning_rate: 1e-4\nencoder: some/one\n")
    defaults = {"max_steps": 40, "save_steps": 40, "seed": 5}
    arguments, script = parsed("--config", config, defaults=defaults)
    assert (arguments.max_steps, arguments.save_steps, arguments.seed) == (30, 40, 7)
    assert (arguments.learning_rate, script.encoder) == (1e-4, "some/one")
    arguments, script = parsed("--config", config, "--smoke", "--seed", 9, defaults=defaults)
    assert (arguments.max_steps, arguments.seed) == (SMOKE["max_steps"], 9)
    assert script.encoder is None, "the default encoder"
    arguments, script = parsed("--smoke", "--encoder", "another", "--max_steps=1", "--config", config)
    assert (arguments.max_steps, script.encoder) == (1, "another")
    config.write_text("smoke: true")
    assert parsed("--config", config)[0].max_steps == SMOKE["max_steps"]


def test_all_types_of_values(config):
    config.write_text(
        "operations: [deletion, summarization]\ndistractors: false\nlr_scheduler_kwargs: {num_cycles: 2}\n"
        "pooling: first\nmini_batch_size: null\nrun_name: '-a- '\n"
    )
    arguments, script = parsed("--config", config, defaults={"mini_batch_size": 3})
    assert script.operations == ["deletion", "summarization"]
    assert script.pooling == "first"
    assert arguments.distractors is False
    assert arguments.lr_scheduler_kwargs == {"num_cycles": 2}
    assert arguments.mini_batch_size is None
    assert arguments.run_name == "-a- "


def test_the_ablations_are_flags():
    arguments, script = parsed(
        *("--pooling", "first", "--twins", "dropout", "--in_story_negatives", "false", "--distractors", "false"),
        *("--encoder", "other/encoder", "--train_source", "replaced.jsonl"),
    )
    assert (script.pooling, script.encoder, script.train_source) == ("first", "other/encoder", "replaced.jsonl")
    assert (arguments.twins, arguments.in_story_negatives, arguments.distractors) == ("dropout", False, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nlerning_rate: 3e-5", "unknown setting 'lerning_rate'; did you mean 'learning_rate'?"),
        ("xyzzy: 3", "unknown setting 'xyzzy'"),
        ("no_distractors: true", "unknown setting 'no_distractors'"),
        ("config: other.yaml", "unknown setting 'config'"),
        ("learning_rate: high", "argument --learning_rate"),
        ("distractors: 3", "argument --distractors"),
        ("pooling: max", "argument --pooling"),
        ("- seed", "contains a list, not names of settings with values"),
        ("seed: [1", "can't be read"),
        (None, "can't be read"),
    ],
)
def test_errors_name_the_file_and_the_setting(config, capsys, text, message):
    if text is not None:
        config.write_text(text)
    assert refused(capsys, "--config", config).startswith(f"{config}: {message}")


def test_errors_on_the_command_line(config, capsys):
    config.write_text("seed: 1")
    assert "command line: unrecognized arguments: --lerning 3" in refused(capsys, "--lerning", 3, "--config", config)
    assert "command line: argument --seed" in refused(capsys, "--config", config, "--seed", "x")


def test_usage_in_help_is_short(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    out = capsys.readouterr().out
    assert out.startswith("usage:") and "[--config FILE] [--FLAG VALUE ...]\n" in out
    assert "--in_story_negatives" in out
