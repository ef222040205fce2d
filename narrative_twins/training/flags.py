"""Settings of training scripts, from command-line flags and YAML files."""

from __future__ import annotations

import difflib
import json
import sys
from argparse import ArgumentDefaultsHelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import yaml
from transformers import HfArgumentParser

DEFAULTS: dict[str, Any] = {
    "eval_strategy": "steps",
    "eval_steps": 50,
    "save_steps": 50,
    "save_total_limit": 2,
    "logging_steps": 10,
}
"""Defaults of training scripts: how often to validate, to save a checkpoint and to log."""
SMOKE: dict[str, Any] = {
    "encoder": None,
    "dtype": "float32",
    "attn_implementation": None,
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
"""Settings of `--smoke`: a few steps on a few rows of the package's own data with its default encoder."""


@dataclass
class ScriptArguments:
    """Settings of a training script other than the arguments of the trainer."""

    config: str | None = field(default=None, metadata={"help": "A YAML file of settings; flags override it."})
    encoder: str | None = field(
        default=None, metadata={"help": "Folder or Hub id of the encoder to start from; if not set, the default one."}
    )
    pooling: Literal["mean", "first"] | None = field(
        default=None, metadata={"help": "How tokens are pooled; if not set, as in the encoder's checkpoint, else mean."}
    )
    dtype: str = field(default="float32", metadata={"help": "Precision of the weights, for example bfloat16."})
    attn_implementation: str | None = field(
        default=None, metadata={"help": "For example sdpa or flash_attention_2; if not set, transformers chooses."}
    )
    train_source: str | None = field(
        default=None, metadata={"help": "File, folder or Hub id of training rows; if not set, the package's own."}
    )
    eval_source: str | None = field(
        default=None, metadata={"help": "The same for validation; if not set, the split validation of train_source."}
    )
    salience_source: str | None = field(
        default=None, metadata={"help": "File, folder or Hub id of stories with human labels, for validation."}
    )
    operations: list[str] | None = field(
        default=None, metadata={"help": "Salience operations to validate; if not set, all. Shifting takes longest."}
    )
    max_train_rows: int | None = field(default=None, metadata={"help": "Maximum rows to train on; the first are used."})
    max_eval_rows: int | None = field(default=None, metadata={"help": "Maximum validation rows; the first are used."})
    card: str | None = field(
        default=None, metadata={"help": "A YAML file of facts for the model card: training_data, license, limits ..."}
    )
    resume: bool = field(default=False, metadata={"help": "Resume from the last checkpoint in output_dir, if any."})
    smoke: bool = field(default=False, metadata={"help": "Test run: a few steps on a few rows."})

    def encoder_options(self) -> dict[str, Any]:
        attention = {} if self.attn_implementation is None else {"attn_implementation": self.attn_implementation}
        return {"dtype": self.dtype, **attention}


def parse_arguments(
    training: type,
    defaults: Mapping[str, Any] | None = None,
    smoke: Mapping[str, Any] | None = None,
    *,
    script: type[ScriptArguments] = ScriptArguments,
    description: str | None = None,
    argv: Sequence[str] | None = None,
) -> tuple[Any, Any]:
    """Parse the command line into training arguments and script arguments.

    Flags override the settings of `--smoke`, which override the YAML file of `--config`, which overrides the defaults.
    The file maps names of flags, without dashes, to values; `null` unsets a setting.

    Args:
        training, script: the classes of the training arguments and of the script arguments.
        defaults: defaults that differ from those of the classes.
        smoke: the settings of `--smoke`, for example `SMOKE`.
        description: for `--help`.
        argv: the flags; default `sys.argv[1:]`.

    Raises:
        SystemExit: a flag or setting is invalid; printed with its source.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    usage = "%(prog)s [--config FILE] [--FLAG VALUE ...]"
    parser = _Parser([script, training], usage=usage, description=description, formatter_class=_Formatter)
    parser.set_defaults(**(defaults or {}))
    first = parser.parse_args(argv)
    settings = {} if first.config is None else _read_config(first.config, parser)
    if first.smoke or settings.get("smoke"):
        settings |= smoke or {}
    parser.set_defaults(**{key: None for key, value in settings.items() if value is None})
    found = parser.parse_args_into_dataclasses([*_flags(settings), *argv], look_for_args_file=False)
    return found[1], found[0]


class _Formatter(ArgumentDefaultsHelpFormatter, RawDescriptionHelpFormatter):
    """Shows defaults and keeps the line breaks of the description."""


class _Parser(HfArgumentParser):
    """Reports an error in one line that starts with its source."""

    source = "command line"

    def error(self, message: str) -> NoReturn:
        print(f"{self.source}: {message} (--help lists all flags)", file=sys.stderr)
        sys.exit(2)


def _read_config(path: str, parser: _Parser) -> dict[str, Any]:
    """The settings of a YAML file, after checking their names and values."""
    parser.source = path
    try:
        settings = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        parser.error(f"can't be read ({' '.join(str(error).split())})")
    if not isinstance(settings, dict):
        parser.error(f"contains a {type(settings).__name__}, not names of settings with values such as 'seed: 1'")
    known = {action.dest for action in parser._actions} - {"help", "config"}
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            parser.error(f"unknown setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    parser.parse_args(_flags(settings))
    parser.source = _Parser.source
    return settings


def _flags(settings: Mapping[str, Any]) -> list[str]:
    flags: list[str] = []
    for key, value in settings.items():
        if isinstance(value, list):
            flags += [f"--{key}", *map(str, value)]
        elif value is not None:
            flags.append(f"--{key}={json.dumps(value) if isinstance(value, dict) else value}")
    return flags
