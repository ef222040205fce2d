"""Sources of data (the package itself, files, a folder, the Hub, loaded rows), each resolved to
files by split."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote

from datasets import Dataset, DatasetDict, IterableDataset, config
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

from narrative_twins.data.configurations import CARD, Patterns, configured_files
from narrative_twins.data.records import DATA_PATTERNS, is_data_file

Name: TypeAlias = str | os.PathLike[str]
Rows: TypeAlias = Name | Dataset | Iterable[Name]
DataSource: TypeAlias = Rows | DatasetDict | Mapping[str, Rows]
SplitFiles: TypeAlias = dict[str, list[str]]

PUBLISHED: dict[str, str | None] = {
    "igorsterner/rocstory-narrative-twins": None,
    "igorsterner/rocstory-salience": None,
    "igorsterner/rocstory-summaries": None,
    "igorsterner/wikipedia-narrative-twins": None,
}
"""Published data sets on the Hub, with the default revision of each; None is `main`."""

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
"""The id of a data set on the Hub, `user/name`."""

_HUB_PATH = re.compile(
    r"hf://datasets/(?P<id>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?(/(?P<inside>.*))?"
)
_SPLIT_OF = {
    alias: split
    for split, aliases in {
        "train": ("train", "training"),
        "validation": ("validation", "valid", "val", "dev"),
        "test": ("test",),
    }.items()
    for alias in aliases
}


JUDGED_CORPORA = ("stories", "everyday", "prose")
"""The corpora of the package with votes of readers for sentences, as judged by a language model."""


def corpus_files(name: str) -> SplitFiles:
    """The files of a corpus that comes with the package."""
    return _folder_files(Path(__file__).parent / name)


def source_files(
    source: DataSource,
    revision: str | None = None,
    token: str | bool | None = None,
    name: str | None = None,
    cache_dir: str | None = None,
    force_download: bool = False,
) -> SplitFiles:
    """The data files of a source, by split.

    Args:
        source: a file, a pattern such as `"data/*.jsonl"`, a `Dataset` or a list of files, which
            are the split `train`; a `DatasetDict` or a mapping of splits to these; a folder, also
            of `save_to_disk`, or the Hub id of a data set, where the configurations of its card,
            else file names, determine the split. A path on the Hub is `"hf://datasets/user/name"`,
            perhaps with `@revision` and a file, pattern or folder after it.
        revision, token: for the Hub; the default revision is that in `PUBLISHED`, or `main`.
        name: the configuration of a folder or of a data set on the Hub; default the one that its
            card says.
        cache_dir: folder for the rows of a `Dataset`, which are written to a file; default the
            `datasets` cache.
        force_download: download files of the Hub again.

    Raises:
        FileNotFoundError: the source is neither local nor on the Hub, or has no data files.
        ValueError: the format of a file is unknown, there is no such configuration, or an option
            does not apply.
    """
    hub = _Hub(revision, token, force_download)
    if (
        isinstance(source, (str, os.PathLike))
        and not os.path.isfile(source)
        and not _is_pattern(source)
    ):
        if os.path.isdir(source):
            hub.check_unused(source)
            return _folder_files(Path(source), name, str(source))
        return hub.folder_files(os.fspath(source), name)
    if name is not None:
        raise ValueError(
            f"name={name!r} applies only to a folder or a data set on the Hub, which has"
            " configurations"
        )
    splits = source if isinstance(source, Mapping) else {"train": source}
    return {str(split): _files(rows, hub, cache_dir) for split, rows in splits.items()}


def labelled_files(
    source: DataSource,
    revision: str | None = None,
    token: str | bool | None = None,
    name: str | None = None,
) -> SplitFiles:
    """As `source_files`, but a file or a list of files is split by file names too, and no split is
    `train`: files that would be in it, or whose names have no split, are the split `labelled`."""
    found: SplitFiles = {}
    for split, files in source_files(source, revision, token, name).items():
        for file in files:
            name = _split_of(Path(file).name) if split == "train" else split
            found.setdefault("labelled" if name in ("", "train") else name, []).append(file)
    return found


def _split_of(name: str) -> str:
    """The split that a word of a file name names, empty if there is none."""
    return next(
        (_SPLIT_OF[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _SPLIT_OF), ""
    )


def _files(rows: Rows, hub: _Hub, cache_dir: str | None) -> list[str]:
    """The files of a split."""
    if isinstance(rows, Dataset):
        return [_written(rows, cache_dir)]
    if isinstance(rows, IterableDataset):
        raise TypeError("a stream of rows is not a source; pass a Dataset, or the files")
    paths = [os.fspath(path) for path in ([rows] if isinstance(rows, (str, os.PathLike)) else rows)]
    names = [name for path in paths for name in _expanded(path, hub)]
    if not names:
        raise ValueError("no files; give at least one for each split")
    for name in names:
        if not os.path.isfile(name):
            raise FileNotFoundError(f"{name} is not a file; check the name")
        if not is_data_file(name):
            raise ValueError(f"{name} has an unknown format; supported: {' '.join(DATA_PATTERNS)}")
    return names


def _is_pattern(path: Name) -> bool:
    name = os.fspath(path)
    return glob.has_magic(name) and not os.path.exists(name) and not name.startswith("hf://")


def _expanded(path: str, hub: _Hub) -> list[str]:
    """The files that a path stands for: a pattern, a path on the Hub or a file."""
    if path.startswith("hf://"):
        return [file for files in hub.folder_files(path, None).values() for file in files]
    hub.check_unused(path)
    if not _is_pattern(path):
        return [path]
    found = sorted(file for file in glob.glob(path, recursive=True) if os.path.isfile(file))
    if not found:
        raise FileNotFoundError(f"no files are called {path}; check the pattern")
    return found


def _written(rows: Dataset, cache_dir: str | None) -> str:
    """A file with the rows of a data set, in the cache."""
    folder = Path(cache_dir or config.HF_DATASETS_CACHE) / "narrative_twins_rows"
    file = folder / f"rows-{rows._fingerprint}.parquet"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{file.name}.{os.getpid()}"
        rows.to_parquet(part)
        part.replace(file)
    return str(file)


def _folder_files(folder: Path, name: str | None = None, source: str = "") -> SplitFiles:
    """The data files of a folder by split: of a configuration, if its card has any, else by file
    names. Files without a split in their names are `train` if no file has one, else they are
    ignored."""
    saved = _saved_files(folder)
    if saved and name is None:
        return saved
    patterns = configured_files(folder, name, source) or {"": ["**"]}
    found: SplitFiles = {}
    for split, paths in (
        (split, _matching(folder, pattern)) for split, many in patterns.items() for pattern in many
    ):
        for path in paths:
            found.setdefault(split or _split_of(path.relative_to(folder).as_posix()), []).append(
                str(path)
            )
    if not found:
        raise FileNotFoundError(
            f"no data files in {source or folder}; supported: {' '.join(DATA_PATTERNS)}"
        )
    unnamed = found.pop("", [])
    return found or {"train": unnamed}


def _matching(folder: Path, pattern: str) -> list[Path]:
    """The data files of a folder that a pattern matches; `**` matches files too."""
    paths = folder.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)
    inside = ((path.relative_to(folder).as_posix(), path) for path in sorted(paths))
    return [
        path
        for name, path in inside
        if is_data_file(name) and path.is_file() and not name.startswith(".")
    ]


def _saved_files(folder: Path) -> SplitFiles:
    """The files of a folder that `save_to_disk` wrote, by split; none for other folders. Raises
    ValueError if it names files outside of the folder."""
    splits = _json_field(folder / config.DATASETDICT_JSON_FILENAME, "splits")
    if splits and all(isinstance(split, str) for split in splits):
        found = {split: _saved_rows(_inside(folder, split)) for split in splits}
        return found if all(found.values()) else {}
    rows = _saved_rows(folder)
    return {"train": rows} if rows else {}


def _saved_rows(folder: Path) -> list[str]:
    """The files of a split that `save_to_disk` wrote."""
    files = _json_field(folder / config.DATASET_STATE_JSON_FILENAME, "_data_files")
    if not all(
        isinstance(file, Mapping) and isinstance(file.get("filename"), str) for file in files
    ):
        return []
    return [str(_inside(folder, file["filename"])) for file in files]


def _json_field(file: Path, field: str) -> list[Any]:
    """A list in a JSON object, empty if the file has none: it may also be a data file of the same
    name."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    found = content.get(field) if isinstance(content, Mapping) else None
    return found if isinstance(found, list) else []


def _inside(folder: Path, name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{folder} names {name!r}, which is outside of the data set")
    return folder / path


class _Hub:
    """Downloads of data sets."""

    def __init__(self, revision: str | None, token: str | bool | None, force: bool) -> None:
        self.revision, self.token, self.force = revision, token, force

    def check_unused(self, source: object) -> None:
        if self.revision is not None:
            raise ValueError(
                f"revision={self.revision!r} applies only to data on the Hub, but {source!r} is"
                " local"
            )

    def folder_files(self, name: str, configuration: str | None) -> SplitFiles:
        """The data files by split of a Hub id, or of a path on the Hub."""
        path = _HUB_PATH.fullmatch(name)
        inside = (path["inside"] or "").strip("/") if path else ""
        repo_id = path["id"] if path else name
        if not HUB_ID.fullmatch(repo_id) or not path and is_data_file(name):
            raise FileNotFoundError(
                f"{name!r} is not a local path, and not a Hub id (user/name); check the name"
            )
        revision = self.revision or (
            unquote(path["revision"]) if path and path["revision"] else None
        )
        revision = revision or PUBLISHED.get(repo_id)
        if inside:
            if configuration is not None:
                raise ValueError(
                    f"name={configuration!r} does not apply to {name}, a path in a data set"
                )
            folder = self._download(repo_id, revision, [inside, f"{inside}/**"])
            if (folder / inside).is_dir():
                return _folder_files(folder / inside, None, name)
            files = _matching(folder, inside)
            if not files:
                raise FileNotFoundError(
                    f"no data files are called {name}; supported: {' '.join(DATA_PATTERNS)}"
                )
            return {"train": [str(file) for file in files]}
        card = self._download(repo_id, revision, [CARD])
        patterns: Patterns = configured_files(card, configuration, repo_id) or {"": DATA_PATTERNS}
        folder = self._download(
            repo_id, revision, [pattern for many in patterns.values() for pattern in many]
        )
        return _folder_files(folder, configuration, repo_id)

    def _download(self, name: str, revision: str | None, patterns: list[str]) -> Path:
        """Download files of a data set; returns their folder."""
        try:
            folder = snapshot_download(
                name,
                repo_type="dataset",
                revision=revision,
                token=self.token,
                allow_patterns=patterns,
                force_download=self.force,
            )
        except GatedRepoError:
            raise
        except (RepositoryNotFoundError, LocalEntryNotFoundError) as error:
            raise FileNotFoundError(
                f"{name!r} is not a local path, and can't be found on the Hub: {error}"
            ) from error
        return Path(folder)
