"""Batches that are limited by their tokens, padding included, and not only by their rows."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from random import Random
from typing import NamedTuple

from sentence_transformers.base.sampler import DefaultBatchSampler

logger = logging.getLogger(__name__)


class RowSize(NamedTuple):
    """How many tokens the longest text of a row has, and how many of its texts are encoded."""

    longest: int
    texts: int

    @property
    def tokens(self) -> int:
        """The tokens of all texts when they are padded to the longest."""
        return self.longest * self.texts


class TokenBatchSampler(DefaultBatchSampler):
    """Batches of rows of similar length, none with more than `tokens` tokens when its texts are
    padded to the longest.

    A row is never split: its texts are in the same batch. A row that has more tokens by itself is a
    batch of its own, and a warning says so. Which rows are together, and the order of the batches,
    depend on the seed and the epoch alone; the number of batches is the same in all epochs.

    Args:
        sizes: the size of each row.
        tokens: the maximum of tokens.
        rows: the maximum of rows.
        drop_last: whether batches at the end of an epoch that not all processes have are left out.
            No other batch is incomplete.
        seed: the seed of the random choices.
        epoch: returns the epoch; default that of `set_epoch`.

    Raises:
        ValueError: `tokens` is not a count.
    """

    def __init__(
        self,
        sizes: Sequence[RowSize],
        tokens: int,
        rows: int,
        drop_last: bool = False,
        seed: int = 0,
        epoch: Callable[[], int] | None = None,
    ) -> None:
        if tokens < 1:
            raise ValueError(f"tokens_per_batch={tokens} is not a count of 1 or more")
        super().__init__(range(len(sizes)), batch_size=rows, drop_last=drop_last, seed=seed)
        self._current_epoch = epoch or (lambda: self.epoch)
        kinds: dict[RowSize, list[int]] = defaultdict(list)
        for row, size in enumerate(sizes):
            kinds[RowSize(_length_class(size.longest), size.texts)].append(row)
        # Long rows first. Those of one kind are interchangeable, so that all epochs have batches of
        # the same sizes.
        self._kinds = [kinds[kind] for kind in sorted(kinds, reverse=True)]
        bounds = [
            RowSize(max(sizes[row].longest for row in kind), sizes[kind[0]].texts)
            for kind in self._kinds
        ]
        each = [bound for kind, bound in zip(self._kinds, bounds, strict=True) for _ in kind]
        self._batch_sizes = _batch_sizes(each, tokens, rows)
        _warn_of_large_rows(sizes, tokens)

    def __iter__(self) -> Iterator[list[int]]:
        random = Random(f"{self.seed} {self._current_epoch()}")
        rows = iter([row for kind in self._kinds for row in random.sample(kind, len(kind))])
        batches = [list(islice(rows, size)) for size in self._batch_sizes]
        random.shuffle(batches)
        return iter(batches)

    def __len__(self) -> int:
        return len(self._batch_sizes)


def _length_class(longest: int) -> int:
    """A length, rounded up to an eighth of a power of two."""
    step = 1 << max(0, longest.bit_length() - 4)
    return -(-longest // step) * step


def _batch_sizes(rows: Sequence[RowSize], tokens: int, most: int) -> list[int]:
    """The number of rows of each batch of these rows, in their order."""
    starts, largest = [0], RowSize(0, 0)
    for at, row in enumerate(rows):
        largest = RowSize(max(largest.longest, row.longest), largest.texts + row.texts)
        if at > starts[-1] and (at - starts[-1] == most or largest.tokens > tokens):
            starts.append(at)
            largest = row
    if len(starts) > 1:
        # Share out the last rows, so that few of them are left without others.
        middle = (starts[-2] + len(rows) + 1) // 2
        if middle < starts[-1] and _padded(rows[middle:]).tokens <= tokens:
            starts[-1] = middle
    return [stop - start for start, stop in pairwise([*starts, len(rows)])] if rows else []


def _padded(rows: Sequence[RowSize]) -> RowSize:
    """The size of a batch of these rows."""
    return RowSize(max(row.longest for row in rows), sum(row.texts for row in rows))


def _warn_of_large_rows(sizes: Sequence[RowSize], tokens: int) -> None:
    large = [size.tokens for size in sizes if size.tokens > tokens]
    if large:
        logger.warning(
            "%d of %d rows have more than tokens_per_batch=%d tokens by themselves, up to %d; each"
            " is a batch of its own, without other stories as negatives",
            len(large),
            len(sizes),
            tokens,
            max(large),
        )
