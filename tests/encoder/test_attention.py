"""Attention of several texts concatenated in one row, each to itself."""

from __future__ import annotations

import pytest
import torch

from narrative_twins.encoder.attention import packed_attention


def naive_attention(q, k, v, lengths, window, scale):
    """Attention computed token by token; all arguments of shape (heads, tokens, size)."""
    out, start = torch.zeros(q.shape[1], q.shape[0], q.shape[2], dtype=torch.float64), 0
    for length in lengths:
        for head in range(q.shape[0]):
            for i in range(start, start + length):
                attended = [
                    j for j in range(start, start + length) if window is None or abs(i - j) < window
                ]
                weights = torch.softmax(
                    torch.stack([q[head, i] @ k[head, j] * scale for j in attended]).double(), 0
                )
                out[i, head] = sum(
                    weight * v[head, j].double()
                    for weight, j in zip(weights, attended, strict=True)
                )
        start += length
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 5])
def test_packed_attention_is_attention_within_each_text(dtype, window):
    """For texts that are computed at once and, in bfloat16, texts that are computed in chunks."""
    runs = [(3, 2), (1, 7), (2, 50)]
    lengths = [length for count, length in runs for _ in range(count)]
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, sum(lengths), 4).to(dtype) for _ in range(3))
    for scale in (None, 0.3):
        with torch.inference_mode():
            found, weights = packed_attention(
                torch.nn.Identity(),
                q,
                k,
                v,
                None,
                text_runs=runs,
                scaling=scale,
                sliding_window=window,
            )
        assert weights is None and found.dtype == dtype and found.shape == (1, sum(lengths), 2, 4)
        expected = naive_attention(
            q[0].float(), k[0].float(), v[0].float(), lengths, window, scale or 0.5
        )
        assert torch.allclose(
            found[0].double(), expected, atol=1e-6 if dtype == torch.float32 else 0.03
        )
