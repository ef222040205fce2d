"""PEFT adapters, such as LoRA, which are merged into the weights of their base: an encoder is one
plain model."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformers.utils import cached_file

if TYPE_CHECKING:
    import torch

_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_MODEL_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_TOKENIZER = "tokenizer_config.json"


class Adapter(NamedTuple):
    """An adapter in a folder or on the Hub.

    Attributes:
        name: folder or Hub id.
        base: folder or Hub id of the model it changes.
        hub: the options that determine where the files of the adapter are found, see `hub_options`.
        base_hub: the same for the base.
    """

    name: str
    base: str
    hub: dict[str, Any]
    base_hub: dict[str, Any]


def find_adapter(name: str | Path, hub: Mapping[str, Any]) -> Adapter | None:
    """The adapter in a folder or on the Hub; None if there is none. With `hub` as the options of
    `cached_file`.

    Raises:
        OSError: its configuration is invalid, or there are weights of a whole model beside it.
    """

    def file(name: str | Path, wanted: str) -> str | None:
        found: str | None = cached_file(
            name, wanted, _raise_exceptions_for_missing_entries=False, **hub
        )
        return found

    whole = any(file(name, weights) for weights in _MODEL_WEIGHTS)
    # On the Hub only where there are no other weights, as each file that is missing costs a
    # request.
    if whole and not Path(name).is_dir():
        return None
    path = file(name, _CONFIG)
    if path is None:
        return None
    if whole:
        raise OSError(
            f"{str(name)!r} has both an adapter ({_CONFIG}) and weights of a whole model; if the"
            " adapter is already merged into them, remove it, else move them to a folder of"
            " their own"
        )
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
        base, revision = config["base_model_name_or_path"], config.get("revision")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise OSError(
            f"{_CONFIG} of {str(name)!r} is invalid ({type(error).__name__}: {error})"
        ) from error
    if not isinstance(base, str) or not base:
        raise OSError(f"{_CONFIG} of {str(name)!r} names no base; set its base_model_name_or_path")
    if (Path(base) / _CONFIG).is_file():
        raise OSError(
            f"the base of the adapter {str(name)!r}, {base!r}, is itself an adapter; merge that one"
            " first"
        )
    base_hub = {key: value for key, value in hub.items() if key != "revision"}
    return Adapter(
        str(name), base, dict(hub), base_hub | ({"revision": revision} if revision else {})
    )


def tokenizer_source(adapter: Adapter) -> tuple[str, dict[str, Any]]:
    """The name to load the tokenizer of an adapter from, with options: its own if it has one, else
    that of the base."""
    own = cached_file(
        adapter.name, _TOKENIZER, _raise_exceptions_for_missing_entries=False, **adapter.hub
    )
    return (adapter.name, adapter.hub) if own else (adapter.base, adapter.base_hub)


def apply_adapter(model: Any, adapter: Adapter) -> None:
    """Load an adapter into its base and merge it there, in place. All weights can be trained
    afterwards.

    Raises:
        OSError: it can't be loaded or merged, its weights do not fit, or the library `peft` is
            missing.
    """
    require_peft(adapter.name)
    weights = cached_file(
        adapter.name, _WEIGHTS, _raise_exceptions_for_missing_entries=False, **adapter.hub
    )
    if weights is None:
        raise OSError(f"no {_WEIGHTS}; save the adapter with save_pretrained")
    # transformers would save the weights under the names of the adapter's, as it keeps how it
    # renamed those.
    renamings = getattr(model, "_weight_conversions", None)
    info = model.load_adapter(adapter.name, adapter_kwargs=adapter.hub, use_safetensors=True)
    model._weight_conversions = renamings
    for keys, words in (
        (info.missing_keys, "are missing"),
        (info.unexpected_keys, "are not part of the model"),
    ):
        if keys:
            raise OSError(
                f"{len(keys)} weights of the adapter {words} ({min(keys)}, ...); its base is"
                " another model"
            )
    merge_adapters(model)
    # `peft` freezes the weights of the base.
    model.requires_grad_(True)


def require_peft(name: str) -> None:
    """Raise an OSError if the library `peft` is missing, with which the adapter `name` is
    loaded."""
    try:
        import peft  # noqa: F401
    except ImportError as error:
        raise OSError(
            f"{name!r} is an adapter, which needs the library peft; pip install peft"
        ) from error


def check_no_adapter(folder: str | Path) -> None:
    """Raise a ValueError if a folder has an adapter, which libraries would apply to the weights of
    a whole model saved there, in addition to what is merged into them."""
    if (Path(folder) / _CONFIG).is_file():
        raise ValueError(f"{folder} has an adapter ({_CONFIG}); save the encoder in another folder")


def has_adapter(model: Any) -> bool:
    """Whether a model has an adapter: a layer of one, or, around the model, a `PeftModel`."""
    # A model can have an adapter only if the library was imported.
    if sys.modules.get("peft") is None:
        return False
    return _is_peft_model(model) or next(_adapter_layers(model), None) is not None


def adapter_kind(model: Any) -> str | None:
    """The kind of the adapter that a model has, or that was merged into it, such as `"LORA"`; None
    if there is none."""
    kinds = {
        getattr(config.peft_type, "value", str(config.peft_type))
        for config in _configurations(model)
    }
    # A model within one that was given an adapter has its layers only.
    unknown = "PEFT" if has_adapter(model) else None
    return "/".join(sorted(kinds)) or getattr(model, "merged_adapter", unknown)


def merged_copy(model: Any) -> Any:
    """A copy of a model with its active adapters merged into the weights, as a plain `transformers`
    model. The model itself is not changed. Raises ValueError if they can't be merged."""
    if _is_peft_model(model):
        for config in model.peft_config.values():
            if config.is_prompt_learning:
                raise _not_mergeable(
                    config.peft_type.value, "it has no weights in the layers of the model"
                )
        model = model.get_base_model()
    merged = copy.deepcopy(model)
    merge_adapters(merged)
    return merged


def merge_adapters(model: Any) -> None:
    """Merge the active adapters of a `transformers` model into its weights, in place; one that is
    disabled is removed. Raises ValueError if they can't be merged."""
    kind = adapter_kind(model) or "PEFT"
    if getattr(model, "is_quantized", False):
        raise _not_mergeable(
            kind, "its base is quantized, and would be rounded; load the base without quantization"
        )
    for name, layer in list(_adapter_layers(model)):
        try:
            merged = _merged_layer(layer)
        except Exception as error:  # of any kind, as each kind of adapter has its own
            raise _not_mergeable(kind, f"{name}: {type(error).__name__}: {error}") from error
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, merged)
    # For the model card.
    model.merged_adapter = kind
    # What `transformers` knows of the adapters, also in a model within this one.
    for module in model.modules():
        if getattr(module, "_hf_peft_config_loaded", False):
            module._hf_peft_config_loaded = False
        vars(module).pop("peft_config", None)


def _merged_layer(layer: Any) -> torch.nn.Module:
    """The layer of the base in an adapter's layer, with the active adapters merged into it unless
    they are disabled."""
    off = bool(getattr(layer, "disable_adapters", False))
    if hasattr(layer, "unload_and_optionally_merge_module"):
        if off and hasattr(layer, "original_module"):
            original: torch.nn.Module = layer.original_module
            return original
        module: torch.nn.Module = layer.unload_and_optionally_merge_module(
            merge=not off, safe_merge=True, adapter_names=None
        )
        return module
    if not off:
        layer.merge(safe_merge=True)
    elif layer.merged:
        layer.unmerge()
    base: torch.nn.Module = layer.get_base_layer()
    return base


def _adapter_layers(model: Any) -> Iterator[tuple[str, Any]]:
    """The names and layers of adapters, without layers inside of them."""
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    outer: list[str] = []
    for name, module in model.named_modules():
        if isinstance(module, (BaseTunerLayer, AuxiliaryTrainingWrapper)) and not any(
            name.startswith(f"{other}.") for other in outer
        ):
            outer.append(name)
            yield name, module


def _configurations(model: Any) -> Iterator[Any]:
    """The configurations of the adapters of a model, or of a model within it."""
    for module in model.modules():
        yield from vars(module).get("peft_config", {}).values()


def _is_peft_model(model: Any) -> bool:
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def _not_mergeable(kind: str, reason: str) -> ValueError:
    return ValueError(
        f"the adapter ({kind}) can't be merged into the weights of the encoder ({reason}); an"
        " encoder is saved and pushed as plain weights, so use an adapter that can be merged, such"
        " as LoRA"
    )
