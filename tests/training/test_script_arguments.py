"""The settings of training scripts. Whole scripts are in tests/test_training_examples.py."""

import pytest
import torch

from narrative_twins import NarrativeTwinsTrainingArguments
from narrative_twins.training import ScriptArguments, parse_arguments
from narrative_twins.training.script_arguments import SMOKE


@pytest.fixture
def config(tmp_path):
    return tmp_path / "run.yaml"


def parsed(*argv, defaults=None):
    argv = ["--use_cpu", *map(str, argv)]
    return parse_arguments(NarrativeTwinsTrainingArguments, defaults or {}, {}, argv=argv)


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
        (
            "learning_rate: high",
            "run.yaml: argument --learning_rate/--learning-rate: invalid float",
        ),
        ("max_steps: 1.5", "run.yaml: argument --max_steps/--max-steps: invalid int value: '1.5'"),
        (
            "eval_strategy: often",
            "run.yaml: argument --eval_strategy/--eval-strategy: invalid choice",
        ),
        ("max_steps: [1]", "run.yaml: max_steps takes one value, not the list [1]"),
        ("lora: {rnak: 3}", "lora has no setting 'rnak', but rank,"),
        ("only words", "run.yaml has no settings"),
        ("base: nowhere.yaml", "run.yaml: [Errno 2] No such file or directory: "),
    ):
        config.write_text(text)
        with pytest.raises(SystemExit):
            parsed("--config", config)
        printed = capsys.readouterr().err
        assert message in printed and len(printed.splitlines()) <= 3, "without a list of all flags"


def test_a_config_that_is_no_yaml_is_an_error_with_its_line(config, capsys):
    config.write_text("seed: [1\nmax_steps: 2")
    with pytest.raises(SystemExit):
        parsed("--config", config)
    assert 'run.yaml", line 2' in capsys.readouterr().err


def test_resuming_and_validation_follow_from_other_settings(tmp_path):
    """`--resume` names the last complete checkpoint; without validation there is none at the start
    either."""
    for step in (2, 4):
        (tmp_path / f"checkpoint-{step}").mkdir()
    (tmp_path / "checkpoint-2" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-best").mkdir()
    (tmp_path / "killed" / "checkpoint-2").mkdir(parents=True)
    flags = ["--output_dir", tmp_path, "--eval_on_start"]
    last = str(tmp_path / "checkpoint-2")
    for more, resumed in (
        ([], None),
        (["--resume"], last),
        (["--resume", "--resume_from_checkpoint", "other"], "other"),
        (["--resume", "--output_dir", tmp_path / "new"], None),
        (["--resume", "--output_dir", tmp_path / "killed"], None),
    ):
        assert parsed(*flags, *more)[0].resume_from_checkpoint == resumed
    defaults = {"eval_strategy": "steps"}
    assert parsed(*flags, defaults=defaults)[0].eval_on_start
    assert not parsed(*flags, "--eval_strategy", "no", defaults=defaults)[0].eval_on_start


def test_a_config_may_say_no_to_validation(config):
    """YAML reads it as False."""
    config.write_text("eval_strategy: no\nsave_strategy: no\n")
    arguments, _ = parsed("--config", config, defaults={"eval_strategy": "steps"})
    assert (arguments.eval_strategy, arguments.save_strategy) == ("no", "no")


@pytest.mark.skipif(torch.accelerator.is_available(), reason="of machines without a GPU")
def test_settings_of_a_gpu_are_estimated_on_a_machine_without_one():
    flags = ["--bf16", "--output_dir", "runs", "--estimate"]
    arguments, _ = parse_arguments(NarrativeTwinsTrainingArguments, {}, {}, argv=flags)
    assert arguments.bf16 and arguments.use_cpu


@pytest.mark.parametrize(("world", "gpus"), [(4, 1), (2, 2), (4, 0)])
def test_processes_share_each_batch(world, gpus, monkeypatch, capsys):
    """On one process the sizes are those of the flags."""
    flags = "--per_device_train_batch_size", 16, "--window_batch_size", 4
    assert parsed(*flags)[0].per_device_train_batch_size == 16
    for name, value in (("world_size", world), ("n_gpu", gpus)):
        monkeypatch.setattr(NarrativeTwinsTrainingArguments, name, value)
    arguments, _ = parsed(*flags)
    assert (arguments.per_device_train_batch_size, arguments.window_batch_size) == (4, 1)
    with pytest.raises(SystemExit):
        parsed("--per_device_train_batch_size", 18)
    message = (
        "batch_size 18 can't be divided among 4 processes, which share each batch; set it to 20"
    )
    assert message in capsys.readouterr().err


def test_launch_of_two_processes_on_a_cpu_starts_one(monkeypatch, caplog):
    """`accelerate launch --cpu --num_processes 2` sets these variables."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    parsed()
    assert "starts one process" not in caplog.text
    monkeypatch.setenv("MASTER_PORT", "29500")
    parsed()
    assert "torchrun --nproc_per_node 2" in caplog.text


def test_facts_for_the_card(tmp_path):
    """Of a path only the last part is shown."""
    (tmp_path / "card.yaml").write_text("license: mit\n")
    (tmp_path / "rows.jsonl").touch()
    sources = {"train_source": str(tmp_path / "rows.jsonl"), "eval_source": "user/rows"}
    facts = ScriptArguments(**sources, card=str(tmp_path / "card.yaml")).card_facts()
    assert facts == {"training_data": "rows.jsonl", "evaluation_set": "user/rows", "license": "mit"}
    assert ScriptArguments().card_facts() == {}
