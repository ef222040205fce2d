"""Training on judgments of readers: `SalienceLoss`, which makes scores of operations agree with
votes for sentences, and the collator of its batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import kl_div

from narrative_twins.data.rows import RowError
from narrative_twins.encoder.tokenizer import Chunk, Ids, StoryTokenizer, Window
from narrative_twins.salience.operations import Operation, Shifting, resolve_operations
from narrative_twins.salience.options import SCORING_OPTIONS
from narrative_twins.salience.plans import Plan, planner
from narrative_twins.stories.story import Story
from narrative_twins.training.losses import (
    WindowLoss,
    checked_tokens,
    flat_text,
    padded_texts,
    warn_once,
)

TEMPERATURES = {"deletion": 0.05, "shifting": 0.02, "disruption": 0.1, "summarization": 0.1}
"""The default temperature for each operation, as scores have different ranges; 0.1 for others."""
ONE_PASS_TEMPERATURES = TEMPERATURES | {"deletion": 0.01, "shifting": 0.01, "disruption": 0.03}
"""Default temperatures in one pass, where scores of some operations vary less."""


@dataclass(frozen=True)
class JudgedWindow:
    """A window with its labels, and the places of the vectors for its scores. A place is a pair of
    indices in the window vectors of the batch, shape (texts, W, D): of a text and of its window.

    Attributes:
        window: the window.
        group: a number that windows share if their sentences are compared with each other.
        labels: the votes or label of each sentence.
        vectors: by operation, the place of the vector of each of its orders. Empty in one pass.
        parts: in one pass, the vectors from which token states are summed, else empty. Each has the
            index of its sentence in the window, or the size of the window for other tokens of the
            story; its number of tokens; and its place. A sentence in several texts has several
            parts.
    """

    window: Window
    group: int
    labels: list[float]
    vectors: dict[str, list[tuple[int, int]]]
    parts: list[tuple[int, int, int, int]]

    def scores(self, operation: Operation, vectors: Any) -> Any:
        """Return the scores of the sentences of the window by an operation, shape (window.size,),
        from the window vectors of the batch, shape (texts, W, D)."""
        if not self.parts:
            texts, places = map(list, zip(*self.vectors[operation.name], strict=True))
            return operation.scores(self.window, vectors[texts, places])
        index, tokens, texts, places = torch.tensor(self.parts, device=vectors.device).T
        sums = vectors.new_zeros(self.window.size + 1, vectors.shape[-1])
        sums = sums.index_add(0, index, vectors[texts, places] * tokens[:, None])
        return operation.one_pass(sums[:-1], sums[-1])


class JudgedStoriesCollator:
    """Collates stories with judged sentences into a batch for `SalienceLoss`.

    Rows are as from `load_story_salience`, `load_turning_points` or `load_window_twins`: `story`,
    perhaps in windows or with `windows`, and `counts`, `labels` or `turning_points`. Left out are
    windows of one sentence; windows without a vote (with `across_windows`, stories without a vote);
    and windows with a text that exceeds the context, except in one pass. Equal texts are encoded
    once.

    Args:
        tokens: the tokenizer of the encoder, `StoryEncoder.tokenizer`.
        operations, across_windows, approximate: as for `SalienceLoss`.
    """

    def __init__(
        self,
        tokens: StoryTokenizer,
        operations: str | Operation | Iterable[str | Operation] | None = None,
        across_windows: bool = False,
        approximate: Literal["one-pass"] | None = None,
    ) -> None:
        self.tokens = checked_tokens(tokens)
        self.across_windows = across_windows
        self.operations = resolve_operations(operations, one_pass=approximate is not None)
        self.plan_windows = planner(self.operations, approximate is not None)

    valid_label_columns: ClassVar[list[str]] = []
    """Required by the samplers of sentence-transformers."""

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate rows into a batch of R texts padded to T tokens: `texts_input_ids`,
        `texts_attention_mask` and `texts_window_ids` (the window that pools each token, or -1), of
        shape (R, T), and `texts_judged`, a list of `JudgedWindow`. Raises RowError."""
        texts = _Texts()
        judged: list[JudgedWindow] = []
        for number, row in enumerate(rows):
            labels = judgments(row, f"row {row.get('id', number)}")
            story = Story.parse({"sentences": row["story"], "windows": row.get("windows")})
            tokenized = self.tokens.tokenize(story.sentences)
            for plan in self.plan_windows(tokenized, story.windows):
                window = plan.window
                votes = labels[window.lo : window.hi]
                if window.size == 1 or not any(labels if self.across_windows else votes):
                    continue
                if not plan.one_pass and any(len(chunks) > 1 for chunks in plan.variants):
                    warn_once(
                        f"windows exceed the context of {self.tokens.context_tokens} tokens, and"
                        " are not trained on"
                    )
                    continue
                group = number if self.across_windows else len(judged)
                judged.append(JudgedWindow(window, group, votes, *_vectors(plan, texts)))
        return {**padded_texts(texts.texts, self.tokens.pad_id), "texts_judged": judged}


def _vectors(
    plan: Plan, texts: _Texts
) -> tuple[dict[str, list[tuple[int, int]]], list[tuple[int, int, int, int]]]:
    """Add the texts of a plan to `texts`; return `vectors` and `parts` of its `JudgedWindow`."""
    if plan.one_pass:
        return {}, [
            (index, int(chunk.pooled.sum()), *texts.add(chunk))
            for index, chunks in enumerate(plan.variants)
            for chunk in chunks
        ]
    places = [texts.add(chunk) for (chunk,) in plan.variants]
    return {operation.name: [places[i] for i in used] for operation, used in plan.operations}, []


def judgments(row: Mapping[str, Any], where: str) -> list[float]:
    """Return a number for each sentence of a row: its votes or label, or 1 for a turning point and
    0 for others. Raises RowError with the location `where` if labels are missing or invalid."""
    story = row.get("story")
    if not story or isinstance(story, str):
        raise RowError(where, "'story' must be a list of sentences")
    count = len(flat_text(story)[0])
    labels = row.get("counts") or row.get("labels") or []
    if not labels and row.get("turning_points") is not None:
        labels = [index in set(row["turning_points"]) for index in range(count)]
    if len(labels) != count or not _have_finite_sum(labels):
        problem = f"a finite number of at least 0 for each of its {count} sentences"
        raise RowError(where, f"'counts' or 'labels' must have {problem}")
    return list(map(float, labels))


def _have_finite_sum(labels: Sequence[float]) -> bool:
    """Return whether labels are numbers of at least 0 that can be divided by their sum."""
    try:
        return all(label >= 0 for label in labels) and math.isfinite(math.fsum(labels))
    except (TypeError, OverflowError):  # no numbers, or beyond the range of floats
        return False


class _Texts:
    """The distinct texts of a batch, as token ids and the window of each token, or -1. Here a
    window is any set of tokens that are pooled; two windows of a text share no token."""

    def __init__(self) -> None:
        self.texts: list[tuple[Ids, Ids]] = []
        self._places: dict[tuple[bytes, bytes], tuple[int, int]] = {}
        self._texts_of: dict[bytes, list[int]] = {}

    def add(self, chunk: Chunk) -> tuple[int, int]:
        """Add the text of a chunk, and return the place of its vector: the index of the text, and
        the number of the window that pools the tokens. Equal chunks have the same place."""
        text, pooled = chunk.ids.tobytes(), chunk.pooled.tobytes()
        if (text, pooled) not in self._places:
            same = self._texts_of.setdefault(text, [])
            # A text is encoded again if tokens of it are pooled that another window pools too.
            free = [at for at in same if (self.texts[at][1][chunk.pooled] == -1).all()]
            if not free:
                free = [len(self.texts)]
                same.append(free[0])
                self.texts.append((chunk.ids, np.full(len(chunk.ids), -1, np.int32)))
            windows = self.texts[free[0]][1]
            window = int(windows.max()) + 1
            windows[chunk.pooled] = window
            self._places[text, pooled] = free[0], window
        return self._places[text, pooled]


def _weights(weights: dict[str, float]) -> dict[str, float]:
    """Return the weights of operations; ValueError unless they are finite, at least 0 and not all
    0."""
    total = sum(weights.values())
    if not (0 < total < math.inf and min(weights.values()) >= 0):
        raise ValueError(
            f"operations={weights!r}: weights must be finite numbers of at least 0, and one of them"
            " above"
        )
    return weights


def _temperatures(
    temperature: float | Mapping[str, float] | None, usual: dict[str, float]
) -> dict[str, float]:
    """Return the temperature of each operation: one for all, or by name, or else the `usual` one.
    ValueError for a name that is not in `usual`, or a temperature that is not above 0."""
    if isinstance(temperature, (int, float)):
        temperature = dict.fromkeys(usual, temperature)
    temperatures = usual | dict(temperature or {})
    if temperatures.keys() != usual.keys() or not min(temperatures.values()) > 0:
        raise ValueError(
            f"temperature={temperature!r} must be above 0, and name only {', '.join(usual)}"
        )
    return temperatures


class SalienceLoss(WindowLoss):
    """Kullback-Leibler divergence of the scores of a window from the shares of its votes.

    The scores of a window by an operation, divided by a temperature, become shares by softmax (a
    listwise loss, as ListNet of Cao et al., 2007, "Learning to Rank: From Pairwise Approach to
    Listwise Approach"). The loss is the mean over windows of the weighted mean over operations.
    Scores are exact by default. A batch without a judged window has the loss 0.

    With `approximate="one-pass"`, a story is encoded once, or in several texts beyond the context.

    With `across_windows`, all sentences of a story are compared with each other, each scored in its
    window. The loss is then the mean over stories.

    `collator` returns the `JudgedStoriesCollator` that makes its batches.

    Args:
        model: the `SentenceTransformer` to train, a transformer and its pooling.
        operations: names or `Operation`s, or a dict of names with weights; default all that are
            registered, or in one pass all that have a one-pass form.
        temperature: one for all operations, or a dict of names with temperatures; default
            `TEMPERATURES`, in one pass `ONE_PASS_TEMPERATURES`.
        approximate: `"one-pass"`, or None for exact scores.
        max_shifts: see `Shifting`; None for all shifts, which need most of the texts.
        across_windows: as above.
        mini_batch_size: see `WindowLoss`.

    Raises:
        ValueError: an operation is unknown or lacks a one-pass form, or a setting is invalid.

    Example:
        ```python
        from narrative_twins import default_encoder
        from narrative_twins.training import SalienceLoss
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(default_encoder())
        loss = SalienceLoss(model, {"deletion": 0.5, "summarization": 1.0})
        ```
    """

    def __init__(
        self,
        model: Any,
        operations: Mapping[str, float] | str | Operation | Iterable[str | Operation] | None = None,
        temperature: float | Mapping[str, float] | None = None,
        *,
        approximate: Literal["one-pass"] | None = None,
        max_shifts: int | None = None,
        across_windows: bool = False,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__(model, mini_batch_size)
        SCORING_OPTIONS["approximate"].check("approximate", approximate)
        if approximate is not None and self.pooling != "mean":
            raise ValueError(f"approximate={approximate!r} needs mean pooling")
        self.approximate = approximate
        self.across_windows = across_windows
        self.max_shifts = max_shifts
        if max_shifts is not None and approximate is not None:
            raise ValueError(f"max_shifts={max_shifts} has no effect in one pass; leave it out")
        weights = operations if isinstance(operations, Mapping) else {}
        resolved = resolve_operations(list(weights) or operations, one_pass=approximate is not None)
        nearest = Shifting(max_shifts)
        self.operations = [nearest if type(each) is Shifting else each for each in resolved]
        names = [operation.name for operation in self.operations]
        self.weights = _weights({name: float(weights.get(name, 1.0)) for name in names})
        usual = {None: TEMPERATURES, "one-pass": ONE_PASS_TEMPERATURES}[approximate]
        self.temperatures = _temperatures(temperature, {n: usual.get(n, 0.1) for n in names})

    def collator(self, tokens: StoryTokenizer, seed: int = 0) -> JudgedStoriesCollator:
        """Return a `JudgedStoriesCollator` with the settings of this loss."""
        return JudgedStoriesCollator(tokens, self.operations, self.across_windows, self.approximate)

    def check_row(self, row: Mapping[str, Any], where: str) -> None:
        """Raise a RowError if a row has no valid judgments."""
        judgments(row, where)

    def forward(
        self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch from `JudgedStoriesCollator`; ValueError for other batches."""
        texts = dict(self.batch(sentence_features, "judged"))
        judged: list[JudgedWindow] = texts.pop("judged")
        if not judged:
            # A loss that depends on all parameters, as other processes expect.
            return sum((weight.sum() * 0.0 for weight in self.parameters()), torch.zeros(()))
        return self.loss_of_texts(texts, judged)

    def loss_of_vectors(self, vectors: Tensor, layout: Any) -> Tensor:
        """Return the mean loss of the windows in `layout`; of its stories if `across_windows`."""
        # Similarities and softmax are computed in float32, also under mixed precision.
        with torch.autocast(vectors.device.type, enabled=False):
            if vectors.dtype in (torch.float16, torch.bfloat16):
                vectors = vectors.float()
            groups: dict[int, list[JudgedWindow]] = {}
            for judged in layout:
                groups.setdefault(judged.group, []).append(judged)
            losses = [
                self._group_loss(vectors, windows)
                for windows in groups.values()
                # A story may have votes only in a window that was left out.
                if any(label for judged in windows for label in judged.labels)
            ]
            return torch.stack(losses or [vectors.sum() * 0.0]).mean()

    def _group_loss(self, vectors: Tensor, windows: list[JudgedWindow]) -> Tensor:
        """Return the loss, a scalar, of `windows` whose sentences are compared with each other,
        from the window vectors of the batch, shape (texts, W, D)."""
        labels = [label for judged in windows for label in judged.labels]
        # Divide before conversion, since votes may be beyond the range of the dtype.
        total_votes = sum(labels)
        votes = [label / total_votes for label in labels]
        shares = torch.tensor(votes, dtype=vectors.dtype, device=vectors.device)
        total = vectors.sum() * 0.0
        for operation in self.operations:
            scores = torch.cat([judged.scores(operation, vectors) for judged in windows])
            logits = scores / self.temperatures[operation.name]
            divergence = kl_div(torch.log_softmax(logits, dim=0), shares, reduction="sum")
            total = total + self.weights[operation.name] * divergence
        return total / sum(self.weights.values())

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings, for the model card."""
        names = ("approximate", "max_shifts", "across_windows", "mini_batch_size", "pooling")
        settings = {name: getattr(self, name) for name in names}
        return {"operations": self.weights, "temperature": self.temperatures, **settings}
