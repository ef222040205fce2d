"""Sources of data (the package itself, files, a folder, the Hub, loaded rows), each resolved to
files by split, and the publications of the known data sets."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote
from urllib.request import url2pathname

import yaml
from datasets import Dataset, DatasetDict, config, load_dataset_builder, load_from_disk
from datasets.data_files import DataFilesDict, get_data_patterns
from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError
from pyarrow.parquet import read_table

from narrative_twins.data.file_formats import DATA_PATTERNS, is_data_file

Name: TypeAlias = str | os.PathLike[str]
Rows: TypeAlias = Name | Dataset | Iterable[Name]
DataSource: TypeAlias = Rows | DatasetDict | Mapping[str, Rows]
SplitFiles: TypeAlias = dict[str, list[str]]
_Hub: TypeAlias = tuple[str | None, str | None, str | bool | None]
"""The configuration, the revision and the token of data on the Hub."""

JUDGED_CORPORA = ("stories", "everyday", "prose", "translations")
"""The corpora of the package with votes of readers for sentences, as judged by a language model."""
CORPORA = ("stories", "synopses", "everyday", "prose", "translations")
"""The names of all corpora of the package, each a folder of Parquet files next to this module."""

NARRATIVE_TWINS = """
@misc{sterner-narrative-twins,
    title={Contrastive Learning with Narrative Twins for Modeling Story Salience},
    author={Igor Sterner and Alex Lascarides and Frank Keller},
}
"""
TRIPOD = (
    "Papalampidi, Keller and Lapata (2019). Movie Plot Analysis via Turning Point Identification."
    " Proceedings of EMNLP-IJCNLP 2019, 1707-1717."
)

CARD = "README.md"
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
"""The id of a data set on the Hub, `user/name`."""
HUB_PATH = re.compile(
    rf"hf://datasets/(?P<id>{HUB_ID.pattern})(@(?P<revision>[^/]+))?(/(?P<inside>.*))?"
)
"""The path of a data set on the Hub, or of files in it."""
_CONFIGURATIONS = re.compile(rb"^configs:", re.MULTILINE)
"""The line of a card after which it lists configurations."""


def corpus_files(name: str) -> SplitFiles:
    """Return the files of a corpus of the package by split; `name` is one of `CORPORA`."""
    folder = Path(__file__).parent / name
    return {file.stem: [str(file)] for file in sorted(folder.glob("*.parquet"))}


def corpus_rows(name: str) -> DatasetDict:
    """Read a corpus of the package into memory, by split, with the columns of its files."""
    files = corpus_files(name).items()
    return DatasetDict({split: Dataset(read_table(path)) for split, (path,) in files})


def source_files(
    source: DataSource,
    revision: str | None = None,
    token: str | bool | None = None,
    name: str | None = None,
    cache_dir: str | None = None,
) -> SplitFiles:
    """Return the data files of a source, by split.

    Args:
        source: see `load_story_twins`. The files of a folder or data set on the Hub are selected as
            by `datasets.load_dataset`.
        revision, token: the version (default: `main`) and access token of data on the Hub.
        name: the configuration of a folder or data set on the Hub; default: as its card says.
        cache_dir: folder for the rows of a `Dataset`, which are written to a file; default the
            `datasets` cache.

    Raises:
        FileNotFoundError: the source is neither local nor on the Hub, or has no data files.
        ValueError: the format of a file is unknown, a folder has files of several formats, there is
            no such configuration, or an option does not apply to such a source.
    """
    hub = name, revision, token
    if isinstance(source, (str, os.PathLike)):
        source = path = _local_path(source)
        if path.startswith("hf://") or not (os.path.exists(path) or glob.has_magic(path)):
            return _hub_files(path, *hub)
        if os.path.isdir(path) and revision is None:
            try:
                source = load_from_disk(path)
            except FileNotFoundError:  # not a folder of `save_to_disk`
                return _folder_files(Path(path), name)
    for option, value in (("name", name), ("revision", revision)):
        if value is not None:
            of = f"{type(source).__name__} {str(source)[:200]}"
            raise ValueError(f"{option}={value!r} does not apply to {of}")
    by_split = source if isinstance(source, Mapping) else {"train": source}
    return {str(split): _split_files(rows, hub, cache_dir) for split, rows in by_split.items()}


def _split_files(rows: Rows, hub: _Hub, cache_dir: str | None) -> list[str]:
    """Return the files of one split of a source. Raise as `source_files` does."""
    if isinstance(rows, Dataset):
        return [_write_to_cache(rows, cache_dir)]
    files: list[str] = []
    for path in map(_local_path, [rows] if isinstance(rows, (str, os.PathLike)) else rows):
        is_on_hub = path.startswith("hf://")
        files += chain(*_hub_files(path, *hub).values()) if is_on_hub else _named_files(path)
    if not files:
        raise ValueError("no files; give at least one for each split")
    return files


def _local_path(name: Name) -> str:
    """Return a path as a text; `"file:///tmp/a.jsonl"` becomes `"/tmp/a.jsonl"`."""
    path = os.fspath(name)
    return url2pathname(path.removeprefix("file://")) if path.startswith("file://") else path


def _named_files(path: str) -> list[str]:
    """Return the data files that a path or a pattern names. Raise FileNotFoundError if there are
    none, and ValueError if a format is unknown."""
    files = [path] if os.path.isfile(path) else sorted(glob.glob(path, recursive=True))
    files = [file for file in files if os.path.isfile(file)]
    if not files:
        raise FileNotFoundError(f"{path} is not a file, and no files match it; check the name")
    if unknown := [file for file in files if not is_data_file(file)]:
        supported = " ".join(DATA_PATTERNS)
        raise ValueError(f"{unknown[0]} has an unknown format; supported: {supported}")
    return files


def _write_to_cache(rows: Dataset, cache_dir: str | None) -> str:
    """Write a data set to a Parquet file in the cache, unless the file exists. Return its path."""
    # Builders read files. The fingerprint is of the content, so that equal rows are written once.
    folder = Path(cache_dir or config.HF_DATASETS_CACHE) / "narrative_twins_rows"
    file = folder / f"rows-{rows._fingerprint}.parquet"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{file.name}.{os.getpid()}"
        rows.to_parquet(part)
        part.replace(file)
    return str(file)


def _folder_files(folder: Path, name: str | None = None) -> SplitFiles:
    """Return the data files of a folder by split, as `datasets.load_dataset` selects them: by the
    configuration `name` of its card, or by file names if the card has no configurations."""
    root = os.path.realpath(folder)
    try:
        data_files = load_dataset_builder(root, name).config.data_files
    except (ValueError, TypeError, yaml.YAMLError) as error:
        problem = f"datasets can't tell the data files of {folder}: {error}"
        fix = "name a configuration of its card (name=), or pass its files by split"
        raise ValueError(f"{problem}; {fix}") from error
    by_split = {
        str(split): [os.path.abspath(file) for file in data_files[split] if is_data_file(file)]
        for split in data_files
    }
    files = set(chain(*by_split.values()))
    # The card may be from a stranger, and must not name private files of the user.
    if outside := [file for file in files if os.path.commonpath([root, file]) != root]:
        raise ValueError(f"the card names {outside[0]}, which is outside of the data set")
    if left_out := _files_left_out(root, files):
        names = ", ".join(left_out[:10])
        problem = f"{folder} has files of several formats, and datasets leaves out {names}"
        raise ValueError(f"{problem}; pass the files, or files by split: {{'train': [...]}}")
    if not files:
        raise FileNotFoundError(f"no data files in {folder}; supported: {' '.join(DATA_PATTERNS)}")
    return by_split


def _files_left_out(root: str, files: Container[str]) -> list[str]:
    """Return the data files of a folder that `datasets` does not read. In a folder whose card lists
    no files, it reads for each split only the files of the most common format."""
    card = Path(root, CARD)
    if card.is_file() and _CONFIGURATIONS.search(card.read_bytes()):
        return []
    named = chain(*DataFilesDict.from_patterns(get_data_patterns(root), root).values())
    return [file for file in named if is_data_file(file) and file not in files]


def _hub_files(
    path: str, name: str | None, revision: str | None, token: str | bool | None
) -> SplitFiles:
    """Download a data set on the Hub and return its data files by split. `path` is a Hub id, or the
    address `hf://datasets/...` of a data set, folder or file. Offline, cached files are used."""
    match = HUB_PATH.fullmatch(path)
    if match is None and (not HUB_ID.fullmatch(path) or is_data_file(path)):
        problem = "is not a local path, and not a Hub id (user/name); check the name"
        raise FileNotFoundError(f"{path!r} {problem}")
    repo_id, tag, inside = match.group("id", "revision", "inside") if match else (path, None, None)
    wanted = [inside, f"{inside.rstrip('/')}/**"] if inside else [CARD, *DATA_PATTERNS]
    try:
        folder = snapshot_download(
            repo_id,
            repo_type="dataset",
            revision=revision or (tag and unquote(tag)),
            token=token,
            allow_patterns=wanted,
        )
    except (RepositoryNotFoundError, LocalEntryNotFoundError) as error:
        problem = "is not a local path, and can't be found on the Hub"
        raise FileNotFoundError(f"{path!r} {problem}: {error}") from error
    local = Path(folder, inside or "")
    return _folder_files(local, name) if local.is_dir() else {"train": _named_files(str(local))}
