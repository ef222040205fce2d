"""Attention over several texts concatenated in one row without padding: each text attends only to
itself."""

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

# Not named "flash": transformers looks for a kernel of any attention whose name contains that word.
PACKED = "narrative_twins_packed"
FLASH = "flash_attention_2"

_CACHED_SCORES = 3 * 2**19
"""Attention scores per chunk: three megabytes in bfloat16."""

Runs = list[tuple[int, int]]
"""Runs of consecutive texts of equal length: how many texts, and how many tokens each has."""


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
    """Attention of each text in a row to itself, computed for texts of equal length at once.
    Returns states of shape (1, tokens, heads, head dimensions). `attention_mask` is not used, since
    there is no padding.

    Args:
        query, key, value: of shape (1, heads, tokens, head dimensions).
        text_runs: lengths of the texts in the row.
        scaling: factor of the query-key products; None for 1 / sqrt(head dimensions).
        sliding_window: a token attends to tokens less than this many positions away; None for all.
    """
    slow = (
        value.dtype == torch.bfloat16
        and value.device.type == "cpu"
        and torch.is_inference_mode_enabled()
    )
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
            mask = (positions[:, None] - positions).abs() < sliding_window
        # For very short and very long texts torch's own attention is faster even where it is slow
        # otherwise.
        if slow and 48 <= length <= 1_024:
            output = _attention_in_chunks(
                q * (q.shape[3] ** -0.5 if scaling is None else scaling), k, v, mask
            )
        else:
            output = F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling
            )
        outputs.append(output.transpose(1, 2).flatten(0, 1))
        start = stop
    return torch.cat(outputs).unsqueeze(0), None


def _attention_in_chunks(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Attention in bfloat16 on a CPU, where torch's own is slow; all of shape (texts, heads,
    tokens, size), with the queries already scaled."""
    count, heads, length, size = value.shape
    # A chunk is as many texts as keep their scores in the CPU caches; all chunks share one buffer
    # for the scores.
    chunk_size = min(count, max(1, _CACHED_SCORES // (heads * length**2)))
    buffer = value.new_empty(chunk_size * heads, length, length)
    out = torch.empty_like(value, memory_format=torch.contiguous_format)
    for start in range(0, count, chunk_size):
        q, k, v, target = (
            x[start : start + chunk_size].reshape(-1, length, size)
            for x in (query, key, value, out)
        )
        scores = torch.bmm(q, k.transpose(1, 2), out=buffer[: len(q)])
        if mask is not None:
            scores.masked_fill_(~mask, -torch.inf)
        torch.bmm(torch.softmax(scores, 2, out=scores), v, out=target)
    return out


def _no_mask(*_: Any, **__: Any) -> None:
    """No mask is needed: `packed_attention` itself keeps the texts apart."""


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _no_mask)


@contextmanager
def using_attention(model: Any, attention: str | None) -> Iterator[None]:
    """Switch a model to the attention of this name (None: keep its own), and restore its own on
    exit. Raises ImportError if a package that the attention needs is missing, ValueError if the
    model does not support it.
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
    """The attention to train a model with if its own is slow, else None: eager attention in
    bfloat16 on a CPU, where torch's attention with dropout is slow (`benchmarks/training.py`)."""
    slow = model.device.type == "cpu" and model.dtype == torch.bfloat16
    return "eager" if slow and model.config._attn_implementation == "sdpa" else None


def packed_states(model: Any, rows: Sequence[Ids], first_position: int) -> torch.Tensor:
    """Token states of several texts, shape (tokens of all texts, dimensions), from one forward pass
    over their concatenation; fastest if texts of equal length are neighbors.

    Args:
        model: a model that is `using_attention` `PACKED` or `FLASH`.
        rows: token ids of each text.
        first_position: position id of the first token of a text, see `models.first_position`.
    """
    lengths = [len(row) for row in rows]
    positions = np.concatenate(
        [np.arange(first_position, first_position + length) for length in lengths]
    )
    ends = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32).to(model.device)
    # What keeps the texts apart is `text_runs` in packed attention, and the cumulative lengths in
    # flash attention; position ids or a padding mask alone would not.
    states: torch.Tensor = model(
        input_ids=to_device(np.concatenate(rows), model.device).unsqueeze(0),
        position_ids=to_device(positions, model.device).unsqueeze(0),
        text_runs=[(len(list(run)), length) for length, run in groupby(lengths)],
        cu_seq_lens_q=ends,
        cu_seq_lens_k=ends,
        max_length_q=max(lengths),
        max_length_k=max(lengths),
    ).last_hidden_state[0]
    return states


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """An array as an int64 tensor on a device; the copy to a GPU overlaps with computation
    there."""
    tensor = torch.from_numpy(array.astype(np.int64))
    return (
        tensor.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else tensor.to(device)
    )
