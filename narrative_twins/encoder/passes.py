"""Forward passes of a `transformers` model over texts: packed attention, precision, pooling."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import groupby
from threading import RLock
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface

from narrative_twins.encoder.loading import ATTENTIONS, Attention, Pooling
from narrative_twins.encoder.tokenizer import Ids, StoryTokenizer, first_position, padded

logger = logging.getLogger(__name__)

# Not named "flash": transformers looks for a kernel of any attention whose name contains that word.
PACKED = "narrative_twins_packed"
FLASH = "flash_attention_2"

BATCH_TOKENS = {"cpu": 2_048, "cuda": 131_072}
"""Tokens per forward pass, by device; other accelerators use the CUDA figure."""

ROUNDED_TOKENS = 32
"""On a CPU packed texts are filled up to a multiple of this many tokens. oneDNN caches kernels for
each number of tokens, which fragment the memory: otherwise a process grew by 579 MB over 100,000
stories."""

# A forked process does not have the threads of torch, and would wait for them forever.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

_LOCK = RLock()
_NO_MEMORY = "out of memory|can't allocate memory|ALLOC_FAILED"
_FIX = "use a text encoder, such as a BERT, RoBERTa, ModernBERT, Qwen3 or sentence-transformer"
POOLED_TOKENS = {"first": slice(1), "lasttoken": slice(-1, None)}
"""Which of the tokens of a window is pooled, for poolings that use only one."""


class ForwardPasses:
    """Runs a model over texts, and pools token states into vectors. Raises ValueError if the model
    returns no token states, or does not support the attention.

    Args:
        model: the `transformers` model. Matrix products are in the precision of its weights, or in
            `fast_dtype` if the model was loaded with `dtype="auto"` (see `load_story_model`).
        tokenizer: the tokenizer of the encoder.
        attention, batch_tokens: see `StoryEncoder`.

    Attributes:
        is_causal: whether the model reads from left to right only.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: StoryTokenizer,
        attention: Attention = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        if attention not in ATTENTIONS:
            raise ValueError(f"attention={attention!r}: choose {', '.join(map(repr, ATTENTIONS))}")
        self.model = model
        self.device: torch.device = model.device
        self._pad_id = tokenizer.pad_id
        self._first_position = first_position(model)
        is_cpu = self.device.type == "cpu"
        self.batch_tokens = batch_tokens or BATCH_TOKENS["cpu" if is_cpu else "cuda"]
        # The precision of matrix products, if the weights have another.
        self._products_dtype: torch.dtype | None = None
        if getattr(model, "precision", None) == "auto":
            if is_cpu and model.dtype in (torch.float16, torch.bfloat16):
                # On a CPU keeping weights in float32 costs little, and the cast changes no value.
                model.stored_dtype = model.dtype
                model.float()
            fast = fast_dtype(self.device)
            if model.dtype == torch.float32 and fast != torch.float32:
                self._products_dtype = fast
        # Decoders keep what they have read in a cache by default, which is not used here.
        takes_cache = "use_cache" in inspect.signature(model.forward).parameters
        self._options = {"use_cache": False} if takes_cache else {}
        self.is_causal = False
        # The attention that packed texts are read with; None if texts are padded.
        self._attention: str | None = None
        self._packs_compiled = attention == "packed"
        self._probe(tokenizer, attention)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of matrix products."""
        dtype: torch.dtype = self._products_dtype or self.model.dtype
        return dtype

    @property
    def products(self) -> AbstractContextManager[Any]:
        """A context manager: within its `with` block, torch computes matrix products as the passes
        of this encoder do: in `dtype`, and on some CPUs as convolutions."""
        if self._products_dtype is not None:
            return torch.autocast(self.device.type, self._products_dtype)
        return ConvolvedLinear() if linear_is_convolution(self.device) else nullcontext()

    @property
    def attention(self) -> Attention:
        """The attention in use, `"packed"` or `"padded"`."""
        return "padded" if self._packing is None else "packed"

    @property
    def _packing(self) -> str | None:
        """The name that transformers has for the attention of packed texts; None if texts are
        padded. By default texts of a compiled model are padded, since the model would be compiled
        again for each combination of the lengths of packed texts."""
        compiled = getattr(self.model, "_compiled_call_impl", None) or hasattr(
            self.model, "_orig_mod"
        )
        return None if compiled and not self._packs_compiled else self._attention

    @contextmanager
    def running(self) -> Iterator[None]:
        """Prepare the model for `states` within the `with` block: disable gradients, set attention
        and precision, and restore all three afterwards. Raises MemoryError if memory runs out."""
        # The lock keeps other threads from restoring the attention during a pass: texts would
        # attend to each other.
        with (
            _LOCK,
            torch.inference_mode(),
            using_attention(self.model, self._packing),
            self.products,
        ):
            try:
                yield
            except RuntimeError as error:  # torch raises another class for each device
                if not re.search(_NO_MEMORY, str(error)):
                    raise
                raise MemoryError(
                    f"a forward pass over up to {self.batch_tokens:,} tokens needs more memory than"
                    f" {self.device} has; set a lower batch_tokens (--batch-tokens), or a shorter"
                    f" context ({str(error).splitlines()[0]})"
                ) from error

    def states(self, rows: Sequence[Ids]) -> torch.Tensor:
        """Return the token states of texts in their order, shape (tokens of all texts, dimensions).
        `rows` has the token ids of each text. Call this in a block `with passes.running():`. Packed
        texts are fastest if texts of equal length are neighbors."""
        if self._packing is None:
            ids, is_token = padded(rows, self._pad_id)
            mask = self._tensor(is_token)
            output = self.model(input_ids=self._tensor(ids), attention_mask=mask, **self._options)
            states: torch.Tensor = output.last_hidden_state
            return states.flatten(0, 1) if is_token.all() else states[mask.bool()]
        total = sum(map(len, rows))
        if self.device.type == "cpu":
            # Fill up with texts of one token, which fit any context.
            rows = [*rows, *[rows[0][:1]] * (-total % ROUNDED_TOKENS)]
        lengths = [len(row) for row in rows]
        first = self._first_position
        positions = np.concatenate([np.arange(first, first + length) for length in lengths])
        ends = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32).to(self.device)
        # What keeps the texts apart is `text_runs` in packed attention, and the cumulative lengths
        # in flash attention; position ids or a padding mask alone would not.
        states = self.model(
            input_ids=self._tensor(np.concatenate(rows)).unsqueeze(0),
            position_ids=self._tensor(positions).unsqueeze(0),
            text_runs=[(len(list(run)), length) for length, run in groupby(lengths)],
            causal=self.is_causal,
            cu_seq_lens_q=ends,
            cu_seq_lens_k=ends,
            max_length_q=max(lengths),
            max_length_k=max(lengths),
            **self._options,
        ).last_hidden_state[0]
        return states[:total]

    def pooled(
        self,
        states: torch.Tensor,
        tokens: Sequence[NDArray[np.int64]],
        weights: Sequence[NDArray[np.float32]],
    ) -> torch.Tensor:
        """Return B vectors, each a weighted mean of token states: a tensor of shape (B, D), in
        float32 whatever the precision of the encoder.

        Args:
            states: token states of concatenated texts, shape (T, D).
            tokens: for each vector, the indices in `states` of its tokens, ascending, at least one.
            weights: for each vector, the weights of its tokens.
        """
        # An embedding bag sums the tokens of each vector, given all their indices and where the
        # indices of each vector start.
        starts = np.cumsum([0, *map(len, tokens[:-1])])
        sums = F.embedding_bag(
            self._tensor(np.concatenate(tokens)),
            states.float(),
            self._tensor(starts),
            mode="sum",
            per_sample_weights=torch.from_numpy(np.concatenate(weights)).to(states.device),
        )
        totals = np.array([each.sum() for each in weights], np.float32)
        return sums / torch.from_numpy(totals).to(states.device).unsqueeze(1)

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """Return an array of integers as a tensor on the device; copy to a GPU asynchronously."""
        tensor = torch.from_numpy(array.astype(np.int64))
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)

    def _probe(self, tokenizer: StoryTokenizer, attention: Attention) -> None:
        """Set `is_causal`, the attention of packed texts and `batch_tokens` by trial passes over
        short texts. Raises ValueError if the model returns no token states, or if `attention` is
        `"packed"` and the model can't process packed texts."""
        name = type(self.model).__name__
        if getattr(self.model.config, "is_encoder_decoder", False):
            raise ValueError(f"{name} is an encoder-decoder, not an encoder; {_FIX}")
        text, other = tokenizer.probes()
        longer = np.tile(text, 3)[: tokenizer.context_tokens]
        try:
            alone, other_alone = self._run([text]), self._run([other])
        except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            raise ValueError(
                f"{name} did not return token states for a text ({error}); {_FIX}"
            ) from error
        # The texts differ in the last token only.
        self.is_causal = torch.equal(alone[0], other_alone[0])
        if attention != "padded":
            expected = torch.cat([self._run([longer]), alone, other_alone])
            for attention_name in self._attentions():
                self._attention = attention_name
                try:
                    if self._same(expected, self._run([longer, text, other])):
                        return
                    reason = "packed texts have different states"
                except Exception as error:  # Whatever a model or kernel fails with, padding works.
                    reason = str(error)
                logger.debug("%s is not used with %s: %s", self._attention, name, reason)
            self._attention = None
            if attention == "packed":
                raise ValueError(
                    f"{name} can't process packed texts; use attention='auto' or attention='padded'"
                )
            logger.info("%s can't process packed texts, so they are padded", name)
        if not self._same(alone, self._run([text, longer])[: len(text)]):
            logger.info("padding changes the states of %s, so each text is a batch", name)
            self.batch_tokens = 1

    def _attentions(self) -> list[str]:
        """Return the attention implementations to try for packed texts, the fastest first."""
        flash = self.device.type == "cuda" and self.dtype in (torch.float16, torch.bfloat16)
        return [FLASH, PACKED] if flash else [PACKED]

    def _run(self, rows: list[Ids]) -> torch.Tensor:
        """Return the token states of texts, as `states`, in a block `with self.running()`."""
        with self.running():
            return self.states(rows)

    def _same(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Return whether two tensors have the same shape and, up to rounding, the same values."""
        tolerance = 1e-3 if self.dtype == torch.float32 else 0.1
        return a.shape == b.shape and bool((a - b).abs().max() <= tolerance * a.abs().max())


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return the fastest precision of matrix products in which scores rank as in float32: bfloat16
    on CUDA devices that multiply in it natively, else float32. (On a CPU in bfloat16, scores would
    depend on the other texts of the batch.)"""
    native = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.bfloat16 if native else torch.float32


def in_stored_dtype(model: Any) -> Any:
    """Return a copy of a model in the dtype of its checkpoint, if `ForwardPasses` cast its weights
    to float32 and casting them back loses nothing; otherwise return the model itself."""
    stored = getattr(model, "stored_dtype", model.dtype)
    if stored == model.dtype or not all(
        torch.equal(weight, weight.to(stored).to(weight.dtype)) for weight in model.parameters()
    ):
        return model
    return copy.deepcopy(model).to(stored)


def linear_is_convolution(device: torch.device) -> bool:
    """Return whether torch computes linear layers faster as convolutions on a device: on an x86
    CPU, since torch has convolutions by oneDNN, but float32 products by MKL, which leaves half of
    an AMD processor idle."""
    one_dnn: Any = torch.backends.mkldnn
    x86_cpu = device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return x86_cpu and bool(one_dnn.is_available() and one_dnn.enabled)


class ConvolvedLinear(TorchFunctionMode):
    """Context manager, for inference: within its `with` block, torch computes linear layers as
    convolutions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, `func`, but `_convolved` in place of `F.linear`."""
        return (_convolved if func is F.linear else func)(*args, **(kwargs or {}))


def _convolved(
    states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Return `F.linear(states, weight, bias)`, computed as a 1x1 convolution."""
    if not states.numel():
        return F.linear(states, weight, bias)
    # A 1x1 convolution over an image of shape (1, dimensions, tokens, 1): tokens are pixels,
    # dimensions are channels, in channels-last order, so that the memory layout does not change.
    image = states.reshape(1, -1, 1, states.shape[-1]).permute(0, 3, 1, 2)
    product = F.conv2d(image, weight[:, :, None, None], bias)
    return product.permute(0, 2, 3, 1).reshape(*states.shape[:-1], -1)


@contextmanager
def using_attention(model: Any, attention: str | None) -> Iterator[None]:
    """Switch a model to the attention with this name within the `with` block; None changes nothing.
    Raises ImportError if the attention needs a package that is missing, and ValueError if the model
    does not support the attention."""
    before = model.config._attn_implementation
    if attention is None or attention == before:
        yield
        return
    # A model that can't switch would keep its attention, with a warning that helps no user.
    if not getattr(model, "_can_set_attn_implementation", lambda: True)():
        raise ValueError(f"{type(model).__name__} has one attention only")
    model.set_attn_implementation(attention)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    text_runs: list[tuple[int, int]],
    causal: bool = False,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention for texts that are concatenated in one row: a token attends only to tokens
    of its text. Returns states of shape (1, tokens, heads, head dimensions), and None in place of
    attention weights. `attention_mask` is not used, since there is no padding.

    Args:
        query, key, value: of shape (1, heads, tokens, head dimensions); key and value may have
            fewer heads, each for several of the query.
        text_runs: for each run of neighboring texts of equal length, the number of texts and the
            tokens of each: texts of 5, 5 and 3 tokens are `[(2, 5), (1, 3)]`.
        causal: whether a token attends only to itself and tokens before it.
        scaling: factor of the query-key products; None for 1 / sqrt(head dimensions).
        sliding_window: a token attends to tokens less than this many positions away; None for all.
    """
    outputs, start = [], 0
    for count, length in text_runs:
        stop = start + count * length
        # Split the run into its texts, as views: (heads, count * length, size) -> (count, heads,
        # length, size).
        q, k, v = (
            states[0, :, start:stop]
            .view(states.shape[1], count, length, -1)
            .transpose(0, 1)
            .to(value.dtype)
            for states in (query, key, value)
        )
        mask = None
        if sliding_window is not None and length > sliding_window:
            positions = torch.arange(length, device=query.device)
            distance = positions[:, None] - positions
            mask = (distance.abs() < sliding_window) & ((distance >= 0) | (not causal))
        is_causal, is_grouped = causal and mask is None, q.shape[1] != k.shape[1]
        output = F.scaled_dot_product_attention(
            q, k, v, mask, dropout, is_causal, scale=scaling, enable_gqa=is_grouped
        )
        outputs.append(output.transpose(1, 2).flatten(0, 1))
        start = stop
    return torch.cat(outputs).unsqueeze(0), None


AttentionInterface.register(PACKED, packed_attention)
# No mask is needed, since `packed_attention` itself keeps the texts apart.
AttentionMaskInterface.register(PACKED, lambda *_, **__: None)


def pool_windows(
    states: torch.Tensor, window_ids: torch.Tensor, windows: int, pooling: Pooling = "mean"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool token states by window, in float32. Returns vectors, shape (B, W, D), and whether each
    window has a token, bool, shape (B, W). A window without tokens has a zero vector.

    Args:
        states: token states, shape (B, T, D).
        window_ids: the window of each token, shape (B, T); -1 for tokens that are not pooled.
        windows: number of windows, W.
        pooling: how the tokens of a window are pooled, see `StoryEncoder`.
    """
    # The weight of each token in each window, shape (B, W, T): 1 where it belongs to the window,
    # else 0.
    numbers = torch.arange(windows, device=window_ids.device).view(1, -1, 1)
    weights = (window_ids.unsqueeze(1) == numbers).float()
    present = weights.any(dim=2)
    if pooling in ("weightedmean", "lasttoken"):
        weights = weights * torch.arange(1, weights.shape[2] + 1, device=weights.device)
    if pooling in POOLED_TOKENS:
        # The token with the highest weight: the first of equal weights, or the last token.
        token = weights.argmax(dim=2, keepdim=True)
        weights = torch.zeros_like(weights).scatter_(2, token, present.unsqueeze(2).float())
    sums = torch.bmm(weights, states.float())
    return sums / weights.sum(dim=2, keepdim=True).clamp(min=1), present
