"""Batches of texts for forward passes. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.tokens import Ids, Mask


def text_batches(
    lengths: Sequence[int], batch_tokens: int, padded: bool = True, mixed: bool = True
) -> Iterator[slice]:
    """Batches of texts, given the lengths of all texts in descending order.

    Args:
        lengths: how many tokens each text has.
        batch_tokens: tokens per batch; a longer text is a batch by itself.
        padded: whether padding counts.
        mixed: whether texts of different lengths share a batch.
    """
    start = total = 0
    for i, length in enumerate(lengths):
        # The first text of a batch is its longest, to which the others are padded.
        longest = lengths[start]
        tokens = (i - start + 1) * longest if padded else total + length
        if i > start and (tokens > batch_tokens or not (mixed or length == longest)):
            yield slice(start, i)
            start, total = i, 0
        total += length
    if lengths:
        yield slice(start, len(lengths))


def padded(rows: Sequence[Ids], pad_id: int) -> tuple[NDArray[np.int64], Mask]:
    """The token ids of texts, padded on the right, and which of them are tokens; both of shape
    (texts, tokens)."""
    ids = np.full((len(rows), max(map(len, rows))), pad_id, np.int64)
    is_token = np.arange(ids.shape[1]) < np.array([len(row) for row in rows])[:, None]
    ids[is_token] = np.concatenate(rows)
    return ids, is_token
