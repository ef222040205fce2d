"""Collates rows of narrative twins into batches: the token ids of all texts, and the window of each
token."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch

from narrative_twins.data.rows import is_nested
from narrative_twins.encoder.tokenizer import Ids, StoryTokenizer

logger = logging.getLogger(__name__)

Twins: TypeAlias = Literal["narrative", "dropout"]

STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN = range(4)
"""The side of a text: which text of its row it is."""


class WindowedText(NamedTuple):
    """The sentences of a text, and the window in which each is pooled; -1 for sentences that are
    not pooled."""

    sentences: list[str]
    windows: list[int]


class TwinsCollator:
    """Collates rows of narrative twins, in the format of `narrative_twins.data`, into a batch.

    Rows without a twin, and all rows with `twins="dropout"`, get a dropout twin: the same text
    twice, to be encoded under two dropout masks. The text is the story or, with probability one
    half, the twin if there is one. A sentence that may belong to several windows is assigned to one
    of them at random. All random choices depend on the seed, the epoch and the story alone, so a
    resumed run makes the same ones.

    Stories with one window pool all tokens, special ones included; with several, each window pools
    its own tokens. A text that exceeds the context is cut at its end; windows that lose all their
    tokens are left out of the loss.

    Args:
        tokens: the tokenizer of the encoder, `StoryEncoder.tokenizer`.
        twins: `"narrative"` or `"dropout"`.
        distractors: whether distractors are encoded.
        seed, epoch: seeds of the random choices; the trainer updates the epoch.
        others: collators of data sets without narrative twins, by the names of the data sets
            (column `dataset_name`, which the trainer adds if it has a dict of losses).

    Attributes:
        truncated_texts: how many texts this process has cut so far.
    """

    def __init__(
        self,
        tokens: StoryTokenizer,
        twins: Twins = "narrative",
        distractors: bool = True,
        seed: int = 0,
        epoch: int = 0,
        others: Mapping[str, Callable[[Any], dict[str, Any]]] | None = None,
    ) -> None:
        if twins not in ("narrative", "dropout"):
            raise ValueError(f"twins={twins!r} is unknown; use 'narrative' or 'dropout'")
        if not tokens.tokenizer.is_fast:
            raise ValueError(
                "training needs a fast tokenizer, because slow ones return no character offsets"
            )
        self.tokens = tokens
        self.twins = twins
        self.distractors = distractors
        self.seed = seed
        # Shared memory, because data loader workers may keep their copy of the collator across
        # epochs.
        self._epoch = torch.tensor(epoch).share_memory_()  # type: ignore[no-untyped-call]
        self.others = dict(others or {})
        self.truncated_texts = 0
        # Required by the samplers of sentence-transformers.
        self.valid_label_columns: list[str] = []
        for other in self.others.values():
            for label in getattr(other, "valid_label_columns", []):
                if label not in self.valid_label_columns:
                    self.valid_label_columns.append(label)

    @property
    def epoch(self) -> int:
        """The epoch of the random choices."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate rows into a batch of R texts padded to T tokens: `texts_input_ids`,
        `texts_attention_mask` and `texts_window_ids` (-1: not pooled), of shape (R, T);
        `texts_side` (`STORY`, `TWIN`, `DISTRACTOR` or `DISTRACTOR_TWIN`) and `texts_row` (index of
        the row in the batch), of shape (R,). Rows with a `dataset_name` keep it, and those of
        `others` are collated by their collator."""
        name = rows[0].get("dataset_name")
        if name in self.others:
            return self.others[name](rows)
        texts = [
            (side, row_index, self._encode(text, several_windows))
            for row_index, row in enumerate(rows)
            for side, text, several_windows in self._texts_of(row)
        ]
        batch = padded_texts(
            [encoded for _, _, encoded in texts], self.tokens.tokenizer.pad_token_id or 0
        )
        batch["texts_side"] = torch.tensor([side for side, _, _ in texts])
        batch["texts_row"] = torch.tensor([row_index for _, row_index, _ in texts])
        return batch if name is None else {**batch, "dataset_name": name}

    def _texts_of(self, row: Mapping[str, Any]) -> Iterator[tuple[int, WindowedText, bool]]:
        """Yield side and content of each text of a row, and whether the story of the row has
        several windows."""
        random = Random(f"{self.seed} {self.epoch} {row['story']}")
        story, twin, negative, negative_twin = (
            _windowed_text(row, column, random)
            for column in ("story", "twin", "negative", "negative_twin")
        )
        assert story is not None
        several_windows = max(story.windows) > 0
        if self.twins == "dropout" or twin is None:
            # Dropout twin: the same text on both sides. If that is the twin, take its distractor as
            # well.
            if twin is not None and random.random() < 0.5:
                story, negative = twin, negative_twin or negative
            twin, negative_twin = story, negative
        yield STORY, story, several_windows
        yield TWIN, twin, several_windows
        if self.distractors and negative is not None:
            yield DISTRACTOR, negative, several_windows
            # Distractors with several windows are only used as negatives, which needs no twin.
            if negative_twin is not None and not several_windows:
                yield DISTRACTOR_TWIN, negative_twin, several_windows

    def _encode(self, text: WindowedText, several_windows: bool) -> tuple[Ids, Ids]:
        """Token ids of a text and the window of each token."""
        tokens = self.tokens
        ids, sentence_of_token = tokens.tokenize_joined(tokens.texts(text.sentences))
        window_ids = np.asarray(text.windows, np.int32)[sentence_of_token]
        if len(ids) > tokens.max_text_tokens:
            if not self.truncated_texts:
                logger.warning(
                    "a text of %d tokens is cut to the %d that fit the context, and windows beyond"
                    " are not trained on; use a larger context_tokens or an encoder with a longer"
                    " context (further texts are not reported)",
                    len(ids),
                    tokens.max_text_tokens,
                )
            self.truncated_texts += 1
        # Special tokens are only pooled if the story has one window. `text.windows` does not tell:
        # the random choices may put all sentences of a twin into the first of several windows.
        special = -1 if several_windows else 0
        all_ids = tokens.head, ids[: tokens.max_text_tokens], tokens.tail
        windows = (
            np.full(len(tokens.head), special),
            window_ids[: tokens.max_text_tokens],
            np.full(len(tokens.tail), special),
        )
        return np.concatenate(all_ids), np.concatenate(windows)


def padded_texts(texts: Sequence[tuple[Ids, Ids]], pad: int) -> dict[str, torch.Tensor]:
    """Texts, each as token ids and the window of each token, as tensors of shape (texts, longest):
    `texts_input_ids`, padded with the id `pad`; `texts_attention_mask`; `texts_window_ids`."""
    shape = len(texts), max((len(ids) for ids, _ in texts), default=0)
    input_ids = np.full(shape, pad, np.int64)
    attention_mask = np.zeros(shape, np.int64)
    window_ids = np.full(shape, -1, np.int64)
    for i, (ids, windows) in enumerate(texts):
        input_ids[i, : len(ids)] = ids
        attention_mask[i, : len(ids)] = 1
        window_ids[i, : len(ids)] = windows
    return {
        "texts_input_ids": torch.from_numpy(input_ids),
        "texts_attention_mask": torch.from_numpy(attention_mask),
        "texts_window_ids": torch.from_numpy(window_ids),
    }


def _windowed_text(row: Mapping[str, Any], column: str, random: Random) -> WindowedText | None:
    """A column of a row, in any format that `check_twins_row` accepts, as sentences and their
    windows."""
    content = row.get(column)
    if content is None:
        return None
    if is_nested(content):
        sentences = [sentence for window in content for sentence in window]
        return WindowedText(
            sentences, [index for index, window in enumerate(content) for _ in window]
        )
    candidates = row.get(f"{column}_windows")
    if candidates is None:
        return WindowedText(list(content), [0] * len(content))
    return WindowedText(
        list(content), [random.choice(windows) if len(windows) else -1 for windows in candidates]
    )
