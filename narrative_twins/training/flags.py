"""Flags of training scripts, and YAML files of them: what a run is asked to do."""

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
"""What training scripts set where nothing else is asked for: validation, a checkpoint to go on from, curves."""
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
"""What `--smoke` sets: a run of a few steps on a few rows of the package's own data with its default encoder."""


@dataclass
class ScriptArguments:
    """What a training script asks besides the arguments of the trainer."""

    config: str | None = field(default=None, metadata={"help": "A YAML file of flags; those given here overrule it."})
    encoder: str | None = field(
        default=None, metadata={"help": "Folder or Hub id of the encoder to start from; default the package's own."}
    )
    pooling: Literal["mean", "first"] | None = field(
        default=None, metadata={"help": "How tokens are pooled; default what the encoder's checkpoint says, else mean."}
    )
    dtype: str = field(default="float32", metadata={"help": "Precision of the weights, such as bfloat16."})
    attn_implementation: str | None = field(
        default=None, metadata={"help": "Such as sdpa or flash_attention_2; default what transformers chooses."}
    )
    train_source: str | None = field(
        default=None, metadata={"help": "File, folder or Hub id of the rows to train on; default the package's own."}
    )
    eval_source: str | None = field(
        default=None, metadata={"help": "The same to validate with; default the split validation of train_source."}
    )
    salience_source: str | None = field(
        default=None, metadata={"help": "File, folder or Hub id of people's judgments to validate with."}
    )
    operations: list[str] | None = field(
        default=None, metadata={"help": "Operations to validate with; default all. Shifting takes the longest."}
    )
    max_train_rows: int | None = field(default=None, metadata={"help": "Train on the first so many rows only."})
    max_eval_rows: int | None = field(default=None, metadata={"help": "Validate with the first so many rows only."})
    card: str | None = field(
        default=None, metadata={"help": "A YAML file of what the model card says: training_data, license, limits ..."}
    )
    resume: bool = field(
        default=False, metadata={"help": "Go on from the last checkpoint in output_dir, where there is one."}
    )
    smoke: bool = field(default=False, metadata={"help": "Try the script: a few steps on a few rows."})

    def encoder_options(self) -> dict[str, Any]:
        """Options for loading the encoder."""
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
    """Training arguments and script from the command line.

    A flag on the command line overrules what `--smoke` sets, that the YAML file of `--config`, that the defaults. A
    file has names of flags, without dashes, and their values; `null` stands for none.

    Args:
        training: the class of the training arguments.
        defaults: of the script, where they differ from those of the classes.
        smoke: what `--smoke` sets, such as `SMOKE`.
        script: the class of the other arguments.
        description: for `--help`.
        argv: the flags; default those of the command line.

    Raises:
        SystemExit: a flag or a line of the file is wrong; says which, and what would be right.
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
    """Shows defaults, and leaves the description as it is."""


class _Parser(HfArgumentParser):
    """Says where a mistake is, in one line."""

    source = "command line"

    def error(self, message: str) -> NoReturn:
        print(f"{self.source}: {message} (--help lists all flags)", file=sys.stderr)
        sys.exit(2)


def _read_config(path: str, parser: _Parser) -> dict[str, Any]:
    """The settings of a YAML file, each one known and with a value of its kind."""
    parser.source = path
    try:
        settings = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        parser.error(f"can't be read ({' '.join(str(error).split())})")
    if not isinstance(settings, dict):
        parser.error(f"holds {type(settings).__name__}; names of flags and their values are needed, 'seed: 1'")
    known = {action.dest for action in parser._actions} - {"help", "config"}
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            parser.error(f"there is no setting {key!r}" + (f"; perhaps {near[0]!r} is meant" if near else ""))
    parser.parse_args(_flags(settings))
    parser.source = _Parser.source
    return settings


def _flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as flags of a command line."""
    flags: list[str] = []
    for key, value in settings.items():
        if isinstance(value, list):
            flags += [f"--{key}", *map(str, value)]
        elif value is not None:
            flags.append(f"--{key}={json.dumps(value) if isinstance(value, dict) else value}")
    return flags
