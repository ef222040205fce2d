"""The data sets of the package: their columns, and the functions that load them from the package
itself, from files or from the Hub."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, ClassVar, TypeAlias, TypedDict, Unpack, get_args

import datasets
from datasets import Features, List, Value

from narrative_twins.data import labels, rows
from narrative_twins.data.file_formats import Record, read_records
from narrative_twins.data.rows import Cleaning, Row, RowError, ShortWindowError
from narrative_twins.data.sources import (
    JUDGED_CORPORA,
    NARRATIVE_TWINS,
    TRIPOD,
    DataSource,
    SplitFiles,
    corpus_files,
    source_files,
)
from narrative_twins.writing import digest, digest_of_files

logger = logging.getLogger(__name__)

LoadedData: TypeAlias = (
    datasets.Dataset
    | datasets.DatasetDict
    | datasets.IterableDataset
    | datasets.IterableDatasetDict
)

_TEXT, _NUMBER, _LABEL = Value("string"), Value("int32"), Value("float64")


class LoadOptions(TypedDict, total=False):
    """Options of all loading functions.

    Attributes:
        revision: a branch, tag or commit of a Hub id.
        token: access token for private and gated data on the Hub.
        streaming: yield rows one by one, without preparing a cache. Hub data are still downloaded.
        cache_dir: folder for prepared rows, instead of the `datasets` cache; not for downloads.
        name: the configuration of a folder or of a data set on the Hub, or a corpus of the package.
    """

    revision: str | None
    token: str | bool | None
    streaming: bool
    cache_dir: str | None
    name: str | None


@dataclass
class RowsConfig(datasets.BuilderConfig):
    """The files of a data set by split, its licence (may be empty), and its loading options."""

    files: SplitFiles = field(default_factory=dict)
    license: str = ""
    windows: int = 5
    min_window: int | None = None
    distractors: bool = False
    cleaning: Cleaning = "full"


class RowsBuilder(datasets.GeneratorBasedBuilder):
    """A builder of data sets from files of rows. A subclass defines the columns (`FEATURES`) and
    the conversion of a row to these columns (`normalize`). The docstring of the subclass describes
    the data set."""

    BUILDER_CONFIG_CLASS = RowsConfig
    FEATURES: ClassVar[Features]
    CITATION: ClassVar[str] = NARRATIVE_TWINS

    @abstractmethod
    def normalize(self, row: Mapping[str, Any], where: str) -> Row:
        """Convert a row of a file, at the location `where`, to the columns of the data set, except
        `id`. Raise ShortWindowError to leave the row out, and RowError if it is invalid."""

    def records(self, file: str) -> Iterator[Record]:
        """Yield the rows of a file."""
        return read_records(file)

    def _info(self) -> datasets.DatasetInfo:
        return datasets.DatasetInfo(
            description=" ".join(str(self.__doc__).split()),
            citation=self.CITATION,
            features=self.FEATURES,
            license=self.config.license,
        )

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        return [
            datasets.SplitGenerator(split, {"files": files, "split": split})
            for split, files in self.config.files.items()
        ]

    def _generate_examples(self, files: Iterable[str], split: str) -> Iterator[tuple[str, Row]]:
        count, short = 0, list[ShortWindowError]()
        for record in (record for file in files for record in self.records(file)):
            count += 1
            try:
                row = self.normalize(record.row, record.where)
            except ShortWindowError as error:
                short.append(error)
            else:
                # Columns that this row does not have are None.
                yield record.where, {**dict.fromkeys(self.FEATURES), "id": record.id, **row}
        if short:
            logger.warning(
                "%s: %s of %s rows are left out, which have too few sentences in a window"
                " (min_window); the first is %s",
                *(split, f"{len(short):,}", f"{count:,}", short[0]),
            )


class StoryTwinsBuilder(RowsBuilder):
    """Short stories in sentences, with narrative twins (the same plot in other words) and
    distractors (another plot in nearly the same words)."""

    # The docstring of a builder is the description of its data sets.
    FEATURES = Features(
        {"id": _TEXT}
        | {column: List(_TEXT) for column in rows.TWINS_COLUMNS}
        | {column: List(_NUMBER) for column in ("story_votes", "negative_votes")}
    )

    def normalize(self, row: Mapping[str, Any], where: str) -> Row:
        return rows.story_twins(row, where)


class WindowTwinsBuilder(RowsBuilder):
    """Stories in windows of sentences, with narrative twins (the same plot in other words), whose
    sentences are aligned to the windows, distractors (another plot) and turning points."""

    FEATURES = Features(
        {"id": _TEXT, "title": _TEXT, "story": List(List(_TEXT)), "twin": List(_TEXT)}
        | {"twin_windows": List(List(_NUMBER)), "negative": List(List(_TEXT))}
        | {"turning_points": List(_NUMBER)}
    )

    def normalize(self, row: Mapping[str, Any], where: str) -> Row:
        return rows.window_twins(row, where, self.config.windows, self.config.min_window)


class StorySalienceBuilder(RowsBuilder):
    """Stories in sentences, with human labels of how salient each sentence is, and with
    summaries."""

    FEATURES = Features(
        {"id": _TEXT, "title": _TEXT, "story": List(_TEXT), "windows": List(List(_NUMBER))}
        | {"labels": List(_LABEL), "annotations": List(List(_LABEL))}
        | {"choices": List(_NUMBER), "counts": List(_NUMBER), "summaries": List(_TEXT)}
    )

    def normalize(self, row: Mapping[str, Any], where: str) -> Row:
        return labels.story_salience(row, where)

    def records(self, file: str) -> Iterator[Record]:
        for record in labels.salience_records(file):
            yield record
            votes = record.row.get("negative_votes") if self.config.distractors else None
            if votes is not None:
                row = {"story": record.row.get("negative"), "votes": votes}
                yield Record(f"{record.where}, its distractor", f"{record.id}-negative", row)


class TurningPointsBuilder(RowsBuilder):
    """Film synopses in sentences, with the sentences of their five turning points."""

    CITATION = TRIPOD
    FEATURES = Features(
        {"id": _TEXT, "story": List(_TEXT), "windows": List(List(_NUMBER))}
        | {"turning_points": List(_NUMBER)}
    )

    def normalize(self, row: Mapping[str, Any], where: str) -> Row:
        return rows.turning_points(row, where, self.config.windows, self.config.cleaning)


class TriplesBuilder(RowsBuilder):
    """Triples of stories: an anchor, a story that is nearer to it, and one that is less near."""

    CITATION = ""
    FEATURES = Features({"id": _TEXT, "anchor": _TEXT, "positive": _TEXT, "negative": _TEXT})

    def normalize(self, row: Mapping[str, Any], where: str) -> Row:
        return rows.triple(row, where)


def load_story_twins(
    source: DataSource | None = None, split: str | None = None, **options: Unpack[LoadOptions]
) -> LoadedData:
    """Load short stories with narrative twins.

    The columns are `id`; `story`, `twin`, `negative` and `negative_twin`, which are lists of
    sentences (`negative` and `negative_twin` may be None); and `story_votes` and `negative_votes`,
    the number of readers who chose each sentence as the most important (or None). In a file, the
    twins may also be named `narrative_twin` and `negative_narrative_twin`.

    Args:
        source: a data file (`.jsonl`, `.json`, either also with `.gz`, or `.parquet`), a pattern
            such as `"data/*.jsonl"`, a list of these or a `Dataset`, all for the split `train`; a
            mapping from splits to these, or a `DatasetDict`; a folder (also of `save_to_disk`) or a
            Hub id such as `"igorsterner/rocstory-narrative-twins"`, with the files and splits of
            `datasets.load_dataset`; or a path on the Hub, `"hf://datasets/user/name/..."`. None is
            the package's own corpus of 1,920 rows in the splits `train` and `validation`, written
            and judged by a language model; with `name="translations"`, 80 of its stories in each of
            twelve languages, whose ids end in `-de` for German, with the originals as twins.
        split: a split, or a slice in the notation of `datasets`: `"train[:100]"`. None for all.
        options: see `LoadOptions`.

    Returns:
        As `datasets.load_dataset`: a `Dataset`, a `DatasetDict` or their streaming equivalents.

    Raises:
        RowError: a row is invalid; the message names the row, the problem and the fix.
        FileNotFoundError: the source is neither local nor on the Hub.
        ValueError: the source is missing, or the format, the split or the configuration is unknown.

    Example:
        ```python
        from narrative_twins.data import load_story_twins

        row = load_story_twins(split="validation")[0]
        print(row["story"], row["twin"])
        ```
    """
    return _load(StoryTwinsBuilder, source, split, options, ("stories", "translations"))


def load_window_twins(
    source: DataSource | None = None,
    split: str | None = None,
    *,
    windows: int = 5,
    min_window: int | None = None,
    **options: Unpack[LoadOptions],
) -> LoadedData:
    """Load longer stories, split into windows, with narrative twins.

    The columns are `id`; `title` (may be empty); `story` and `negative` (or None) as lists of
    windows; `twin` as a list of sentences; `twin_windows`, for each sentence of the twin a list of
    the windows of the story that the sentence may belong to: usually one window, none if the
    sentence is not aligned; and `turning_points`, indices in the story, counted across its windows.

    A row in a file has these columns, or the columns of `"igorsterner/wikipedia-narrative-twins"`.
    Its `twin` may also be a list of windows; it then has no `twin_windows`.

    Args:
        source: as in `load_story_twins`. None is the package's own corpus of 480 synopses of
            invented films in the splits `train` and `validation`, written by a language model.
        split, options: as in `load_story_twins`, which also describes the result and the errors.
        windows: the number of even windows into which a plain list of sentences is split. A
            distractor in sections must have the same number.
        min_window: rows with fewer sentences in a window of the story or the twin are left out;
            their number is logged when the rows are prepared. None is 3, as in the paper, for rows
            in the published form (story and twin as lists of sentences, with an `alignment`), and
            no minimum for other rows; a window without a sentence of the twin is then a RowError.

    Example:
        ```python
        from narrative_twins.data import load_window_twins

        row = load_window_twins(split="validation")[0]
        assert len(row["story"]) == 5  # windows
        ```
    """
    if min_window is not None and min_window < 1:
        raise ValueError(f"min_window={min_window}: a window needs at least 1 sentence")
    settings = {"windows": windows, "min_window": min_window}
    return _load(WindowTwinsBuilder, source, split, options, ("synopses",), **settings)


def load_story_salience(
    source: DataSource | None = None,
    split: str | None = None,
    *,
    distractors: bool = False,
    **options: Unpack[LoadOptions],
) -> LoadedData:
    """Load stories with human labels of any form.

    The columns are `id`, `title` (may be empty), `story` (its sentences), `windows` (half-open
    ranges of sentences), `labels`, one number per sentence, higher for more salient ones; and
    `annotations`, a list of labels for each annotator. If each annotator chose one sentence,
    `choices` has this sentence for each annotator, counted from 1, and `counts` the votes for each
    sentence. `summaries` has texts. A column without content, such as the labels, is None.

    A row in a file has `story` (or `sentences`), optionally `title` (or `storytitle`), `windows` in
    any form that `Story.parse` accepts, `summaries` (or `summary`), and labels in one of these
    forms:

    - `choices` (or `most_important`): the sentence that each annotator chose, counted from 1, or a
      list of sentences per annotator. The label is the share of annotators who chose the sentence.
    - `votes` (or `story_votes`): the number of annotators that chose each sentence.
    - `labels`, one number per sentence; or `annotations`, a list of numbers for each annotator, of
      which the labels are the mean.
    - `spans` (or `highlights`): `[start, end]` ranges of characters in a `text`, in one list, or in
      a list for each annotator. The text is split into sentences unless the row has them. The label
      of a sentence is the share of its characters, without white space, that are highlighted,
      averaged over annotators.
    - `turning_points`: sentences, counted from 0, with the label 1.0; all others have 0.0.

    A `.csv` has one row per sentence (and annotator), in story order, with `story_id`, `sentence`
    and `label`, and optionally `annotator`, `window` and `title`. TRIPOD's table is read too. The
    answers that `narrative-twins annotate` writes are merged by story.

    Args:
        source: as in `load_story_twins`, such as `"igorsterner/rocstory-salience"`, or a `.csv`.
            None is the package's own corpus, whose votes are by a language model, not by people;
            `name=` is `"stories"` (the default), `"everyday"`, `"prose"` or `"translations"`.
        split, options: as in `load_story_twins`, which also describes the result and the errors.
        distractors: whether distractors with `negative_votes` are rows too. Such a row follows its
            story and has the id `ID-negative`.
    """
    settings = {"distractors": distractors}
    return _load(StorySalienceBuilder, source, split, options, JUDGED_CORPORA, **settings)


def load_turning_points(
    source: DataSource,
    split: str | None = None,
    *,
    windows: int = 5,
    cleaning: Cleaning = "full",
    **options: Unpack[LoadOptions],
) -> LoadedData:
    """Load film synopses with turning points: `id`, `story`, `windows` (even half-open ranges of
    sentences) and the indices of the five `turning_points` in the story, counted from 0.

    A file is TRIPOD's table of synopses, or has rows of `story` (or `sentences`) and
    `turning_points`. Empty sentences are dropped. In the table, a synopsis that repeats another one
    with labels of another annotator is skipped, and sentences are cleaned: text in round brackets
    and footnote marks are removed, white space is normalized.

    Args:
        source: as in `load_story_twins`, or TRIPOD's `.csv` (github.com/ppapalampidi/TRIPOD).
        split, options: as in `load_story_twins`, which also describes the result and the errors.
        windows: the number of even windows into which a synopsis is split.
        cleaning: of TRIPOD's table: `"full"` as above, or `"released"` as in the code released with
            the paper, which removes text in round brackets only and drops no sentence. A sentence
            that is all in brackets keeps its text. The two ways give different numbers of sentences
            in 3 of the 99 synopses, and different places of turning points in 2.
    """
    if cleaning not in get_args(Cleaning):
        raise ValueError(f"cleaning={cleaning!r} is unknown; use {', '.join(get_args(Cleaning))}")
    return _load(TurningPointsBuilder, source, split, options, windows=windows, cleaning=cleaning)


def load_triples(
    source: DataSource, split: str | None = None, **options: Unpack[LoadOptions]
) -> LoadedData:
    """Load triples of stories for similarity: `id`, and the texts `anchor`, `positive`, which is
    nearer to the anchor, and `negative`.

    A row in a file has these columns, or the columns of SemEval-2026 Task 4 on narrative
    similarity: `anchor_text`, `text_a`, `text_b` and `text_a_is_closer`.

    Args:
        source: as in `load_story_twins`, such as the published JSON Lines.
        split, options: as in `load_story_twins`, which also describes the result and the errors.
    """
    return _load(TriplesBuilder, source, split, options)


def _load(
    builder_class: type[RowsBuilder],
    source: DataSource | None,
    split: str | None,
    options: LoadOptions,
    corpora: tuple[str, ...] = (),
    **settings: Any,
) -> LoadedData:
    """Load a source by `builder_class` with `settings`. If the source is None, load a corpus of the
    package: the one in `corpora` that the option `name` selects, by default the first."""
    if source is not None:
        of_source = map(options.get, ("revision", "token", "name", "cache_dir"))
        files = source_files(source, *of_source)  # type: ignore[arg-type]
    elif (name := options.get("name") or corpora[0]) in corpora:
        files, settings["license"] = corpus_files(name), "cc0-1.0"
    else:
        names = ", ".join(corpora)
        raise ValueError(f"name={name!r} is not a corpus of the package for this; use {names}")
    # By default `datasets` names a cache after the module, and reuses it even if the files or this
    # package change.
    contents = [version("narrative_twins"), repr(builder_class.FEATURES)]
    if not (streaming := bool(options.get("streaming"))):
        contents += [digest_of_files(file) for of_split in files.values() for file in of_split]
    builder = builder_class(
        dataset_name=builder_class.__name__,
        hash=digest(contents)[:16],
        cache_dir=options.get("cache_dir"),
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


def select_split(data: Mapping[str, Any], name: str, rows: int | None = None) -> Any:
    """Return the split `name` of a data set or, if the data set has one split of another name, this
    split; with `rows`, only the first rows. Raises ValueError if there is neither."""
    if name not in data and len(data) != 1:
        raise ValueError(
            f"no split {name!r}, only {', '.join(data)}; use a file, or a folder with this split"
        )
    split = data[name] if name in data else next(iter(data.values()))
    return split if rows is None else split.select(range(min(rows, len(split))))
