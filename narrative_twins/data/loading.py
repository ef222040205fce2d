"""The functions that load data sets, from the package itself, from files or from the Hub."""

from __future__ import annotations

import hashlib
import importlib.metadata
from typing import Any, TypeAlias

import datasets

from narrative_twins.data.builders import (
    RowsBuilder,
    StorySalienceBuilder,
    StoryTwinsBuilder,
    TurningPointsBuilder,
    WindowTwinsBuilder,
)
from narrative_twins.data.rows import RowError
from narrative_twins.data.sources import Source, SplitFiles, corpus_files, source_files

Loaded: TypeAlias = datasets.Dataset | datasets.DatasetDict | datasets.IterableDataset | datasets.IterableDatasetDict


def load_story_twins(
    source: Source | None = None,
    split: str | None = None,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    streaming: bool = False,
    cache_dir: str | None = None,
) -> Loaded:
    """Short stories with narrative twins: `id`, `story`, `twin`, and where there are any `negative`, `negative_twin`.

    A row in a file has `story`, `twin` (or `narrative_twin`), `negative` and `negative_twin` (or
    `negative_narrative_twin`), each a list of sentences.

    Args:
        source: a data file (`.jsonl`, `.json`, either also with `.gz`, or `.parquet`) or a list of them, which are the
            split `train`; a mapping of splits to these; a folder or a Hub id such as
            `"igorsterner/rocstory-narrative-twins"`, where the names of the files tell the split. None is the package's
            own corpus of 1,920 rows in the splits `train` and `validation`, written by a language model.
        split: one split, or a slice of one as `datasets` has it: `"train[:100]"`. None gives all of them in a dict.
        revision: of the Hub id: a branch, tag or commit.
        token: for private and gated data on the Hub.
        streaming: give the rows one by one, and prepare nothing. What is on the Hub is downloaded whole all the same.
        cache_dir: where the prepared rows are kept, instead of the cache of `datasets`. The files of a Hub id stay in
            the Hub's cache.

    Returns:
        What `datasets.load_dataset` would: a `Dataset`, a `DatasetDict` or their streaming likes.

    Raises:
        RowError: a row is wrong; says where it is, what is wrong and what to do.
        FileNotFoundError: the source is neither here nor on the Hub.
        ValueError: a file is in no known format, or there is no such split.
    """
    files = corpus_files("stories") if source is None else source_files(source, revision, token)
    known = {"license": "cc0-1.0"} if source is None else {}
    return _load(StoryTwinsBuilder, "story_twins", files, split, streaming, cache_dir, **known)


def load_window_twins(
    source: Source | None = None,
    split: str | None = None,
    *,
    windows: int = 5,
    revision: str | None = None,
    token: str | bool | None = None,
    streaming: bool = False,
    cache_dir: str | None = None,
) -> Loaded:
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
        revision: as in `load_story_twins`.
        token: as in `load_story_twins`.
        streaming: as in `load_story_twins`.
        cache_dir: as in `load_story_twins`.

    Returns:
        As `load_story_twins`.

    Raises:
        RowError: a row is wrong, or a window of the story is without a sentence of the twin.
        FileNotFoundError: the source is neither here nor on the Hub.
        ValueError: a file is in no known format, or there is no such split.
    """
    files = corpus_files("synopses") if source is None else source_files(source, revision, token)
    known = {"license": "cc0-1.0"} if source is None else {}
    return _load(WindowTwinsBuilder, "window_twins", files, split, streaming, cache_dir, windows=windows, **known)


def load_story_salience(
    source: Source | None = None,
    split: str | None = None,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    streaming: bool = False,
    cache_dir: str | None = None,
) -> Loaded:
    """Short stories with people's judgments: `id`, `title`, `story`, `choices` (the sentence each annotator found most
    important, counted from 1), `counts` (the votes of each sentence) and `summaries` or None.

    A row in a file has `story` or `sentences`, perhaps `title` or `storytitle`, and of each annotator the `choices` or
    `most_important`, or the text of `summaries` or `summary`, or both.

    Args:
        source: as in `load_story_twins`, such as `"igorsterner/rocstory-salience"`; the package has none of its own.
        split: as in `load_story_twins`.
        revision: as in `load_story_twins`.
        token: as in `load_story_twins`.
        streaming: as in `load_story_twins`.
        cache_dir: as in `load_story_twins`.

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
    files = source_files(source, revision, token)
    return _load(StorySalienceBuilder, "story_salience", files, split, streaming, cache_dir)


def load_turning_points(
    source: Source | None = None,
    split: str | None = None,
    *,
    windows: int = 5,
    revision: str | None = None,
    token: str | bool | None = None,
    streaming: bool = False,
    cache_dir: str | None = None,
) -> Loaded:
    """Film synopses with turning points: `id`, `story`, `windows` (half-open ranges of sentences, even) and the five
    `turning_points`, sentences of the story counted from 0.

    A file is TRIPOD's table of synopses, or has rows of `story` or `sentences` and `turning_points`. Of the table,
    synopses that are there a second time for another annotator are skipped, and the sentences are cleaned: without
    text in round brackets and marks of footnotes, with plain white space. Empty sentences are dropped everywhere.

    Args:
        source: as in `load_story_twins`, or TRIPOD's `.csv`; the package has none of its own.
        split: as in `load_story_twins`.
        windows: how many even windows to cut a synopsis into.
        revision: as in `load_story_twins`.
        token: as in `load_story_twins`.
        streaming: as in `load_story_twins`.
        cache_dir: as in `load_story_twins`.

    Returns:
        As `load_story_twins`.

    Raises:
        RowError: a row is wrong.
        FileNotFoundError: the source is neither here nor on the Hub.
        ValueError: there is no source, a file is in no known format, or there is no such split.
    """
    if source is None:
        raise ValueError("name a source: a file, a folder or a Hub id; TRIPOD is at github.com/ppapalampidi/TRIPOD")
    files = source_files(source, revision, token)
    return _load(TurningPointsBuilder, "turning_points", files, split, streaming, cache_dir, windows=windows)


def _load(
    builder_class: type[RowsBuilder],
    name: str,
    files: SplitFiles,
    split: str | None,
    streaming: bool,
    cache_dir: str | None,
    **settings: Any,
) -> Loaded:
    # By default a cache is named after the module, and is kept whatever becomes of the files and of this package.
    version = importlib.metadata.version("narrative_twins")
    builder = builder_class(
        dataset_name=f"narrative_twins_{name}",
        hash=None if streaming else f"{version}-{_fingerprint(files)}",
        cache_dir=cache_dir,
        files=files,
        **settings,
    )
    if streaming:
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
