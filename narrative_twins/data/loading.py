"""The functions that load data sets, from the package itself, from files or from the Hub."""

from __future__ import annotations

import hashlib
import importlib.metadata
from typing import Any, TypeAlias, TypedDict, Unpack

import datasets

from narrative_twins.data.builders import (
    RowsBuilder,
    StorySalienceBuilder,
    StoryTwinsBuilder,
    TurningPointsBuilder,
    WindowTwinsBuilder,
)
from narrative_twins.data.rows import RowError
from narrative_twins.data.sources import DataSource, SplitFiles, corpus_files, source_files


class LoadOptions(TypedDict, total=False):
    """Options that all loading functions take.

    Attributes:
        revision: a branch, tag or commit of a Hub id.
        token: for private and gated data on the Hub.
        streaming: yield rows one by one, without preparing them. Data on the Hub are still downloaded completely.
        cache_dir: where prepared rows are kept, instead of the cache of `datasets`. Files from the Hub stay in the
            cache of the Hub.
    """

    revision: str | None
    token: str | bool | None
    streaming: bool
    cache_dir: str | None


LoadedData: TypeAlias = (
    datasets.Dataset | datasets.DatasetDict | datasets.IterableDataset | datasets.IterableDatasetDict
)


def load_story_twins(
    source: DataSource | None = None, split: str | None = None, **options: Unpack[LoadOptions]
) -> LoadedData:
    """Short stories with narrative twins: `id`, `story`, `twin`, and where there are any `negative`, `negative_twin`.

    A row in a file has `story`, `twin` (or `narrative_twin`), `negative` and `negative_twin` (or
    `negative_narrative_twin`), each a list of sentences.

    Args:
        source: a data file (`.jsonl`, `.json`, either also with `.gz`, or `.parquet`) or a list of them, which are the
            split `train`; a mapping of splits to these; a folder or a Hub id such as
            `"igorsterner/rocstory-narrative-twins"`, where the names of the files tell the split. None is the package's
            own corpus of 1,920 rows in the splits `train` and `validation`, written by a language model.
        split: one split, or a slice of one as `datasets` has it: `"train[:100]"`. None gives all of them in a dict.
        options: see `LoadOptions`.

    Returns:
        What `datasets.load_dataset` would: a `Dataset`, a `DatasetDict` or their streaming likes.

    Raises:
        RowError: a row is wrong; says where it is, what is wrong and what to do.
        FileNotFoundError: the source is neither here nor on the Hub.
        ValueError: a file is in no known format, or there is no such split.
    """
    files = corpus_files("stories") if source is None else _files(source, options)
    known = {"license": "cc0-1.0"} if source is None else {}
    return _load(StoryTwinsBuilder, "story_twins", files, split, options, **known)


def load_window_twins(
    source: DataSource | None = None, split: str | None = None, *, windows: int = 5, **options: Unpack[LoadOptions]
) -> LoadedData:
    """Longer stories in windows, with narrative twins: `id`, `title`, `story` and perhaps `negative` as lists of
    windows, `twin` as a list of sentences and `twin_windows`, for each of them the windows of the story that it may
    belong to: mostly one, two if it is aligned to both, none if to nothing. `turning_points` are sentences of the story
    as a whole, counted from 0.

    A row in a file has `story`, `twin` and perhaps `negative` as lists of windows, and perhaps `key`, for each window
    the place of its turning point in it; or it is like those of `"igorsterner/wikipedia-narrative-twins"`.

    Args:
        source: as in `load_story_twins`. None is the package's own corpus of 480 synopses of invented films in the
            splits `train` and `validation`, written by a language model.
        split: as in `load_story_twins`.
        windows: how many even windows to cut a story into that comes as a plain list of sentences. Negatives that come
            in sections need as many.
        options: see `LoadOptions`.

    Returns:
        As `load_story_twins`.

    Raises:
        RowError: a row is wrong, or a window of the story is without a sentence of the twin.
        FileNotFoundError: the source is neither here nor on the Hub.
        ValueError: a file is in no known format, or there is no such split.
    """
    files = corpus_files("synopses") if source is None else _files(source, options)
    known = {"license": "cc0-1.0"} if source is None else {}
    return _load(WindowTwinsBuilder, "window_twins", files, split, options, windows=windows, **known)


def load_story_salience(
    source: DataSource | None = None, split: str | None = None, **options: Unpack[LoadOptions]
) -> LoadedData:
    """Short stories with people's judgments: `id`, `title`, `story`, `choices` (the sentence each annotator found most
    important, counted from 1), `counts` (the votes of each sentence) and `summaries` or None.

    A row in a file has `story` or `sentences`, perhaps `title` or `storytitle`, and of each annotator the `choices` or
    `most_important`, or the text of `summaries` or `summary`, or both.

    Args:
        source: as in `load_story_twins`, such as `"igorsterner/rocstory-salience"`; the package has none of its own.
        split: as in `load_story_twins`.
        options: see `LoadOptions`.

    Returns:
        As `load_story_twins`.

    Raises:
        RowError: a row is wrong.
        FileNotFoundError: the source is neither here nor on the Hub.
        ValueError: there is no source, a file is in no known format, or there is no such split.
    """
    if source is None:
        raise ValueError(
            "name a source: a file, a folder or a Hub id such as 'igorsterner/rocstory-salience'; the stories are from "
            "ROCStories, which is free for research on request from the University of Rochester"
        )
    files = _files(source, options)
    return _load(StorySalienceBuilder, "story_salience", files, split, options)


def load_turning_points(
    source: DataSource | None = None, split: str | None = None, *, windows: int = 5, **options: Unpack[LoadOptions]
) -> LoadedData:
    """Film synopses with turning points: `id`, `story`, `windows` (half-open ranges of sentences, even) and the five
    `turning_points`, sentences of the story counted from 0.

    A file is TRIPOD's table of synopses, or has rows of `story` or `sentences` and `turning_points`. Of the table,
    synopses that are there a second time for another annotator are skipped, and the sentences are cleaned: without
    text in round brackets and marks of footnotes, with plain white space. Empty sentences are dropped everywhere.

    Args:
        source: as in `load_story_twins`, or TRIPOD's `.csv`; the package has none of its own.
        split: as in `load_story_twins`.
        windows: how many even windows to cut a synopsis into.
        options: see `LoadOptions`.

    Returns:
        As `load_story_twins`.

    Raises:
        RowError: a row is wrong.
        FileNotFoundError: the source is neither here nor on the Hub.
        ValueError: there is no source, a file is in no known format, or there is no such split.
    """
    if source is None:
        raise ValueError("name a source: a file, a folder or a Hub id; TRIPOD is at github.com/ppapalampidi/TRIPOD")
    files = _files(source, options)
    return _load(TurningPointsBuilder, "turning_points", files, split, options, windows=windows)


def _files(source: DataSource, options: LoadOptions) -> SplitFiles:
    return source_files(source, options.get("revision"), options.get("token"))


def _load(
    builder_class: type[RowsBuilder],
    name: str,
    files: SplitFiles,
    split: str | None,
    options: LoadOptions,
    **settings: Any,
) -> LoadedData:
    # By default a cache is named after the module, and is kept whatever becomes of the files and of this package.
    version = importlib.metadata.version("narrative_twins")
    builder = builder_class(
        dataset_name=f"narrative_twins_{name}",
        hash=None if options.get("streaming") else f"{version}-{_fingerprint(files)}",
        cache_dir=options.get("cache_dir"),
        files=files,
        **settings,
    )
    if options.get("streaming"):
        return builder.as_streaming_dataset(split=split)
    try:
        builder.download_and_prepare()
    except datasets.exceptions.DatasetGenerationError as error:
        if isinstance(error.__cause__, RowError):
            raise error.__cause__ from None
        raise
    return builder.as_dataset(split=split)


def _fingerprint(files: SplitFiles) -> str:
    """What the files hold, in short."""
    digest = hashlib.sha256()
    for file in (file for split in files.values() for file in split):
        with open(file, "rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]
