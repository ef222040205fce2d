"""Configurations of a data set: the files of each, as the metadata of its README.md names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import yaml
from huggingface_hub import metadata_load

Patterns: TypeAlias = dict[str, list[str]]
"""Patterns of files by split, relative to the folder. The split `""` stands for those that file
names determine."""

CARD = "README.md"


def configured_files(folder: Path, name: str | None, source: str) -> Patterns | None:
    """The files of a configuration, as in `datasets.load_dataset`.

    Args:
        folder: a folder with `README.md`, whose metadata may have `configs`.
        name: the configuration; None for the default one, or the only one.
        source: the name of the data set for messages.

    Returns:
        The patterns of the files; None if the folder has no configurations and no name is given.

    Raises:
        ValueError: there is no such configuration, or none of several is the default one, or the
            metadata are invalid.
    """
    found = {str(entry.get("config_name", "default")): entry for entry in _entries(folder, source)}
    if name is None:
        if not found:
            return None
        default = [key for key, entry in found.items() if entry.get("default") or key == "default"]
        if not default and len(found) > 1:
            raise ValueError(
                f"{source} has several configurations; choose one with name=: {', '.join(found)}"
            )
        name = (default or [*found])[0]
    if name not in found:
        known = (
            f"has only {', '.join(found)}"
            if found
            else f"has no configurations ({CARD} names none)"
        )
        raise ValueError(f"no configuration {name!r}: {source} {known}")
    return _patterns(found[name], f"{source}, configuration {name!r}")


def configuration_names(folder: Path, source: str) -> list[str]:
    """The names of the configurations of a folder, in the order of its card; as
    `configured_files`."""
    return [str(entry.get("config_name", "default")) for entry in _entries(folder, source)]


def _entries(folder: Path, source: str) -> list[Mapping[str, Any]]:
    card = folder / CARD
    if not card.is_file():
        return []
    try:
        entries = (metadata_load(card) or {}).get("configs") or []
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError) as error:
        raise ValueError(
            f"the metadata of {source} in {CARD} can't be read ({error}); repair them"
        ) from error
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError(
            f"'configs' of {source} in {CARD} is not a list of configurations; repair it"
        )
    return [entry for entry in entries if "data_files" in entry or "data_dir" in entry]


def _patterns(entry: Mapping[str, Any], where: str) -> Patterns:
    start = PurePosixPath(str(entry.get("data_dir") or "."))
    files = entry.get("data_files")
    if files is None:
        found = {"": ["**"]}
    elif isinstance(files, list) and all(
        isinstance(part, Mapping) and {"split", "path"} <= {*part} for part in files
    ):
        found = {str(part["split"]): _listed(part["path"]) for part in files}
    else:
        found = {"train": _listed(files)}
    found = {
        split: [str(start / pattern) for pattern in patterns] for split, patterns in found.items()
    }
    for path in (PurePosixPath(pattern) for patterns in found.values() for pattern in patterns):
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{where} names {str(path)!r}, which is outside of the data set")
    return found


def _listed(paths: str | Iterable[Any]) -> list[str]:
    return [paths] if isinstance(paths, str) else [str(path) for path in paths]
