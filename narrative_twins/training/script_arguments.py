"""The settings of a training script: flags, over a YAML file, over the defaults of the script."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from transformers import HfArgumentParser

from narrative_twins.encoder.adapters import lora_config
from narrative_twins.encoder.loading import Pooling
from narrative_twins.hub.facts import EncoderFacts, read_fact_values
from narrative_twins.training.trainer import last_complete_checkpoint, setting

logger = logging.getLogger(__name__)

SMOKE: dict[str, Any] = {
    "encoder": None,
    "dtype": "float32",
    "bf16": False,
    "eval_on_start": False,
    "train_source": None,
    "eval_source": None,
    "salience_source": None,
    "max_train_rows": 32,
    "max_eval_rows": 4,
    "max_steps": 4,
    "eval_steps": 2,
    "save_steps": 2,
    "logging_steps": 1,
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 2,
    "report_to": "none",
}
"""Settings of `--smoke`: a few steps on a few rows of the package's own data with its default
encoder."""


@dataclass
class ScriptArguments:
    """Settings of a training script other than the arguments of the trainer."""

    config: str | None = setting(None, "A YAML file of settings; flags override it.")
    encoder: str | None = setting(None, "Folder or Hub id to start from; default: packaged.")
    pooling: Pooling | None = setting(None, "Default: as in the checkpoint.")
    prompt: str | None = setting(None, "Read before every text; default: as in the checkpoint.")
    attn_implementation: str | None = setting(None, "For example sdpa or flash_attention_2.")
    dtype: str = setting("float32", "Precision of weights; bfloat16 for those that lora freezes.")
    lora: dict[str, Any] | str | None = setting(None, "Train an adapter only, such as {rank: 16}.")
    train_source: str | None = setting(None, "File, folder or Hub id of rows; default: packaged.")
    eval_source: str | None = setting(None, "The same; default: split validation of the training.")
    salience_source: str | None = setting(None, "Stories with human labels, for validation.")
    triples_source: str | None = setting(None, "Triples of stories to train on, too.")
    operations: list[str] | None = setting(None, "Operations to validate; default: all.")
    approximate: Literal["one-pass"] | None = setting(None, "Validate in one pass (one-pass).")
    max_train_rows: int | None = setting(None, "Maximum rows to train on; the first are used.")
    max_eval_rows: int | None = setting(None, "Maximum validation rows; the first are used.")
    card: str | None = setting(None, "A YAML file of facts for the model card, such as license.")
    estimate: bool = setting(False, "Print what training would take, and end.")
    resume: bool = setting(False, "Resume from the last checkpoint in output_dir, if any.")
    smoke: bool = setting(False, "Test run: a few steps on a few rows.")

    def __post_init__(self) -> None:
        """Read `lora`, which a flag has as text in YAML. Raises ValueError if it is no mapping, or
        has unknown settings."""
        if isinstance(self.lora, str):
            self.lora = yaml.safe_load(self.lora)
        if not isinstance(self.lora, dict | None):
            raise ValueError(f"lora: {self.lora!r} is no mapping, such as {{rank: 16}}")
        _ = self.adapter

    @property
    def adapter(self) -> Any:
        """The `peft.LoraConfig` of `lora`, for `trainable_encoder`, or None; see `lora_config`."""
        return lora_config(self.lora) if isinstance(self.lora, dict) else None

    def card_facts(self) -> dict[str, Any]:
        """Return facts for the model card: the names of the data, and the facts in the file of
        `--card`. Raises OSError or ValueError if this can't be read."""
        sources = {
            "training_data": self.train_source,
            "evaluation_set": self.salience_source or self.eval_source,
        }
        # Of a local path the card shows the last part only.
        names = {
            key: Path(source).name if Path(source).exists() else source
            for key, source in sources.items()
            if source is not None
        }
        return names | ({} if self.card is None else read_fact_values(EncoderFacts, self.card))


def parse_arguments(
    training: type,
    defaults: Mapping[str, Any],
    smoke: Mapping[str, Any],
    *,
    script: type[ScriptArguments] = ScriptArguments,
    description: str | None = None,
    argv: Sequence[str] | None = None,
) -> tuple[Any, Any]:
    """Parse the command line. Returns the training arguments and the script arguments; exits with a
    message if a flag or setting is invalid.

    Flags override the settings of `--smoke`, which override the YAML file of `--config`, which
    overrides the defaults. The file maps names of flags, without dashes, to values. Its `base` is
    the path, relative to this file, of another such file with the settings that this file lacks.
    `{seed}` in `output_dir` becomes the seed, so that each seed has its folder. With `--resume`,
    `resume_from_checkpoint` is the last complete checkpoint of this folder, if there is one.
    The batch sizes of training are of all processes together, which share each batch.

    Args:
        training, script: the classes of the training arguments and of the script arguments.
        defaults: defaults that differ from the defaults of the classes.
        smoke: settings of `--smoke` that differ from `SMOKE`.
        description: a text whose first paragraph `--help` shows.
        argv: the flags; default `sys.argv[1:]`.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = HfArgumentParser(
        [script, training],
        usage="%(prog)s [--config FILE] [--FLAG VALUE ...]",
        description=(description or "").partition("\n\n")[0],
    )
    parser.set_defaults(**defaults)
    flags = parser.parse_args(argv)
    settings = {}
    if flags.config is not None:
        try:
            settings = _read_config(Path(flags.config))
        except (OSError, ValueError, yaml.YAMLError) as error:
            parser.error(f"--config {flags.config}: {error}")
        if problem := _setting_problem(parser, settings):
            parser.error(f"{flags.config}: {problem}")
    if flags.smoke or settings.get("smoke"):
        settings |= {**SMOKE, **smoke}
    # Make settings defaults, so that flags override them, and they are parsed like flags.
    parser.set_defaults(**settings)
    flags = parser.parse_args(argv)
    if flags.estimate and not torch.accelerator.is_available():
        # The settings may be for a GPU, which the login node of a cluster lacks.
        argv += ["--use_cpu", "true"]
    if flags.output_dir is not None:
        argv += ["--output_dir", flags.output_dir.replace("{seed}", str(flags.seed))]
    try:
        parsed = parser.parse_args_into_dataclasses(argv, look_for_args_file=False)
    except ValueError as error:  # of a value that the training arguments check themselves
        parser.error(str(error))
    script_arguments, arguments = parsed
    if script_arguments.resume and arguments.resume_from_checkpoint is None:
        arguments.resume_from_checkpoint = last_complete_checkpoint(Path(arguments.output_dir))
    # A config that validates before the first step may be run without validation.
    arguments.eval_on_start &= arguments.eval_strategy != "no"
    if problem := _divide_batches(arguments):
        parser.error(problem)
    return arguments, script_arguments


def _setting_problem(parser: HfArgumentParser, settings: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the settings of a file, else None."""
    actions = {action.dest: action for action in parser._actions}
    as_flags = []
    for name, value in settings.items():
        if name not in actions:
            return f"unknown setting {name!r} (--help lists all)"
        if isinstance(value, list) and actions[name].nargs is None:
            return f"{name} takes one value, not the list {value}"
        if isinstance(value, (str, int, float)):
            as_flags.append(f"--{name}={value}")
    parser.exit_on_error = False
    try:
        parser.parse_args(as_flags)
    except argparse.ArgumentError as error:
        return str(error)
    finally:
        parser.exit_on_error = True
    return None


def _divide_batches(arguments: Any) -> str | None:
    """Divide the batch size of training by the number of processes, so that a step has as many rows
    on any number. Return what is wrong if this is not possible, else None."""
    processes = arguments.world_size * max(1, arguments.n_gpu)
    if processes == 1 and os.environ.get("ACCELERATE_USE_CPU") and "MASTER_PORT" in os.environ:
        logger.warning(
            "accelerate launch --cpu starts one process, whatever --num_processes is; to train in"
            " two: torchrun --nproc_per_node 2 SCRIPT --use_cpu"
        )
    for name in ("per_device_train_batch_size", "window_batch_size"):
        size = getattr(arguments, name, None)
        if size is None or processes == 1:
            continue
        if size % processes:
            return (
                f"{name} {size} can't be divided among {processes} processes, which share each"
                f" batch; set it to {-(-size // processes) * processes}"
            )
        setattr(arguments, name, size // processes)
    return None


def _read_config(path: Path) -> dict[str, Any]:
    """Return the settings of a YAML file and, for settings that it lacks, of its `base` file."""
    with path.open(encoding="utf-8") as file:
        settings = yaml.safe_load(file) or {}
    if not isinstance(settings, dict):
        raise ValueError(f"{path} has no settings (a line each, such as `learning_rate: 5e-5`)")
    # YAML reads `no` as False.
    settings |= {key: "no" for key in settings if key.endswith("_strategy") and not settings[key]}
    base = settings.pop("base", None)
    return settings if base is None else _read_config(path.parent / base) | settings
