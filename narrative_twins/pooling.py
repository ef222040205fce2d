"""Token states to one vector: the mean of the pooled tokens, or the first of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

Pooling: TypeAlias = Literal["mean", "first"]

POOLINGS: tuple[Pooling, ...] = ("mean", "first")


def pool(states: torch.Tensor, mask: torch.Tensor, pooling: Pooling = "mean") -> torch.Tensor:
    """Pool token states in float32, whatever the precision of the encoder.

    Args:
        states: token states, shape (B, T, D).
        mask: which tokens are pooled, bool of shape (B, T), at least one a row.
        pooling: `"mean"` of the pooled tokens, or the `"first"` of them (the special first token where all are pooled).

    Returns:
        Vectors of shape (B, D), float32.
    """
    if pooling == "first":
        rows = torch.arange(len(states), device=states.device)
        return states[rows, mask.to(torch.uint8).argmax(dim=1)].float()
    weights = mask.float()
    return torch.bmm(weights.unsqueeze(1), states.float()).squeeze(1) / weights.sum(dim=1, keepdim=True)
