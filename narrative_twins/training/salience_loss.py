"""The salience loss: scores of operations are trained to agree with how readers judge sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from narrative_twins.encoder.tokens import StoryTokenizer
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.training.gathering import is_sharded
from narrative_twins.training.judgments import JudgedStoriesCollator, JudgedWindow
from narrative_twins.training.window_loss import WindowLoss

TEMPERATURES = {"deletion": 0.05, "shifting": 0.02, "disruption": 0.1, "summarization": 0.1}
"""Default temperatures, since scores of the operations have different ranges; 0.1 for other
operations."""


class SalienceLoss(WindowLoss):
    """Kullback-Leibler divergence of the scores of a window from the shares of its votes.

    The scores of a window by an operation, divided by a temperature, become shares by softmax (a
    listwise loss, as ListNet of Cao et al., 2007, "Learning to Rank: From Pairwise Approach to
    Listwise Approach"). The loss is the mean over windows of the weighted mean over operations.
    Scores are those of the operations themselves, on the texts that scoring would embed. A batch
    without a judged window has the loss 0.

    With `across_windows`, all sentences of a story are compared with each other, each scored in its
    window, for rankings of whole stories that have several windows. The mean is then over stories.

    Batches are those of `JudgedStoriesCollator`, which `NarrativeTwinsTrainer` uses for data sets
    with this loss.

    Args:
        model: the `SentenceTransformer` to train, a transformer and its pooling.
        operations: names or `Operation`s, or a dict of names with weights; default all that are
            registered.
        temperature: of all operations, or a dict of names with temperatures; default
            `TEMPERATURES`.
        max_shifts: shifting to this many positions only, see `score_stories`: exact shifting needs
            most of the texts.
        across_windows: compare the sentences of all windows of a story, not those of each window
            alone.
        mini_batch_size: see `WindowLoss`.

    Raises:
        ValueError: an operation is unknown, or a setting invalid.
    """

    def __init__(
        self,
        model: Any,
        operations: Mapping[str, float] | str | Operation | Iterable[str | Operation] | None = None,
        temperature: float | Mapping[str, float] | None = None,
        *,
        max_shifts: int | None = None,
        across_windows: bool = False,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__(model, mini_batch_size)
        self.across_windows = across_windows
        weights = operations if isinstance(operations, Mapping) else {}
        self.max_shifts = max_shifts
        self.operations = resolve_operations(
            list(weights) if weights else operations, max_shifts=max_shifts
        )
        names = [operation.name for operation in self.operations]
        self.weights = {name: float(weights.get(name, 1.0)) for name in names}
        if not all(0 <= weight < float("inf") for weight in self.weights.values()) or not any(
            self.weights.values()
        ):
            raise ValueError(
                f"operations={operations!r}: weights must be at least 0, and one of them above"
            )
        given = (
            temperature if isinstance(temperature, Mapping) else dict.fromkeys(names, temperature)
        )
        self.temperatures = {
            name: (
                TEMPERATURES.get(name, 0.1) if given.get(name) is None else float(given[name] or 0)
            )
            for name in names
        }
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ValueError(
                f"temperature has {unknown[0]!r}, which is not among the operations"
                f" {', '.join(names)}"
            )
        if not all(0 < value < float("inf") for value in self.temperatures.values()):
            raise ValueError(f"temperature={temperature!r} must be above 0")

    def collator(self, tokens: StoryTokenizer) -> JudgedStoriesCollator:
        """What makes batches for this loss; `tokens` is the tokenizer of the encoder,
        `StoryEncoder.tokens`."""
        return JudgedStoriesCollator(tokens, self.operations, across_windows=self.across_windows)

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch from `JudgedStoriesCollator`, a scalar. Raises ValueError for other
        batches."""
        features = list(sentence_features)
        if len(features) != 1 or "judged" not in features[0]:
            raise ValueError(
                "SalienceLoss needs batches of JudgedStoriesCollator, and this one has"
                f" {len(features)} column(s) of plain text; train with NarrativeTwinsTrainer on"
                " rows of load_story_salience, or give data_collator=loss.collator(tokens) to the"
                " trainer of sentence-transformers"
            )
        judged: list[JudgedWindow] = features[0]["judged"]
        texts = {name: features[0][name] for name in ("input_ids", "attention_mask", "window_ids")}
        if not judged and is_sharded(self.model):
            # Other processes wait for a forward pass.
            texts = {
                name: values.new_full((1, 1), name == "attention_mask")
                for name, values in texts.items()
            }
        elif not judged:
            # A loss that all parameters have a part in, as other processes expect.
            return sum((weight.sum() * 0.0 for weight in self.parameters()), torch.zeros(()))
        return self.loss_of_texts(texts, judged)

    def loss_of_vectors(self, vectors: Tensor, layout: Any) -> Tensor:
        # Similarities and softmax are computed in float32, also under mixed precision.
        with torch.autocast(vectors.device.type, enabled=False):
            flat = vectors.flatten(0, 1)
            flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
            groups: dict[int, list[JudgedWindow]] = {}
            for judged in layout:
                groups.setdefault(judged.group, []).append(judged)
            losses = [self._group_loss(flat, windows) for windows in groups.values()]
            # A story may have votes only in a window that was left out.
            return torch.stack(
                [loss for loss in losses if loss is not None] or [flat.sum() * 0.0]
            ).mean()

    def _group_loss(self, vectors: Tensor, windows: list[JudgedWindow]) -> Tensor | None:
        """The loss of the sentences that are compared with each other; None if they have no
        votes."""
        labels = [label for judged in windows for label in judged.labels]
        if not any(labels):
            return None
        shares = torch.tensor(labels, dtype=vectors.dtype, device=vectors.device) / sum(labels)
        losses = []
        for operation in self.operations:
            weight, temperature = self.weights[operation.name], self.temperatures[operation.name]
            scores = torch.cat([self._scores(operation, vectors, judged) for judged in windows])
            predicted = torch.log_softmax(scores / temperature, dim=0)
            losses.append(weight * torch.nn.functional.kl_div(predicted, shares, reduction="sum"))
        return torch.stack(losses).sum() / sum(self.weights.values())

    @staticmethod
    def _scores(operation: Operation, vectors: Tensor, judged: JudgedWindow) -> Tensor:
        found: Any = vectors[
            judged.vectors[operation.name]
        ]  # a tensor, which `scores` takes like an array
        scores: Any = operation.scores(judged.window, found)
        return scores  # type: ignore[no-any-return]

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        return {
            "operations": self.weights,
            "temperature": self.temperatures,
            "max_shifts": self.max_shifts,
            "across_windows": self.across_windows,
            "mini_batch_size": self.mini_batch_size,
            "pooling": self.pooling,
        }
