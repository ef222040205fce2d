"""Token states to vectors: the mean of the pooled tokens, or the first of them; of a whole text or of each window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

Pooling: TypeAlias = Literal["mean", "first"]

POOLINGS: tuple[Pooling, ...] = ("mean", "first")


def check_pooling(name: str) -> Pooling:
    """The pooling of a name.

    Raises:
        ValueError: there is none of this name.
    """
    for pooling in POOLINGS:
        if name == pooling:
            return pooling
    raise ValueError(
        f"pooling by {name!r} is not known here; the package pools by {' or '.join(POOLINGS)}, "
        "which pooling= asks of any encoder"
    )


def pool(states: torch.Tensor, members: Sequence[NDArray[np.int64]], pooling: Pooling = "mean") -> torch.Tensor:
    """Pool token states in float32, whatever the precision of the encoder.

    Args:
        states: token states of some texts in a row, shape (T, D).
        members: for each vector the places of its tokens, in ascending order, at least one.
        pooling: `"mean"` of these tokens, or the `"first"` of them (the special first token where all are pooled).

    Returns:
        Vectors of shape (B, D), float32.
    """
    if pooling == "first":
        return states[torch.tensor([int(one[0]) for one in members], device=states.device)].float()
    starts = np.cumsum([0, *map(len, members[:-1])])
    chosen, offsets = (torch.from_numpy(one).to(states.device) for one in (np.concatenate(members), starts))
    return torch.nn.functional.embedding_bag(chosen, states.float(), offsets, mode="mean")


def pool_windows(
    states: torch.Tensor, window_ids: torch.Tensor, windows: int, pooling: Pooling = "mean"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool token states window by window, in float32.

    Args:
        states: token states, shape (B, T, D).
        window_ids: the window of each token, shape (B, T); -1 for those that are not pooled.
        windows: how many windows, W.
        pooling: `"mean"` of the tokens of a window, or the `"first"` of them.

    Returns:
        Vectors of shape (B, W, D), float32, and which of them there are, bool of shape (B, W): a window without a token
        is a vector of zeros.
    """
    own = (window_ids.unsqueeze(1) == torch.arange(windows, device=window_ids.device).view(1, -1, 1)).float()
    present = own.any(dim=2)
    if pooling == "first":
        first = own.argmax(dim=2, keepdim=True)
        own = torch.zeros_like(own).scatter_(2, first, present.unsqueeze(2).float())
    return torch.bmm(own, states.float()) / own.sum(dim=2, keepdim=True).clamp(min=1), present
