"""Settings of an encoder's checkpoint: pooling, preparation of text, maximum length; and the default checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import torch
from transformers import AutoModel
from transformers.utils import cached_file

from narrative_twins.encoder.loading import adapter_at, hub_options, load_model
from narrative_twins.encoder.pooling import Pooling
from narrative_twins.encoder.tokens import StoryTokenizer
from narrative_twins.files import digest_of_files

DEFAULT_ENCODER = Path(__file__).parent / "default"

SETTINGS = "narrative_twins"
"""Key of a model's configuration that may contain the settings of its checkpoint."""

_MODEL_FILES = (".json", ".safetensors", ".bin", ".txt", ".model")
"""Suffixes of the files that determine an encoder's vectors: settings, weights, vocabularies."""
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLINGS = {"mean_tokens": "mean", "cls_token": "first", "cls": "first"}


def default_encoder() -> str:
    """The folder of the default encoder, which comes with the package; its model card is in the folder."""
    return str(DEFAULT_ENCODER)


def fingerprint(name: str | Path, config: Any) -> str | None:
    """An identifier of the exact version of an encoder: a digest of the files if `name` is a folder; if it is a Hub id,
    the commit in the configuration of the loaded model, or None."""
    if not Path(name).is_dir():
        commit: str | None = getattr(config, "_commit_hash", None)
        return commit
    return digest_of_files(name, _MODEL_FILES)


class CheckpointSettings(NamedTuple):
    """Settings of a sentence-transformers checkpoint that change its vectors.

    Attributes:
        pooling: `"mean"`, `"first"`, or the name of a pooling that the package does not support; None if not given.
        lowercase: whether text is lowercased before it is tokenized.
        prompt: name of the prompt that sentence-transformers puts before every text, if any.
        problem: why the settings can't be read, if so.
    """

    pooling: str | None = None
    lowercase: bool = False
    prompt: str | None = None
    problem: str | None = None


class CheckpointError(Exception):
    """A checkpoint can't be loaded; the message has one line.

    Not an `OSError` or `ValueError`: after those `transformers.pipeline` would load the model in another way, without
    the checks of `load_model`.
    """


class AutoStoryModel(AutoModel):
    """`AutoModel` for `transformers.pipeline`: `load_story_model`, but with `CheckpointError` instead of `OSError`."""

    @classmethod
    def from_pretrained(cls, name: str, **kwargs: Any) -> Any:
        try:
            # For an adapter on the Hub, `transformers.pipeline` gives a revision that stands for a commit of its base.
            if type(kwargs.get("revision")) not in (str, type(None)):
                plain = kwargs | {"revision": str(kwargs["revision"])}
                kwargs = plain if adapter_at(name, **plain) is not None else kwargs
            return load_story_model(name, **kwargs)
        except OSError as error:
            raise CheckpointError(str(error)) from error


def load_story_model(name: str | Path, **options: Any) -> Any:
    """Load a model of a story encoder with `load_model`, and set two attributes of it: `checkpoint_settings`, the
    settings of its checkpoint, and `precision`, which is `"auto"` unless a dtype was chosen. Raises `OSError`."""
    model = load_model(AutoModel, name, **options)
    model.checkpoint_settings = read_checkpoint_settings(name, **hub_options(options))
    model.precision = "auto" if options.get("dtype", "auto") in ("auto", None) else None
    return model


def check_checkpoint(name: str | Path, *, pooler: bool = False, **options: Any) -> None:
    """Load an encoder only to check it, for libraries that load it without checks. Raises `OSError` if it can't be
    loaded, its weights do not fit it, or a file of its settings is invalid or outside of its folder; with `pooler` also
    if its pooler has no weights, or its settings name another pooling, with which the pooler was not trained."""
    settings: CheckpointSettings = load_story_model(name, pooler=pooler, **options).checkpoint_settings
    problem = settings.problem
    if problem is None and pooler and settings.pooling is not None:
        problem = f"its settings name {settings.pooling} pooling, so its pooler is not trained; use that pooling"
    if problem is not None:
        raise OSError(f"encoder {str(name)!r} can't be loaded: {problem}")


def settings_of(model: Any) -> CheckpointSettings:
    """The settings of a model's checkpoint, also if the model was loaded with plain `AutoModel`."""
    stored = getattr(model, "checkpoint_settings", None)
    if isinstance(stored, CheckpointSettings):
        return stored
    # A checkpoint with its own code, which plain `AutoModel` loads from the Hub, has them in its configuration.
    settings = getattr(model.config, SETTINGS, None)
    if settings is not None:
        try:
            return CheckpointSettings(**settings)
        except TypeError as error:
            raise ValueError(f"{SETTINGS!r} in config.json is invalid ({error})") from None
    folder = Path(model.name_or_path) if getattr(model, "name_or_path", "") else None
    return read_checkpoint_settings(folder) if folder is not None and folder.is_dir() else CheckpointSettings()


def read_checkpoint_settings(name: str | Path, **hub_options: Any) -> CheckpointSettings:
    """The settings of a checkpoint in a folder or on the Hub; those of its base if it is an adapter without settings of
    its own. Errors are not raised but described in `problem`."""

    def read(file: str) -> Any:
        path = cached_file(name, file, _raise_exceptions_for_missing_entries=False, **hub_options)
        return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))

    try:
        modules = read("modules.json")
        if modules is None:
            adapter = adapter_at(name, **hub_options)
            return read_checkpoint_settings(adapter.base, **adapter.base_hub) if adapter else CheckpointSettings()
        paths = {module["type"].rsplit(".", 1)[-1]: module["path"] for module in modules}
        for path in map(PurePosixPath, paths.values()):
            if path.is_absolute() or ".." in path.parts or "\\" in str(path):
                raise ValueError(f"it names {str(path)!r}, which is outside of the folder")
        pooling = read(f"{paths['Pooling']}/config.json") if "Pooling" in paths else None
        lowercase = bool((read("sentence_bert_config.json") or {}).get("do_lower_case"))
        prompt = (read("config_sentence_transformers.json") or {}).get("default_prompt_name")
        mode = _pooling_mode(pooling or {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return CheckpointSettings(
            problem=f"modules.json of {str(name)!r}, or a file that it names, is invalid ({error})"
        )
    unknown = [kind for kind in paths if kind not in _KNOWN_MODULES]
    return CheckpointSettings("+".join(unknown) or mode, lowercase, prompt)


def module_settings(modules: Iterable[Any]) -> CheckpointSettings:
    """The settings of a loaded `SentenceTransformer`, given as the sequence of its modules."""
    kinds = {type(module).__name__: module for module in modules}
    unknown = [kind for kind in kinds if kind not in _KNOWN_MODULES]
    pooling = _pooling_mode(kinds["Pooling"].get_config_dict()) if "Pooling" in kinds else None
    return CheckpointSettings(
        "+".join(unknown) or pooling, bool(getattr(kinds.get("Transformer"), "do_lower_case", False))
    )


def _pooling_mode(config: dict[str, Any]) -> str | None:
    """The pooling mode, from the configuration of sentence-transformers 6 or the flags of earlier releases."""
    modes = config.get("pooling_mode") or [
        key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on
    ]
    return "+".join(_POOLINGS.get(mode, mode) for mode in ([modes] if isinstance(modes, str) else modes)) or None


def write_checkpoint_settings(
    folder: str | Path, pooling: Pooling, dimensions: int, lowercase: bool, context_tokens: int
) -> None:
    """Turn a saved model and tokenizer into a sentence-transformers checkpoint that every release can load."""
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds.items())
    ]
    modes = {"pooling_mode_cls_token": pooling == "first", "pooling_mode_mean_tokens": pooling == "mean"}
    (Path(folder) / "1_Pooling").mkdir(exist_ok=True)
    for file, content in {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": dimensions, **modes},
        "sentence_bert_config.json": {"max_seq_length": context_tokens, "do_lower_case": lowercase},
    }.items():
        (Path(folder) / file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def model_limit(model: Any, tokenizer: Any) -> int:
    """How many tokens the model reads at once: its number of positions (without those that RoBERTa models reserve for
    padding) or the tokenizer's limit, whichever is smaller; 512 if neither is known."""
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
    """The story tokenizer of a `transformers` model and tokenizer, which reads at most `context_tokens` tokens at once
    (default: as many as the model can). Raises ValueError as `StoryTokenizer` does."""
    limit = model_limit(model, tokenizer)
    return StoryTokenizer(tokenizer, min(limit, context_tokens or limit), settings.lowercase)


def first_position(model: Any) -> int:
    """The position id of the first token of a text: 0, or in RoBERTa models the id after that of padding."""
    return max((table.padding_idx + 1 for table in _position_tables(model) if table.padding_idx is not None), default=0)


def _position_tables(model: Any) -> list[torch.nn.Embedding]:
    return [
        module
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding)
    ]
