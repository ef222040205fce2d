"""AdamW for weights of low precision, which keeps a float32 copy of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class MasterWeightsAdamW(torch.optim.AdamW):
    """AdamW whose steps are taken by float32 copies of the weights; the model's own are rounded from them.

    Weights in bfloat16 make forward and backward passes fast, but are too coarse to add small steps to. Its state holds
    the copies, so that training can be resumed from it. Arguments are those of `torch.optim.AdamW`; the settings of
    mixed precision (`bf16=True`) are not needed beside it.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        coarse = [p for group in self.param_groups for p in group["params"] if p.grad is not None and _coarse(p)]
        weights = [p.data for p in coarse]
        gradients = [p.grad for p in coarse]
        for p in coarse:
            gradient = p.grad
            state = self.state[p]
            copy = state.pop("master", None)
            p.grad = None
            p.data = p.data.float() if copy is None else copy
            p.grad = gradient.float()
        super().step()
        for p, data, gradient in zip(coarse, weights, gradients, strict=True):
            p.grad = None
            self.state[p]["master"] = p.data
            p.data = data.copy_(p.data)
            p.grad = gradient
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state, its copies in float32."""
        super().load_state_dict(state_dict)
        # The base class rounds what it loads to the precision of the weights.
        params = [p for group in self.param_groups for p in group["params"]]
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        for p, number in zip(params, numbers, strict=True):
            for key, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, torch.Tensor) and value.ndim:
                    self.state[p][key] = value.to(p.device, copy=True)

    @torch.no_grad()
    def restore(self) -> None:
        """Put the float32 copies into the model, in place of its weights."""
        for p, state in self.state.items():
            if "master" in state:
                p.grad = None
                p.data = state["master"].clone()


def _coarse(p: torch.Tensor) -> bool:
    return p.dtype in (torch.bfloat16, torch.float16)


def optimizer_for(model: torch.nn.Module, kind: Any) -> Any:
    """The kind of optimizer, or in place of AdamW one that keeps float32 copies of weights of low precision."""
    coarse = any(p.dtype != torch.float32 for p in model.parameters())
    return MasterWeightsAdamW if coarse and kind is torch.optim.AdamW else kind
