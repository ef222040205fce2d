"""What training scripts have in common: the data, validation, the run itself and its report.

```python
arguments, script = parse_arguments(NarrativeTwinsTrainingArguments, DEFAULTS, SMOKE)
train, validation = train_and_validation(load_story_twins, script)
evaluator = validation_evaluator(script, validation, arguments=arguments)
model = trainable_encoder(script.encoder, pooling=script.pooling, **script.encoder_options())
run_training(NarrativeTwinsTrainer(model, arguments, train, validation, evaluator=evaluator), script)
```
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
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
from narrative_twins.training.trainable import last_whole_checkpoint

logger = logging.getLogger(__name__)

SALIENCE = "salience"
"""The name of the metrics of salience."""


def train_and_validation(load: Callable[[str | None], Any], script: ScriptArguments) -> tuple[Dataset, Dataset | None]:
    """The rows to train on and those to validate with.

    Args:
        load: `load_story_twins` or `load_window_twins`.
        script: names the sources.

    Raises:
        ValueError: a source has several splits and not the one that is looked for.
    """
    data = load(script.train_source)
    train = one_split(data, "train", script.max_train_rows)
    if script.eval_source is not None:
        return train, one_split(load(script.eval_source), "validation", script.max_eval_rows)
    return train, one_split(data, "validation", script.max_eval_rows) if "validation" in data else None


def one_split(data: Mapping[str, Dataset], name: str, rows: int | None = None) -> Dataset:
    """A split of a data set, or its only one whatever it is called, as far as the first so many rows.

    Raises:
        ValueError: there are several splits, and none of this name.
    """
    if name not in data and len(data) != 1:
        raise ValueError(f"there is no split {name!r}, but {', '.join(data)}; name a file, or a folder that has it")
    split = data[name] if name in data else next(iter(data.values()))
    return split if rows is None else split.select(range(min(rows, len(split))))


def judged_stories(
    load: Callable[[str], Any], script: ScriptArguments, validation: Iterable[Mapping[str, Any]] | None
) -> list[Mapping[str, Any]]:
    """Stories with people's judgments to validate with: those of `salience_source`, or else the rows to validate with
    as far as they have turning points.

    Args:
        load: `load_story_salience` or `load_turning_points`.
        script: names the source.
        validation: the rows to validate with.
    """
    if script.salience_source is not None:
        return list(one_split(load(script.salience_source), "validation", script.max_eval_rows))
    return [row for row in validation or [] if row.get("turning_points") is not None]


def validation_evaluator(
    script: ScriptArguments,
    validation: Iterable[Mapping[str, Any]] | None,
    judged: Sequence[Mapping[str, Any]] = (),
    arguments: Any = None,
) -> SequentialEvaluator | None:
    """Validation by all that there is to validate with.

    Args:
        script: says which operations to use.
        validation: rows of narrative twins; whether twins are nearer than distractors is measured where there are both.
        judged: stories with people's judgments, as `SalienceEvaluator` takes them.
        arguments: of the trainer. Where there is nothing to validate with, they are set to train without.
    """
    context_tokens = None if arguments is None else arguments.context_tokens
    evaluators: list[Any] = []
    if judged:
        evaluators.append(
            SalienceEvaluator(judged, name=SALIENCE, operations=script.operations, context_tokens=context_tokens)
        )
    compared = [row for row in validation or [] if row["twin"] is not None and row["negative"] is not None]
    if compared:
        evaluators.append(TwinsEvaluator(compared, name="twins", context_tokens=context_tokens))
    if arguments is not None and not evaluators and validation is None:
        _train_without_validation(arguments)
    return SequentialEvaluator(evaluators) if evaluators else None


def _train_without_validation(arguments: Any) -> None:
    if arguments.eval_strategy != "no":
        logger.warning(
            "there is nothing to validate with: the rows have no split 'validation'; name one by --eval_source, or "
            "stories with people's judgments by --salience_source"
        )
    arguments.eval_strategy, arguments.do_eval = IntervalStrategy.NO, False
    arguments.load_best_model_at_end = False


def run_training(trainer: Any, script: ScriptArguments, story: Any = None) -> dict[str, float]:
    """Train, evaluate at the end too, save the encoder in the folder `final` of the output folder, push it with
    `--push_to_hub`, and report.

    Args:
        trainer: a `NarrativeTwinsTrainer` or `MaskedLanguageModelTrainer`.
        script: says whether to resume.
        story: a story that the saved encoder then reads, to look at.

    Returns:
        The metrics of the encoder that was saved.
    """
    args = trainer.args
    checkpoint = args.resume_from_checkpoint
    if checkpoint is None and script.resume and Path(args.output_dir).is_dir():
        checkpoint = last_whole_checkpoint(Path(args.output_dir))
    if args.eval_strategy != "no":
        trainer.add_callback(_EvaluateAtEnd())
    trainer.train(resume_from_checkpoint=checkpoint)
    final = Path(args.output_dir) / "final"
    _tell_the_card(trainer, script)
    trainer.save_encoder(final)
    if args.push_to_hub:
        trainer.push_to_hub()
    metrics = last_metrics(trainer)
    if trainer.is_world_process_zero():
        trainer.save_metrics("eval", metrics, combined=False)
        print(report(trainer, metrics))
        if story is not None:
            print(_reading(final, story, args.context_tokens))
    return metrics


def _tell_the_card(trainer: Any, script: ScriptArguments) -> None:
    """What the script knows of the data, and what the file of `--card` says, for the model card."""
    sources = {"training_data": script.train_source, "evaluation_set": script.salience_source or script.eval_source}
    # A path of this machine tells nobody anything, its last part may.
    known = {key: Path(name).name if Path(name).exists() else name for key, name in sources.items() if name is not None}
    said = {} if script.card is None else read_fact_values(EncoderFacts, script.card)
    trainer.facts = known | said | trainer.facts


class _EvaluateAtEnd(TrainerCallback):
    """Evaluates after the last step, whatever its number."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_evaluate |= state.global_step >= state.max_steps


def report(trainer: Any, metrics: Mapping[str, float]) -> str:
    """What was done, the final metrics as a table, and what was written."""
    args, state = trainer.args, trainer.state
    processes = f"{args.world_size} process" + ("es" if args.world_size > 1 else "")
    lines = [f"\n{state.global_step} steps, {state.epoch or 0:.2f} epochs, on {processes} ({args.device.type})"]
    table = metrics_table(metrics, trainer.evaluators)
    lines += [f"validation at step {metrics['step']}", *table] if table else ["no validation"]
    written = {
        "final": "the encoder, for sentence-transformers and narrative_twins",
        "curves.json": "loss and validation by step",
        "curves.png": "the same as a plot",
        "eval_results.json": "all figures of this validation",
    }
    checkpoints = sorted(Path(args.output_dir).glob("checkpoint-*"), key=lambda path: path.stat().st_mtime)
    written |= {path.name: "to go on from with --resume" for path in checkpoints[-1:]}
    lines += [f"\nwritten to {args.output_dir}"]
    lines += [f"  {name:<20}{what}" for name, what in written.items() if (Path(args.output_dir) / name).exists()]
    return "\n".join(lines)


def metrics_table(metrics: Mapping[str, float], evaluators: Iterable[Any]) -> list[str]:
    """Lines of a table: salience by operation, then the other metrics.

    Args:
        metrics: of the last validation, by name.
        evaluators: that they are from.
    """
    lines: list[str] = []
    others = {"eval_loss": "loss"}
    for evaluator in evaluators:
        if not isinstance(evaluator, SalienceEvaluator):
            others |= {f"eval_{name}": words for name, words in getattr(evaluator, "metric_words", {}).items()}
            continue
        columns = list(dict.fromkeys(measure.metric for measure in evaluator.measures))
        rows = []
        for operation in evaluator.operations:
            keys = [f"eval_{evaluator.full_name(Measure(operation.name, metric).key)}" for metric in columns]
            if all(key in metrics for key in keys):
                rows.append(f"  {operation.name:<28}" + "".join(f"{metrics[key]:>10.3f}" for key in keys))
        header = f"  {'':<28}" + "".join(f"{metric.words:>10}" for metric in columns)
        lines += [header, *rows] if rows else []
    return lines + [f"  {words:<28}{metrics[key]:>10.3f}" for key, words in others.items() if key in metrics]


def _reading(folder: Path, story: Any, context_tokens: int | None) -> str:
    """A story with its salience by the encoder in a folder."""
    encoder = StoryEncoder.from_pretrained(folder, context_tokens=context_tokens)
    (result,) = score_stories([{"sentences": story}], encoder, operations=PRIMARY_OPERATION, on_truncation="ignore")
    sentences = zip(result.scores[result.primary_operation], result.sentences, strict=True)
    lines = [f"  {score:.3f}  {sentence}" for score, sentence in sentences]
    return "\n".join([f"\nhow the encoder in {folder} reads a story, by {result.primary_operation}", *lines])
