"""The story encoder: turns variants of stories into vectors, with each distinct text encoded
once."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.adapters import check_no_adapter, has_adapter, merged_copy
from narrative_twins.encoder.backends import PortableModel, PortablePasses, portable_backend
from narrative_twins.encoder.checkpoint import (
    ModelFacts,
    default_encoder,
    module_settings,
    write_checkpoint_settings,
)
from narrative_twins.encoder.names import resolve_name
from narrative_twins.encoder.os_errors import os_errors
from narrative_twins.encoder.pooling import Pooling, check_pooling
from narrative_twins.encoder.tokens import (
    Chunk,
    StoryTokenizer,
    TokenizedStory,
    check_vocabulary,
    plain_ids,
)

if TYPE_CHECKING:
    import torch

    from narrative_twins.encoder.passes import Attention

logger = logging.getLogger(__name__)


class StoryEncoder:
    """A bidirectional encoder with its tokenizer, which turns variants of stories into vectors.

    Args:
        model, tokenizer: any `AutoModel` encoder (BERT, RoBERTa, MPNet, ModernBERT and similar) or
            `PortableModel`, and its tokenizer.
        pooling: `"mean"` or `"first"`; default that of the checkpoint, else `"mean"`.
        context_tokens: read at most this many tokens at once, special tokens included; default the
            model's maximum.
        batch_tokens: tokens per forward pass, padding included; default `BATCH_TOKENS` of the
            device.
        attention: `"packed"` concatenates texts without padding, `"padded"` pads them, `"auto"`
            packs if the model can. Like `batch_tokens` it affects speed and memory only, not
            results.

    Raises:
        ValueError: the model is not a text encoder, its pooling is not supported, or an option is
            invalid.
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
        self.model: Any = model if isinstance(model, PortableModel) else model.eval()
        settings, limit, vocabulary = _facts(model, tokenizer)
        if settings.problem is not None and pooling is None:
            raise ValueError(f"{settings.problem}; repair it, or set pooling= to 'mean' or 'first'")
        self.pooling = check_pooling(pooling or settings.pooling or "mean")
        if settings.prompt:
            logger.warning("the checkpoint's default prompt %r is ignored", settings.prompt)
        check_vocabulary(model.name_or_path, tokenizer, vocabulary)
        self.tokens = StoryTokenizer(
            tokenizer, min(limit, context_tokens or limit), settings.lowercase
        )
        # Two short texts that differ only in the last token, for testing what the model can do.
        plain = plain_ids(tokenizer)[-3:]
        text, other = (
            np.array([*self.tokens.head, *ids], np.int32)
            for ids in (plain, [*plain[:-1], plain[0]])
        )
        # Padding is masked, so any id will do if the tokenizer has no padding token.
        pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.passes: Any
        if isinstance(model, PortableModel):
            self.passes = PortablePasses(
                model, (text, other), self.context_tokens, pad_id, batch_tokens
            )
        else:
            from narrative_twins.encoder.passes import ForwardPasses

            self.passes = ForwardPasses(
                model, (text, other), self.context_tokens, pad_id, attention, batch_tokens
            )

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
        backend: str = "torch",
        **options: Any,
    ) -> StoryEncoder:
        """Load an encoder.

        Args:
            name: folder or Hub id of a sentence-transformers model (also without its organization)
                or any `AutoModel` encoder, or of a PEFT adapter of one, which is merged into its
                base; None for the default.
            device: default the first accelerator, else the CPU.
            dtype: precision; `"auto"` for the fastest that keeps ranks: on a CPU or CUDA device
                with native bfloat16, matrix products in bfloat16 and float32 between them, else
                float32 throughout.
            pooling, context_tokens, batch_tokens, attention: see `StoryEncoder`.
            backend: `"torch"`, or `"onnx"`, which runs models that `narrative-twins export` makes on
                a CPU, in float32 and without importing torch; see `PortableModel` for the errors.
            options: for `from_pretrained` of model and tokenizer, such as `revision` or `token`.

        Raises:
            OSError: the model or tokenizer is missing or can't be loaded, or the weights are not
                those of the model.
            ValueError: as `StoryEncoder`; also if the dtype or device is invalid.
        """
        settings: dict[str, Any] = {
            "pooling": pooling,
            "context_tokens": context_tokens,
            "batch_tokens": batch_tokens,
            "attention": attention,
        }
        name, options = (
            (default_encoder(), options) if name is None else resolve_name(name, options)
        )
        if backend != "torch":
            if device is not None and str(device) != "cpu":
                raise ValueError(
                    f"device {str(device)!r} can't be used: backend={backend!r} runs on a CPU"
                )
            if str(dtype).removeprefix("torch.") not in ("auto", "float32"):
                raise ValueError(f"dtype {str(dtype)!r}: backend={backend!r} runs in float32 only")
            portable = portable_backend(backend)(name, **options)
            return cls(portable, portable.tokenizer(), **settings)
        from narrative_twins.encoder.models import load_model_and_tokenizer

        model, tokenizer = load_model_and_tokenizer(name, device, dtype, options)
        return cls(model, tokenizer, **settings)

    @classmethod
    def from_sentence_transformer(cls, model: Any, **options: Any) -> StoryEncoder:
        """The encoder of a loaded `SentenceTransformer` (a transformer, its pooling and perhaps
        normalization, which is ignored), sharing its weights. Takes the options of `StoryEncoder`,
        and raises ValueError as it does, also if the first module is not a transformer."""
        transformer = getattr(model[0], "auto_model", None)
        if transformer is None:
            raise ValueError(
                f"the first module is {type(model[0]).__name__}, but must be a transformer"
            )
        transformer.checkpoint_settings = module_settings(model)
        return cls(transformer, model.tokenizer, **options)

    def on_accelerator(self, number: int) -> StoryEncoder:
        """The encoder with its model moved to the accelerator of a number, counted around; on a
        CPU, or if there are not several accelerators, the encoder itself."""
        if self.device.type == "cpu":
            return self
        import torch

        count = torch.accelerator.device_count()
        if count < 2:
            return self
        return StoryEncoder(
            self.model.to(torch.device(self.device.type, number % count)),
            self.tokens.tokenizer,
            pooling=self.pooling,
            context_tokens=self.context_tokens,
            batch_tokens=self.passes.batch_tokens,
            attention=self.passes.attention,
        )

    @property
    def device(self) -> torch.device:
        """The device that the model is on."""
        device: torch.device = self.model.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of matrix products; that of the weights may be higher."""
        dtype: torch.dtype = self.passes.dtype
        return dtype

    @property
    def context_tokens(self) -> int:
        """How many tokens are read at once, special tokens included."""
        return self.tokens.context_tokens

    def save_pretrained(self, folder: str | Path) -> None:
        """Save model, tokenizer and settings as a plain sentence-transformers checkpoint; an
        adapter of PEFT is merged into the weights that are saved. Raises ValueError if it can't be
        merged, the folder has an adapter, or the encoder does not run by torch; OSError if the
        folder can't be written."""
        if isinstance(self.model, PortableModel):
            raise ValueError(
                f"the encoder runs by {self.model.backend}; save the one that it was exported from"
            )
        check_no_adapter(folder)
        model = merged_copy(self.model) if has_adapter(self.model) else self.model
        with os_errors(folder):
            model.save_pretrained(folder)
            self.tokens.tokenizer.save_pretrained(folder)
        self.save_settings(folder)

    def save_settings(self, folder: str | Path) -> None:
        """Save the settings only (pooling, preparation of text) in the folder of a saved model and
        tokenizer."""
        tokens = self.tokens
        write_checkpoint_settings(
            folder,
            self.pooling,
            self.model.config.hidden_size,
            tokens.lowercase,
            self.context_tokens,
        )

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Push the encoder in the plain layout of sentence-transformers with its card, as
        `hub.push_encoder` does.

        Args:
            repo_id: the Hub id, `user/name`.
            options: other options of `push_encoder`: `facts`, `private`, `update`, `with_code`,
                `revision`, `token`, `message`.

        Returns:
            The URL of the repository.

        Raises:
            HubError, OSError, ValueError: as `push_encoder`.
            ImportError: a library for pushes is missing; or this is the code of a repository, which
                can't push.
        """
        # By name, since `hub` is built on encoders; and imported modules become part of the
        # self-contained form.
        try:
            push = importlib.import_module("narrative_twins.hub.push")
        except ImportError as error:
            raise ImportError(
                f"pushing needs pip install 'narrative_twins[train]' ({error})"
            ) from error
        if not isinstance(self, push.StoryEncoder):
            raise ImportError(
                "this encoder was loaded by the code of a repository; to push it, import"
                " narrative_twins and load it from the branch main without trust_remote_code"
            )
        url: str = push.push_encoder(self, repo_id, **options)
        return url

    def tokenize(self, sentences: Sequence[str]) -> TokenizedStory:
        """Tokenize a story, each sentence once."""
        return self.tokens.tokenize(sentences)

    def encode(
        self, variants: Sequence[Sequence[Chunk]], progress: Callable[[float], None] | None = None
    ) -> NDArray[np.float32]:
        """Encode variants; returns one vector each, an array of shape (variants, dimensions),
        float32.

        Equal chunks pass through the model once, also if different tokens of them are pooled. The
        vector of a variant of several chunks is the mean over all its pooled tokens (with
        first-token pooling, over its chunks).

        Args:
            variants: the chunks of each variant, from `TokenizedStory.chunks`.
            progress: called after each forward pass with its share of the work; the shares add up
                to one.
        """
        # Dedupe the chunks: token ids -> mask of pooled tokens -> index of the pooled vector.
        unique: dict[bytes, dict[bytes, int]] = {}
        vector_ids: list[int] = []
        count = 0
        for chunks in variants:
            for chunk in chunks:
                masks = unique.setdefault(chunk.ids.tobytes(), {})
                vector_id = masks.setdefault(chunk.pooled.tobytes(), count)
                count += vector_id == count  # only if it is new
                vector_ids.append(vector_id)
        if not vector_ids:
            return np.empty((0, 0), np.float32)
        vectors, weights = self._pooled(unique, progress)
        sizes = [len(chunks) for chunks in variants]
        if max(sizes) == 1:
            return vectors[vector_ids]
        # Weighted means over the chunks of each variant.
        starts = np.cumsum([0, *sizes[:-1]])
        shares = weights[vector_ids, None]
        means: NDArray[np.float32] = np.add.reduceat(vectors[vector_ids] * shares, starts)
        means /= np.add.reduceat(shares, starts)
        return means

    def _pooled(
        self, unique: dict[bytes, dict[bytes, int]], progress: Callable[[float], None] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The pooled vectors by index, and the weight of each among the chunks of a variant."""
        texts = sorted(unique.items(), key=lambda item: len(item[0]), reverse=True)
        rows = [np.frombuffer(ids, np.int32) for ids, _ in texts]
        total = sum(map(len, rows))
        vectors: list[Any] = []
        vector_ids: list[int] = []
        weights: list[NDArray[np.int64]] = []
        with self.passes.running():
            for batch in self.passes.batches([len(row) for row in rows]):
                states = self.passes.states(rows[batch])
                masks = [
                    (i, mask)
                    for i, (_, text_masks) in enumerate(texts[batch])
                    for mask in text_masks
                ]
                vector_ids.extend(
                    index for _, text_masks in texts[batch] for index in text_masks.values()
                )
                # The tokens of each mask, as indices in the states of the batch.
                starts = np.cumsum([0, *map(len, rows[batch])])
                tokens = [
                    starts[i] + np.flatnonzero(np.frombuffer(mask, bool)) for i, mask in masks
                ]
                weights.append(
                    np.array([len(indices) if self.pooling == "mean" else 1 for indices in tokens])
                )
                vectors.append(self.passes.pooled(states, tokens, self.pooling))
                if progress is not None:
                    progress(int(starts[-1]) / total)
        order = np.argsort(vector_ids)
        return self.passes.array(vectors)[order], np.concatenate(weights).astype(np.float32)[order]


def _facts(model: Any, tokenizer: Any) -> ModelFacts:
    if isinstance(model, PortableModel):
        return model.facts(tokenizer)
    from narrative_twins.encoder.models import model_facts

    return model_facts(model, tokenizer)
