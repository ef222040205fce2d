"""Facts about an encoder that its trainer knows, for the model card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from narrative_twins.data.rows import is_nested
from narrative_twins.hub.checked import base_model
from narrative_twins.hub.facts import EncoderFacts, Figure

_DISTRACTORS = {"joint": "distractors", "separate": "pairs of distractors in a loss of their own"}


def training_facts(trainer: Any, evaluation_set: str) -> EncoderFacts:
    """Facts about the encoder of a `NarrativeTwinsTrainer` or `MaskedLanguageModelTrainer`, which
    has been evaluated on `evaluation_set`. Training rows are only counted, none of their text is
    used."""
    args, state = trainer.args, trainer.state
    base, base_id = base_model(trainer.transformer)
    rows = list(_data_sets(trainer.train_dataset))
    return EncoderFacts(
        name=f"Story encoder {Path(args.hub_model_id or args.output_dir).name}",
        base_model=base,
        base_model_id=base_id,
        training_data="; ".join(
            f"{name}, {_count(data)}, licence {_licence(data)}" for name, data in rows
        )
        or "none",
        objective=f"{_objective(args)}; {_settings(args, state)}",
        windows=", ".join(dict.fromkeys(_windows(data) for _, data in rows)) or "none",
        seeds=str(args.seed),
        figures=[*_figures(trainer, evaluation_set)],
    )


def _data_sets(data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        yield from data.items()
    elif data is not None:
        yield "stories", data


def _count(data: Any) -> str:
    return f"{len(data):,} rows" if hasattr(data, "__len__") else "a stream of rows"


def _licence(data: Any) -> str:
    return getattr(getattr(data, "info", None), "license", None) or "unknown"


def _windows(data: Any) -> str:
    story = next((row.get("story") for row in data), None)
    if not story:
        return "texts without windows"
    return f"{len(story)} windows per story" if is_nested(story) else "one window per story"


def _objective(args: Any) -> str:
    if not hasattr(args, "temperature"):
        return (
            f"masked language modeling (MaskedLanguageModelTrainer) of {args.mlm_probability:.0%}"
            " of the tokens"
        )
    parts = [
        "symmetric InfoNCE on cosine similarities (NarrativeTwinsLoss)",
        f"temperature {args.temperature}",
        (
            "dropout twins"
            if args.twins == "dropout"
            else "narrative twins, dropout twins for rows without a twin"
        ),
        *([_DISTRACTORS[args.distractor_loss]] if args.distractors else []),
        *(["other windows of the story as negatives"] if args.in_story_negatives else []),
        *(["no negatives of other rows"] if not args.in_batch_negatives else []),
    ]
    return ", ".join(parts)


def _settings(args: Any, state: Any) -> str:
    return (
        f"{state.global_step} steps of {args.train_batch_size} rows per process,"
        f" {state.epoch or 0:.2g} epochs, learning rate {args.learning_rate:g}"
        f" ({getattr(args.lr_scheduler_type, 'value', args.lr_scheduler_type)}), weight decay"
        f" {args.weight_decay:g}"
    )


def last_metrics(trainer: Any) -> dict[str, float]:
    """The metrics of the last evaluation, or of the best checkpoint if that was loaded at the end,
    and their step."""
    state, best = trainer.state, trainer.args.load_best_model_at_end
    step = state.best_global_step if best and state.best_global_step else state.global_step
    found = {
        key: value
        for entry in state.log_history
        if entry["step"] == step
        for key, value in entry.items()
    }
    return {key: value for key, value in found.items() if key.startswith("eval_")} | {"step": step}


def _figures(trainer: Any, evaluation_set: str) -> Iterator[Figure]:
    metrics = last_metrics(trainer)
    for evaluator in trainer.evaluators:
        for name, words in getattr(evaluator, "metric_labels", {}).items():
            if f"eval_{name}" in metrics:
                yield Figure(words, float(metrics[f"eval_{name}"]), evaluation_set)
