"""The loss and validation curves of a training run, as JSON and as a plot."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from narrative_twins.files import AtomicFile
from narrative_twins.plots.style import (
    PAGE,
    check_figure,
    figure_style,
    line_style,
    new_figure,
    printable,
    save_figure,
)

logger = logging.getLogger(__name__)

Curves = dict[str, list[tuple[int, float]]]

_SKIPPED = ("epoch", "step", "total_flos")
_SKIPPED_SUFFIXES = ("_runtime", "_per_second")


def curves_of(history: Iterable[Mapping[str, Any]]) -> Curves:
    """The log history of a trainer as curves: for each logged quantity its steps and values."""
    curves: Curves = {}
    for entry in history:
        for name, value in entry.items():
            # Only the summary that is logged at the end of a run has "train_runtime".
            if name in _SKIPPED or name.endswith(_SKIPPED_SUFFIXES) or "train_runtime" in entry:
                continue
            if isinstance(value, (int, float)):
                curves.setdefault(name, []).append((int(entry.get("step", 0)), float(value)))
    return curves


def save_curves(curves: Curves, path: str | Path) -> None:
    """Write curves as JSON, atomically."""
    with AtomicFile(str(path)) as file:
        file.write(json.dumps(curves, indent=1) + "\n")


def plot_curves(curves: Curves, path: str | Path) -> None:
    """Plot curves over steps: the losses on top, other validation curves below.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError, OSError: the path does not end in `.png` or `.svg`, or can't be written.
    """
    check_figure(path)
    losses = {name: points for name, points in curves.items() if name.endswith("loss")}
    others = {
        name: points
        for name, points in curves.items()
        if name.startswith("eval_") and name not in losses
    }
    panels = [(kind, lines) for kind, lines in (("loss", losses), ("validation", others)) if lines]
    with figure_style():
        figure = new_figure(PAGE, 2.5 * max(1, len(panels)))
        figure.set_layout_engine("constrained")
        for position, (kind, lines) in enumerate(panels, start=1):
            axes = figure.add_subplot(len(panels), 1, position)
            for number, (name, points) in enumerate(lines.items()):
                label = printable(name if kind == "loss" else name.removeprefix("eval_"))
                axes.plot(*zip(*points, strict=True), **line_style(number), label=label)
            axes.set(xlabel="step", ylabel=kind)
            axes.grid(alpha=0.3)
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save_figure(figure, path)


class CurvesCallback(TrainerCallback):
    """Updates `curves.json` in the output folder during training, and plots `curves.png` at the
    end."""

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            Path(args.output_dir).mkdir(parents=True, exist_ok=True)
            save_curves(curves_of(state.log_history), Path(args.output_dir) / "curves.json")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Plot the curves, if matplotlib is installed."""
        curves = curves_of(state.log_history)
        if not state.is_world_process_zero or not curves:
            return
        try:
            plot_curves(curves, Path(args.output_dir) / "curves.png")
        except ModuleNotFoundError as error:
            logger.info("curves.png is not written: %s", error)
