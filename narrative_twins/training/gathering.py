"""What the processes of distributed training exchange: rows of tensors, and the weights of sharded
models."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from sentence_transformers.util import all_gather_with_grad
from torch import Tensor


def process_count() -> int:
    """The number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_sharded(model: Any) -> bool:
    """Whether the weights of a model are sharded over processes by FSDP, and so are complete in a
    forward pass only."""
    if not dist.is_available():
        return False
    from torch.distributed.fsdp import FSDPModule

    return isinstance(getattr(model, "_orig_mod", model), FSDPModule)


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, which may have different numbers of them; gradients flow back to
    the process of each row."""
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    sizes = [int(size) for size in counts]
    # Gathering needs the same shape in all processes: pad to the largest, and remove the padding
    # afterwards.
    padded = torch.nn.functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))
    parts = (
        torch.split(all_gather_with_grad(padded), max(sizes)) if max(sizes) else [rows] * len(sizes)
    )
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def same_number_of_texts(texts: dict[str, Tensor]) -> dict[str, Tensor]:
    """The texts of a batch, followed by copies of the first one, so that all processes have equally
    many texts. Nothing of the copies is pooled (`window_ids` of -1)."""
    most = torch.tensor(len(texts["input_ids"]), device=texts["input_ids"].device)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    missing = int(most) - len(texts["input_ids"])
    copies = {name: values[:1].expand(missing, *values.shape[1:]) for name, values in texts.items()}
    copies["window_ids"] = torch.full_like(copies["window_ids"], -1)
    return {name: torch.cat([values, copies[name]]) for name, values in texts.items()}
