"""Functions that load data sets from the package itself, from files or from the Hub."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import datasets

from narrative_twins.data.builders import (
    RocStoriesBuilder,
    StorySalienceBuilder,
    StoryTwinsBuilder,
    TurningPointsBuilder,
    WindowTwinsBuilder,
)
from narrative_twins.data.exports import RowFormat, check_row_format
from narrative_twins.data.preparing import LoadedData, LoadOptions, load
from narrative_twins.data.sources import (
    JUDGED_CORPORA,
    DataSource,
    SplitFiles,
    corpus_files,
    labelled_files,
    source_files,
)


def load_story_twins(
    source: DataSource | None = None, split: str | None = None, **options: Unpack[LoadOptions]
) -> LoadedData:
    """Load short stories with narrative twins: `id`, `story`, `twin`, and `negative` and
    `negative_twin` or None; and `story_votes` and `negative_votes`, how many readers chose each of
    their sentences as the most important, or None.

    A row in a file has `story`, `twin` (or `narrative_twin`) and optionally `negative` and
    `negative_twin` (or `negative_narrative_twin`), each a list of sentences, and the votes under
    the names above.

    Args:
        source: a data file (`.jsonl`, `.json`, either also with `.gz`, `.parquet` or `.arrow`), a
            pattern such as `"data/*.jsonl"`, a list of these or a `Dataset`, which are the split
            `train`; a mapping of splits to these or a `DatasetDict`; a folder, also of
            `save_to_disk`, or a Hub id such as `"igorsterner/rocstory-narrative-twins"`, where the
            card's configurations (see `name`), else file names determine the split; or a path on
            the Hub, `"hf://datasets/user/name/..."`. None is the package's own corpus of 1,920 rows
            in the splits `train` and `validation`, written and judged by a language model.
        split: a split, or a slice of a split in the notation of `datasets`: `"train[:100]"`. None
            for a dict of all.
        options: see `LoadOptions`.

    Returns:
        As `datasets.load_dataset`: a `Dataset`, a `DatasetDict` or their streaming equivalents.

    Raises:
        RowError: a row is invalid; the message names the row, the problem and the fix.
        FileNotFoundError: the source is neither local nor on the Hub.
        ValueError: the source is missing, or the format of a file, the split or the configuration
            is unknown.
    """
    files = _files(source, options, "stories")
    return load(StoryTwinsBuilder, "story_twins", files, split, options, **_license(source))


def load_window_twins(
    source: DataSource | None = None,
    split: str | None = None,
    *,
    windows: int = 5,
    min_window: int | None = None,
    **options: Unpack[LoadOptions],
) -> LoadedData:
    """Load longer stories, split into windows, with narrative twins.

    The columns are `id`, `title`, `story` and `negative` (or None) as lists of windows; `twin` as a
    list of sentences, with `twin_windows`, for each sentence a list of the windows of the story
    that it may belong to (usually one, two if it is aligned to both, none if it is not aligned);
    and `turning_points`, sentence indices in the story, counted from 0 across all windows.

    A row in a file has `story`, `twin` and optionally `negative` as lists of windows, and
    optionally `key`, for each window the index of its turning point within it; or the columns of
    `"igorsterner/wikipedia-narrative-twins"`.

    Args:
        source: as in `load_story_twins`. None is the package's own corpus of 480 synopses of
            invented films in the splits `train` and `validation`, written by a language model.
        split, options: as in `load_story_twins`, which also describes the result and the errors.
        windows: how many even windows to split a story into that is a plain list of sentences. A
            negative in sections must have the same number.
        min_window: rows with fewer sentences in a window of the story or the twin are left out.
            None leaves out rows as published, of a story and a twin in sentences with their
            `alignment`, if they have fewer than 3, as the paper does; of other rows only a window
            without a sentence of the twin is an error (RowError). Each load warns how many rows
            were left out; the `info.description` of the data set has that too, except for streams.
    """
    if min_window is not None and min_window < 1:
        raise ValueError(f"min_window={min_window}: a window needs at least 1 sentence")
    files = _files(source, options, "synopses")
    settings = {"windows": windows, "min_window": min_window, **_license(source)}
    return load(WindowTwinsBuilder, "window_twins", files, split, options, **settings)


def load_story_salience(
    source: DataSource | None = None,
    split: str | None = None,
    *,
    row_format: RowFormat = "auto",
    span_labels: str | Iterable[str] | None = None,
    distractors: bool = False,
    **options: Unpack[LoadOptions],
) -> LoadedData:
    """Load stories with human labels of any form.

    The columns are `id`, `title`, `story` (its sentences), `windows` (half-open ranges of
    sentences, or None), `labels`, one number a sentence, higher for more salient ones; and
    `annotations`, a list with these of each annotator, or None if only their aggregate is known. If
    each annotator chose a single sentence, `choices` has these sentences, counted from 1, and
    `counts` the votes for each sentence; otherwise both are None. `summaries` has texts, or is
    None. A row with summaries alone has no `labels`.

    A row in a file has `story` (or `sentences`), optionally `title` (or `storytitle`), `windows` in
    any form that `Story.parse` accepts, and `summaries` (or `summary`), and labels in one of these
    forms:

    - `choices` (or `most_important`): the sentence that each annotator chose, counted from 1, or a
      list of sentences of each annotator. The label of a sentence is the share of annotators that
      chose it.
    - `votes` (or `story_votes`): the number of annotators that chose each sentence.
    - `labels`, one number a sentence; or `annotations`, a list with these of each annotator, of
      which the labels are the mean.
    - `spans` (or `highlights`): `[start, end]` ranges of characters in a `text`, of one annotator
      or a list of them for each annotator. The text is split into sentences unless they are given
      as well. The label of a sentence is the share of its characters, without white space, that are
      highlighted, the mean over annotators.
    - `turning_points`: sentences, counted from 0, with the label 1.0; all others have 0.0.

    A `.csv` has one row a sentence, in story order, with `story_id`, `sentence` and `label`, and
    optionally `annotator`, `window` and `title`; with annotators, one row a sentence and annotator.
    TRIPOD's table is read too. Exports of annotation tools are read as they are: JSON and JSON-MIN
    of Label Studio, with Labels of a Text tag called `text`, and JSON Lines of Prodigy with spans.
    Answers to the same text are merged; those that were rejected, ignored or canceled are skipped,
    and their number is logged.

    Args:
        source: as in `load_story_twins`, such as `"igorsterner/rocstory-salience"`, or a `.csv`.
            None is the package's own corpus, whose votes were judged by a language model, not by
            people.
        split, options: as in `load_story_twins`, which also describes the result and the errors.
        row_format: the format of the rows: `"plain"` for the forms above, `"label-studio"`,
            `"label-studio-min"` or `"prodigy"`. By default it is recognized by the columns of the
            first row of each file.
        span_labels: label or labels of an annotation tool that mark salient text; required if spans
            have several.
        distractors: whether distractors with `negative_votes` are rows too, each after its story,
            as `ID-negative`.
    """
    check_row_format(row_format)
    # The settings name the folder of the cache: equal ones must look alike.
    marks = (
        None
        if span_labels is None
        else sorted({span_labels} if isinstance(span_labels, str) else {*span_labels})
    )
    files = _files(source, options, *JUDGED_CORPORA)
    settings = {
        "row_format": row_format,
        "span_labels": marks,
        "distractors": distractors,
        **_license(source),
    }
    return load(StorySalienceBuilder, "story_salience", files, split, options, **settings)


def load_roc_stories(
    source: DataSource,
    split: str | None = None,
    *,
    exclude: DataSource | None = None,
    **options: Unpack[LoadOptions],
) -> LoadedData:
    """Load training stories from the tables of ROCStories, without the stories that have human
    labels.

    The columns are those of `load_story_salience`, without labels in the split `train`. It has all
    stories of the tables but those of `exclude`, by id and by text, and those whose id is repeated.
    The stories of `exclude` are the other splits, with their labels. A warning tells at each load
    how many stories were left out, and so does `info.description` of the data set, unless rows are
    streamed.

    Args:
        source: the tables (`.csv`, with `storyid`, `storytitle` and `sentence1` to `sentence5`): a
            file, a list of files, or a folder of them.
        split: as in `load_story_twins`.
        exclude: stories with labels, in the formats of `load_story_salience`: a Hub id such as
            `"igorsterner/rocstory-salience"`, a folder, files or a mapping of splits to files. File
            names such as `val.json` and `test.json` determine the split; others are the split
            `labelled`. The paper's split has 250 stories each for validation and test.
        options: see `LoadOptions`; revision, token and name are for `exclude`.

    Raises:
        As `load_story_twins`; ValueError also if a file of `source` is not a table.
    """
    tables = [file for files in source_files(source).values() for file in files]
    for file in tables:
        if not file.lower().endswith((".csv", ".csv.gz")):
            raise ValueError(
                f"{file} is not a .csv; pass the tables of ROCStories, and stories with labels as"
                " exclude="
            )
    labelled = {} if exclude is None else _labelled(exclude, options)
    return load(RocStoriesBuilder, "roc_stories", {"train": tables, **labelled}, split, options)


def load_turning_points(
    source: DataSource | None = None,
    split: str | None = None,
    *,
    windows: int = 5,
    **options: Unpack[LoadOptions],
) -> LoadedData:
    """Load film synopses with turning points: `id`, `story`, `windows` (even half-open ranges of
    sentences) and the indices of the five `turning_points` in the story, counted from 0.

    A file is TRIPOD's table of synopses, or has rows of `story` (or `sentences`) and
    `turning_points`. From the table, repeated synopses with labels of another annotator are
    skipped, and sentences are cleaned: text in round brackets and footnote marks are removed, white
    space is normalized. Empty sentences are dropped from both.

    Args:
        source: as in `load_story_twins`, or TRIPOD's `.csv`; required.
        split, options: as in `load_story_twins`, which also describes the result and the errors.
        windows: how many even windows to split a synopsis into.
    """
    if source is None:
        raise ValueError(
            "pass a source: a file, a folder or a Hub id; TRIPOD is at"
            " github.com/ppapalampidi/TRIPOD"
        )
    files = _files(source, options)
    return load(TurningPointsBuilder, "turning_points", files, split, options, windows=windows)


def _license(source: DataSource | None) -> dict[str, str]:
    """What is known of the license: that of the package's own corpora."""
    return {"license": "cc0-1.0"} if source is None else {}


def _files(source: DataSource | None, options: LoadOptions, *corpora: str) -> SplitFiles:
    """The files of a source; None is one of these corpora of the package, by default the first."""
    if source is None:
        name = options.get("name") or corpora[0]
        if name not in corpora:
            raise ValueError(
                f"name={name!r} is not a corpus of the package for this; use {', '.join(corpora)}"
            )
        return corpus_files(name)
    again = options.get("download_mode") == datasets.DownloadMode.FORCE_REDOWNLOAD
    where = (
        options.get("revision"),
        options.get("token"),
        options.get("name"),
        options.get("cache_dir"),
    )
    return source_files(source, *where, force_download=again)


def _labelled(exclude: DataSource, options: LoadOptions) -> SplitFiles:
    return labelled_files(
        exclude, options.get("revision"), options.get("token"), options.get("name")
    )
