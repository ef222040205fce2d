"""Settings of an encoder's checkpoint: pooling, preparation of text; and the default checkpoint.
Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from transformers.utils import cached_file

from narrative_twins.encoder.loading import adapter_at
from narrative_twins.encoder.pooling import Pooling
from narrative_twins.files import digest_of_files

DEFAULT_ENCODER = Path(__file__).parent / "default"

SETTINGS = "narrative_twins"
"""Key of a model's configuration that may contain the settings of its checkpoint."""

_MODEL_FILES = (".json", ".safetensors", ".bin", ".txt", ".model", ".onnx", ".xml")
"""Suffixes of the files that determine an encoder's vectors: settings, weights, vocabularies."""
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLINGS = {"mean_tokens": "mean", "cls_token": "first", "cls": "first"}


def default_encoder() -> str:
    """The folder of the default encoder, which comes with the package; its model card is in the
    folder."""
    return str(DEFAULT_ENCODER)


def fingerprint(name: str | Path, config: Any) -> str | None:
    """An identifier of the exact version of an encoder: a digest of the files if `name` is a
    folder; if it is a Hub id, the commit in the configuration of the loaded model, or None."""
    if not Path(name).is_dir():
        commit: str | None = getattr(config, "_commit_hash", None)
        return commit
    return digest_of_files(name, _MODEL_FILES)


def encoder_settings(name: str | Path | None, encoder: Any) -> dict[str, Any]:
    """What the vectors of an encoder depend on, as JSON data by name, for the settings of a run.

    Args:
        name: its folder or Hub id; None for the default encoder.
        encoder: the `StoryEncoder` that was loaded from there.
    """
    name = str(name or default_encoder())
    backend: str = getattr(encoder.model, "backend", "torch")
    return {
        "model": Path(name).resolve().name if Path(name).exists() else name,
        "model fingerprint": fingerprint(name, encoder.model.config),
        "dtype": str(encoder.dtype).removeprefix("torch."),
        **({} if backend == "torch" else {"backend": backend}),
        "context tokens": encoder.context_tokens,
    }


class CheckpointSettings(NamedTuple):
    """Settings of a sentence-transformers checkpoint that change its vectors.

    Attributes:
        pooling: `"mean"`, `"first"`, or the name of a pooling that the package does not support;
            None if not given.
        lowercase: whether text is lowercased before it is tokenized.
        prompt: name of the prompt that sentence-transformers puts before every text, if any.
        problem: why the settings can't be read, if so.
    """

    pooling: str | None = None
    lowercase: bool = False
    prompt: str | None = None
    problem: str | None = None


class ModelFacts(NamedTuple):
    """What an encoder must know of its model: the settings of its checkpoint, how many tokens it
    reads at once, and the size of its vocabulary (None if that is not known)."""

    settings: CheckpointSettings
    limit: int
    vocabulary: int | None


def read_checkpoint_settings(name: str | Path, **hub_options: Any) -> CheckpointSettings:
    """The settings of a checkpoint in a folder or on the Hub; those of its base if it is an adapter
    without settings of its own. Errors are not raised but described in `problem`."""

    def read(file: str) -> Any:
        path = cached_file(name, file, _raise_exceptions_for_missing_entries=False, **hub_options)
        return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))

    try:
        modules = read("modules.json")
        if modules is None:
            adapter = adapter_at(name, **hub_options)
            return (
                read_checkpoint_settings(adapter.base, **adapter.base_hub)
                if adapter
                else CheckpointSettings()
            )
        paths = {_kind(module["type"]): module["path"] for module in modules}
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


def _kind(type_name: str) -> str:
    """The name of a module's class; with its own module if it is not of sentence-transformers, as
    its code is not run."""
    known = type_name.startswith("sentence_transformers.")
    return type_name.rsplit(".", 1)[-1] if known else type_name


def module_settings(modules: Iterable[Any]) -> CheckpointSettings:
    """The settings of a loaded `SentenceTransformer`, given as the sequence of its modules."""
    kinds = {type(module).__name__: module for module in modules}
    unknown = [kind for kind in kinds if kind not in _KNOWN_MODULES]
    pooling = _pooling_mode(kinds["Pooling"].get_config_dict()) if "Pooling" in kinds else None
    return CheckpointSettings(
        "+".join(unknown) or pooling,
        bool(getattr(kinds.get("Transformer"), "do_lower_case", False)),
    )


def _pooling_mode(config: dict[str, Any]) -> str | None:
    """The pooling mode, from the configuration of sentence-transformers 6 or the flags of earlier
    releases."""
    modes = config.get("pooling_mode") or [
        key.removeprefix("pooling_mode_")
        for key, on in config.items()
        if key.startswith("pooling_mode_") and on
    ]
    return (
        "+".join(
            _POOLINGS.get(mode, mode) for mode in ([modes] if isinstance(modes, str) else modes)
        )
        or None
    )


def write_checkpoint_settings(
    folder: str | Path, pooling: Pooling, dimensions: int, lowercase: bool, context_tokens: int
) -> None:
    """Turn a saved model and tokenizer into a sentence-transformers checkpoint that every release
    can load."""
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds.items())
    ]
    modes = {
        "pooling_mode_cls_token": pooling == "first",
        "pooling_mode_mean_tokens": pooling == "mean",
    }
    (Path(folder) / "1_Pooling").mkdir(exist_ok=True)
    for file, content in {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": dimensions, **modes},
        "sentence_bert_config.json": {"max_seq_length": context_tokens, "do_lower_case": lowercase},
    }.items():
        (Path(folder) / file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
