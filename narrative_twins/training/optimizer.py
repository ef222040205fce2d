"""AdamW for weights in low precision, with a float32 copy of each weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class MasterWeightsAdamW(torch.optim.AdamW):
    """AdamW that updates float32 copies of bfloat16 or float16 weights and rounds the model's
    weights from them.

    Low precision makes forward and backward passes fast, but rounds small updates away. The copies
    are part of the optimizer's state, so training can be resumed. Mixed precision (`bf16=True`) is
    not needed in addition.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        low = [
            p
            for group in self.param_groups
            for p in group["params"]
            if p.grad is not None and _is_low_precision(p)
        ]
        weights = [p.data for p in low]
        gradients = [p.grad for p in low]
        # Replace weights and gradients by float32 copies. A gradient must have its weight's dtype,
        # so remove it first.
        for p in low:
            gradient = p.grad
            state = self.state[p]
            copy = state.pop("master", None)
            p.grad = None
            p.data = p.data.float() if copy is None else copy
            p.grad = gradient.float()
        super().step()
        # Keep the updated copies, and round them into the original tensors, which become the
        # weights again.
        for p, data, gradient in zip(low, weights, gradients, strict=True):
            p.grad = None
            self.state[p]["master"] = p.data
            p.data = data.copy_(p.data)
            p.grad = gradient
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state. The base class casts tensors to the dtype of the weights; here they stay in
        float32."""
        super().load_state_dict(state_dict)
        params = [p for group in self.param_groups for p in group["params"]]
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        for p, number in zip(params, numbers, strict=True):
            for key, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, torch.Tensor) and value.ndim:
                    self.state[p][key] = value.to(p.device, copy=True)

    @torch.no_grad()
    def restore(self) -> None:
        """Replace the model's weights by their float32 copies."""
        for p, state in self.state.items():
            if "master" in state:
                p.grad = None
                p.data = state["master"].clone()


def _is_low_precision(p: torch.Tensor) -> bool:
    return p.dtype in (torch.bfloat16, torch.float16)


def optimizer_for(model: torch.nn.Module, kind: Any) -> Any:
    """The given kind of optimizer, or `MasterWeightsAdamW` in place of AdamW if any weight is not
    in float32."""
    low = any(p.dtype != torch.float32 for p in model.parameters())
    return MasterWeightsAdamW if low and kind is torch.optim.AdamW else kind
