"""Which files of a folder belong to an encoder: those of the sentence-transformers layout, by their
exact names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from narrative_twins.encoder.backends import BACKENDS

_SETTINGS = ("config.json", "modules.json", "config_sentence_transformers.json")
_TRANSFORMERS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_TOKENIZER = (
    ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
    + ("vocab.txt", "vocab.json", "merges.txt")
    + ("sentencepiece.bpe.model", "spiece.model", "tokenizer.model")
)
_LICENSES = ("LICENSE", "LICENSE.txt", "LICENSE.md")
_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_MODULE_FOLDER = re.compile(r"\d{1,3}_[A-Za-z]+")


def encoder_layout(folder: Path) -> list[Path]:
    """The files of an encoder in a folder, sorted.

    Weights in several files are those that their index lists; of the folders of modules, those that
    `modules.json` lists. Exports for other backends are among the files, see `BACKENDS`. Raises
    `ValueError` if there are no weights, an index is invalid, or a file is a link out of the
    folder.
    """
    settings = [*_SETTINGS, *(f"sentence_{name}_config.json" for name in _TRANSFORMERS)]
    names = [*settings, *_TOKENIZER, *_LICENSES, _WEIGHTS, *_shards(folder)]
    for module in _modules(folder):
        names += [f"{module}/config.json", f"{module}/{_WEIGHTS}"]
    for backend in BACKENDS.values():
        names += backend.files()
    found = sorted({folder / name for name in names if (folder / name).is_file()})
    if not any(path.suffix == ".safetensors" for path in found):
        raise ValueError(
            f"{folder} has no safetensors weights; load the model and save it with save_pretrained"
        )
    check_inside(folder, found)
    return found


def check_inside(folder: Path, paths: Iterable[Path]) -> None:
    """Raise a ValueError if one of the paths in a folder is a link out of it."""
    root = folder.resolve()
    for path in paths:
        if not path.resolve().is_relative_to(root):
            raise ValueError(
                f"{path} is a link to {path.resolve()}, outside of the folder; copy the file there"
            )


def _shards(folder: Path) -> list[str]:
    """The index of weights in several files, and these files."""
    index = _read(folder / _INDEX)
    if index is None:
        return []
    weights = index.get("weight_map") if isinstance(index, dict) else None
    shards = sorted(set(map(str, weights.values()))) if isinstance(weights, dict) else []
    if not shards or not all(map(_SHARD.fullmatch, shards)):
        raise ValueError(
            f"{folder / _INDEX} does not list weights like model-00001-of-00002.safetensors"
        )
    return [_INDEX, *shards]


def _modules(folder: Path) -> list[str]:
    """The folders of the modules that `modules.json` lists."""
    modules = _read(folder / "modules.json")
    rows = [row for row in modules if isinstance(row, dict)] if isinstance(modules, list) else []
    paths = [str(row.get("path") or "") for row in rows]
    return [
        path
        for path in paths
        if _MODULE_FOLDER.fullmatch(path) and PurePosixPath(path).name == path
    ]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} can't be read: {error}") from error
