"""Sources of data (the package itself, files, a folder, the Hub), each resolved to files by split."""

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
"""Published data sets on the Hub, with the default revision of each; None is `main`."""

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_SPLIT_OF = {
    alias: split
    for split, aliases in {
        "train": ("train", "training"),
        "validation": ("validation", "valid", "val", "dev"),
        "test": ("test",),
    }.items()
    for alias in aliases
}


def corpus_files(name: str) -> SplitFiles:
    """The files of a corpus that comes with the package."""
    return _folder_files(Path(__file__).parent / name)


def source_files(source: DataSource, revision: str | None = None, token: str | bool | None = None) -> SplitFiles:
    """The data files of a source, by split.

    Args:
        source: a file or a list of files, which are the split `train`; a mapping of splits to these; a folder, or the
            Hub id of a data set, where file names determine the split.
        revision, token: for the Hub; the default revision is that in `PUBLISHED`, or `main`.

    Raises:
        FileNotFoundError: the source is neither local nor on the Hub, or has no data files.
        ValueError: the format of a file is unknown, or a revision is given for local data.
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
        raise ValueError(f"revision={revision!r} applies only to data on the Hub, but {source!r} is local")
    return files


def labelled_files(source: DataSource, revision: str | None = None, token: str | bool | None = None) -> SplitFiles:
    """As `source_files`, but a file or a list of files is split by file names too, and no split is `train`: files that
    would be in it, or whose names have no split, are the split `labelled`."""
    found: SplitFiles = {}
    for split, files in source_files(source, revision, token).items():
        for file in files:
            name = _split_of(Path(file).name) if split == "train" else split
            found.setdefault("labelled" if name in ("", "train") else name, []).append(file)
    return found


def _split_of(name: str) -> str:
    """The split that a word of a file name names, empty if there is none."""
    return next((_SPLIT_OF[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _SPLIT_OF), "")


def _files(paths: Name | Iterable[Name]) -> list[str]:
    names = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not names:
        raise ValueError("no files; give at least one for each split")
    for name in names:
        if not os.path.isfile(name):
            raise FileNotFoundError(f"{name} is not a file; check the name")
        if not is_data_file(name):
            raise ValueError(f"{name} has an unknown format; supported: {' '.join(DATA_PATTERNS)}")
    return names


def _folder_files(folder: Path) -> SplitFiles:
    """The data files of a folder by split. Files without a split in their names are `train` if no file has one, else
    they are ignored."""
    found: SplitFiles = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).as_posix()
        if is_data_file(inside) and path.is_file() and not inside.startswith("."):
            found.setdefault(_split_of(inside), []).append(str(path))
    if not found:
        raise FileNotFoundError(f"no data files in {folder}; supported: {' '.join(DATA_PATTERNS)}")
    unnamed = found.pop("", [])
    return found or {"train": unnamed}


def _download(name: str, revision: str | None, token: str | bool | None) -> Path:
    """Download the data files of a data set on the Hub; returns their folder."""
    if not _HUB_ID.fullmatch(name) or is_data_file(name):
        raise FileNotFoundError(f"{name!r} is not a local path, and not a Hub id (user/name); check the name")
    try:
        revision = revision or PUBLISHED.get(name)
        return Path(
            snapshot_download(name, repo_type="dataset", revision=revision, token=token, allow_patterns=DATA_PATTERNS)
        )
    except GatedRepoError:
        raise
    except (RepositoryNotFoundError, LocalEntryNotFoundError) as error:
        raise FileNotFoundError(f"{name!r} is not a local path, and can't be found on the Hub: {error}") from error
