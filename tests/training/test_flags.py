"""Flags and YAML files of training scripts: precedence and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from narrative_twins.training import flags
from narrative_twins.training.arguments import NarrativeTwinsTrainingArguments
from narrative_twins.training.flags import DEFAULTS, SMOKE, ScriptArguments, parse_arguments


@pytest.fixture
def config(tmp_path) -> Path:
    return tmp_path / "run.yaml"


def parsed(*argv, defaults=DEFAULTS, smoke=SMOKE):
    return parse_arguments(
        NarrativeTwinsTrainingArguments, defaults, smoke, argv=["--use_cpu", *map(str, argv)]
    )


def refused(capsys, *argv) -> str:
    with pytest.raises(SystemExit) as stopped:
        parsed(*argv)
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert not printed.out and printed.err.count("\n") == 1
    return printed.err


def test_precedence_is_flags_smoke_file_defaults(config):
    config.write_text(
        "max_steps: 30\nseed: 7\neval_steps: 20\nlearning_rate: 1e-4\nencoder: some/one\n"
    )
    defaults = {"max_steps": 40, "save_steps": 40, "seed": 5}
    arguments, script = parsed("--config", config, defaults=defaults)
    assert (arguments.max_steps, arguments.save_steps, arguments.seed) == (30, 40, 7)
    assert (arguments.learning_rate, script.encoder) == (1e-4, "some/one")
    arguments, script = parsed("--config", config, "--smoke", "--seed", 9, defaults=defaults)
    assert (arguments.max_steps, arguments.seed) == (SMOKE["max_steps"], 9)
    assert script.encoder is None, "the default encoder"
    arguments, script = parsed(
        "--smoke", "--encoder", "another", "--max_steps=1", "--config", config
    )
    assert (arguments.max_steps, script.encoder) == (1, "another")
    config.write_text("smoke: true")
    assert parsed("--config", config)[0].max_steps == SMOKE["max_steps"]


def test_all_types_of_values(config):
    config.write_text(
        "operations: [deletion, summarization]\ndistractors: false\nlr_scheduler_kwargs:"
        " {num_cycles: 2}\npooling: first\nmini_batch_size: null\nrun_name: '-a- '\n"
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
        *(
            "--pooling",
            "first",
            "--twins",
            "dropout",
            "--in_story_negatives",
            "false",
            "--distractors",
            "false",
        ),
        *("--in_batch_negatives", "false", "--distractor_loss", "separate"),
        *("--encoder", "other/encoder", "--train_source", "replaced.jsonl"),
    )
    assert (script.pooling, script.encoder, script.train_source) == (
        "first",
        "other/encoder",
        "replaced.jsonl",
    )
    assert (arguments.twins, arguments.in_story_negatives, arguments.distractors) == (
        "dropout",
        False,
        False,
    )
    assert (arguments.in_batch_negatives, arguments.distractor_loss) == (False, "separate")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "seed: 1\nlerning_rate: 3e-5",
            "unknown setting 'lerning_rate'; did you mean 'learning_rate'?",
        ),
        ("xyzzy: 3", "unknown setting 'xyzzy'"),
        ("no_distractors: true", "unknown setting 'no_distractors'"),
        ("config: other.yaml", "unknown setting 'config'"),
        ("learning_rate: high", "argument --learning_rate"),
        ("distractors: 3", "argument --distractors"),
        ("pooling: max", "argument --pooling"),
        ("distractor_loss: own", "argument --distractor_loss"),
        ("- seed", "contains a list, not names of settings with values"),
        ("seed: [1", "can't be read"),
        (None, "can't be read"),
    ],
)
def test_errors_name_the_file_and_the_setting(config, capsys, text, message):
    if text is not None:
        config.write_text(text)
    assert refused(capsys, "--config", config).startswith(f"{config}: {message}")


@pytest.fixture
def based(tmp_path) -> Path:
    """A file in a folder, based on another one beside the folder, which is based on a third."""
    (tmp_path / "ablations").mkdir()
    (tmp_path / "third.yaml").write_text(
        "seed: 1\nmax_steps: 1\nmini_batch_size: 4\nencoder: some/one\n"
    )
    (tmp_path / "second.yaml").write_text("base: third.yaml\nmax_steps: 2\nlearning_rate: 1e-4\n")
    (tmp_path / "ablations" / "first.yaml").write_text(
        "base: ../second.yaml\nlearning_rate: 1e-5\nmini_batch_size: null\n"
    )
    return tmp_path / "ablations" / "first.yaml"


def test_files_may_be_based_on_others(based):
    arguments, script = parsed("--config", based, "--encoder", "another/one")
    assert (arguments.seed, arguments.max_steps, arguments.learning_rate) == (1, 2, 1e-5)
    assert arguments.mini_batch_size is None and script.encoder == "another/one"
    assert parsed("--config", based, "--smoke")[0].max_steps == SMOKE["max_steps"]


@pytest.mark.parametrize(
    ("text", "source", "message"),
    [
        (
            "lerning_rate: 1",
            "second.yaml",
            "unknown setting 'lerning_rate'; did you mean 'learning_rate'?",
        ),
        ("base: third.yaml\nseed: x", "second.yaml", "argument --seed"),
        ("bas: third.yaml", "second.yaml", "unknown setting 'bas'; did you mean 'base'?"),
        ("base: 3", "second.yaml", "base is 3, not the name of a file"),
        ("base: missing.yaml", "missing.yaml", "can't be read as the base of {folder}second.yaml"),
        ("base: second.yaml", "second.yaml", "base 'second.yaml' is based on this file itself"),
        (
            "base: ablations/first.yaml",
            "second.yaml",
            "base 'ablations/first.yaml' is based on this file itself",
        ),
        ("- seed", "second.yaml", "contains a list"),
    ],
)
def test_errors_name_the_base_that_is_wrong(based, capsys, text, source, message):
    (based.parents[1] / "second.yaml").write_text(text)
    folder = f"{based.parent}/../"
    assert refused(capsys, "--config", based).startswith(
        f"{folder}{source}: {message.format(folder=folder)}"
    )


def resolved(
    monkeypatch, device: str, *installed: str, native: bool = True, **settings
) -> dict[str, object]:
    """The encoder options of `dtype: auto` and `attn_implementation: auto`, or of other settings,
    on a machine."""
    monkeypatch.setattr(
        flags, "fast_dtype", lambda device: torch.bfloat16 if native else torch.float32
    )
    monkeypatch.setattr(flags, "find_spec", lambda name: name if name in installed else None)
    settings = {"dtype": "auto", "attn_implementation": "auto", **settings}
    return ScriptArguments(**settings).encoder_options(torch.device(device))


@pytest.mark.parametrize("package", ["flash_attn", "kernels"])
def test_auto_is_bfloat16_and_flash_attention_on_a_gpu(monkeypatch, caplog, package):
    expected = {"dtype": "bfloat16", "attn_implementation": "flash_attention_2"}
    assert resolved(monkeypatch, "cuda", package) == expected
    assert not caplog.text


@pytest.mark.parametrize(
    ("device", "options", "dtype", "told"),
    [
        ("cpu", {}, "float32", ["no GPU with bfloat16 (cpu)", "no GPU for flash attention (cpu)"]),
        ("mps", {}, "float32", ["no GPU with bfloat16 (mps)", "no GPU for flash attention (mps)"]),
        (
            "cuda",
            {"native": False},
            "float32",
            ["no GPU with bfloat16 (cuda)", "needs bfloat16 or float16, not float32"],
        ),
        ("cuda", {"dtype": "float32"}, "float32", ["needs bfloat16 or float16, not float32"]),
        ("cuda", {}, "bfloat16", ["pip install narrative_twins[flash]"]),
    ],
)
def test_auto_falls_back_and_says_so(monkeypatch, caplog, device, options, dtype, told):
    assert resolved(monkeypatch, device, **options) == {
        "dtype": dtype,
        "attn_implementation": "sdpa",
    }
    assert len(caplog.records) == len(told) and all(part in caplog.text for part in told)


def test_encoder_options_that_are_set_stay(monkeypatch, caplog):
    plain = {"dtype": "float32", "attn_implementation": None}
    assert resolved(monkeypatch, "cuda", **plain) == {"dtype": "float32"}
    eager = {"dtype": "bfloat16", "attn_implementation": "eager"}
    assert resolved(monkeypatch, "cpu", **eager) == eager
    assert not caplog.text


def test_errors_on_the_command_line(config, capsys):
    config.write_text("seed: 1")
    assert "command line: unrecognized arguments: --lerning 3" in refused(
        capsys, "--lerning", 3, "--config", config
    )
    assert "command line: argument --seed" in refused(capsys, "--config", config, "--seed", "x")


def test_usage_in_help_is_short(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    out = capsys.readouterr().out
    assert out.startswith("usage:") and "[--config FILE] [--FLAG VALUE ...]\n" in out
    assert "--in_story_negatives" in out
