"""Rows of narrative twins to batches: every text of a batch in one block of token ids, each token with its window."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch

from narrative_twins.data.rows import is_nested
from narrative_twins.encoder.tokens import Ids, StoryTokenizer

logger = logging.getLogger(__name__)

Twins: TypeAlias = Literal["narrative", "dropout"]

TWINS: tuple[Twins, ...] = ("narrative", "dropout")
STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN = range(4)
"""What a text of a batch is, its side."""


class WindowedText(NamedTuple):
    """The sentences of a text, and the window that each is pooled in; -1 for none."""

    sentences: list[str]
    windows: list[int]


class TwinsCollator:
    """Makes a batch of rows of narrative twins, as `narrative_twins.data` gives them.

    A row without a twin, and with `twins="dropout"` every row, gets a dropout twin: its story or (with probability one
    half, where there is one) its twin comes twice, to be encoded under two dropout masks. A sentence of the twin that
    may belong to several windows goes to one of them at random. What is drawn depends on the seed, the epoch and the
    story alone, so that a run that is resumed draws the same.

    A story of one window pools all its tokens, special ones included; of several windows each pools its own. A text
    that exceeds the context is cut at its end; windows that lose all their tokens are left out of the loss.

    Args:
        tokens: the tokenizer of the encoder, `StoryEncoder.tokens`.
        twins: `"narrative"` or `"dropout"`.
        distractors: whether distractors are encoded.
        seed: of what is drawn.

    Attributes:
        epoch: of what is drawn; the trainer counts it.
        cut_texts: how many texts were cut so far, by this process.
    """

    def __init__(
        self,
        tokens: StoryTokenizer,
        twins: Twins = "narrative",
        distractors: bool = True,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        if twins not in TWINS:
            raise ValueError(f"twins={twins!r}: choose 'narrative' or 'dropout'")
        if not tokens.tokenizer.is_fast:
            raise ValueError("training needs a fast tokenizer, which says which characters a token holds")
        self.tokens = tokens
        self.twins = twins
        self.distractors = distractors
        self.seed = seed
        # In shared memory: workers that load data keep their copy of the collator from one epoch to the next.
        self._epoch = torch.tensor(epoch).share_memory_()  # type: ignore[no-untyped-call]
        self.cut_texts = 0
        # The samplers of sentence-transformers ask for it.
        self.valid_label_columns: list[str] = []

    @property
    def epoch(self) -> int:
        """The epoch of what is drawn."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """A batch of R texts of up to T tokens.

        Returns:
            `texts_input_ids`, `texts_attention_mask` and `texts_window_ids` (-1 where not pooled), of shape (R, T);
            `texts_side` (`STORY`, `TWIN`, `DISTRACTOR` or `DISTRACTOR_TWIN`) and `texts_row` (place of the row in the
            batch), of shape (R,).
        """
        texts = [
            (side, number, self._encode(telling, several))
            for number, row in enumerate(rows)
            for side, telling, several in self._texts_of(row)
        ]
        encoded = [one for _, _, one in texts]
        shape = len(texts), max(len(ids) for ids, _ in encoded)
        pad = self.tokens.tokenizer.pad_token_id or 0
        input_ids, window_ids = np.full(shape, pad, np.int64), np.full(shape, -1, np.int64)
        attention_mask = np.zeros(shape, np.int64)
        for row, (ids, windows) in enumerate(encoded):
            input_ids[row, : len(ids)], window_ids[row, : len(ids)], attention_mask[row, : len(ids)] = ids, windows, 1
        return {
            "texts_input_ids": torch.from_numpy(input_ids),
            "texts_attention_mask": torch.from_numpy(attention_mask),
            "texts_window_ids": torch.from_numpy(window_ids),
            "texts_side": torch.tensor([side for side, _, _ in texts]),
            "texts_row": torch.tensor([number for _, number, _ in texts]),
        }

    def _texts_of(self, row: Mapping[str, Any]) -> Iterator[tuple[int, WindowedText, bool]]:
        """The texts of a row that are encoded, each with whether the story has several windows."""
        random = Random(f"{self.seed} {self.epoch} {row['story']}")
        story, twin, negative, negative_twin = (
            _windowed_text(row, column, random) for column in ("story", "twin", "negative", "negative_twin")
        )
        assert story is not None
        several = max(story.windows) > 0
        if self.twins == "dropout" or twin is None:
            if twin is not None and random.random() < 0.5:
                story, negative = twin, negative_twin or negative
            twin, negative_twin = story, negative
        yield STORY, story, several
        yield TWIN, twin, several
        if self.distractors and negative is not None:
            yield DISTRACTOR, negative, several
            # Distractors of several windows are negatives only.
            if negative_twin is not None and not several:
                yield DISTRACTOR_TWIN, negative_twin, several

    def _encode(self, telling: WindowedText, several: bool) -> tuple[Ids, Ids]:
        """Token ids of a text and the window of each token. What is drawn may leave all sentences of a twin in the
        first window, which makes it no story of one window."""
        tokens = self.tokens
        ids, places = tokens.joined(tokens.texts(telling.sentences))
        window_ids = np.asarray(telling.windows, np.int32)[places]
        if len(ids) > tokens.room:
            self._tell_cut(len(ids))
        ends = -1 if several else 0
        rows = tokens.head, ids[: tokens.room], tokens.tail
        windows = np.full(len(tokens.head), ends), window_ids[: tokens.room], np.full(len(tokens.tail), ends)
        return np.concatenate(rows), np.concatenate(windows)

    def _tell_cut(self, length: int) -> None:
        if not self.cut_texts:
            logger.warning(
                "a text of %d tokens is cut to the %d that the encoder reads; windows beyond are not trained on (said "
                "once; an encoder of a longer context reads more)",
                length,
                self.tokens.room,
            )
        self.cut_texts += 1


def _windowed_text(row: Mapping[str, Any], column: str, random: Random) -> WindowedText | None:
    """A column of a row in windows, in any of the forms that `check_twins_row` takes."""
    content = row.get(column)
    if content is None:
        return None
    if is_nested(content):
        sentences = [sentence for window in content for sentence in window]
        return WindowedText(sentences, [number for number, window in enumerate(content) for _ in window])
    window_ids = row.get(f"{column}_windows")
    if window_ids is None:
        return WindowedText(list(content), [0] * len(content))
    return WindowedText(list(content), [random.choice(one) if len(one) else -1 for one in window_ids])
