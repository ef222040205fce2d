"""Loading of a model's weights, with checks that they are those of the model: `transformers` fills
what is missing with random numbers, and only warns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from narrative_twins.encoder.adapters import (
    Adapter,
    apply_adapter,
    find_adapter,
    has_adapter,
    require_peft,
)
from narrative_twins.encoder.quiet import quiet_loading
from narrative_twins.encoder.weight_files import weights_problem

if TYPE_CHECKING:
    import torch

_HUB_OPTIONS = ("revision", "token", "cache_dir", "local_files_only", "force_download")
_OTHER_NAMES = ("subfolder", "variant", "gguf_file", "state_dict")
"""Options by which the weights are in other files."""

_POOLER = "pooler."
_UNUSED = (_POOLER,)
"""Parts of models that no token state depends on. Checkpoints of language models lack them."""
_BUFFERS = ("position_ids", "token_type_ids", "inv_freq", "attn.bias", "masked_bias")
"""Ends of the names of buffers, which checkpoints of earlier releases contain."""


def load_model(kind: Any, name: str | Path, *, pooler: bool = False, **options: Any) -> Any:
    """Load a model with `kind.from_pretrained`, where `kind` is an auto class of transformers. If
    it is a PEFT adapter, its base is loaded, and the adapter merged into it.

    Args:
        kind: for example `AutoModel`.
        name: folder or Hub id.
        pooler: the pooler is used, so its weights must be in the checkpoint.
        options: for `from_pretrained`. No code of the checkpoint is executed unless
            `trust_remote_code` is set.

    Raises:
        OSError: the model can't be loaded, or its weights do not fit it.
    """
    adapter = adapter_at(name, **options)
    if adapter is None:
        return _load_plain(kind, name, pooler, options)
    try:
        require_peft(adapter.name)
        model = _load_plain(kind, adapter.base, pooler, without_hub(options) | adapter.base_hub)
    except OSError as error:
        cure = "correct base_model_name_or_path in adapter_config.json if the base is elsewhere"
        raise OSError(
            one_line(f"{_at(name)}: adapter of {adapter.base!r}; {error}; {cure}")
        ) from error
    merge_adapter(model, adapter)
    return model


def adapter_at(name: str | Path, **options: Any) -> Adapter | None:
    """The PEFT adapter in a folder or on the Hub, None if it is none; `options` as for
    `load_model`. Raises OSError."""
    if any(options.get(other) for other in _OTHER_NAMES):
        return None
    try:
        return find_adapter(name, hub_options(options))
    except Exception as error:  # of any kind, as a Hub id may be anything
        raise OSError(one_line(f"{_at(name)}: {error}")) from error


def merge_adapter(model: Any, adapter: Adapter) -> None:
    """Load an adapter and merge it into its loaded base; the errors, `OSError`, name the
    adapter."""
    try:
        with quiet_loading():
            apply_adapter(model, adapter)
            problem = _degenerate(model)
    except Exception as error:  # of any kind, since the files may contain anything
        raise OSError(one_line(f"{_at(adapter.name)}: {error}")) from error
    if problem:
        raise OSError(f"{_at(adapter.name)}: with the adapter, {problem}")


def _load_plain(kind: Any, name: str | Path, pooler: bool, options: Mapping[str, Any]) -> Any:
    """Load a model with its own weights, see `load_model`."""
    options = {**options, "trust_remote_code": options.get("trust_remote_code") or False}
    options |= {"use_safetensors": True, "weights_only": True}
    _check_safetensors(name, options)
    try:
        with quiet_loading():
            # Weights of other sizes are then listed, like those that are missing.
            options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
            model, info = kind.from_pretrained(name, **options)
    except SafetensorError as error:
        raise OSError(
            f"{_at(name)}: model.safetensors is damaged ({error}); copy or download it again"
        ) from error
    except Exception as error:  # of any kind, since the files may contain anything
        kind_of_error = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
        raise OSError(one_line(f"{_at(name)}: {kind_of_error}{error}")) from error
    if has_adapter(model):
        raise OSError(
            f"{_at(name)}: it has both an adapter and weights of a whole model; use one without the"
            " other"
        )
    problem = (
        _misfit(model, info)
        or (pooler and _no_pooler(model, info))
        or _degenerate(getattr(model, model.base_model_prefix, model))
    )
    if problem:
        raise OSError(f"{_at(name)}: {problem}")
    return model


def hub_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options for `from_pretrained` that determine where and how the files of a checkpoint
    are found."""
    return {key: options[key] for key in _HUB_OPTIONS if key in options}


def without_hub(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for `from_pretrained` without those of `hub_options`."""
    return {key: value for key, value in options.items() if key not in _HUB_OPTIONS}


def one_line(message: str) -> str:
    """A message on one line of at most about 500 characters."""
    text = " ".join(message.split())
    return text if len(text) <= 500 else f"{text[:500].rsplit(' ', 1)[0]} ..."


def _at(name: str | Path) -> str:
    kind = (
        "it is a folder" if Path(name).exists() else "no folder of this name, so taken as a Hub id"
    )
    return f"encoder {str(name)!r} can't be loaded ({kind})"


def _check_safetensors(name: str | Path, options: Mapping[str, Any]) -> None:
    """Refuse a checkpoint without weights in safetensors; transformers would ask a service to
    convert others."""
    if options.get("gguf_file") or options.get("state_dict"):
        return
    try:
        problem = weights_problem(
            name, hub_options(options), options.get("variant"), options.get("subfolder") or ""
        )
    except Exception as error:  # of any kind, as a Hub id may be anything
        raise OSError(one_line(f"{_at(name)}: {error}")) from error
    if problem:
        raise OSError(one_line(f"{_at(name)}: {problem}"))


def _misfit(model: Any, info: Mapping[str, Any]) -> str | None:
    """What is wrong with the names or sizes of the weights, if anything."""
    prefix = f"{model.base_model_prefix}."
    base = getattr(model, model.base_model_prefix, model)
    parts = {name for name, _ in base.named_children()}

    def of_base(keys: Any, unused: tuple[str, ...]) -> list[str]:
        names = sorted(
            key.removeprefix(prefix) for key in keys if base is model or key.startswith(prefix)
        )
        return [
            name
            for name in names
            if name.partition(".")[0] in parts and not name.startswith(unused)
        ]

    mismatched = {key: sizes for key, *sizes in info.get("mismatched_keys", ())}
    if names := of_base(mismatched, _UNUSED):
        sizes = next(sizes for key, sizes in mismatched.items() if key.endswith(names[0]))
        shapes = " instead of ".join(str(tuple(size)) for size in sizes)
        return (
            f"{names[0]} has the size {shapes} of config.json; the weights are those of another"
            " model"
        )
    for keys, words in (
        (info["missing_keys"], "are missing"),
        (info["unexpected_keys"], "are not part of the model"),
    ):
        names = [name for name in of_base(keys, _UNUSED) if not name.endswith(_BUFFERS)]
        if names:
            return (
                f"{len(names)} of its weights {words} ({names[0]}, ...); the weights are those of"
                " another model"
            )
    return None


def _no_pooler(model: Any, info: Mapping[str, Any]) -> str | None:
    """Why the model has no pooler with weights of the checkpoint, if so."""
    base = getattr(model, model.base_model_prefix, model)
    random = [*info["missing_keys"], *(key for key, *_ in info.get("mismatched_keys", ()))]
    names = sorted(
        key for key in random if key.removeprefix(f"{model.base_model_prefix}.").startswith(_POOLER)
    )
    cure = "use a checkpoint whose pooler was trained, such as one of SimCSE, or another pooling"
    if getattr(base, "pooler", None) is None:
        return f"models of this kind ({type(base).__name__}) have no pooler; {cure}"
    return (
        f"the checkpoint has no weights of the pooler ({names[0]}), which would be random; {cure}"
        if names
        else None
    )


def _degenerate(model: torch.nn.Module) -> str | None:
    """What is wrong with the values of the weights, if anything."""
    import torch

    for name, weight in model.named_parameters():
        if not torch.isfinite(weight.detach().sum(dtype=torch.float32)):
            return (
                f"{name} has values that are not finite numbers; the file is damaged, or training"
                " diverged"
            )
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    if matrices and not any(bool(weight.detach().any()) for weight in matrices):
        return "all weights are zero; the file is damaged"
    return None
