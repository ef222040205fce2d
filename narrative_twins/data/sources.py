"""Where data come from: the package itself, files, a folder, the Hub. Whatever it is, it ends as files by split."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

from narrative_twins.data.records import DATA_PATTERNS, is_data_file

Name: TypeAlias = str | os.PathLike[str]
DataSource: TypeAlias = Name | Iterable[Name] | Mapping[str, Name | Iterable[Name]]
SplitFiles: TypeAlias = dict[str, list[str]]

PUBLISHED: dict[str, str | None] = {
    "igorsterner/rocstory-narrative-twins": None,
    "igorsterner/rocstory-salience": None,
    "igorsterner/rocstory-summaries": None,
    "igorsterner/wikipedia-narrative-twins": None,
}
"""Data sets on the Hub that this package knows, each with the revision it is read at by default; None is `main`."""

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_SPLIT_OF = {
    word: split
    for split, words in {
        "train": ("train", "training"),
        "validation": ("validation", "valid", "val", "dev"),
        "test": ("test",),
    }.items()
    for word in words
}


def corpus_files(name: str) -> SplitFiles:
    """The files of a corpus that comes with the package."""
    return _folder_files(Path(__file__).parent / name)


def source_files(source: DataSource, revision: str | None = None, token: str | bool | None = None) -> SplitFiles:
    """The data files of a source, by split.

    Args:
        source: a file or a list of files, which are the split `train`; a mapping of splits to these; a folder, or the
            Hub id of a data set, whose files say by their names which split they are.
        revision: of the Hub id; by default the one in `PUBLISHED`, or `main`.
        token: for the Hub.

    Raises:
        FileNotFoundError: the source is neither here nor on the Hub, or there are no data in it.
        ValueError: a file is in no known format, or there is a revision of what is no Hub id.
    """
    if isinstance(source, Mapping):
        files = {split: _files(paths) for split, paths in source.items()}
    elif not isinstance(source, (str, os.PathLike)) or os.path.isfile(source):
        files = {"train": _files(source)}
    elif os.path.isdir(source):
        files = _folder_files(Path(source))
    else:
        return _folder_files(_download(str(source), revision, token))
    if revision is not None:
        raise ValueError(f"revision={revision!r} is for data on the Hub, and {source!r} is on this machine")
    return files


def _files(paths: Name | Iterable[Name]) -> list[str]:
    names = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not names:
        raise ValueError("no files; name at least one for each split")
    for name in names:
        if not os.path.isfile(name):
            raise FileNotFoundError(f"{name} is no file here; check the name")
        if not is_data_file(name):
            raise ValueError(f"{name} is in no known format; these are read: {' '.join(DATA_PATTERNS)}")
    return names


def _folder_files(folder: Path) -> SplitFiles:
    """The data files of a folder; those that name no split are `train` if none does, else they are left alone."""
    found: SplitFiles = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).as_posix()
        if is_data_file(inside) and path.is_file() and not inside.startswith("."):
            words = re.split(r"[^a-z]+", inside.lower())
            split = next((_SPLIT_OF[word] for word in words if word in _SPLIT_OF), "")
            found.setdefault(split, []).append(str(path))
    if not found:
        raise FileNotFoundError(f"no data files in {folder}; these are read: {' '.join(DATA_PATTERNS)}")
    unnamed = found.pop("", [])
    return found or {"train": unnamed}


def _download(name: str, revision: str | None, token: str | bool | None) -> Path:
    """The folder of a data set on the Hub, as far as it is data."""
    if not _HUB_ID.fullmatch(name) or is_data_file(name):
        raise FileNotFoundError(f"{name!r} is no file or folder here, and no Hub id (user/name); check the name")
    try:
        revision = revision or PUBLISHED.get(name)
        return Path(
            snapshot_download(name, repo_type="dataset", revision=revision, token=token, allow_patterns=DATA_PATTERNS)
        )
    except GatedRepoError:
        raise
    except (RepositoryNotFoundError, LocalEntryNotFoundError) as error:
        raise FileNotFoundError(
            f"{name!r} is no file or folder here, and as a Hub id it can't be had: {error}"
        ) from error
