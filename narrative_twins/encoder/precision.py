"""Matrix products of linear layers in the precision and with the library that are fastest on a
machine."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, has_torch_function

_QUERIES_AND_KEYS = re.compile(
    r"(^|\.)(query|key|[qk]|[qk]_proj|[qk]_lin|Wqkv|qkv|qkv_proj)\.weight$"
)
_FIRST_LAYERS = re.compile(r"(^|\.)(layers?|h)\.[01]\.")
_PRODUCTS = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)


def fast_dtype(device: torch.device) -> torch.dtype:
    """The precision with the fastest matrix products that keeps the ranks of sentences: bfloat16 if
    the CPU or CUDA device multiplies in it natively and fast, else float32."""
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        # Before torch 2.9 the capabilities are unknown; then float32 is safer, as emulated bfloat16
        # is slow.
        features: dict[str, Any] = (
            getattr(torch.cpu, "get_capabilities", dict)() if device.type == "cpu" else {}
        )
        # Intel's processors multiply in bfloat16 at full speed in their matrix unit (AMX) only,
        # which a virtual machine may hide; without it they need 2.2 times as long as in float32.
        vectors = features.get("avx512_bf16") and "Intel" not in str(features.get("cpu_name"))
        native = torch.backends.cpu.get_cpu_capability() == "AVX512" and bool(
            vectors or features.get("amx_bf16")
        )
    return torch.bfloat16 if native else torch.float32


def sensitive_weights(model: torch.nn.Module) -> list[torch.Tensor]:
    """The weights worth keeping in full precision, since rounding them changes scores most: those
    of queries and keys, and those of the first two layers, whose errors pass through all others.
    Empty on a GPU, where products in float32 cost far more than on a CPU."""
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return []
    return [
        weight
        for name, weight in model.named_parameters()
        if weight.ndim == 2 and (_QUERIES_AND_KEYS.search(name) or _FIRST_LAYERS.search(name))
    ]


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
    casts, and with its model keeps the same weights exact.

    Args:
        dtype: precision of the products; None for that of the weights.
        exact: weights of layers that multiply in the precision of the weights nevertheless; only
            the result is rounded.
    """

    def __init__(
        self, dtype: torch.dtype | None = None, exact: Iterable[torch.Tensor] = ()
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.exact = {id(weight): weight for weight in exact}
        self._casts: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # The weights are named by their ids, which differ in a copy and from process to process.
        return type(self), (self.dtype, list(self.exact.values()))

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
        if id(weight) in self.exact:
            return _linear(states.to(weight.dtype), weight, bias).to(self.dtype)
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
