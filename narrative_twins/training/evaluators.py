"""Evaluators for training: salience against human labels, and whether twins are nearer than distractors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from sentence_transformers.base.evaluation import BaseEvaluator

from narrative_twins.encoder.pooling import pool_windows
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.agreement import agreement_with_turning_points, agreement_with_votes
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import Operation
from narrative_twins.training.collator import DISTRACTOR, STORY, TWIN, TwinsCollator


class SalienceEvaluator(BaseEvaluator):
    """Scores stories with the encoder in training and holds the scores against people's judgments.

    Args:
        rows: stories with their judgments, as `load_story_salience` (`story`, `counts`) or `load_turning_points`
            (`story`, `windows`, `turning_points`) give them; `load_window_twins` has turning points too.
        operations: names or `Operation`s; default all.
        name: goes before the names of the metrics.
        primary: the metric by which checkpoints are compared; default the Spearman of summarization, or its AUC where
            the judgments are turning points. `metric_for_best_model` of the arguments is `eval_NAME_PRIMARY`.
        context_tokens: read at most so many tokens at once; a `StoryEncoder` knows that itself.
        progress: show a progress bar.

    Raises:
        ValueError: there are no rows, or they have neither `counts` nor `turning_points`.
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
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows = list(rows)
        kinds = [kind for kind in ("counts", "turning_points") if self.rows and self.rows[0].get(kind) is not None]
        if not kinds:
            raise ValueError("rows with 'counts' or 'turning_points' are needed; load_story_salience gives such")
        self.judgments = kinds[0]
        self.operations = operations
        self.name = name
        self.context_tokens = context_tokens
        self.progress = progress
        metric = primary or ("summarization_spearman" if self.judgments == "counts" else "summarization_auc")
        self.primary_metric = f"{name}_{metric}" if name else metric
        self.greater_is_better = True

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """The metrics of a `SentenceTransformer` or `StoryEncoder`, by name; nan where no story has an agreement."""
        with _evaluating(model, self.context_tokens) as encoder:
            stories = [{"sentences": row["story"], "windows": row.get("windows")} for row in self.rows]
            results = score_stories(
                stories, encoder, operations=self.operations, on_truncation="ignore", progress=self.progress
            )
            measure = agreement_with_votes if self.judgments == "counts" else agreement_with_turning_points
            found = measure(results, [row[self.judgments] for row in self.rows])
        metrics = self.prefix_name_to_metrics({key: value.value for key, value in found.items()}, self.name)
        if not isinstance(model, StoryEncoder):
            self.store_metrics_in_model_card_data(model, metrics, int(epoch), steps)
        return metrics


class TwinsEvaluator(BaseEvaluator):
    """How often a twin is nearer to its story than the distractor is, window by window, as `accuracy`.

    Args:
        rows: rows of narrative twins; those without a twin or a distractor are left out.
        name: goes before the name of the metric.
        batch_size: rows encoded at a time.

    Raises:
        ValueError: no row has both a twin and a distractor.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], *, name: str = "", batch_size: int = 32) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows = [row for row in rows if row.get("twin") is not None and row.get("negative") is not None]
        if not self.rows:
            raise ValueError("rows with both 'twin' and 'negative' are needed to compare the two")
        self.name = name
        self.batch_size = batch_size
        self.primary_metric = f"{name}_accuracy" if name else "accuracy"
        self.greater_is_better = True

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """The accuracy of a `SentenceTransformer` or `StoryEncoder`."""
        with _evaluating(model) as encoder:
            collator = TwinsCollator(encoder.tokens)
            nearer = [
                hit for batch in _batches(self.rows, self.batch_size) for hit in _nearer(encoder, collator(batch))
            ]
        metrics = self.prefix_name_to_metrics({"accuracy": sum(nearer) / max(1, len(nearer))}, self.name)
        if not isinstance(model, StoryEncoder):
            self.store_metrics_in_model_card_data(model, metrics, int(epoch), steps)
        return metrics


def _nearer(encoder: StoryEncoder, batch: Mapping[str, torch.Tensor]) -> list[bool]:
    """For each window of a batch that has tokens on all sides, whether the twin is nearer."""
    texts = {key.removeprefix("texts_"): value.to(encoder.device) for key, value in batch.items()}
    states = encoder.model(input_ids=texts["input_ids"], attention_mask=texts["attention_mask"]).last_hidden_state
    windows = int(texts["window_ids"].max()) + 1
    vectors, present = pool_windows(states, texts["window_ids"], windows, encoder.pooling)
    story, twin, distractor = (texts["side"] == side for side in (STORY, TWIN, DISTRACTOR))
    to_twin, to_distractor = (
        torch.cosine_similarity(vectors[story], vectors[other], dim=2) for other in (twin, distractor)
    )
    hits = (to_twin > to_distractor)[present[story] & present[twin] & present[distractor]]
    return [bool(hit) for hit in hits]


def _batches(rows: Iterable[Mapping[str, Any]], size: int) -> Iterator[list[Mapping[str, Any]]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, size)):
        yield batch


@contextmanager
def _evaluating(model: Any, context_tokens: int | None = None) -> Iterator[StoryEncoder]:
    """The encoder of a model, without gradients and dropout; afterwards the model trains again if it did."""
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
