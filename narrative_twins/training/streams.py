"""Streams of rows that every process of a training run reads as a whole."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info

from narrative_twins.training.losses import PASS


class WholeStream(torch.utils.data.IterableDataset[Any]):
    """A stream that each process reads as a whole, to take its share of each batch. With shares of
    the files, a process with more rows would wait for the others forever.

    Args:
        rows: the stream.
        repeats: whether the stream is read again when it ends, shuffled anew.
        has_passes: whether rows get the column `PASS`.
    """

    def __init__(self, rows: Any, repeats: bool, has_passes: bool) -> None:
        self.rows, self.repeats, self.has_passes = rows, repeats, has_passes

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows, also the rows of further passes if the stream repeats."""
        # Workers share the epoch of a data set, but may be in different passes.
        rows = self.rows if get_worker_info() is None else copy.deepcopy(self.rows)
        for number in count() if self.repeats else range(1):
            rows.set_epoch(number)
            row = None
            for row in rows:
                yield {**row, PASS: number} if self.has_passes else row
            if row is None:  # a worker may have no share of the files
                return


def whole_stream_loader(loader: DataLoader[Any], repeats: bool) -> DataLoader[Any]:
    """Return a data loader that reads the stream of `loader` as a `WholeStream`, for
    `Accelerator.prepare` with `dispatch_batches=False`."""
    names = [
        *("batch_size", "drop_last", "collate_fn", "num_workers"),
        *("pin_memory", "persistent_workers", "prefetch_factor"),
    ]
    options: Any = {name: getattr(loader, name) for name in names}
    # Collators with random choices depend on an epoch; a stream has passes in its place.
    has_passes = hasattr(loader.collate_fn, "epoch")
    return DataLoader(WholeStream(loader.dataset, repeats, has_passes), **options)
