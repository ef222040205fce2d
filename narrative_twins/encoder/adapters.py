"""PEFT adapters, such as LoRA, which are merged into the weights of their base: an encoder is one
plain model."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from typing import Any


def has_adapter(model: Any) -> bool:
    """Whether a model has an adapter: it is a `PeftModel`, or some of its layers are adapted."""
    # A model can have an adapter only if the library was imported.
    if sys.modules.get("peft") is None:
        return False
    return hasattr(model, "get_base_model") or any(True for _ in _adapter_layers(model))


def adapter_kind(model: Any) -> str | None:
    """The kind of the adapter that a model has, or that was merged into it, such as `"LORA"`; None
    if there is none."""
    kinds = {
        config.peft_type.value
        for module in model.modules()
        for config in getattr(module, "peft_config", {}).values()
    }
    # A model inside of one with an adapter has only the layers of the adapter.
    unknown = "PEFT" if has_adapter(model) else None
    return "/".join(sorted(kinds)) or getattr(model, "merged_adapter", unknown)


def merged_copy(model: Any) -> Any:
    """A copy of a model with its active adapters merged into the weights, as a plain `transformers`
    model. The model itself is not changed. Raises ValueError if they can't be merged."""
    if hasattr(model, "get_base_model"):
        if any(config.is_prompt_learning for config in model.peft_config.values()):
            raise _not_mergeable(model, "it has no weights in the layers of the model")
        model = model.get_base_model()
    merged = copy.deepcopy(model)
    merge_adapters(merged)
    return merged


def merge_adapters(model: Any) -> None:
    """Merge the active adapters of a `transformers` model into its weights, in place; one that is
    disabled is removed. Raises ValueError if they can't be merged."""
    if getattr(model, "is_quantized", False):
        raise _not_mergeable(model, "its base is quantized, and would be rounded")
    # For the model card.
    model.merged_adapter = adapter_kind(model)
    for name, layer in list(_adapter_layers(model)):
        try:
            merged = _merged_layer(layer)
        except Exception as error:  # of any kind, as each kind of adapter has its own
            raise _not_mergeable(model, f"{name}: {type(error).__name__}: {error}") from error
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, merged)
    # What `transformers` keeps about the adapters, also in a model within this one.
    for module in model.modules():
        if getattr(module, "_hf_peft_config_loaded", False):
            module._hf_peft_config_loaded = False
        vars(module).pop("peft_config", None)


def _merged_layer(layer: Any) -> Any:
    merges = not layer.disable_adapters
    if not merges and hasattr(layer, "original_module"):
        return layer.original_module
    if hasattr(layer, "unload_and_optionally_merge_module"):
        return layer.unload_and_optionally_merge_module(merges, safe_merge=True, adapter_names=None)
    if merges:
        layer.merge(safe_merge=True)
    elif layer.merged:
        layer.unmerge()
    return layer.get_base_layer()


def _adapter_layers(model: Any) -> Iterator[tuple[str, Any]]:
    """The names and layers of adapters, without layers inside of them."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    outer = "\n"  # no name begins with this
    for name, module in model.named_modules():
        if isinstance(module, (BaseTunerLayer, AuxiliaryTrainingWrapper)):
            if not name.startswith(outer):
                yield name, module
                outer = f"{name}."


def _not_mergeable(model: Any, reason: str) -> ValueError:
    return ValueError(
        f"the adapter ({adapter_kind(model)}) can't be merged into the weights of the encoder"
        f" ({reason}); use one that can be merged, such as LoRA on a base that is not quantized"
    )
