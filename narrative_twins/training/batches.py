"""Rows of narrative twins on their way to batches: checked, and collated into the token ids of all
texts and the window of each token; and streams of rows."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from datasets import IterableDataset
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from narrative_twins.data.rows import RowError, check_twins_row, is_nested
from narrative_twins.encoder.tokenizer import Ids, StoryTokenizer

logger = logging.getLogger(__name__)

Twins: TypeAlias = Literal["narrative", "dropout"]

STORY, TWIN, DISTRACTOR, DISTRACTOR_TWIN = range(4)
"""The side of a text: which text of its row it is."""

WindowedText: TypeAlias = tuple[list[str], list[int]]
"""The sentences of a text, and the window in which each is pooled; -1 for sentences that are not
pooled."""


def checked_rows(data: Any, name: str, skipped: Collection[str] = ()) -> tuple[Any, str | None]:
    """Check the rows of a data set of narrative twins or of a dict of several; streams are checked
    as they are read.

    Args:
        data: the data.
        name: its name in errors.
        skipped: names of data sets in a dict that have other rows and are not checked.

    Returns:
        The data, and a description of the first row without a twin; None if all have twins, and for
        streams.

    Raises:
        RowError: a row is invalid, or there are no rows; names the data set and the row.
    """
    if data is None:
        return None, None
    if isinstance(data, dict):
        checked, twinless = dict(data), None
        for key, rows in data.items():
            if key not in skipped:
                checked[key], first = checked_rows(rows, f"{name}[{key!r}]")
                twinless = twinless or first
        return checked, twinless
    if isinstance(data, IterableDataset):

        def check(row: dict[str, Any], number: int) -> dict[str, Any]:
            check_twins_row(row, f"{name}, row {number}")
            return row

        return data.map(check, with_indices=True, features=data.features), None
    if not len(data):
        raise RowError(name, "there are no rows; at least one is needed")
    twinless = None
    for number, row in enumerate(data):
        check_twins_row(row, f"{name}, row {number}")
        if row.get("twin") is None:
            twinless = twinless or f"a row without a twin ({name}, row {number})"
    return data, twinless


def checked_tokens(tokens: StoryTokenizer) -> StoryTokenizer:
    """The tokenizer of a collator; a TypeError if it is another one, such as that of the model."""
    if not isinstance(tokens, StoryTokenizer):
        raise TypeError(
            f"tokens is {type(tokens).__name__}, but must be that of a StoryEncoder:"
            " StoryEncoder.from_sentence_transformer(model).tokenizer"
        )
    return tokens


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
        self.tokens = checked_tokens(tokens)
        self.twins = twins
        self.distractors = distractors
        self.seed = seed
        # Shared memory, because data loader workers may keep their copy of the collator across
        # epochs.
        self._epoch = torch.tensor(epoch).share_memory_()  # type: ignore[no-untyped-call]
        self.others = dict(others or {})
        self.truncated_texts = 0
        # Required by the samplers of sentence-transformers.
        labels: dict[str, None] = {}
        for other in self.others.values():
            labels |= dict.fromkeys(getattr(other, "valid_label_columns", ()))
        self.valid_label_columns: list[str] = list(labels)

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
        encoded, sides, numbers = [], [], []
        for number, row in enumerate(rows):
            several_windows, texts = self._texts_of(row)
            for side, text in texts:
                encoded.append(self._encode(text, several_windows))
                sides.append(side)
                numbers.append(number)
        batch = padded_texts(encoded, self.tokens.pad_id)
        batch |= {"texts_side": torch.tensor(sides), "texts_row": torch.tensor(numbers)}
        return named(rows, batch)

    def _texts_of(self, row: Mapping[str, Any]) -> tuple[bool, list[tuple[int, WindowedText]]]:
        """Whether the story of a row has several windows, and the side and content of each text of
        the row."""
        random = Random(f"{self.seed} {self.epoch} {row['story']}")
        story, twin, negative, negative_twin = (
            _windowed_text(row, column, random)
            for column in ("story", "twin", "negative", "negative_twin")
        )
        assert story is not None
        several_windows = max(story[1]) > 0
        if self.twins == "dropout" or twin is None:
            # Dropout twin: the same text on both sides. If that is the twin, take its distractor as
            # well.
            if twin is not None and random.random() < 0.5:
                story = twin
                negative = negative_twin or negative
            twin = story
            negative_twin = negative
        texts = [(STORY, story), (TWIN, twin)]
        if self.distractors and negative is not None:
            texts.append((DISTRACTOR, negative))
            # Distractors with several windows are only used as negatives, which needs no twin.
            if negative_twin is not None and not several_windows:
                texts.append((DISTRACTOR_TWIN, negative_twin))
        return several_windows, texts

    def _encode(self, text: WindowedText, several_windows: bool) -> tuple[Ids, Ids]:
        """Token ids of a text and the window of each token."""
        tokens = self.tokens
        sentences, windows = text
        ids, sentence_of_token = tokens.tokenize_joined(tokens.texts(sentences))
        limit = tokens.max_text_tokens
        if len(ids) > limit:
            if not self.truncated_texts:
                logger.warning(
                    "a text of %d tokens is cut to the %d that fit the context, and windows beyond"
                    " are not trained on (further texts are not reported)",
                    len(ids),
                    limit,
                )
            self.truncated_texts += 1
        window_ids = np.asarray(windows, np.int32)[sentence_of_token[:limit]]
        # Special tokens are only pooled if the story has one window. `windows` does not show it:
        # the random choices may put all sentences of a twin into the first of several windows.
        special = -1 if several_windows else 0
        return np.concatenate([tokens.head, ids[:limit], tokens.tail]), np.pad(
            window_ids, (len(tokens.head), len(tokens.tail)), constant_values=special
        )


def padded_texts(texts: Sequence[tuple[Ids, Ids]], pad: int) -> dict[str, Any]:
    """Texts, each as token ids and the window of each token, as tensors of shape (texts, longest):
    `texts_input_ids`, padded with the id `pad`; `texts_attention_mask`; `texts_window_ids`."""
    shape = len(texts), max((len(ids) for ids, _ in texts), default=0)
    input_ids = torch.full(shape, pad)
    attention_mask = torch.zeros(shape, dtype=torch.long)
    window_ids = torch.full(shape, -1)
    for i, (ids, windows) in enumerate(texts):
        input_ids[i, : len(ids)] = torch.as_tensor(ids)
        attention_mask[i, : len(ids)] = 1
        window_ids[i, : len(ids)] = torch.as_tensor(windows)
    return {
        "texts_input_ids": input_ids,
        "texts_attention_mask": attention_mask,
        "texts_window_ids": window_ids,
    }


def named(rows: Sequence[Mapping[str, Any]], batch: dict[str, Any]) -> dict[str, Any]:
    """A batch with the name of the data set of its rows, if there are several data sets."""
    name = rows[0].get("dataset_name")
    return batch if name is None else batch | {"dataset_name": name}


def flat_text(content: Sequence[Any]) -> WindowedText:
    """The sentences of a text that may be in windows, and the window of each."""
    windows = content if is_nested(content) else [content]
    pairs = [(sentence, number) for number, window in enumerate(windows) for sentence in window]
    return [sentence for sentence, _ in pairs], [number for _, number in pairs]


def _windowed_text(row: Mapping[str, Any], column: str, random: Random) -> WindowedText | None:
    """A column of a row, in any format that `check_twins_row` accepts, as sentences and their
    windows."""
    content = row.get(column)
    if content is None:
        return None
    candidates = row.get(f"{column}_windows")
    if candidates is None or is_nested(content):
        return flat_text(content)
    drawn = [random.choice(windows) if len(windows) else -1 for windows in candidates]
    return list(content), drawn


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


class WholeStream(torch.utils.data.IterableDataset[Any]):
    """A stream all of whose rows each process reads, to take its share of each batch. Shares of the
    files would have different numbers of rows, and the process with more would wait for the others
    forever."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.set_epoch = rows.set_epoch

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


def whole_stream_loader(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The data loader of a stream, for `Accelerator.prepare` with `dispatch_batches=False`."""
    kept = [
        *("batch_size", "drop_last", "collate_fn", "num_workers"),
        *("pin_memory", "persistent_workers", "prefetch_factor"),
    ]
    options: Any = {name: getattr(loader, name) for name in kept}
    return DataLoader(WholeStream(loader.dataset), **options)


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
    """Updates the epoch of the collator and of all samplers of a trainer, on which their random
    choices depend."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.next_epoch: int = self.trainer.first_epoch

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
