"""Matrix products of linear layers in the precision and with the library that are fastest on a
machine."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, has_torch_function

_PRODUCTS = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)


def fast_dtype(device: torch.device) -> torch.dtype:
    """The precision of matrix products for a device: bfloat16 on CUDA devices that multiply in it
    natively, else float32. On CPUs rounding to bfloat16 would make scores depend on the batch: the
    kernel, and with it the order of sums, depends on the number of tokens."""
    native = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.bfloat16 if native else torch.float32


def linear_is_convolution(device: torch.device) -> bool:
    """Whether linear layers are faster as convolutions: on a CPU torch computes float32 products
    with MKL, which leaves half of an AMD processor idle, and convolutions with oneDNN, which does
    not."""
    one_dnn: Any = torch.backends.mkldnn
    x86_cpu = device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return x86_cpu and bool(one_dnn.is_available() and one_dnn.enabled)


class FastLinear(torch.nn.Linear):
    """A linear layer in the precision of its weights, computed with the library that is fastest on
    the machine."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """States of shape (..., inputs) as states of shape (..., outputs)."""
        # `torch.compile` chooses the library itself; `MatrixProducts` sees calls of `F.linear`
        # only.
        if torch.compiler.is_compiling() or has_torch_function((input,)):
            return F.linear(input, self.weight, self.bias)
        return _linear(input.to(self.weight.dtype), self.weight, self.bias)


@contextmanager
def fast_linear_layers(model: torch.nn.Module) -> Iterator[None]:
    """Context manager in which the linear layers of a model are `FastLinear`, for training. As the
    layers themselves are changed, it also holds where a mode of torch would not: in a backward pass
    that recomputes states, and in compiled models."""
    layers = [layer for layer in model.modules() if type(layer) is torch.nn.Linear]
    for layer in layers:
        layer.__class__ = FastLinear
    try:
        yield
    finally:
        for layer in layers:
            layer.__class__ = torch.nn.Linear


class MatrixProducts(TorchFunctionMode):
    """Context manager for inference in which linear layers multiply in `dtype`, while residual sums
    and norms between them keep the precision of the weights. Unlike autocast, it does not cast the
    weights in each forward pass, but only once and after they change. A copy or pickle has no
    casts.

    Args:
        dtype: precision of the products; None for that of the weights.
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.dtype = dtype
        self._casts: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.dtype,)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Called by torch instead of each torch function: adapts those where precisions meet, and
        calls the others."""
        if func is F.linear:
            return self._linear(*args, **(kwargs or {}))
        if self.dtype is not None:
            # torch refuses operands of mixed precision: rotary position embeddings return queries
            # and keys in the precision of their angles, and adding a position bias gives attention
            # weights in that of the bias.
            if func in _PRODUCTS and args[0].dtype != args[1].dtype:
                args = tuple(operand.to(self.dtype) for operand in args)
            elif func is F.scaled_dot_product_attention:
                query, key, value, *rest = args
                args = (query.to(value.dtype), key.to(value.dtype), value, *rest)
            elif func is F.layer_norm:
                states, *rest = args
                args = (states.float(), *rest)
        return func(*args, **(kwargs or {}))

    def _linear(
        self, states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        if self.dtype is None or weight.dtype == self.dtype:
            return _linear(states.to(weight.dtype), weight, bias)
        return _linear(
            states.to(self.dtype), self._cast(weight), None if bias is None else self._cast(bias)
        )

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in `dtype`; a parameter is cast again only if it was changed (`_version`) or
        moved."""
        if not isinstance(tensor, torch.nn.Parameter) or tensor.is_inference():
            return tensor.to(self.dtype)
        source, version, cast = self._casts.get(id(tensor), (None, -1, tensor))
        if source is not tensor or version != tensor._version or cast.device != tensor.device:
            cast = tensor.detach().to(self.dtype)
            self._casts[id(tensor)] = tensor, tensor._version, cast
        return cast


def _linear(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    if not states.numel() or not linear_is_convolution(states.device):
        return F.linear(states, weight, bias)
    # A 1x1 convolution over an image of shape (1, dimensions, tokens, 1): tokens are pixels,
    # dimensions are channels, in channels-last order, so that the memory layout stays as it is.
    image = states.reshape(1, -1, 1, states.shape[-1]).permute(0, 3, 1, 2)
    product = F.conv2d(image, weight[:, :, None, None], bias)
    return product.permute(0, 2, 3, 1).reshape(*states.shape[:-1], -1)
