"""The files that the weights of a checkpoint are in, checked before any of them is opened:
safetensors of the folder.

A pickle executes code when it is read. Not only `pytorch_model.bin` is one: an index of weights, or
`config.json`, may name any file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from transformers.utils import cached_file

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLE = "pytorch_model.bin"
_CONFIG = "config.json"
_MODULES = "modules.json"
_NAMED = "transformers_weights"
"""The setting in `config.json` that may name the file of the weights."""

_AGAIN = "copy or download it again"
_SAVE = "save the model as safetensors with save_pretrained"


def weights_problem(
    name: str | Path, hub: Mapping[str, Any], variant: str | None = None, subfolder: str = ""
) -> str | None:
    """Why the weights of a checkpoint can't be loaded from safetensors, with the cure; None if they
    can.

    Args:
        name: folder or Hub id.
        hub: the options of `cached_file` that say where the files are found.
        variant, subfolder: as for `from_pretrained` of `transformers`, which change the names of
            the files.

    Raises:
        OSError: files can't be looked up.
    """

    def found(file: str) -> str | None:
        path: str | None = cached_file(
            name, file, subfolder=subfolder, _raise_exceptions_for_missing_entries=False, **hub
        )
        return path

    config = found(_CONFIG)
    try:
        settings = json.loads(Path(config).read_text(encoding="utf-8")) if config else None
    except (ValueError, RecursionError):
        settings = None  # What is wrong with it is told where the model is made.
    named = settings.get(_NAMED) if isinstance(settings, dict) else None
    if named is not None:
        if problem := _part_problem(_CONFIG, str(named).removesuffix(".index.json")):
            return problem
        return _index_problem(found(named), named, name) if named.endswith(".index.json") else None
    if found(_variant(_WEIGHTS, variant)) is not None:
        return None
    index = _variant(_INDEX, variant)
    if (path := found(index)) is not None:
        return _index_problem(path, index, name)
    pickles = (
        sorted(file.name for file in Path(name, subfolder).glob("*.bin"))
        if Path(name).is_dir()
        else []
    )
    what = (
        f"its weights are in a pickle ({pickles[0]}), which can execute code"
        if pickles
        else f"no {_WEIGHTS}"
    )
    return f"{what}; {_SAVE}"


def modules_problem(name: str | Path) -> str | None:
    """Why the modules of a sentence-transformers checkpoint can't be loaded by that library: their
    code is not its own, or their weights are in a pickle; None if they can.

    Args:
        name: folder or Hub id of the checkpoint, whose `modules.json`, if any, is valid.
    """

    def found(file: str) -> str | None:
        path: str | None = cached_file(name, file, _raise_exceptions_for_missing_entries=False)
        return path

    listed = found(_MODULES)
    for module in json.loads(Path(listed).read_text(encoding="utf-8")) if listed else []:
        kind, folder = module["type"], module["path"]
        if not kind.startswith("sentence_transformers."):
            return (
                f"{_MODULES} names {kind!r}, which is not of sentence-transformers; code of"
                " checkpoints is not run"
            )
        pickle = f"{folder}/{_PICKLE}"
        if folder and found(f"{folder}/{_WEIGHTS}") is None and found(pickle) is not None:
            return (
                f"the weights of a module are in a pickle ({pickle}), which can execute code;"
                f" {_SAVE}"
            )
    return None


def _index_problem(path: str | None, index: str, name: str | Path) -> str | None:
    """What is wrong with an index of weights: all files that it names must be safetensors of the
    same folder."""
    if path is None:
        return f"{_CONFIG} names {index!r}, which is missing; {_AGAIN}"
    try:
        parts = list(json.loads(Path(path).read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{index} is invalid ({type(error).__name__}: {error}); {_AGAIN}"
    if not parts:
        return f"{index} names no weights; {_AGAIN}"
    for part in parts:
        if problem := _part_problem(index, part):
            return problem
    for part in dict.fromkeys(parts):
        # `Path.is_file` would raise for a name that is too long for the system.
        if Path(name).is_dir() and not os.path.isfile(Path(path).parent / part):
            return f"{index} names {part!r}, which is missing; {_AGAIN}"
    return None


def _part_problem(source: str, part: object) -> str | None:
    """Why a file that is named in a checkpoint is not read."""
    if not isinstance(part, str) or not part.endswith(".safetensors"):
        return f"{source} names {part!r}, which is not in safetensors; {_SAVE}"
    path = PurePosixPath(part)
    if path.is_absolute() or ".." in path.parts or "\\" in part:
        return f"{source} names {part!r}, which is outside of the folder; correct it"
    return None


def _variant(file: str, variant: str | None) -> str:
    """The name of a file in a variant, such as `model.fp16.safetensors` or
    `model.safetensors.index.fp16.json`."""
    stem, dot, suffix = file.rpartition(".")
    return f"{stem}.{variant}{dot}{suffix}" if variant else file
