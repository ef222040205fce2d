"""Parts of training scripts: settings, data, validation, and the training run with its report.
`examples/train_roc.py` shows how they are put together."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from sentence_transformers.base.evaluation import SequentialEvaluator
from transformers import HfArgumentParser, TrainerCallback

from narrative_twins.encoder.loading import Pooling
from narrative_twins.hub.facts import EncoderFacts, read_fact_values
from narrative_twins.salience.options import Approximation
from narrative_twins.training.curves_and_card import last_metrics, summary
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.trainer import last_complete_checkpoint, setting, trainable_encoder

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
    train_source: str | None = setting(None, "File, folder or Hub id of rows; default: packaged.")
    eval_source: str | None = setting(None, "The same; default: split validation of the training.")
    salience_source: str | None = setting(None, "Stories with human labels, for validation.")
    operations: list[str] | None = setting(None, "Operations to validate; default: all.")
    approximate: Approximation | None = setting(None, "Validate in one pass (one-pass).")
    max_train_rows: int | None = setting(None, "Maximum rows to train on; the first are used.")
    max_eval_rows: int | None = setting(None, "Maximum validation rows; the first are used.")
    card: str | None = setting(None, "A YAML file of facts for the model card, such as license.")
    resume: bool = setting(False, "Resume from the last checkpoint in output_dir, if any.")
    smoke: bool = setting(False, "Test run: a few steps on a few rows.")

    def load_encoder(self) -> Any:
        """Load the encoder to train, see `trainable_encoder`."""
        return trainable_encoder(
            self.encoder,
            pooling=self.pooling,
            prompt=self.prompt,
            attn_implementation=self.attn_implementation,
        )


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
    `{seed}` in `output_dir` becomes the seed, so that each seed has its folder.

    Args:
        training, script: the classes of the training arguments and of the script arguments.
        defaults: defaults that differ from the defaults of the classes.
        smoke: the settings of `--smoke`, for example `SMOKE`.
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
    settings = {} if flags.config is None else _read_config(Path(flags.config))
    unknown = sorted(settings.keys() - {action.dest for action in parser._actions})
    if unknown:
        parser.error(f"{flags.config}: unknown setting {unknown[0]!r} (--help lists all)")
    if flags.smoke or settings.get("smoke"):
        settings |= smoke
    # Make settings defaults, so that flags override them, and they are parsed like flags.
    parser.set_defaults(**settings)
    flags = parser.parse_args(argv)
    if flags.output_dir is not None:
        argv += ["--output_dir", flags.output_dir.replace("{seed}", str(flags.seed))]
    script_arguments, arguments = parser.parse_args_into_dataclasses(argv, look_for_args_file=False)
    return arguments, script_arguments


def _read_config(path: Path) -> dict[str, Any]:
    """Return the settings of a YAML file and, for settings that it lacks, of its `base` file."""
    with path.open(encoding="utf-8") as file:
        settings: dict[str, Any] = yaml.safe_load(file) or {}
    base = settings.pop("base", None)
    return settings if base is None else _read_config(path.parent / base) | settings


def train_and_validation(
    load: Callable[[str | None], Any], script: ScriptArguments
) -> tuple[Any, Any]:
    """Return the rows for training, from `train_source`, and the rows for validation or None, from
    `eval_source` or the split `validation` of the training data. `load` is `load_story_twins` or
    `load_window_twins`. Raises ValueError if a split is missing."""
    data = load(script.train_source)
    train = select_split(data, "train", script.max_train_rows)
    if script.eval_source is not None:
        data = load(script.eval_source)
    elif "validation" not in data:
        return train, None
    return train, select_split(data, "validation", script.max_eval_rows)


def select_split(data: Mapping[str, Any], name: str, rows: int | None = None) -> Any:
    """Return the split `name` of a data set or, if the data set has one split of another name, this
    split; with `rows`, only the first rows. Raises ValueError if there is neither."""
    if name not in data and len(data) != 1:
        raise ValueError(
            f"no split {name!r}, only {', '.join(data)}; use a file, or a folder with this split"
        )
    split = data[name] if name in data else next(iter(data.values()))
    return split if rows is None else split.select(range(min(rows, len(split))))


def labelled_stories(
    load: Callable[[str], Any],
    script: ScriptArguments,
    validation: Iterable[Mapping[str, Any]] | None,
) -> list[Mapping[str, Any]]:
    """Return stories with human labels for validation: from `salience_source`, by `load`
    (`load_story_salience` or `load_turning_points`), or else rows of `validation` with turning
    points."""
    if script.salience_source is not None:
        return list(select_split(load(script.salience_source), "validation", script.max_eval_rows))
    return [row for row in validation or [] if row.get("turning_points") is not None]


def validation_evaluator(
    script: ScriptArguments,
    validation: Iterable[Mapping[str, Any]] | None,
    judged: Sequence[Mapping[str, Any]],
    context_tokens: int | None,
) -> SequentialEvaluator | None:
    """Return a `SalienceEvaluator` for stories with human labels (`judged`) and a `TwinsEvaluator`
    for validation rows with a twin and a distractor; None if there are no such stories and rows."""
    evaluators: list[Any] = []
    if judged:
        options: dict[str, Any] = {"approximate": script.approximate}
        options |= {"operations": script.operations, "context_tokens": context_tokens}
        name = "salience" if script.approximate is None else "one_pass"
        evaluators.append(SalienceEvaluator(judged, name=name, **options))
    rows = list(validation or [])
    if any(row["twin"] is not None and row["negative"] is not None for row in rows):
        evaluators.append(TwinsEvaluator(rows, name="twins", context_tokens=context_tokens))
    return SequentialEvaluator(evaluators) if evaluators else None


class _EvaluateAtEnd(TrainerCallback):
    """Evaluates after the last step, also if it is not a multiple of `eval_steps`."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_evaluate |= state.global_step >= state.max_steps


def run_training(trainer: Any, script: ScriptArguments) -> None:
    """Train with an evaluation after the last step, save the encoder in the folder `final` of the
    output folder, push it if `--push_to_hub` is set, and print a report."""
    args = trainer.args
    checkpoint = args.resume_from_checkpoint
    if checkpoint is None and script.resume:
        checkpoint = last_complete_checkpoint(Path(args.output_dir))
    if args.eval_strategy != "no":
        trainer.add_callback(_EvaluateAtEnd())
    args.eval_on_start &= args.eval_strategy != "no"
    trained = trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_metrics("train", trained.metrics | _machine(trainer), combined=False)
    trainer.facts = _card_facts(script) | trainer.facts
    trainer.save_encoder(Path(args.output_dir) / "final")
    if args.push_to_hub:
        trainer.push_to_hub()
    metrics = last_metrics(trainer)
    trainer.save_metrics("eval", metrics, combined=False)
    trainer.log_metrics("eval", metrics)
    if trainer.is_world_process_zero():
        print(summary(trainer))


def _machine(trainer: Any) -> dict[str, Any]:
    """Return facts on a run: number of parameters, device, and its peak memory (bytes or None)."""
    parameters, gpu = sum(each.numel() for each in trainer.model.parameters()), None
    device = platform.processor() or platform.machine()
    if trainer.args.device.type == "cuda":
        device, gpu = torch.cuda.get_device_name(), torch.cuda.max_memory_allocated()
    return {"parameters": parameters, "device": device, "gpu_memory": gpu}


def _card_facts(script: ScriptArguments) -> dict[str, Any]:
    """Return facts for the model card: names of the data, and the facts in the file of `--card`."""
    sources = {
        "training_data": script.train_source,
        "evaluation_set": script.salience_source or script.eval_source,
    }
    # Of a local path the card shows the last part only.
    names = {
        key: Path(source).name if Path(source).exists() else source
        for key, source in sources.items()
        if source is not None
    }
    return names | ({} if script.card is None else read_fact_values(EncoderFacts, script.card))
