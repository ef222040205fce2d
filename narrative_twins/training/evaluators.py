"""Evaluators for training: salience against human labels, and how often twins are nearer than
distractors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from sentence_transformers.base.evaluation import BaseEvaluator

from narrative_twins.encoder.pooling import pool_windows
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.agreement import (
    agreement_with_turning_points,
    agreement_with_votes,
    turning_point_measures,
    vote_measures,
)
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.training.collator import DISTRACTOR, STORY, TWIN, TwinsCollator


class StoryEvaluator(BaseEvaluator):
    """Base class of the evaluators. `words` has the metrics by name, each with a readable title,
    and `metric_labels` by prefixed name, for tables and cards. The other arguments are those of
    `SalienceEvaluator`."""

    def __init__(
        self, name: str, primary: str, words: Mapping[str, str], context_tokens: int | None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.name, self.context_tokens = name, context_tokens
        self.metric_labels = {self.full_name(metric): text for metric, text in words.items()}
        self.primary_metric = self.full_name(primary)
        self.greater_is_better = True

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """The metrics of a `SentenceTransformer` or `StoryEncoder` by prefixed name; nan for
        metrics that are not defined for any story. A `StoryEncoder` keeps its own context instead
        of `context_tokens`.
        """
        with _evaluating(model, self.context_tokens) as encoder:
            found = self.evaluate(encoder)
        metrics = {self.full_name(metric): value for metric, value in found.items()}
        if not isinstance(model, StoryEncoder):
            self.store_metrics_in_model_card_data(model, metrics, int(epoch), steps)
        return metrics

    @abstractmethod
    def evaluate(self, encoder: StoryEncoder) -> dict[str, float]:
        """The metrics of an encoder, by name without prefix."""

    def full_name(self, metric: str) -> str:
        """The name of a metric with the prefix."""
        return f"{self.name}_{metric}" if self.name else metric


class SalienceEvaluator(StoryEvaluator):
    """Scores stories with the encoder in training, and measures the agreement of the scores with
    human labels.

    Args:
        rows: labelled stories from `load_story_salience` (`story`, perhaps `windows`, and `counts`
            or `labels`), or from `load_turning_points` or `load_window_twins` (`story`, perhaps
            `windows`, and `turning_points`).
        operations: names or `Operation`s; default all.
        name: prefix of the metric names.
        primary: the metric that ranks checkpoints, default `summarization_spearman`, or
            `summarization_auc` if the labels are turning points. `metric_for_best_model` of the
            arguments is then `eval_NAME_PRIMARY`.
        context_tokens: maximum tokens per forward pass; ignored for a `StoryEncoder`, which has its
            own context.
        progress: show a progress bar.

    Raises:
        ValueError: there are no rows, or one has neither `counts`, `labels` nor `turning_points`,
            or not the kind that the first one has.
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        operations: str | Operation | Iterable[str | Operation] | None = None,
        name: str = "",
        primary: str | None = None,
        context_tokens: int | None = None,
        progress: bool = False,
    ) -> None:
        self.rows = list(rows)
        self.has_points = bool(self.rows) and _labels(self.rows[0]) is None
        read, needed = (
            (_points, "'turning_points'") if self.has_points else (_labels, "'counts' or 'labels'")
        )
        given = [read(row) for row in self.rows]
        self.labels = [labels for labels in given if labels is not None]
        if not given or given[0] is None:
            raise ValueError(
                "rows with 'counts', 'labels' or 'turning_points' are needed, for example from"
                " load_story_salience"
            )
        if None in given:
            raise ValueError(
                f"row {given.index(None)} has no {needed}, which row 0 has; leave out rows without"
                " labels"
            )
        self.operations = resolve_operations(operations)
        self.progress = progress
        names = [operation.name for operation in self.operations]
        if self.has_points:
            self.measures, default = (
                turning_point_measures(names, len(self.labels[0])),
                "summarization_auc",
            )
        else:
            self.measures, default = vote_measures(names), "summarization_spearman"
        words = {measure.key: measure.label for measure in self.measures}
        super().__init__(name, primary or default, words, context_tokens)

    def evaluate(self, encoder: StoryEncoder) -> dict[str, float]:
        stories = [{"sentences": row["story"], "windows": row.get("windows")} for row in self.rows]
        results = score_stories(
            stories,
            encoder,
            operations=self.operations,
            on_truncation="ignore",
            progress=self.progress,
        )
        if self.has_points:
            found = agreement_with_turning_points(results, self.labels)
        else:
            found = agreement_with_votes(results, self.labels)
        return {key: mean.value for key, mean in found.items()}


def _labels(row: Mapping[str, Any]) -> Sequence[Any] | None:
    """The votes for each sentence, or other labels of the sentences."""
    return row["counts"] if row.get("counts") is not None else row.get("labels")


def _points(row: Mapping[str, Any]) -> Sequence[Any] | None:
    return row.get("turning_points")


class TwinsEvaluator(StoryEvaluator):
    """Measures as `accuracy` how often a window of a story is nearer to the twin's window than to
    the distractor's.

    Args:
        rows: rows of narrative twins; rows without a twin or a distractor are skipped.
        name: prefix of the metric name.
        batch_size: rows encoded at a time.
        context_tokens: maximum tokens per text, as in training; ignored for a `StoryEncoder`.

    Raises:
        ValueError: no row has both a twin and a distractor.
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        name: str = "",
        batch_size: int = 32,
        context_tokens: int | None = None,
    ) -> None:
        self.rows = [
            row for row in rows if row.get("twin") is not None and row.get("negative") is not None
        ]
        if not self.rows:
            raise ValueError("rows with both 'twin' and 'negative' are needed to compare the two")
        self.batch_size = batch_size
        super().__init__(
            name, "accuracy", {"accuracy": "Twins nearer than distractors"}, context_tokens
        )

    def evaluate(self, encoder: StoryEncoder) -> dict[str, float]:
        collator = TwinsCollator(encoder.tokens)
        nearer = [
            hit
            for batch in _batches(self.rows, self.batch_size)
            for hit in _nearer(encoder, collator(batch))
        ]
        return {"accuracy": sum(nearer) / max(1, len(nearer))}


def _nearer(encoder: StoryEncoder, batch: Mapping[str, torch.Tensor]) -> list[bool]:
    """For each window with tokens in story, twin and distractor: whether the twin is nearer."""
    texts = {key.removeprefix("texts_"): value.to(encoder.device) for key, value in batch.items()}
    states = encoder.model(
        input_ids=texts["input_ids"], attention_mask=texts["attention_mask"]
    ).last_hidden_state
    windows = int(texts["window_ids"].max()) + 1
    vectors, present = pool_windows(states, texts["window_ids"], windows, encoder.pooling)
    story, twin, distractor = (texts["side"] == side for side in (STORY, TWIN, DISTRACTOR))
    to_twin, to_distractor = (
        torch.cosine_similarity(vectors[story], vectors[other], dim=2)
        for other in (twin, distractor)
    )
    hits = (to_twin > to_distractor)[present[story] & present[twin] & present[distractor]]
    return [bool(hit) for hit in hits]


def _batches(rows: Iterable[Mapping[str, Any]], size: int) -> Iterator[list[Mapping[str, Any]]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, size)):
        yield batch


@contextmanager
def _evaluating(model: Any, context_tokens: int | None) -> Iterator[StoryEncoder]:
    """Yield the encoder of a model in evaluation mode, without gradients; restore the model's mode
    afterwards."""
    module = model.model if isinstance(model, StoryEncoder) else model
    was_training = module.training
    module.eval()
    try:
        with torch.inference_mode():
            if isinstance(model, StoryEncoder):
                yield model
            else:
                yield StoryEncoder.from_sentence_transformer(model, context_tokens=context_tokens)
    finally:
        module.train(was_training)
