"""Rows of narrative twins on their way to batches: checked, several data sets and streams alike,
with a batch size for each and random choices for each epoch."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, IterableDataset
from sentence_transformers.sentence_transformer.training_args import BatchSamplers
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from narrative_twins.data.rows import RowError, check_twins_row, is_nested
from narrative_twins.training.collator import TwinsCollator


def checked_rows(
    data: Any, name: str, silent: bool, skipped: Collection[str] = ()
) -> tuple[Any, str | None]:
    """Check the rows of a data set of narrative twins or of a dict of several; streams are checked
    as they are read.

    Args:
        data: the data.
        name: its name in errors.
        silent: hide the progress bar of data with more than 10,000 rows.
        skipped: names of data sets in a dict that have other rows and are not checked.

    Returns:
        The data, and the name of the first row without a twin; None if all have twins, and for
        streams.

    Raises:
        RowError: a row is invalid, or there are no rows; names the data set and the row.
    """
    if isinstance(data, dict):
        if not data:
            raise RowError(name, "there are no rows; at least one data set is needed")
        checked, twinless = {}, None
        for key, rows in data.items():
            first = None
            if key not in skipped:
                rows, first = checked_rows(rows, f"{name}[{key!r}]", silent)
            checked[key] = rows
            twinless = twinless or first
        return checked, twinless
    if isinstance(data, IterableDataset):

        def check(row: dict[str, Any], number: int) -> dict[str, Any]:
            check_twins_row(row, f"{name}, row {number}")
            return row

        return data.map(check, with_indices=True, features=data.features), None
    if not isinstance(data, Dataset):
        return data, None
    if not len(data):
        raise RowError(name, "there are no rows; at least one is needed")
    twinless = None
    shown = not silent and len(data) > 10_000
    for number, row in enumerate(tqdm(data, desc="checking rows", disable=not shown)):
        check_twins_row(row, f"{name}, row {number}")
        if twinless is None and row.get("twin") is None:
            twinless = f"{name}, row {number}"
    return data, twinless


def rows_per_batch(data: Any, batch_size: int, window_batch_size: int | None) -> int:
    """The number of rows of a batch: `window_batch_size` if it is set and stories have several
    windows."""
    if window_batch_size is None:
        return batch_size
    story = next(iter(data)).get("story")
    return window_batch_size if isinstance(story, list) and is_nested(story) else batch_size


def is_stream(data: Any) -> bool:
    """Whether a data set is a stream, as loaded with `streaming=True`."""
    return isinstance(data, IterableDataset)


def check_streams(data: Any, name: str, args: Any) -> None:
    """Raise a ValueError if a data set, or one of several in a dict, is a stream that the arguments
    of a trainer can't be used with. `name` is the name of the data in errors."""
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
            " to 0 over them). Where the stream ends, it is read again"
        )
    if args.batch_sampler != BatchSamplers.BATCH_SAMPLER:
        raise ValueError(
            f"batch_sampler={getattr(args.batch_sampler, 'value', args.batch_sampler)!r} chooses"
            f" rows by number, and {name} is a stream; remove it, or load the rows without"
            " streaming"
        )


def check_first_batch(stream: Any, args: Any) -> None:
    """Raise a ValueError if a stream has no rows for a batch, with which `transformers` would end
    the training without a message."""
    rows = rows_per_batch(stream, args.train_batch_size, args.window_batch_size) * args.world_size
    needed = rows if args.dataloader_drop_last else 1
    if sum(1 for _ in stream.take(needed)) < needed:
        raise ValueError(
            f"the stream has no batch of {needed} rows, so nothing can be trained; use a smaller"
            " per_device_train_batch_size or, on one process, dataloader_drop_last=False"
        )


class WholeStream(torch.utils.data.IterableDataset[Any]):
    """A stream all of whose rows each process reads, to take its share of each batch. Shares of the
    files would have different numbers of rows, and the process with more would wait for the others
    forever."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def set_epoch(self, epoch: int) -> None:
        """Shuffle the rows again, if the stream shuffles."""
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
    epoch = state.epoch or 0
    # In each pass, `transformers` adds the share of `max_steps` that it has trained to the number
    # of the pass.
    passes = max(0, math.ceil(epoch - 1e-9) - 1)
    return passes, round((epoch - passes) * state.max_steps * accumulated)


class EpochCallback(TrainerCallback):
    """Updates the epoch of the collator and of all samplers, on which their random choices depend.
    A trainer has the epoch in which its run began or was resumed as `first_epoch`."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.next_epoch = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.next_epoch = self.trainer.first_epoch

    def on_epoch_begin(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        epoch = self.next_epoch
        self.next_epoch += 1
        if isinstance(self.trainer.data_collator, TwinsCollator):
            self.trainer.data_collator.epoch = epoch
        # `transformers` and accelerate look at two of them; a run that is resumed on several
        # processes has three.
        sampler = getattr(train_dataloader, "batch_sampler", None)
        while sampler is not None:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            sampler = getattr(sampler, "batch_sampler", None)
