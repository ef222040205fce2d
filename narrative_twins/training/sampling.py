"""Which rows of narrative twins are in which batch: of data sets and of streams, by rows and by
tokens."""

from __future__ import annotations

from typing import Any

from sentence_transformers.base.sampler import MultiDatasetDefaultBatchSampler
from tqdm.auto import tqdm
from transformers import TrainerCallback

from narrative_twins.data.rows import is_nested
from narrative_twins.training.collator import TwinsCollator
from narrative_twins.training.streams import is_stream, place_in_stream, whole_stream_loader
from narrative_twins.training.token_batches import TokenBatchSampler


class TwinsSampling:
    """Mixin for the trainer of sentence-transformers; put it first among the base classes.

    Attributes:
        first_epoch: the epoch in which the training began or was resumed.
    """

    args: Any
    accelerator: Any
    data_collator: Any
    train_dataset: Any
    state: Any
    first_epoch = 0
    _is_trained = False

    def train(self, *args: Any, **options: Any) -> Any:
        """Train as `StoryTrainer.train` does. A ValueError also if a stream has no rows for a
        batch."""
        if is_stream(self.train_dataset):
            # A loader without a batch ends `transformers` without a word or, in early releases, by
            # a TypeError.
            rows = (
                self._rows_per_batch(self.train_dataset, self.args.train_batch_size)
                * self.args.world_size
            )
            needed = rows if self.args.dataloader_drop_last else 1
            if sum(1 for _ in self.train_dataset.take(needed)) < needed:
                raise ValueError(
                    f"the stream has no batch of {needed} rows, so nothing can be trained; use a"
                    " smaller per_device_train_batch_size or, on one process,"
                    " dataloader_drop_last=False"
                )
        return super().train(*args, **options)  # type: ignore[misc]

    def _build_dataloader(self, dataset: Any, batch_size: int, dataset_kind: str) -> Any:
        """A data loader; `get_train_dataloader` and `get_eval_dataloader` call this. Each process
        reads the whole of a stream and takes its share of each batch."""
        build = super()._build_dataloader  # type: ignore[misc]
        if is_stream(dataset):
            # Otherwise the first process would make all batches, and cut them for the others
            # without regard to rows.
            self.accelerator.dataloader_config.dispatch_batches = False
            return whole_stream_loader(
                build(dataset, self._rows_per_batch(dataset, batch_size), dataset_kind)
            )
        self._is_trained = dataset_kind == "train"
        loader = build(dataset, batch_size, dataset_kind)
        # Those of one data set by rows need their batch size.
        if isinstance(loader.batch_sampler, (TokenBatchSampler, MultiDatasetDefaultBatchSampler)):
            # With a batch size set, several processes would drop batches of another size as
            # incomplete.
            loader.batch_sampler.batch_size = None  # type: ignore[assignment]
        return loader

    def _rows_per_batch(self, dataset: Any, batch_size: int) -> int:
        """The number of rows of a batch: `window_batch_size` if it is set and stories have several
        windows."""
        size: int | None = self.args.window_batch_size
        if size is None:
            return batch_size
        story = next(iter(dataset)).get("story")
        return size if isinstance(story, list) and is_nested(story) else batch_size

    def get_batch_sampler(
        self, dataset: Any, batch_size: int, drop_last: bool, *args: Any, **kwargs: Any
    ) -> Any:
        """The usual sampler, with `window_batch_size` rows per batch if stories have several
        windows; for training on twins with `tokens_per_batch`, a `TokenBatchSampler`."""
        batch_size = self._rows_per_batch(dataset, batch_size)
        tokens, collator = self.args.tokens_per_batch, self.data_collator
        limited = tokens is not None and self._is_trained and isinstance(collator, TwinsCollator)
        if not limited or dataset[0].get("dataset_name") in collator.others:
            return super().get_batch_sampler(dataset, batch_size, drop_last, *args, **kwargs)  # type: ignore[misc]
        shown = not self.args.disable_tqdm and len(dataset) > 10_000
        sizes = [
            collator.size_of(row)
            for row in tqdm(dataset, desc="counting tokens", disable=not shown)
        ]
        return TokenBatchSampler(
            sizes, tokens, batch_size, drop_last, self.args.seed, lambda: collator.epoch
        )

    def _init_training_state(
        self,
        max_steps: int,
        epoch_steps: int,
        epochs: int,
        resume_from_checkpoint: str | None,
        trial: Any,
    ) -> tuple[int, int]:
        """The epoch to begin with, and how many of its batches were trained on already. `train`
        calls this, and takes all of the training for one epoch of a stream."""
        start: tuple[int, int] = super()._init_training_state(  # type: ignore[misc]
            max_steps, epoch_steps, epochs, resume_from_checkpoint, trial
        )
        if (
            resume_from_checkpoint is not None
            and is_stream(self.train_dataset)
            and not self.args.ignore_data_skip
        ):
            start = place_in_stream(resume_from_checkpoint, self.args.gradient_accumulation_steps)
        self.first_epoch = start[0]
        return start


class EpochCallback(TrainerCallback):
    """Updates the epoch of the collator and of all samplers, on which their random choices
    depend."""

    def __init__(self, trainer: TwinsSampling) -> None:
        self.trainer = trainer
        self.next_epoch = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.next_epoch = self.trainer.first_epoch

    def on_epoch_begin(
        self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        epoch, self.next_epoch = self.next_epoch, self.next_epoch + 1
        if isinstance(self.trainer.data_collator, TwinsCollator):
            self.trainer.data_collator.epoch = epoch
        # `transformers` and accelerate look at two of them; a run that is resumed on several
        # processes has three.
        sampler = getattr(train_dataloader, "batch_sampler", None)
        while sampler is not None:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            sampler = getattr(sampler, "batch_sampler", None)
