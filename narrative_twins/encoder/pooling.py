"""Pooling of token states into vectors, over a text or over each of its windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Pooling: TypeAlias = Literal["mean", "first"]

POOLINGS: tuple[Pooling, ...] = ("mean", "first")


def check_pooling(name: str) -> Pooling:
    """Check the name of a pooling; raises ValueError if it is unknown."""
    for pooling in POOLINGS:
        if name == pooling:
            return pooling
    raise ValueError(
        f"pooling {name!r} is not supported; set pooling= to {' or '.join(map(repr, POOLINGS))}"
    )


def pool(
    states: torch.Tensor, tokens: Sequence[NDArray[np.int64]], pooling: Pooling = "mean"
) -> torch.Tensor:
    """Pool token states into vectors of shape (B, D), in float32 whatever the precision of the
    encoder.

    Args:
        states: token states of concatenated texts, shape (T, D).
        tokens: for each vector the indices of its tokens in `states`, ascending, at least one.
        pooling: `"mean"` of these tokens, or the `"first"` of them (the first special token if all
            are pooled).
    """
    import torch

    if pooling == "first":
        return states[
            torch.tensor([int(indices[0]) for indices in tokens], device=states.device)
        ].float()
    # An embedding bag averages the tokens of each vector, given all their indices and where those
    # of each vector start.
    starts = np.cumsum([0, *map(len, tokens[:-1])])
    chosen, offsets = (
        torch.from_numpy(array).to(states.device) for array in (np.concatenate(tokens), starts)
    )
    return torch.nn.functional.embedding_bag(chosen, states.float(), offsets, mode="mean")


def pool_arrays(
    states: NDArray[np.float32], tokens: Sequence[NDArray[np.int64]], pooling: Pooling = "mean"
) -> NDArray[np.float32]:
    """The same as `pool` for an array of states, without torch."""
    if pooling == "first":
        return states[[int(indices[0]) for indices in tokens]]
    lengths = [len(indices) for indices in tokens]
    sums: NDArray[np.float32] = np.add.reduceat(
        states[np.concatenate(tokens)], np.cumsum([0, *lengths[:-1]])
    )
    return sums / np.array(lengths, np.float32)[:, None]


def pool_windows(
    states: torch.Tensor, window_ids: torch.Tensor, windows: int, pooling: Pooling = "mean"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool token states window by window in float32: vectors of shape (B, W, D), and whether each
    window has a token, bool of shape (B, W). The vector of a window without tokens is zero.

    Args:
        states: token states, shape (B, T, D).
        window_ids: the window of each token, shape (B, T); -1 for tokens that are not pooled.
        windows: number of windows, W.
        pooling: `"mean"` of the tokens of a window, or the `"first"` of them.
    """
    import torch

    # The weight of each token in each window, shape (B, W, T): 1 where it belongs to the window,
    # else 0.
    weights = (
        window_ids.unsqueeze(1) == torch.arange(windows, device=window_ids.device).view(1, -1, 1)
    ).float()
    present = weights.any(dim=2)
    if pooling == "first":
        first = weights.argmax(dim=2, keepdim=True)
        weights = torch.zeros_like(weights).scatter_(2, first, present.unsqueeze(2).float())
    return (
        torch.bmm(weights, states.float()) / weights.sum(dim=2, keepdim=True).clamp(min=1),
        present,
    )
