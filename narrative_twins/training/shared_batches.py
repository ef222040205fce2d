"""Batches of several data sets for several processes.

In each step, all processes have a share of one batch, and so of one data set: its loss may gather
the vectors of all processes, and would wait forever for a process at another data set. The
batches, and the order of the data sets, are those of one process with the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data import BatchSampler


class JoinedBatches:
    """Joins each `processes` batches of a batch sampler to one; of the last ones perhaps fewer,
    which are left out if the sampler drops an incomplete batch."""

    def __init__(self, sampler: Any, processes: int) -> None:
        self.sampler, self.processes = sampler, processes
        self.batch_size, self.drop_last = sampler.batch_size, sampler.drop_last

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the rows of an epoch."""
        self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        batches = iter(self.sampler)
        while joined := list(islice(batches, self.processes)):
            if not self.drop_last or len(joined) == self.processes:
                yield [index for batch in joined for index in batch]

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.processes if self.drop_last else -(-count // self.processes)


class SharedBatches(BatchSampler):
    """Splits each batch of `mixed`, a sampler of several data sets, into equal shares of the
    processes, one after another. Rows that can't be shared are left out: fewer than there are
    processes."""

    def __init__(self, mixed: Any, processes: int) -> None:
        self.mixed, self.processes, self.drop_last = mixed, processes, mixed.drop_last
        # Otherwise several processes would drop each batch that is smaller or larger.
        self.batch_size: Any = None

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the data sets and of their rows in an epoch."""
        self.mixed.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.mixed:
            if size := len(batch) // self.processes:
                for start in range(0, size * self.processes, size):
                    yield batch[start : start + size]

    def __len__(self) -> int:
        return self.processes * len(self.mixed)
