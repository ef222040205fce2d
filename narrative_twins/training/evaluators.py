"""Evaluators for training: agreement with human labels, and twins nearer than distractors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from sentence_transformers.base.evaluation import BaseEvaluator

from narrative_twins.data.rows import find_column
from narrative_twins.encoder.passes import pool_windows
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.agreement import agreement_with_turning_points, agreement_with_votes
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.training.losses import DISTRACTOR, STORY, TWIN, TwinsCollator, count_windows


class StoryEvaluator(BaseEvaluator):
    """Base class of the evaluators. `name` is the prefix of the names of metrics, `primary` the
    main metric without the prefix. Texts are read up to `context_tokens` tokens."""

    greater_is_better = True

    def __init__(self, name: str, primary: str, context_tokens: int | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.prefix = f"{name}_" if name else ""
        self.name = name
        self.context_tokens = context_tokens
        self.primary_metric = self.prefix + primary

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the metrics of a `SentenceTransformer` or `StoryEncoder`, by name with prefix; nan
        for metrics that are defined for no story. A `StoryEncoder` keeps its own context instead of
        `context_tokens`. `output_path` is ignored."""
        is_encoder = isinstance(model, StoryEncoder)
        module = model.model if is_encoder else model
        was_training = module.training
        module.eval()
        try:
            with torch.inference_mode():
                encoder = model
                if not is_encoder:
                    encoder = StoryEncoder.from_sentence_transformer(
                        model, context_tokens=self.context_tokens
                    )
                values = self.evaluate(encoder)
        finally:
            module.train(was_training)
        metrics = {self.prefix + metric: value for metric, value in values.items()}
        if not is_encoder:
            self.store_metrics_in_model_card_data(model, metrics, int(epoch), steps)
        return metrics

    @abstractmethod
    def evaluate(self, encoder: StoryEncoder) -> dict[str, float]:
        """Return the metrics of an encoder, by name without prefix."""

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings that are not the defaults, for the model card of
        sentence-transformers."""
        settings = {name: getattr(self, name, None) for name in ("approximate", "context_tokens")}
        return {name: value for name, value in settings.items() if value is not None}


def _checked_mapping(row: Any) -> Mapping[str, Any]:
    """Return a row, or raise TypeError if it is none."""
    if not isinstance(row, Mapping):
        problem = f"a row is {type(row).__name__}, not a mapping"
        raise TypeError(f"{problem}; pass rows, for example from load_story_salience")
    return row


class SalienceEvaluator(StoryEvaluator):
    """Scores stories with the encoder, and measures the agreement of scores with human labels.

    Args:
        rows: labelled stories from `load_story_salience` (`story`, perhaps `windows`, and `counts`
            or `labels`), or from `load_turning_points` or `load_window_twins` (`story`, perhaps
            `windows`, and `turning_points`). ValueError if there are none, or they have different
            kinds of labels.
        operations: names or `Operation`s; default all, or in one pass all with a one-pass form.
        approximate: see `ScoringOptions`.
        name: prefix of the metric names.
        context_tokens: maximum tokens per forward pass; a `StoryEncoder` keeps its own context.

    Attributes:
        primary_metric: `NAME_summarization_spearman`, or `NAME_summarization_auc` if the labels are
            turning points; if `operations` lacks summarization, the same metric of the first
            operation. To keep the checkpoint that is best by a metric, set
            `metric_for_best_model="eval_NAME_METRIC"`.
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        operations: str | Operation | Iterable[str | Operation] | None = None,
        approximate: Literal["one-pass"] | None = None,
        name: str = "",
        context_tokens: int | None = None,
    ) -> None:
        self.rows = list(map(_checked_mapping, rows))
        # All rows have votes or other labels, or else all have turning points.
        votes = [find_column(row, "counts", "labels") for row in self.rows]
        self.has_points = all(labels is None for labels in votes)
        points = [row.get("turning_points") for row in self.rows]
        self.labels: list[Any] = points if self.has_points else votes
        if not self.rows or any(labels is None for labels in self.labels):
            raise ValueError(
                "rows with 'counts', 'labels' or 'turning_points' are needed, the same for all,"
                " for example from load_story_salience"
            )
        self.approximate = approximate
        # None means all operations that are registered when they are measured.
        self.operations: list[Operation] | None = None
        if operations is not None:
            self.operations = resolve_operations(operations, one_pass=approximate is not None)
        super().__init__(name, self._primary(), context_tokens)

    def _primary(self) -> str:
        """Return the name of the primary metric, without prefix."""
        names = [operation.name for operation in self.operations or ()] or ["summarization"]
        best = "summarization" if "summarization" in names else names[0]
        return f"{best}_{'auc' if self.has_points else 'spearman'}"

    def evaluate(self, encoder: StoryEncoder) -> dict[str, float]:
        """Return the mean over stories of each metric of agreement."""
        results = score_stories(
            [{"sentences": row["story"], "windows": row.get("windows")} for row in self.rows],
            encoder,
            operations=self.operations,
            approximate=self.approximate,
            on_truncation="ignore",
        )
        agreement = agreement_with_turning_points if self.has_points else agreement_with_votes
        return {key: mean.value for key, mean in agreement(results, self.labels).items()}


class TwinsEvaluator(StoryEvaluator):
    """Measures `accuracy`: the share of windows that are nearer to the twin than to the distractor.

    Args:
        rows: rows of narrative twins; rows without a twin or a distractor are skipped (ValueError
            if no row is left).
        name: prefix of the metric name.
        batch_size: rows encoded at a time.
        context_tokens: maximum tokens per text, as in training; ignored for a `StoryEncoder`.
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
        super().__init__(name, "accuracy", context_tokens)

    def evaluate(self, encoder: StoryEncoder) -> dict[str, float]:
        """Return `accuracy`: the share of windows, of all `rows`, whose vector is nearer to the
        vector of the twin than to the vector of the distractor."""
        collator = TwinsCollator(encoder.tokenizer)
        starts = range(0, len(self.rows), self.batch_size)
        batches = (collator(self.rows[start : start + self.batch_size]) for start in starts)
        nearer = torch.cat([_nearer(encoder, batch) for batch in batches])
        return {"accuracy": nearer.float().mean().item()}


def _nearer(encoder: StoryEncoder, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return, for each window of the stories in a batch, whether its vector is nearer to the vector
    of the same window in the twin than in the distractor; bool, shape (windows,). Windows without
    tokens in one of the texts are left out."""
    texts = {key.removeprefix("texts_"): value.to(encoder.device) for key, value in batch.items()}
    inputs = {name: texts[name] for name in ("input_ids", "attention_mask")}
    states = encoder.model(**inputs).last_hidden_state
    windows = count_windows(texts)
    vectors, present = pool_windows(states, texts["window_ids"], windows, encoder.pooling)
    story, twin, distractor = (texts["side"] == side for side in (STORY, TWIN, DISTRACTOR))
    to_twin, to_distractor = (
        torch.cosine_similarity(vectors[story], vectors[other], dim=2)
        for other in (twin, distractor)
    )
    return (to_twin > to_distractor)[present[story] & present[twin] & present[distractor]]
