"""Detection of PEFT adapters, such as LoRA, and their merging into the weights of a model."""

from __future__ import annotations

import copy
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from narrative_twins.extras import check_extra

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
"""The files of a PEFT adapter."""

_NO_EFFECT = frozenset(
    "alpha_pattern auto_mapping base_model_name_or_path bias exclude_modules inference_mode"
    " init_lora_weights loftq_config lora_alpha lora_dropout megatron_core peft_type peft_version"
    " qalora_group_size r rank_pattern revision target_modules task_type use_rslora".split()
)
"""The settings of a LoRA adapter that `merge_lora` knows, or that do not change its weights."""


_LORA_SETTINGS = {
    "rank": ("r", 16),
    "alpha": ("lora_alpha", None),
    "targets": ("target_modules", "all-linear"),
    "dropout": ("lora_dropout", 0.0),
}
"""The settings of `lora_config`: their names in `peft.LoraConfig`, and their defaults."""


def lora_config(settings: Mapping[str, Any]) -> Any:
    """Return a `peft.LoraConfig` of the settings of a config file: `rank` (default 16), `alpha`
    (twice the rank), `targets`, the names of layers (`all-linear`: all linear layers), and
    `dropout` (0). Raises ImportError without peft, and ValueError if there are others."""
    check_extra("peft")
    from peft import LoraConfig

    if unknown := sorted(settings.keys() - _LORA_SETTINGS.keys()):
        raise ValueError(f"lora has no setting {unknown[0]!r}, but {', '.join(_LORA_SETTINGS)}")
    values = {
        option: settings.get(name, default) for name, (option, default) in _LORA_SETTINGS.items()
    }
    values["lora_alpha"] = values["lora_alpha"] or 2 * values["r"]
    return LoraConfig(**values)


def adapted(model: Any, config: Any) -> Any:
    """Return the `peft.PeftModel` of a `transformers` model with a new adapter to train, whose
    configuration is a `peft.PeftConfig`. The weights of the model are frozen. Raises ImportError
    without peft."""
    check_extra("peft")
    from peft import get_peft_model

    return get_peft_model(model, config)


def load_adapter_weights(model: Any, folder: str | Path) -> None:
    """Load the weights of an adapter in a folder into a `peft.PeftModel` with an adapter of the
    same configuration. Raises OSError if there are none, and ValueError if they do not fit."""
    from peft import set_peft_model_state_dict

    result = set_peft_model_state_dict(model, load_file(Path(folder, ADAPTER_FILES[1])))
    missing = {key for key in result.missing_keys if ".lora_" in key}
    if wrong := {*missing, *result.unexpected_keys}:
        raise ValueError(
            f"{folder}: {len(wrong)} weights are missing or not part of the adapter ({min(wrong)},"
            " ...); use the adapter's settings that were trained there"
        )


def has_adapter(model: Any) -> bool:
    """Return whether a model is a `PeftModel` or has PEFT layers: an adapter that isn't merged."""
    # A model can have an adapter only if the library was imported.
    if sys.modules.get("peft") is None:
        return False
    return hasattr(model, "get_base_model") or any(True for _ in _adapter_layers(model))


def adapter_kind(model: Any) -> str | None:
    """Return the kind of a model's adapter, merged or not, such as `"LORA"`. Several kinds are
    joined by `/`. Returns `"PEFT"` if the kind is unknown, None if the model has no adapter."""
    kinds = {
        config.peft_type.value
        for module in model.modules()
        for config in getattr(module, "peft_config", {}).values()
    }
    # A part of a model with an adapter may have adapted layers without their configuration.
    unknown = "PEFT" if has_adapter(model) else None
    return "/".join(sorted(kinds)) or getattr(model, "merged_adapter", unknown)


def merged_copy(model: Any) -> Any:
    """Return a copy of a model as a plain `transformers` model: active adapters are merged into the
    weights, disabled adapters left out. Raises ValueError if an adapter can't be merged."""
    if hasattr(model, "get_base_model"):
        if any(config.is_prompt_learning for config in model.peft_config.values()):
            raise _not_mergeable(model, "it has no weights in the layers of the model")
        model = model.get_base_model()
    merged = copy.deepcopy(model)
    merge_adapters(merged)
    return merged


def is_plain_lora(config: Mapping[str, Any], keys: Iterable[str]) -> bool:
    """Return whether `merge_lora` can merge the adapter with this `adapter_config.json` and weights
    of these names: LoRA (Hu et al., 2022) of linear layers, without the later additions, such as
    DoRA."""
    return (
        config.get("peft_type") == "LORA"
        and all(key.endswith((".lora_A.weight", ".lora_B.weight")) for key in keys)
        and config["target_modules"] != "all-linear"
        and config.get("bias", "none") == "none"
        and config.get("init_lora_weights", True) in (True, False, "gaussian")
        and not any(config.get(key) for key in ("alpha_pattern", "exclude_modules", "rank_pattern"))
        and not any(value for key, value in config.items() if key not in _NO_EFFECT)
    )


def merge_lora(
    model: Any, config: Mapping[str, Any], weights: Mapping[str, torch.Tensor]
) -> set[str]:
    """Add the products of the low-rank `weights` of an adapter to the weights of the linear layers
    of a model, in place. `config` is its `adapter_config.json`, for which `is_plain_lora` is true.
    Returns the names of weights that are missing, of other sizes, or not part of the model; if
    there are any, the model is unchanged."""
    targets = config["target_modules"]
    if not isinstance(targets, str):  # else it is a regular expression
        targets = rf"(.*\.)?({'|'.join(map(re.escape, targets))})"
    size = config["r"]
    scale = config["lora_alpha"] / (math.sqrt(size) if config.get("use_rslora") else size)
    layers: dict[torch.nn.Linear, tuple[str, str]] = {}
    shapes: dict[str, tuple[int, int]] = {}
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and re.fullmatch(targets, name):
            down, up = (f"base_model.model.{name}.lora_{part}.weight" for part in "AB")
            layers[layer] = down, up
            shapes |= {down: (size, layer.in_features), up: (layer.out_features, size)}
    fitting = {key for key, weight in weights.items() if shapes.get(key) == weight.shape}
    if wrong := {*weights, *shapes} - fitting:
        return wrong
    with torch.no_grad():
        for layer, keys in layers.items():
            first, second = (weights[key].to(layer.weight.device, torch.float32) for key in keys)
            layer.weight.copy_(layer.weight.float() + scale * (second @ first))
    model.merged_adapter = "LORA"
    return set()


def merge_adapters(model: Any) -> None:
    """Merge the active adapters of a `transformers` model into its weights, in place, and remove
    disabled adapters. Raises ValueError if an adapter can't be merged."""
    if getattr(model, "is_quantized", False):
        raise _not_mergeable(model, "its base is quantized, and would be rounded")
    # Kept for the model card.
    model.merged_adapter = adapter_kind(model)
    for name, layer in list(_adapter_layers(model)):
        try:
            merged = _merged_layer(layer)
        except Exception as error:  # each kind of adapter raises its own
            raise _not_mergeable(model, f"{name}: {type(error).__name__}: {error}") from error
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, merged)
    # Clear what `transformers` stores about the adapters in the model and its parts.
    for module in model.modules():
        if getattr(module, "_hf_peft_config_loaded", False):
            module._hf_peft_config_loaded = False
        vars(module).pop("peft_config", None)


def _merged_layer(layer: Any) -> Any:
    """Return the plain layer inside a PEFT layer; its adapter is merged unless disabled."""
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
    """Yield the name and module of each PEFT layer of a model, except layers within another."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    outer = "\n"  # no name begins with this
    for name, module in model.named_modules():
        if isinstance(module, (BaseTunerLayer, AuxiliaryTrainingWrapper)):
            if not name.startswith(outer):
                yield name, module
                outer = f"{name}."


def _not_mergeable(model: Any, reason: str) -> ValueError:
    """Return the error to raise if an adapter can't be merged; `reason` is in its message."""
    return ValueError(
        f"the adapter ({adapter_kind(model)}) can't be merged into the weights of the encoder"
        f" ({reason}); use one that can be merged, such as LoRA on a base that is not quantized"
    )
