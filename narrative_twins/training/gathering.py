"""Rows of tensors from all processes of distributed training."""

from __future__ import annotations

import torch
import torch.distributed as dist
from sentence_transformers.util import all_gather_with_grad
from torch import Tensor


def process_count() -> int:
    """The number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, which may have different numbers of them; gradients flow back to the process of each
    row."""
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    sizes = [int(size) for size in counts]
    # Gathering needs the same shape in all processes: pad to the largest, and remove the padding afterwards.
    padded = torch.nn.functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))
    parts = torch.split(all_gather_with_grad(padded), max(sizes)) if max(sizes) else [rows] * len(sizes)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
