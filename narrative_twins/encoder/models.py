"""Models of story encoders in torch: loading with checks, and what a model says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer

from narrative_twins.encoder.adapters import tokenizer_source
from narrative_twins.encoder.checkpoint import (
    SETTINGS,
    CheckpointSettings,
    ModelFacts,
    read_checkpoint_settings,
)
from narrative_twins.encoder.loading import (
    adapter_at,
    hub_options,
    load_model,
    one_line,
    without_hub,
)
from narrative_twins.encoder.tokens import StoryTokenizer

_DTYPES = ("float32", "bfloat16", "float16", "float64")


class CheckpointError(Exception):
    """A checkpoint can't be loaded; the message has one line.

    Not an `OSError` or `ValueError`: after those `transformers.pipeline` would load the model in
    another way, without the checks of `load_model`.
    """


class AutoStoryModel(AutoModel):
    """`AutoModel` for `transformers.pipeline`: `load_story_model`, but with `CheckpointError`
    instead of `OSError`."""

    @classmethod
    def from_pretrained(cls, name: str, **kwargs: Any) -> Any:
        try:
            # For an adapter on the Hub, `transformers.pipeline` gives a revision that stands for a
            # commit of its base.
            if type(kwargs.get("revision")) not in (str, type(None)):
                plain = kwargs | {"revision": str(kwargs["revision"])}
                kwargs = plain if adapter_at(name, **plain) is not None else kwargs
            return load_story_model(name, **kwargs)
        except OSError as error:
            raise CheckpointError(str(error)) from error


def load_story_model(name: str | Path, **options: Any) -> Any:
    """Load a model of a story encoder with `load_model`, and set two attributes of it:
    `checkpoint_settings`, the settings of its checkpoint, and `precision`, which is `"auto"` unless
    a dtype was chosen. Raises `OSError`.
    """
    model = load_model(AutoModel, name, **options)
    model.checkpoint_settings = read_checkpoint_settings(name, **hub_options(options))
    model.precision = "auto" if options.get("dtype", "auto") in ("auto", None) else None
    return model


def load_model_and_tokenizer(
    name: str,
    device: str | int | torch.device | None,
    dtype: str | torch.dtype,
    options: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Load a model of a story encoder to a device, and its tokenizer; see
    `StoryEncoder.from_pretrained`. Raises `OSError`, or `ValueError` if the dtype or device is
    invalid."""
    if dtype != "auto" and str(dtype).removeprefix("torch.") not in _DTYPES:
        raise ValueError(
            f"dtype {str(dtype)!r} is not supported; use 'auto', 'float32', 'bfloat16' or 'float16'"
        )
    if device is None:
        device = (
            torch.accelerator.current_accelerator() or "cpu"
            if torch.accelerator.is_available()
            else "cpu"
        )
    model = load_story_model(name, dtype=dtype, **options)
    try:
        adapter = adapter_at(name, **options)
        source, hub = tokenizer_source(adapter) if adapter else (name, options)
        tokenizer_options = {"trust_remote_code": False, **without_hub(options), **hub}
        tokenizer = AutoTokenizer.from_pretrained(source, **tokenizer_options)
    except Exception as error:  # of any kind, since the files may contain anything
        raise OSError(
            one_line(f"the tokenizer of encoder {name!r} can't be loaded: {error}")
        ) from error
    try:
        model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(one_line(f"device {str(device)!r} can't be used: {error}")) from error
    return model, tokenizer


def check_checkpoint(name: str | Path, *, pooler: bool = False, **options: Any) -> None:
    """Load an encoder only to check it, for libraries that load it without checks. Raises `OSError`
    if it can't be loaded, its weights do not fit it, or a file of its settings is invalid or
    outside of its folder; with `pooler` also if its pooler has no weights, or its settings name
    another pooling, with which the pooler was not trained.
    """
    settings: CheckpointSettings = load_story_model(
        name, pooler=pooler, **options
    ).checkpoint_settings
    problem = settings.problem
    if problem is None and pooler and settings.pooling is not None:
        problem = (
            f"its settings name {settings.pooling} pooling, so its pooler is not trained; use that"
            " pooling"
        )
    if problem is not None:
        raise OSError(f"encoder {str(name)!r} can't be loaded: {problem}")


def settings_of(model: Any) -> CheckpointSettings:
    """The settings of a model's checkpoint, also if the model was loaded with plain `AutoModel`."""
    stored = getattr(model, "checkpoint_settings", None)
    if isinstance(stored, CheckpointSettings):
        return stored
    # A checkpoint with its own code, which plain `AutoModel` loads from the Hub, has them in its
    # configuration.
    settings = getattr(model.config, SETTINGS, None)
    if settings is not None:
        try:
            return CheckpointSettings(**settings)
        except TypeError as error:
            raise ValueError(f"{SETTINGS!r} in config.json is invalid ({error})") from None
    folder = Path(model.name_or_path) if getattr(model, "name_or_path", "") else None
    return (
        read_checkpoint_settings(folder)
        if folder is not None and folder.is_dir()
        else CheckpointSettings()
    )


def model_facts(model: Any, tokenizer: Any) -> ModelFacts:
    """What a model says of itself."""
    vocabulary = getattr(model.get_input_embeddings(), "num_embeddings", None)
    return ModelFacts(settings_of(model), model_limit(model, tokenizer), vocabulary)


def model_limit(model: Any, tokenizer: Any) -> int:
    """How many tokens the model reads at once: its number of positions (without those that RoBERTa
    models reserve for padding) or the tokenizer's limit, whichever is smaller; 512 if neither is
    known."""
    config_limit = getattr(model.config, "max_position_embeddings", None)
    limits = [config_limit] if isinstance(config_limit, int) and config_limit > 0 else []
    limits += [table.num_embeddings - first_position(model) for table in _position_tables(model)]
    # A tokenizer without a limit has a huge number here.
    if tokenizer.model_max_length < 10**9:
        limits.append(tokenizer.model_max_length)
    return min(limits, default=512)


def story_tokenizer(
    model: Any, tokenizer: Any, settings: CheckpointSettings, context_tokens: int | None = None
) -> StoryTokenizer:
    """The story tokenizer of a `transformers` model and tokenizer, which reads at most
    `context_tokens` tokens at once (default: as many as the model can). Raises ValueError as
    `StoryTokenizer` does."""
    limit = model_limit(model, tokenizer)
    return StoryTokenizer(tokenizer, min(limit, context_tokens or limit), settings.lowercase)


def first_position(model: Any) -> int:
    """The position id of the first token of a text: 0, or in RoBERTa models the id after that of
    padding."""
    return max(
        (
            table.padding_idx + 1
            for table in _position_tables(model)
            if table.padding_idx is not None
        ),
        default=0,
    )


def _position_tables(model: Any) -> list[torch.nn.Embedding]:
    return [
        module
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding)
    ]
