"""Settings of training scripts, from command-line flags and YAML files."""

from __future__ import annotations

import difflib
import json
import logging
import sys
from argparse import ArgumentDefaultsHelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
import yaml
from transformers import HfArgumentParser

from narrative_twins.encoder.attention import FLASH
from narrative_twins.encoder.precision import fast_dtype

logger = logging.getLogger(__name__)

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
"""Settings of `--smoke`: a few steps on a few rows of the package's own data with its default
encoder."""


@dataclass
class ScriptArguments:
    """Settings of a training script other than the arguments of the trainer."""

    config: str | None = field(
        default=None, metadata={"help": "A YAML file of settings; flags override it."}
    )
    encoder: str | None = field(
        default=None,
        metadata={
            "help": "Folder or Hub id of the encoder to start from; if not set, the default one."
        },
    )
    pooling: Literal["mean", "first"] | None = field(
        default=None,
        metadata={
            "help": "How tokens are pooled; if not set, as in the encoder's checkpoint, else mean."
        },
    )
    dtype: str = field(
        default="float32",
        metadata={
            "help": (
                "Precision of the weights: float32, bfloat16, or auto: bfloat16 on a GPU, else"
                " float32."
            )
        },
    )
    attn_implementation: str | None = field(
        default=None,
        metadata={
            "help": (
                "For example sdpa, flash_attention_2, or auto: flash attention on a GPU if it is"
                " installed, else sdpa; if not set, transformers chooses."
            )
        },
    )
    train_source: str | None = field(
        default=None,
        metadata={
            "help": "File, folder or Hub id of training rows; if not set, the package's own."
        },
    )
    eval_source: str | None = field(
        default=None,
        metadata={
            "help": "The same for validation; if not set, the split validation of train_source."
        },
    )
    salience_source: str | None = field(
        default=None,
        metadata={"help": "File, folder or Hub id of stories with human labels, for validation."},
    )
    operations: list[str] | None = field(
        default=None,
        metadata={
            "help": "Salience operations to validate; if not set, all. Shifting takes longest."
        },
    )
    max_train_rows: int | None = field(
        default=None, metadata={"help": "Maximum rows to train on; the first are used."}
    )
    max_eval_rows: int | None = field(
        default=None, metadata={"help": "Maximum validation rows; the first are used."}
    )
    card: str | None = field(
        default=None,
        metadata={
            "help": "A YAML file of facts for the model card: training_data, license, limits ..."
        },
    )
    resume: bool = field(
        default=False, metadata={"help": "Resume from the last checkpoint in output_dir, if any."}
    )
    smoke: bool = field(default=False, metadata={"help": "Test run: a few steps on a few rows."})

    def encoder_options(self, device: torch.device | None = None) -> dict[str, Any]:
        """Options for `trainable_encoder` and `masked_language_model`. A warning says where `auto`
        does not stand for bfloat16 and flash attention.

        Args:
            device: the device to train on, `arguments.device`; default the accelerator of the
                machine, else the CPU.
        """
        device = device or torch.accelerator.current_accelerator() or torch.device("cpu")
        dtype, attention = self.dtype, self.attn_implementation
        if dtype == "auto":
            dtype = "float32"
            if device.type == "cuda" and fast_dtype(device) == torch.bfloat16:
                dtype = "bfloat16"
            else:
                logger.warning(
                    "dtype auto: training in float32, since there is no GPU with bfloat16 (%s)",
                    device.type,
                )
        if attention == "auto":
            attention = FLASH
            problem = _flash_problem(device, dtype)
            if problem is not None:
                attention = "sdpa"
                logger.warning(
                    "attn_implementation auto: training with sdpa attention, since %s", problem
                )
        options: dict[str, Any] = {"dtype": dtype}
        if attention is not None:
            options["attn_implementation"] = attention
        return options


def _flash_problem(device: torch.device, dtype: str) -> str | None:
    """Why there is no flash attention; None if there is."""
    if device.type != "cuda":
        return f"there is no GPU for flash attention ({device.type})"
    if dtype not in ("bfloat16", "float16"):
        return f"flash attention needs bfloat16 or float16, not {dtype}"
    if find_spec("flash_attn") is None and find_spec("kernels") is None:
        return "flash attention is not installed (pip install narrative_twins[flash])"
    return None


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

    Flags override the settings of `--smoke`, which override the YAML file of `--config`, which
    overrides the defaults. The file maps names of flags, without dashes, to values; `null` unsets a
    setting. `base` names another such file, relative to this one, whose settings apply where this
    one has none.

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
    parser = _Parser(
        [script, training], usage=usage, description=description, formatter_class=_Formatter
    )
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
    """The settings of a YAML file and of the files that it is based on, after checking their names
    and values."""
    settings = _read_based(Path(path), parser, [])
    parser.source = _Parser.source
    return settings


def _read_based(path: Path, parser: _Parser, users: list[Path]) -> dict[str, Any]:
    """The settings of a file and of its bases; `users` are the files that are based on it."""
    parser.source = str(path)
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        used = f" as the base of {users[-1]}" if users else ""
        parser.error(f"can't be read{used} ({' '.join(str(error).split())})")
    if not isinstance(settings, dict):
        parser.error(
            f"contains a {type(settings).__name__}, not names of settings with values such as"
            " 'seed: 1'"
        )
    base = settings.pop("base", None)
    if not isinstance(base, str | None):
        parser.error(f"base is {base!r}, not the name of a file such as 'roc_bert_large.yaml'")
    known = {action.dest for action in parser._actions} - {"help", "config"}
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(str(key), known | {"base"}, n=1)
            parser.error(
                f"unknown setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
    parser.parse_args(_flags(settings))
    if base is None:
        return settings
    file = path.parent / base
    users = [*users, path]
    if any(file.resolve() == user.resolve() for user in users):
        parser.error(f"base {base!r} is based on this file itself")
    return _read_based(file, parser, users) | settings


def _flags(settings: Mapping[str, Any]) -> list[str]:
    flags: list[str] = []
    for key, value in settings.items():
        if isinstance(value, list):
            flags += [f"--{key}", *map(str, value)]
        elif value is not None:
            flags.append(f"--{key}={json.dumps(value) if isinstance(value, dict) else value}")
    return flags
