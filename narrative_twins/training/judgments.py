"""Batches of judged stories: the texts that operations need to score them, and how readers judged
their sentences."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from narrative_twins.data.rows import RowError, is_nested
from narrative_twins.encoder.tokens import Chunk, Ids, StoryTokenizer
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.plans import exact_plans
from narrative_twins.stories.story import Story
from narrative_twins.stories.windows import Window

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JudgedWindow:
    """A window of a story, with what is needed to score it.

    Attributes:
        window: the window.
        group: a number that windows share whose sentences are compared with each other.
        labels: the votes or labels of its sentences.
        vectors: by operation, the vectors of its orders, as indices in the window vectors of the
            batch, R * W.
    """

    window: Window
    group: int
    labels: list[float]
    vectors: dict[str, list[int]]


class JudgedStoriesCollator:
    """Collates stories with judged sentences into a batch for `SalienceLoss`.

    Rows are those of `load_story_salience` (`story`, perhaps `windows`, and `counts` or `labels`),
    or of `load_turning_points` or `load_window_twins` (`story`, perhaps in windows, and
    `turning_points`). Windows without a vote, of one sentence, or whose texts exceed the context
    are left out; equal texts are encoded once.

    Args:
        tokens: the tokenizer of the encoder, `StoryEncoder.tokens`.
        operations: names or `Operation`s that are trained; default all that are registered.
        across_windows: whether the sentences of all windows of a story are compared with each
            other, see `SalienceLoss`. Windows without a vote are then left out only if the story
            has none.

    Attributes:
        truncated_windows: how many windows this process has left out so far, since they exceed the
            context.
    """

    def __init__(
        self,
        tokens: StoryTokenizer,
        operations: str | Operation | Iterable[str | Operation] | None = None,
        *,
        across_windows: bool = False,
    ) -> None:
        self.tokens = tokens
        self.across_windows = across_windows
        self.operations = resolve_operations(operations)
        self.truncated_windows = 0
        self.valid_label_columns: list[
            str
        ] = []  # required by the samplers of sentence-transformers

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate rows into a batch of R texts padded to T tokens: `texts_input_ids`,
        `texts_attention_mask` and `texts_window_ids` (-1: not pooled), of shape (R, T), and
        `texts_judged`, a list of `JudgedWindow`. Raises RowError if a row has no valid
        judgments."""
        texts, judged = (
            _Texts(),
            list[tuple[Window, int, list[float], dict[str, list[tuple[int, int]]]]](),
        )
        for number, row in enumerate(rows):
            labels = judgments(row, f"row {row.get('id', number)}")
            sentences, windows = row["story"], row.get("windows") or "auto"
            if is_nested(sentences):
                sentences, windows = (
                    [s for part in sentences for s in part],
                    [len(part) for part in sentences],
                )
            story = Story.parse({"sentences": list(sentences), "windows": windows})
            for plan in exact_plans(
                self.operations, self.tokens.tokenize(story.sentences), story.windows
            ):
                window = plan.window
                own = labels[window.lo : window.hi]
                if window.size == 1 or not any(labels if self.across_windows else own):
                    continue
                if any(len(chunks) > 1 for chunks in plan.variants):
                    self._warn_left_out()
                    continue
                places = [texts.add(chunk) for (chunk,) in plan.variants]
                group = number if self.across_windows else len(judged)
                vectors = {
                    operation.name: [places[i] for i in indices]
                    for operation, indices in plan.operations
                }
                judged.append((window, group, own, vectors))
        batch = texts.padded(self.tokens.tokenizer.pad_token_id or 0)
        count = max(1, int(batch["window_ids"].max()) + 1) if len(batch["window_ids"]) else 1
        found = [
            JudgedWindow(
                window,
                group,
                own,
                {name: [text * count + slot for text, slot in at] for name, at in vectors.items()},
            )
            for window, group, own, vectors in judged
        ]
        names = (
            {}
            if not rows or rows[0].get("dataset_name") is None
            else {"dataset_name": rows[0]["dataset_name"]}
        )
        return (
            {f"texts_{name}": values for name, values in batch.items()}
            | {"texts_judged": found}
            | names
        )

    def _warn_left_out(self) -> None:
        if not self.truncated_windows:
            logger.warning(
                "a window exceeds the context of %d tokens and is not trained on; use smaller"
                " windows or an encoder with a longer context (further windows are not reported)",
                self.tokens.context_tokens,
            )
        self.truncated_windows += 1


def judgments(row: Mapping[str, Any], where: str) -> list[float]:
    """The votes for each sentence of a row, its other labels, or 1 for its turning points and 0 for
    other sentences; raises RowError if they are missing or invalid."""
    story = row.get("story")
    if not story or isinstance(story, str):
        raise RowError(where, "'story' must be a list of sentences")
    count = sum(map(len, story)) if is_nested(story) else len(story)
    labels = next((row[name] for name in ("counts", "labels") if row.get(name) is not None), None)
    points = row.get("turning_points")
    if labels is None and points is not None:
        labels = [float(index in set(points)) for index in range(count)]
    if labels is None or len(labels) != count:
        raise RowError(
            where, f"'counts' or 'labels' must have a number for each of its {count} sentences"
        )
    values = [float(label) for label in labels]
    if not all(0 <= value < float("inf") for value in values):
        raise RowError(where, "votes and labels must be finite numbers of at least 0")
    return values


class _Texts:
    """Distinct texts, each with the parts of it that are pooled: windows, which do not share
    tokens."""

    def __init__(self) -> None:
        self.ids: list[Ids] = []
        self.window_ids: list[Ids] = []
        self._found: dict[tuple[bytes, bytes], tuple[int, int]] = {}
        self._texts_of: dict[bytes, list[int]] = {}

    def add(self, chunk: Chunk) -> tuple[int, int]:
        """The place of a chunk: the index of its text, and the number of the window that pools its
        tokens."""
        text, pooled = chunk.ids.tobytes(), chunk.pooled.tobytes()
        if (text, pooled) not in self._found:
            same = self._texts_of.setdefault(text, [])
            # A text is encoded again if tokens of it are pooled that another window pools too.
            free = [index for index in same if (self.window_ids[index][chunk.pooled] == -1).all()]
            if not free:
                free = [len(self.ids)]
                same.append(free[0])
                self.ids.append(chunk.ids)
                self.window_ids.append(np.full(len(chunk.ids), -1, np.int32))
            window = int(self.window_ids[free[0]].max()) + 1
            self.window_ids[free[0]][chunk.pooled] = window
            self._found[text, pooled] = free[0], window
        return self._found[text, pooled]

    def padded(self, pad: int) -> dict[str, torch.Tensor]:
        """The texts, padded to the longest."""
        shape = len(self.ids), max(map(len, self.ids), default=0)
        ids, windows = np.full(shape, pad, np.int64), np.full(shape, -1, np.int64)
        mask = np.zeros(shape, np.int64)
        for i, (text, window_ids) in enumerate(zip(self.ids, self.window_ids, strict=True)):
            ids[i, : len(text)], windows[i, : len(text)], mask[i, : len(text)] = text, window_ids, 1
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
            "window_ids": torch.from_numpy(windows),
        }
