"""Forward passes over texts in one row, without padding: attention stays within each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AttentionInterface, AttentionMaskInterface

from narrative_twins.encoder.tokens import Ids

# The word "flash" in the name of an attention makes transformers look for a kernel of it.
PACKED = "narrative_twins_packed"
FLASH = "flash_attention_2"

_CACHED_SCORES = 3 * 2**19
"""Three megabytes of attention scores in bfloat16."""

Runs = list[tuple[int, int]]
"""Texts of equal length in a row: how many, and how long."""


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    text_runs: Runs,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of each text of a row to itself, for texts of equal length at once.

    Args:
        module: the layer.
        query, key, value: of shape (1, heads, tokens, head dimensions).
        attention_mask: not used; there is no padding.
        text_runs: the texts of the row.
        scaling: of the products; None for the usual one.
        dropout: share of the attention weights that are dropped.
        sliding_window: a token attends to those less than so many places away; None for all.

    Returns:
        Shape (1, tokens, heads, head dimensions), and no weights.
    """
    # Of very short and very long texts torch's own is faster all the same.
    slow = value.dtype == torch.bfloat16 and value.device.type == "cpu" and torch.is_inference_mode_enabled()
    done, start = [], 0
    for count, length in text_runs:
        stop = start + count * length
        # (count, heads, length, size) of a stretch of the row, as views.
        q, k, v = (
            one[0, :, start:stop].view(one.shape[1], count, length, -1).transpose(0, 1).to(value.dtype)
            for one in (query, key, value)
        )
        mask = None
        if sliding_window is not None and length > sliding_window:
            places = torch.arange(length, device=query.device)
            mask = (places[:, None] - places).abs() < sliding_window
        if slow and 48 <= length <= 1_024:
            states = _attention_in_chunks(q * (q.shape[3] ** -0.5 if scaling is None else scaling), k, v, mask)
        else:
            states = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling)
        done.append(states.transpose(1, 2).flatten(0, 1))
        start = stop
    return torch.cat(done).unsqueeze(0), None


def _attention_in_chunks(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Attention in bfloat16 on a CPU, where torch's own is slow: so many texts at a time as the caches hold the scores
    of, in memory that is asked for once. The queries are scaled; all of shape (texts, heads, tokens, size)."""
    count, heads, length, size = value.shape
    many = min(count, max(1, _CACHED_SCORES // (heads * length**2)))
    scores = value.new_empty(many * heads, length, length)
    out = torch.empty_like(value, memory_format=torch.contiguous_format)
    for start in range(0, count, many):
        q, k, v, done = (one[start : start + many].reshape(-1, length, size) for one in (query, key, value, out))
        part = torch.bmm(q, k.transpose(1, 2), out=scores[: len(q)])
        if mask is not None:
            part.masked_fill_(~mask, -torch.inf)
        torch.bmm(torch.softmax(part, 2, out=part), v, out=done)
    return out


def _no_mask(*_: Any, **__: Any) -> None:
    """What keeps texts apart is the attention itself."""


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _no_mask)


@contextmanager
def using_attention(model: Any, attention: str | None) -> Iterator[None]:
    """The model with the attention of a name, None for its own; afterwards with the one it had.

    Raises:
        ImportError: what the attention needs is not installed.
        ValueError: the model has no such attention.
    """
    before = model.config._attn_implementation
    if attention is None or attention == before:
        yield
        return
    model.set_attn_implementation(attention)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def training_attention(model: Any) -> str | None:
    """The attention that a model trains fastest with, where that is not its own: plain products and a softmax in
    bfloat16 on a CPU, where torch's attention with dropout is slow (`benchmarks/training.py`)."""
    slow = model.device.type == "cpu" and model.dtype == torch.bfloat16
    return "eager" if slow and model.config._attn_implementation == "sdpa" else None


def packed_states(model: Any, rows: Sequence[Ids], first_position: int) -> torch.Tensor:
    """Token states of some texts from one row of tokens; fastest where texts of equal length are neighbours.

    Args:
        model: one that is `using_attention` by runs, or by flash attention.
        rows: token ids of each text.
        first_position: of a text, see `checkpoint.first_position`.

    Returns:
        Shape (tokens of all texts, dimensions).
    """
    lengths = [len(row) for row in rows]
    places = np.concatenate([np.arange(first_position, first_position + length) for length in lengths])
    ends = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32).to(model.device)
    # Either attention takes what it needs of these; padding masks and positions alone would not keep texts apart.
    states: torch.Tensor = model(
        input_ids=to_device(np.concatenate(rows), model.device).unsqueeze(0),
        position_ids=to_device(places, model.device).unsqueeze(0),
        text_runs=[(len(list(run)), length) for length, run in groupby(lengths)],
        cu_seq_lens_q=ends,
        cu_seq_lens_k=ends,
        max_length_q=max(lengths),
        max_length_k=max(lengths),
    ).last_hidden_state[0]
    return states


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Integers as a tensor there; the copy to a GPU overlaps with what it computes."""
    tensor = torch.from_numpy(array.astype(np.int64))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
