"""Preparing data sets of files: options of loading, and a cache that knows the content of the
files."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
from typing import Any, TypeAlias, TypedDict

import datasets

from narrative_twins.data.builders import RowsBuilder
from narrative_twins.data.rows import RowError
from narrative_twins.data.sources import SplitFiles

logger = logging.getLogger(__name__)


class LoadOptions(TypedDict, total=False):
    """Options of all loading functions.

    Attributes:
        revision: a branch, tag or commit of a Hub id.
        token: access token for private and gated data on the Hub.
        streaming: yield rows one by one, without preparing a cache. Data on the Hub are still
            downloaded completely.
        cache_dir: folder for prepared rows, instead of the `datasets` cache. Downloads stay in the
            Hub cache.
        name: the configuration of a folder or of a data set on the Hub, or of the package's own
            judged stories.
        num_proc, download_mode, keep_in_memory: as in `datasets.load_dataset`.
    """

    revision: str | None
    token: str | bool | None
    streaming: bool
    cache_dir: str | None
    name: str | None
    num_proc: int | None
    download_mode: datasets.DownloadMode | str | None
    keep_in_memory: bool | None


LoadedData: TypeAlias = (
    datasets.Dataset
    | datasets.DatasetDict
    | datasets.IterableDataset
    | datasets.IterableDatasetDict
)


def load(
    builder_class: type[RowsBuilder],
    name: str,
    files: SplitFiles,
    split: str | None,
    options: LoadOptions,
    **settings: Any,
) -> LoadedData:
    """Load the files of a data set.

    Args:
        builder_class: the builder, which has `settings`.
        name: the name of the data set, for the cache.
        files: its files by split.
        split: as of `load_story_twins`, which also has the errors.
        options: see `LoadOptions`; those of sources have been used already.
    """
    # By default `datasets` names a cache after the module, and reuses it even if the files or this
    # package change.
    version = importlib.metadata.version("narrative_twins")
    builder = builder_class(
        dataset_name=f"narrative_twins_{name}",
        hash=(
            None if options.get("streaming") else f"{version}-{_fingerprint(builder_class, files)}"
        ),
        cache_dir=options.get("cache_dir"),
        files=files,
        **settings,
        **({"streaming": True} if options.get("streaming") else {}),
    )
    num_proc = options.get("num_proc")
    if options.get("streaming"):
        if num_proc is not None:
            raise ValueError(f"num_proc={num_proc} does not apply to streaming; leave it out")
        return builder.as_streaming_dataset(split=split)
    mode = datasets.DownloadMode(options.get("download_mode") or "reuse_dataset_if_exists")
    try:
        builder.download_and_prepare(download_mode=mode, num_proc=num_proc)
    except datasets.exceptions.DatasetGenerationError as error:
        if isinstance(error.__cause__, RowError):
            raise error.__cause__ from None
        if (
            num_proc is not None
        ):  # errors of other processes come without their cause, so it is found in this one
            return load(
                builder_class, name, files, split, {**options, "num_proc": None}, **settings
            )
        raise
    if builder.left_out:
        logger.warning("%s", builder.left_out)
    return _as_dataset(builder, split, bool(options.get("keep_in_memory")))


def _as_dataset(builder: RowsBuilder, split: str | None, in_memory: bool) -> LoadedData:
    """The prepared rows; a split without rows is empty, while `datasets` refuses to read it."""
    info = builder.info
    empty = [name for name, prepared in info.splits.items() if not prepared.num_examples]
    if split in empty:
        columns: dict[str, list[Any]] = {column: [] for column in info.features}
        return datasets.Dataset.from_dict(
            columns, info.features, info.copy(), datasets.NamedSplit(split)
        )
    if split is None and empty:
        return datasets.DatasetDict(
            {name: _as_dataset(builder, name, in_memory) for name in info.splits}
        )
    return builder.as_dataset(split=split, in_memory=in_memory)


def _fingerprint(builder_class: type[RowsBuilder], files: SplitFiles) -> str:
    """A digest of the columns, the description and the content of all files."""
    digest = hashlib.sha256(repr((builder_class.FEATURES, builder_class.ABOUT)).encode())
    for file in (file for split in files.values() for file in split):
        with open(file, "rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]
