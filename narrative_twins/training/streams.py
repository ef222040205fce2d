"""Training on streams: rows that are read one after another, whose number is not known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import torch
from sentence_transformers.sentence_transformer.training_args import BatchSamplers
from torch.utils.data import DataLoader
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME


def is_stream(data: Any) -> bool:
    """Whether a data set is a stream, as loaded with `streaming=True`."""
    return isinstance(data, datasets.IterableDataset)


def check_streams(data: Any, name: str, args: Any) -> None:
    """Raise a ValueError if a data set, or one of several in a dict, is a stream with which the
    arguments of a trainer can't be followed. `name` is the name of the data in errors."""
    if isinstance(data, Mapping):
        streams = [key for key, rows in data.items() if is_stream(rows)]
        if streams:
            raise ValueError(
                f"{name}[{streams[0]!r}] is a stream, and batches of several data sets are drawn by"
                " their sizes; load them without streaming, or make one stream of them:"
                " datasets.interleave_datasets([...])"
            )
    if not is_stream(data):
        return
    if name == "train_dataset" and args.max_steps <= 0:
        raise ValueError(
            f"{name} is a stream, whose length is not known; set max_steps (the learning rate falls"
            " to 0 over them), which also passes over the stream again where it ends"
        )
    if args.tokens_per_batch is not None:
        raise ValueError(
            f"tokens_per_batch={args.tokens_per_batch} needs the lengths of all rows, and {name} is"
            " a stream; load the rows without streaming, or set per_device_train_batch_size and"
            " mini_batch_size"
        )
    if args.batch_sampler != BatchSamplers.BATCH_SAMPLER:
        raise ValueError(
            f"batch_sampler={getattr(args.batch_sampler, 'value', args.batch_sampler)!r} chooses"
            f" rows by number, and {name} is a stream; remove it, or load the rows without"
            " streaming"
        )


class WholeStream(torch.utils.data.IterableDataset[Any]):
    """A stream all of whose rows each process reads, to take its share of each batch. Shares of the
    files would have different numbers of rows, and the process with more would wait for the others
    forever.

    Args:
        rows: the stream.
    """

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def set_epoch(self, epoch: int) -> None:
        """Shuffle the rows anew, if the stream shuffles."""
        self.rows.set_epoch(epoch)


def whole_stream_loader(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The data loader of a stream, for `Accelerator.prepare` with `dispatch_batches=False`."""
    return DataLoader(
        WholeStream(loader.dataset),
        batch_size=loader.batch_size,
        drop_last=loader.drop_last,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        persistent_workers=loader.persistent_workers,
        prefetch_factor=loader.prefetch_factor,
    )


def place_in_stream(checkpoint: str | Path, accumulated: int) -> tuple[int, int]:
    """Where a run on a stream was when it saved a checkpoint: how many times it had read the whole
    stream, and how many batches of the next pass. `accumulated` is the number of batches in a
    step."""
    state = TrainerState.load_from_json(str(Path(checkpoint) / TRAINER_STATE_NAME))
    # In each pass, `transformers` adds the share of `max_steps` that it has trained to the number
    # of the pass.
    passes = max(0, math.ceil((state.epoch or 0) - 1e-9) - 1)
    return passes, round(((state.epoch or 0) - passes) * state.max_steps * accumulated)
