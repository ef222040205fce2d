"""What an encoder's checkpoint says about itself: how it pools, how its text is prepared, how much it reads at once;
and which checkpoint is the default."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModel
from transformers.utils import cached_file

from narrative_twins.encoder.pooling import Pooling
from narrative_twins.encoder.tokens import StoryTokenizer
from narrative_twins.files import digest_of_files

DEFAULT_ENCODER = Path(__file__).parent / "default"

SETTINGS = "narrative_twins"
"""Where in its configuration a model may have the settings of its checkpoint."""

_MODEL_FILES = (".json", ".safetensors", ".bin", ".txt", ".model")
"""Suffixes of files that change what an encoder computes: settings, weights, vocabularies."""
_HUB_OPTIONS = ("revision", "token", "cache_dir", "local_files_only", "force_download")
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLINGS = {"mean_tokens": "mean", "cls_token": "first", "cls": "first"}


def default_encoder() -> str:
    """The folder of the encoder that is used when none is named; it comes with the package, and its card in it."""
    return str(DEFAULT_ENCODER)


def fingerprint(name: str | Path, config: Any) -> str | None:
    """What tells two encoders of the same name apart: a digest of the files of a folder, the commit of a Hub id.

    Args:
        name: folder or Hub id.
        config: the configuration of the model that was loaded.
    """
    if not Path(name).is_dir():
        commit: str | None = getattr(config, "_commit_hash", None)
        return commit
    return digest_of_files(name, _MODEL_FILES)


def hub_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the options for `from_pretrained`, those that say where and how a file of a checkpoint is found."""
    return {key: options[key] for key in _HUB_OPTIONS if key in options}


class CheckpointSettings(NamedTuple):
    """Settings of a sentence-transformers checkpoint that change its vectors.

    Attributes:
        pooling: `"mean"`, `"first"`, or in its own words what this package can't do; None where it does not say.
        lowercase: whether text is lowercased before it is tokenized.
        prompt: name of a prompt put before every text, if there is one.
    """

    pooling: str | None = None
    lowercase: bool = False
    prompt: str | None = None


class AutoStoryModel(AutoModel):
    """`AutoModel` that also sets two attributes of the model: `checkpoint_settings`, the settings of its checkpoint,
    and `precision`, which is `"auto"` unless a dtype was chosen."""

    @classmethod
    def from_pretrained(cls, name: str, *args: Any, **kwargs: Any) -> Any:
        model = super().from_pretrained(name, *args, **kwargs)
        # Errors would be swallowed by `pipeline`, which then loads the model in another way: they are kept as well.
        model.checkpoint_settings = read_checkpoint_settings(name, **hub_options(kwargs))
        model.precision = "auto" if kwargs.get("dtype", "auto") in ("auto", None) else None
        return model


def read_checkpoint_settings(name: str | Path, **hub_options: Any) -> CheckpointSettings:
    """The settings of a checkpoint, a folder or on the Hub. What can't be read is told as `pooling`, never raised."""

    def read(file: str) -> Any:
        path = cached_file(name, file, _raise_exceptions_for_missing_entries=False, **hub_options)
        return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))

    try:
        modules = read("modules.json")
        if modules is None:
            return CheckpointSettings()
        paths = {module["type"].rsplit(".", 1)[-1]: module["path"] for module in modules}
        pooling = read(f"{paths['Pooling']}/config.json") if "Pooling" in paths else None
        lowercase = bool((read("sentence_bert_config.json") or {}).get("do_lower_case"))
        prompt = (read("config_sentence_transformers.json") or {}).get("default_prompt_name")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return CheckpointSettings(f"settings that can't be read ({error})")
    others = [kind for kind in paths if kind not in _KNOWN_MODULES]
    return CheckpointSettings("+".join(others) or _mode(pooling or {}), lowercase, prompt)


def module_settings(modules: Iterable[Any]) -> CheckpointSettings:
    """The settings of a loaded `SentenceTransformer`, which is a sequence of modules."""
    kinds = {type(module).__name__: module for module in modules}
    others = [kind for kind in kinds if kind not in _KNOWN_MODULES]
    pooling = _mode(kinds["Pooling"].get_config_dict()) if "Pooling" in kinds else None
    return CheckpointSettings(
        "+".join(others) or pooling, bool(getattr(kinds.get("Transformer"), "do_lower_case", False))
    )


def _mode(config: dict[str, Any]) -> str | None:
    """The pooling mode in the layouts of sentence-transformers before and since 6."""
    mode = config.get("pooling_mode") or [
        key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on
    ]
    return "+".join(_POOLINGS.get(one, one) for one in ([mode] if isinstance(mode, str) else mode)) or None


def write_checkpoint_settings(
    folder: str | Path, pooling: Pooling, dimensions: int, lowercase: bool, context_tokens: int
) -> None:
    """Make a saved model and tokenizer a sentence-transformers checkpoint, in the layout that every release reads."""
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(kinds.items())
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
    """How many tokens the model reads at once: its positions, less those that RoBERTa-type models keep for padding, or
    the tokenizer's limit where that is smaller."""
    config_limit = getattr(model.config, "max_position_embeddings", None)
    limits = [config_limit] if isinstance(config_limit, int) and config_limit > 0 else []
    limits += [table.num_embeddings - first_position(model) for table in _position_tables(model)]
    # A tokenizer without a limit of its own carries a huge number.
    if tokenizer.model_max_length < 10**9:
        limits.append(tokenizer.model_max_length)
    return min(limits, default=512)


def story_tokenizer(
    model: Any, tokenizer: Any, settings: CheckpointSettings, context_tokens: int | None = None
) -> StoryTokenizer:
    """The story tokenizer of a model.

    Args:
        model: the `transformers` model.
        tokenizer: its tokenizer.
        settings: of its checkpoint.
        context_tokens: read at most this many tokens at once; default as many as the model can.

    Raises:
        ValueError: as `StoryTokenizer`.
    """
    limit = model_limit(model, tokenizer)
    return StoryTokenizer(tokenizer, min(limit, context_tokens or limit), settings.lowercase)


def first_position(model: Any) -> int:
    """The position a text begins with: models of the RoBERTa kind count from the one after the padding's."""
    return max((table.padding_idx + 1 for table in _position_tables(model) if table.padding_idx is not None), default=0)


def _position_tables(model: Any) -> list[torch.nn.Embedding]:
    return [
        module
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding)
    ]
