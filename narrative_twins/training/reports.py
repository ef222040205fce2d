"""Reports on a training run: its curves as JSON and as a plot, its results, and its model card."""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from narrative_twins.data.rows import is_nested
from narrative_twins.encoder.adapters import has_adapter
from narrative_twins.hub.cards import encoder_card
from narrative_twins.hub.facts import EncoderFacts, Figure
from narrative_twins.hub.push import base_model
from narrative_twins.plots import style
from narrative_twins.text import one_line
from narrative_twins.writing import atomic_write

logger = logging.getLogger(__name__)

Curves = dict[str, list[tuple[int, float]]]
_NO_CURVES = ("step", "total_flos", "_runtime", "_per_second", "_sequential_score")
"""Suffixes of the names of logged numbers that are no measurements."""


def curves_of(history: Iterable[Mapping[str, Any]]) -> Curves:
    """Convert the log history of a trainer to curves: the (step, value) pairs of each quantity."""
    curves: Curves = {}
    for entry in history:
        if "train_runtime" in entry:
            continue  # the summary at the end of a run
        for name, value in entry.items():
            if isinstance(value, (int, float)) and not name.endswith(_NO_CURVES):
                curves.setdefault(name, []).append((int(entry.get("step", 0)), float(value)))
    return curves


def plot_curves(curves: Curves, path: str | Path) -> None:
    """Plot curves over steps into a file: the losses on top, other validation curves below. Raises
    ImportError without matplotlib, and ValueError or OSError if the path does not end in `.png` or
    `.svg`, or can't be written."""
    style.check_figure(path)
    panels: dict[str, list[str]] = {}
    for name in curves:
        if name.endswith("loss") or name.startswith("eval_"):
            panels.setdefault("loss" if name.endswith("loss") else "validation", []).append(name)
    with style.figure_style():
        figure = style.new_figure(style.PAGE, 2.5 * max(1, len(panels)))
        figure.set_layout_engine("constrained")
        for position, (kind, names) in enumerate(sorted(panels.items()), start=1):
            axes = figure.add_subplot(len(panels), 1, position)
            for number, name in enumerate(names):
                label = one_line(name if kind == "loss" else name.removeprefix("eval_"))
                line = style.line_style(number)
                axes.plot(*zip(*curves[name], strict=True), **line, label=label)
            axes.set(xlabel="step", ylabel=kind)
            axes.grid(alpha=0.3)
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    style.save_figure(figure, path)


class ReportCallback(TrainerCallback):
    """Writes `curves.json` into the output folder during training; at the end `eval_results.json`,
    the metrics of the last evaluation, `train_results.json`, what the run took, and `curves.png` if
    matplotlib is installed."""

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the curves so far into `curves.json`."""
        if state.is_world_process_zero:
            Path(args.output_dir).mkdir(parents=True, exist_ok=True)
            _write_json(Path(args.output_dir) / "curves.json", curves_of(state.log_history))

    def on_train_end(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Write the results, and plot the curves in `curves.png`."""
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        _write_json(folder / "eval_results.json", last_metrics(args, state))
        took = [entry for entry in state.log_history if "train_runtime" in entry][-1:]
        _write_json(folder / "train_results.json", {**dict(*took), **_machine(args, model)})
        curves = curves_of(state.log_history)
        if not curves:
            return
        try:
            plot_curves(curves, folder / "curves.png")
        except ImportError as error:
            logger.info("curves.png is not written: %s", error)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1) + "\n")


def _machine(args: Any, model: Any) -> dict[str, Any]:
    """Return facts on a run: number of parameters, device, and its peak memory (bytes or None)."""
    device, gpu_memory = platform.processor() or platform.machine(), None
    if args.device.type == "cuda":
        device, gpu_memory = torch.cuda.get_device_name(), torch.cuda.max_memory_allocated()
    parameters = sum(each.numel() for each in model.parameters())
    return {"parameters": parameters, "device": device, "gpu_memory": gpu_memory}


def training_facts(trainer: Any, evaluation_set: str) -> EncoderFacts:
    """Return facts about the encoder of a trainer, for its card. `evaluation_set` is the name of
    the data of its metrics. No text of training rows is used."""
    args, state = trainer.args, trainer.state
    model = trainer.transformer
    base, base_id = base_model(model, merged=not has_adapter(model))
    data = trainer.train_dataset or {}
    if not isinstance(data, Mapping):
        data = {"stories": data}
    described = []
    for name, rows in data.items():
        licence = getattr(getattr(rows, "info", None), "license", None) or "unknown"
        described.append(f"{name}, {len(rows):,} rows, licence {licence}")
    return EncoderFacts(
        name=f"Story encoder {Path(args.hub_model_id or args.output_dir).name}",
        base_model=base,
        base_model_id=base_id,
        training_data="; ".join(described) or "none",
        objective=f"{trainer.objective_for_card}; {state.global_step} steps of"
        f" {args.train_batch_size} rows per process, {state.epoch or 0:.2g} epochs, learning rate"
        f" {args.learning_rate:g} ({args.lr_scheduler_type.value}), weight decay"
        f" {args.weight_decay:g}",
        windows=", ".join(dict.fromkeys(map(_windows, data.values()))) or "none",
        seeds=str(args.seed),
        figures=[
            Figure(name.removeprefix("eval_").replace("_", " "), value, evaluation_set)
            for name, value in last_metrics(args, state).items()
            if name != "step" and not name.endswith("loss")
        ],
    )


def write_card(trainer: Any, folder: str | Path) -> None:
    """Write the model card of the encoder that a trainer has saved in a folder. `trainer.facts`
    replace the facts of the run."""
    facts = dict(trainer.facts)
    evaluation_set = facts.pop("evaluation_set", "validation rows of the training data")
    card = encoder_card(replace(training_facts(trainer, evaluation_set), **facts))
    Path(folder, "README.md").write_text(str(card), encoding="utf-8")


def _windows(rows: Any) -> str:
    """Return the number of windows of the first story in words: `"5 windows per story"`."""
    story = next((row.get("story") for row in rows), None)
    if not story:
        return "texts without windows"
    return f"{len(story)} windows per story" if is_nested(story) else "one window per story"


def last_metrics(args: Any, state: Any) -> dict[str, float]:
    """Return the metrics and the step of the last evaluation or, if the best checkpoint was loaded
    at the end, of the evaluation of that checkpoint."""
    best = args.load_best_model_at_end
    step = state.best_global_step if best and state.best_global_step else state.global_step
    curves = curves_of(entry for entry in state.log_history if entry["step"] == step)
    metrics = {name: points[-1][1] for name, points in curves.items() if name.startswith("eval_")}
    return metrics | {"step": step}


def run_summary(trainer: Any) -> str:
    """Return a text on a run: its last metrics, its steps, epochs and processes, and its files."""
    args, state = trainer.args, trainer.state
    processes = "1 process" if args.world_size == 1 else f"{args.world_size} processes"
    names = sorted(path.name for path in Path(args.output_dir).iterdir())
    metrics = last_metrics(args, state)
    lines = [f"{name} = {value:.4f}" for name, value in metrics.items() if name != "step"]
    return "\n".join(lines) + (
        f"\n{state.global_step} steps, {state.epoch or 0:.2f} epochs, on {processes}"
        f" ({args.device.type}); written to {args.output_dir}: {', '.join(names)}"
    )
