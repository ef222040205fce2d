"""Parts of training scripts: loading data, validation, the training run and its report.

```
arguments, script = parse_arguments(NarrativeTwinsTrainingArguments, DEFAULTS, SMOKE)
train, validation = train_and_validation(load_story_twins, script)
evaluator = validation_evaluator(script, validation, arguments=arguments)
model = trainable_encoder(script.encoder, pooling=script.pooling, **script.encoder_options(arguments.device))
run_training(NarrativeTwinsTrainer(model, arguments, train, validation, evaluator=evaluator), script)
```
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentence_transformers.base.evaluation import SequentialEvaluator
from transformers import TrainerCallback
from transformers.trainer_utils import IntervalStrategy

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.agreement import Measure
from narrative_twins.hub.facts import EncoderFacts, read_fact_values
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.result import PRIMARY_OPERATION
from narrative_twins.training.card import last_metrics
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.flags import ScriptArguments
from narrative_twins.training.streams import is_stream
from narrative_twins.training.trainable import last_complete_checkpoint

logger = logging.getLogger(__name__)

SALIENCE = "salience"
"""Prefix of the names of salience metrics."""


def train_and_validation(
    load: Callable[[str | None], Any], script: ScriptArguments
) -> tuple[Any, Any]:
    """Load the rows for training, and those for validation or None, from the sources of a script
    with `load_story_twins` or `load_window_twins`; streams if these stream. Errors are those of
    `select_split`.
    """
    data = load(script.train_source)
    train = select_split(data, "train", script.max_train_rows)
    if script.eval_source is not None:
        return train, select_split(load(script.eval_source), "validation", script.max_eval_rows)
    return train, (
        select_split(data, "validation", script.max_eval_rows) if "validation" in data else None
    )


def select_split(data: Mapping[str, Any], name: str, rows: int | None = None) -> Any:
    """The split of this name, or the only split under any name; only its first `rows` rows. A
    stream remains one. Raises a ValueError if there are several splits, but none of this name."""
    if name not in data and len(data) != 1:
        raise ValueError(
            f"no split {name!r}, only {', '.join(data)}; use a file, or a folder with this split"
        )
    split = data[name] if name in data else next(iter(data.values()))
    if rows is None:
        return split
    return split.take(rows) if is_stream(split) else split.select(range(min(rows, len(split))))


def labelled_stories(
    load: Callable[[str], Any],
    script: ScriptArguments,
    validation: Iterable[Mapping[str, Any]] | None,
) -> list[Mapping[str, Any]]:
    """Stories with human labels for validation: those of `salience_source`, loaded with
    `load_story_salience` or `load_turning_points`; without a source, the validation rows that have
    turning points."""
    if script.salience_source is not None:
        return list(select_split(load(script.salience_source), "validation", script.max_eval_rows))
    return [row for row in validation or [] if row.get("turning_points") is not None]


def validation_evaluator(
    script: ScriptArguments,
    validation: Iterable[Mapping[str, Any]] | None,
    judged: Sequence[Mapping[str, Any]] = (),
    arguments: Any = None,
) -> SequentialEvaluator | None:
    """A `SalienceEvaluator` for stories with human labels (`judged`) and a `TwinsEvaluator` for
    validation rows with a twin and a distractor; None if there are neither. Without any validation
    data, validation is turned off in the `arguments` of the trainer."""
    context_tokens = None if arguments is None else arguments.context_tokens
    evaluators: list[Any] = []
    if judged:
        evaluators.append(
            SalienceEvaluator(
                judged, name=SALIENCE, operations=script.operations, context_tokens=context_tokens
            )
        )
    complete = [
        row for row in validation or [] if row["twin"] is not None and row["negative"] is not None
    ]
    if complete:
        evaluators.append(TwinsEvaluator(complete, name="twins", context_tokens=context_tokens))
    if arguments is not None and not evaluators and validation is None:
        _train_without_validation(arguments)
    return SequentialEvaluator(evaluators) if evaluators else None


def _train_without_validation(arguments: Any) -> None:
    if arguments.eval_strategy != "no":
        logger.warning(
            "training without validation: there is no split 'validation'; name validation rows with"
            " --eval_source or stories with human labels with --salience_source"
        )
    arguments.eval_strategy, arguments.do_eval = IntervalStrategy.NO, False
    arguments.load_best_model_at_end = False


def run_training(trainer: Any, script: ScriptArguments, story: Any = None) -> dict[str, float]:
    """Train with an evaluation after the last step, save the encoder in the folder `final` of the
    output folder, push it if `--push_to_hub` is set, and print a report; given a story, also its
    salience scores by the saved encoder. Returns the metrics of the saved encoder."""
    args = trainer.args
    checkpoint = args.resume_from_checkpoint
    if checkpoint is None and script.resume and Path(args.output_dir).is_dir():
        checkpoint = last_complete_checkpoint(Path(args.output_dir))
    if args.eval_strategy != "no":
        trainer.add_callback(_EvaluateAtEnd())
    trainer.train(resume_from_checkpoint=checkpoint)
    final = Path(args.output_dir) / "final"
    _add_card_facts(trainer, script)
    trainer.save_encoder(final)
    if args.push_to_hub:
        trainer.push_to_hub()
    metrics = last_metrics(trainer)
    if trainer.is_world_process_zero():
        trainer.save_metrics("eval", metrics, combined=False)
        print(report(trainer, metrics))
        if story is not None:
            print(_scored_story(final, story, args.context_tokens))
    return metrics


def _add_card_facts(trainer: Any, script: ScriptArguments) -> None:
    """Add the names of the data and the facts in the file of `--card` to the facts of the
    trainer."""
    sources = {
        "training_data": script.train_source,
        "evaluation_set": script.salience_source or script.eval_source,
    }
    # Of a local path the card shows the last part only.
    names = {
        key: Path(name).name if Path(name).exists() else name
        for key, name in sources.items()
        if name is not None
    }
    given = {} if script.card is None else read_fact_values(EncoderFacts, script.card)
    trainer.facts = names | given | trainer.facts


class _EvaluateAtEnd(TrainerCallback):
    """Evaluates after the last step, also if it is not a multiple of `eval_steps`."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_evaluate |= state.global_step >= state.max_steps


def report(trainer: Any, metrics: Mapping[str, float]) -> str:
    """A report of a run: steps, final metrics as a table, and written files."""
    args, state = trainer.args, trainer.state
    processes = f"{args.world_size} process" + ("es" if args.world_size > 1 else "")
    lines = [
        f"\n{state.global_step} steps, {state.epoch or 0:.2f} epochs, on {processes}"
        f" ({args.device.type})"
    ]
    table = metrics_table(metrics, trainer.evaluators)
    lines += [f"validation at step {metrics['step']}", *table] if table else ["no validation"]
    written = {
        "final": "the encoder, for sentence-transformers and narrative_twins",
        "curves.json": "loss and validation by step",
        "curves.png": "the same as a plot",
        "eval_results.json": "all metrics of this validation",
    }
    checkpoints = sorted(
        Path(args.output_dir).glob("checkpoint-*"), key=lambda path: path.stat().st_mtime
    )
    written |= {path.name: "checkpoint for --resume" for path in checkpoints[-1:]}
    lines += [f"\nwritten to {args.output_dir}"]
    lines += [
        f"  {name:<20}{content}"
        for name, content in written.items()
        if (Path(args.output_dir) / name).exists()
    ]
    return "\n".join(lines)


def metrics_table(metrics: Mapping[str, float], evaluators: Iterable[Any]) -> list[str]:
    """The metrics of evaluators as lines of a table: salience by operation, then the other
    metrics."""
    lines: list[str] = []
    others = {"eval_loss": "loss"}
    for evaluator in evaluators:
        if not isinstance(evaluator, SalienceEvaluator):
            others |= {
                f"eval_{name}": words
                for name, words in getattr(evaluator, "metric_labels", {}).items()
            }
            continue
        columns = list(dict.fromkeys(measure.metric for measure in evaluator.measures))
        rows = []
        for operation in evaluator.operations:
            keys = [
                f"eval_{evaluator.full_name(Measure(operation.name, metric).key)}"
                for metric in columns
            ]
            if all(key in metrics for key in keys):
                rows.append(
                    f"  {operation.name:<28}" + "".join(f"{metrics[key]:>10.3f}" for key in keys)
                )
        header = f"  {'':<28}" + "".join(f"{metric.label:>10}" for metric in columns)
        lines += [header, *rows] if rows else []
    return lines + [
        f"  {words:<28}{metrics[key]:>10.3f}" for key, words in others.items() if key in metrics
    ]


def _scored_story(folder: Path, story: Any, context_tokens: int | None) -> str:
    """A story with its salience scores by the encoder in a folder."""
    encoder = StoryEncoder.from_pretrained(folder, context_tokens=context_tokens)
    (result,) = score_stories(
        [{"sentences": story}], encoder, operations=PRIMARY_OPERATION, on_truncation="ignore"
    )
    sentences = zip(result.scores[result.primary_operation], result.sentences, strict=True)
    lines = [f"  {score:.3f}  {sentence}" for score, sentence in sentences]
    return "\n".join(
        [f"\nsalience of a story ({result.primary_operation}), by the encoder in {folder}", *lines]
    )
