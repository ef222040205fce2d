"""The story encoder: variants of stories to vectors, each text passed through the model once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer

from narrative_twins.encoder.checkpoint import (
    SETTINGS,
    AutoStoryModel,
    CheckpointSettings,
    default_encoder,
    module_settings,
    read_checkpoint_settings,
    story_tokenizer,
    write_checkpoint_settings,
)
from narrative_twins.encoder.passes import Attention, ForwardPasses
from narrative_twins.encoder.pooling import Pooling, check_pooling, pool
from narrative_twins.encoder.tokens import Chunk, TokenizedStory

logger = logging.getLogger(__name__)


class StoryEncoder:
    """A bidirectional encoder with its tokenizer, as a function from variants of stories to vectors.

    Args:
        model: any `AutoModel` encoder (BERT, RoBERTa, MPNet, ModernBERT and the like).
        tokenizer: its tokenizer.
        pooling: `"mean"` or `"first"`; default what the checkpoint says, else `"mean"`.
        context_tokens: read at most so many tokens at once, special tokens included; default what the model can.
        batch_tokens: tokens in a forward pass, padding included, default by device, see `BATCH_TOKENS`. A matter of
            speed and memory: results stay the same.
        attention: `"packed"` puts texts in a row without padding, `"padded"` side by side; `"auto"` packs where the
            model can. Results stay the same.

    Raises:
        ValueError: the model is no encoder of text, pools in a way that has no window level, or can't do what is asked.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        pooling: Pooling | None = None,
        context_tokens: int | None = None,
        batch_tokens: int | None = None,
        attention: Attention = "auto",
    ) -> None:
        self.model = model.eval()
        settings = _settings_of(model)
        self.pooling = check_pooling(pooling or settings.pooling or "mean")
        if settings.prompt:
            logger.warning("the checkpoint's prompt %r is not put before the texts", settings.prompt)
        self.tokens = story_tokenizer(model, tokenizer, settings, context_tokens)
        plain = sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))[-3:]
        one, other = (np.array([*self.tokens.head, *ids], np.int32) for ids in (plain, [*plain[:-1], plain[0]]))
        # Padding is masked, so where the tokenizer names none any id does.
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.passes = ForwardPasses(model, (one, other), self.context_tokens, pad, attention, batch_tokens)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        device: str | int | torch.device | None = None,
        dtype: str | torch.dtype = "auto",
        pooling: Pooling | None = None,
        context_tokens: int | None = None,
        batch_tokens: int | None = None,
        attention: Attention = "auto",
        **options: Any,
    ) -> StoryEncoder:
        """Load an encoder.

        Args:
            name: folder or Hub id of a sentence-transformers model or any `AutoModel` encoder; None for the default.
            device: where it runs; default the first accelerator, else the CPU.
            dtype: precision; `"auto"` for the fastest that keeps ranks: matrix products in bfloat16 where the CPU or
                CUDA device multiplies in it, and float32 between them, else float32 throughout.
            pooling, context_tokens, batch_tokens, attention: see `StoryEncoder`.
            options: for `from_pretrained` of model and tokenizer, such as `revision` or `token`.

        Raises:
            OSError: there is no such model.
            ValueError: as `StoryEncoder`; also for a precision or device there is not.
        """
        name = str(name) if name is not None else default_encoder()
        if isinstance(dtype, str) and dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise ValueError(f"dtype {dtype!r} is no precision; give 'auto' or such as 'float32' or 'bfloat16'")
        if device is None:
            device = torch.accelerator.current_accelerator() or "cpu" if torch.accelerator.is_available() else "cpu"
        try:
            model = AutoStoryModel.from_pretrained(name, dtype=dtype, **options)
            tokenizer = AutoTokenizer.from_pretrained(name, **options)
        except OSError as error:
            kind = "it is a folder" if Path(name).exists() else "no folder of this name, so taken as a Hub id"
            raise OSError(f"encoder {name!r} can't be loaded ({kind}): {error}") from error
        try:
            model.to(device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"device {str(device)!r} can't be used: {error}") from error
        return cls(
            model,
            tokenizer,
            pooling=pooling,
            context_tokens=context_tokens,
            batch_tokens=batch_tokens,
            attention=attention,
        )

    @classmethod
    def from_sentence_transformer(cls, model: Any, **options: Any) -> StoryEncoder:
        """The encoder of a loaded `SentenceTransformer`, whose weights it shares.

        Args:
            model: a `SentenceTransformer` of a transformer and its pooling; normalization does not matter.
            options: those of `StoryEncoder`.

        Raises:
            ValueError: as `StoryEncoder`; also where the model is no such thing.
        """
        transformer = getattr(model[0], "auto_model", None)
        if transformer is None:
            raise ValueError(f"{type(model[0]).__name__} as the first module is no transformer; load one that is")
        transformer.checkpoint_settings = module_settings(model)
        return cls(transformer, model.tokenizer, **options)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self.model.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of matrix products; that of the weights may be higher."""
        return self.passes.dtype

    @property
    def context_tokens(self) -> int:
        """How many tokens are read at once, special tokens included."""
        return self.tokens.context_tokens

    def save_pretrained(self, folder: str | Path) -> None:
        """Save as a plain sentence-transformers checkpoint: model, tokenizer and how it pools."""
        self.model.save_pretrained(folder)
        self.tokens.tokenizer.save_pretrained(folder)
        self.save_settings(folder)

    def save_settings(self, folder: str | Path) -> None:
        """Write beside a saved model and tokenizer how the encoder pools and prepares text."""
        tokens = self.tokens
        write_checkpoint_settings(
            folder, self.pooling, self.model.config.hidden_size, tokens.lowercase, self.context_tokens
        )

    def tokenize(self, sentences: Sequence[str]) -> TokenizedStory:
        """Tokenize a story, each sentence once."""
        return self.tokens.tokenize(sentences)

    def encode(
        self, variants: Sequence[Sequence[Chunk]], progress: Callable[[float], None] | None = None
    ) -> NDArray[np.float32]:
        """One vector for each variant.

        Equal chunks go through the model once, whoever asks for them and whatever of them is pooled. A variant of
        several chunks is the mean of all its pooled tokens (with first-token pooling, of its chunks).

        Args:
            variants: the chunks of each, from `TokenizedStory.chunks`.
            progress: called after each forward pass with its share of the work; the shares add up to one.

        Returns:
            Array of shape (variants, dimensions), float32.
        """
        # Token ids, and the masks over them, are their own keys: text -> mask -> place among the pooled vectors.
        unique: dict[bytes, dict[bytes, int]] = {}
        members: list[int] = []
        places = 0
        for chunks in variants:
            for chunk in chunks:
                masks = unique.setdefault(chunk.ids.tobytes(), {})
                place = masks.setdefault(chunk.pooled.tobytes(), places)
                places += place == places
                members.append(place)
        if not members:
            return np.empty((0, 0), np.float32)
        vectors, weights = self._pooled(unique, progress)
        sizes = [len(chunks) for chunks in variants]
        if max(sizes) == 1:
            return vectors[members]
        starts = np.cumsum([0, *sizes[:-1]])
        shares = weights[members, None]
        means: NDArray[np.float32] = np.add.reduceat(vectors[members] * shares, starts)
        means /= np.add.reduceat(shares, starts)
        return means

    def _pooled(
        self, unique: dict[bytes, dict[bytes, int]], progress: Callable[[float], None] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The pooled vectors by place, and how much each weighs among the chunks of a variant."""
        texts = sorted(unique.items(), key=lambda item: len(item[0]), reverse=True)
        rows = [np.frombuffer(key, np.int32) for key, _ in texts]
        total = sum(map(len, rows))
        found: list[torch.Tensor] = []
        places: list[int] = []
        weights: list[NDArray[np.int64]] = []
        with self.passes.running():
            for batch in self.passes.batches([len(row) for row in rows]):
                states = self.passes.states(rows[batch])
                masks = [(at, key) for at, (_, own) in enumerate(texts[batch]) for key in own]
                places.extend(place for _, own in texts[batch] for place in own.values())
                starts = np.cumsum([0, *map(len, rows[batch])])
                members = [starts[at] + np.flatnonzero(np.frombuffer(key, bool)) for at, key in masks]
                weights.append(np.array([len(one) if self.pooling == "mean" else 1 for one in members]))
                found.append(pool(states, members, self.pooling))
                if progress is not None:
                    progress(int(starts[-1]) / total)
        order = np.argsort(places)
        return torch.cat(found).cpu().numpy()[order], np.concatenate(weights).astype(np.float32)[order]


def _settings_of(model: Any) -> CheckpointSettings:
    """The settings of a model's checkpoint, also where the model was loaded by plain `AutoModel`."""
    stored = getattr(model, "checkpoint_settings", None)
    if isinstance(stored, CheckpointSettings):
        return stored
    # The self-contained form, which plain `AutoModel` loads from the Hub, has them in its configuration.
    settings = getattr(model.config, SETTINGS, None)
    if settings is not None:
        return CheckpointSettings(**settings)
    folder = Path(model.name_or_path) if getattr(model, "name_or_path", "") else None
    return read_checkpoint_settings(folder) if folder is not None and folder.is_dir() else CheckpointSettings()
