"""Stories with human labels, in the form that evaluation needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from narrative_twins.data.labels import salience_records, story_salience
from narrative_twins.data.rows import (
    STORY_NAMES,
    Cleaning,
    Row,
    find_column,
    is_nested,
    turning_points,
    window_twins,
)
from narrative_twins.data.sources import CORPORA, DataSource, corpus_files, source_files
from narrative_twins.evaluation.metrics import label_entropy
from narrative_twins.evaluation.significance import mean
from narrative_twins.stories.story import Story

_WINDOWS = 5
"""The number of windows of a synopsis, one for each turning point."""


@dataclass(frozen=True)
class LabelledStories:
    """Stories with human labels.

    Attributes:
        name: the name of the set, for tables and files.
        stories: the stories, with their windows.
        labels: for each story one number per sentence, higher for a more salient sentence.
        points: for each story the indices of its turning points; None for labels of another kind.
        second: for each story the labels by a second group of annotators; None for a story without.
        annotations: for each story the labels of each annotator; None for a story without.
    """

    name: str
    stories: Sequence[Story]
    labels: Sequence[Sequence[float]]
    points: Sequence[Sequence[int]] | None = None
    second: Sequence[Sequence[float] | None] | None = None
    annotations: Sequence[Sequence[Sequence[float]] | None] | None = None

    def __len__(self) -> int:
        return len(self.stories)

    def first(self, number: int) -> LabelledStories:
        """Return the first `number` stories with their labels."""
        lists = {
            name: values[:number]
            for name, values in vars(self).items()
            if name != "name" and values is not None
        }
        return replace(self, **lists)


@dataclass(frozen=True)
class DataSummary:
    """Figures of a set of labelled stories that need no scores.

    Attributes:
        name, stories, sentences: the name, and how many stories and sentences there are.
        points_per_story: the number of turning points of a story; 0 for other labels.
        left_out: how many turning points the rule `"numbered"` leaves out: not in their window.
        entropy: the mean entropy of the labels of a story in bits; None for turning points, and if
            a label is negative.
    """

    name: str
    stories: int
    sentences: int
    points_per_story: int = 0
    left_out: int = 0
    entropy: float | None = None

    @classmethod
    def of(cls, data: LabelledStories, rule: str) -> DataSummary:
        """Count the figures of `data`. Only the rule `"numbered"` leaves turning points out."""
        counts = data.name, len(data), sum(map(len, data.stories))
        if data.points is not None:
            outside = [
                not lo <= point < hi
                for story, points in zip(data.stories, data.points, strict=True)
                if rule == "numbered"
                for (lo, hi), point in zip(story.windows, points, strict=True)
            ]
            return cls(*counts, len(data.points[0]), sum(outside))
        has_shares = all(label >= 0 for labels in data.labels for label in labels)
        entropy = mean(map(label_entropy, data.labels)).value if has_shares else None
        return cls(*counts, entropy=entropy)

    @property
    def perplexity(self) -> float | None:
        """`2 ** entropy`: how many sentences annotators hesitate between; None without entropy."""
        return None if self.entropy is None else float(2**self.entropy)

    @property
    def text(self) -> str:
        """The summary in words, such as `12 stories, 84 sentences`."""
        text = f"{self.stories:,} stories, {self.sentences:,} sentences"
        if number := self.stories * self.points_per_story:
            text += (
                f", {number:,} turning points, {self.left_out:,} of them"
                f" ({self.left_out / number:.1%}) left out because they are outside of the window"
                " with their number"
            )
        if self.entropy is not None:
            text += f"; entropy of the labels {self.entropy:.2f} bits, perplexity"
            text += f" {self.perplexity:.2f}"
        return text


def load_labelled(
    source: DataSource,
    split: str | None = None,
    *,
    second: DataSource | None = None,
    name: str | None = None,
    cleaning: Cleaning = "full",
) -> LabelledStories:
    """Load stories with human labels of any kind.

    Rows with a column `turning_points`, or of TRIPOD's table, are synopses. They have five windows,
    unless the story is a list of windows. Other rows are read as by `load_story_salience`.

    Args:
        source: as in `load_story_salience`; or `"stories"`, `"everyday"`, `"prose"`,
            `"translations"` or `"synopses"` for the corpora of the package, if there is no file of
            this name. Their votes were judged by a language model.
        split: a split of the source, or `"all"` for all splits together; default the test split,
            else validation, else the first.
        second: a source with labels by a second group of annotators for (some of) the same stories,
            which are matched by their sentences, or by their ids if `second` has no sentences.
        name: the name of the set; default the name of the file, folder or Hub data set.
        cleaning: of TRIPOD's table, see `load_turning_points`.

    Raises:
        RowError: a row is invalid.
        FileNotFoundError, ValueError: the source is missing or empty, or has no such split.
    """
    rows = _rows(source, split, cleaning=cleaning)
    name = name or _name_of(source)
    if not rows:
        raise ValueError(f"{name} has no stories; name a file or a split that has some")
    stories = [
        Story.parse({"id": row["id"], "sentences": row["story"], "windows": row.get("windows")})
        for row in rows
    ]
    if rows[0].get("turning_points") is None:
        labels = [_labels(row, name) for row in rows]
        annotations = [row.get("annotations") for row in rows]
        others = None if second is None else _second_labels(second, rows, name)
        return LabelledStories(name, stories, labels, second=others, annotations=annotations)
    if second is not None:
        problem = f"{name} has turning points"
        raise ValueError(f"{problem}; a second group of annotators needs labels of each sentence")
    points = [list(row["turning_points"]) for row in rows]
    marks = [
        [float(i in marked) for i in range(len(story))]
        for story, marked in zip(stories, points, strict=True)
    ]
    return LabelledStories(name, stories, marks, points)


def _second_labels(second: DataSource, rows: Sequence[Row], name: str) -> list[list[float] | None]:
    """Return the labels by a second group of annotators for each row of the data `name`, None for a
    row that they have not. Raise a `ValueError` if they have none of them."""
    again = _rows(second, None, {row["id"]: row["story"] for row in rows})
    labels_of = {tuple(row["story"]): _labels(row, _name_of(second)) for row in again}
    labels = [labels_of.get(tuple(row["story"])) for row in rows]
    if not any(labels):
        raise ValueError(
            f"{_name_of(second)} has none of the stories of {name}; stories are matched by their"
            " sentences, or by their ids if there are no sentences"
        )
    return labels


def _rows(
    source: DataSource,
    split: str | None,
    stories: Mapping[str, Sequence[str]] | None = None,
    cleaning: Cleaning = "full",
) -> list[Row]:
    """Return the rows of a source in the columns of the package's data sets. For a source without
    sentences, `stories` has the sentences by id; rows with other ids are left out."""
    records = [record for path in _paths(source, split) for record in salience_records(path)]
    # The columns of the first row tell the kind of data.
    first = records[0].row if records else {}
    if stories is not None and find_column(first, *STORY_NAMES, "sentences", "text") is None:
        records = [
            record._replace(row={**record.row, "story": stories[record.id]})
            for record in records
            if record.id in stories
        ]
    read = _reader(first, cleaning)
    return [{"id": id_, **read(row, where)} for where, id_, row in records]


def _paths(source: DataSource, split: str | None) -> list[str]:
    """Return the files of a split of a source, see `load_labelled`."""
    is_corpus = isinstance(source, str) and source in CORPORA and not Path(source).exists()
    files = corpus_files(str(source)) if is_corpus else source_files(source)
    if split == "all":
        return list(chain(*files.values()))
    return files[evaluation_split(files, split, _name_of(source))]


def evaluation_split(splits: Collection[str], split: str | None, name: str) -> str:
    """Return `split`, or without one `test`, `validation` or the first of the `splits` of the data
    `name`. Raises a `ValueError` if there is no such split."""
    if split is None:
        return next(each for each in ("test", "validation", *splits) if each in splits)
    if split not in splits:
        raise ValueError(f"no split {split!r} in {name}, only {', '.join(splits)}")
    return split


def _reader(first: Mapping[str, Any], cleaning: Cleaning) -> Callable[[Row, str], Row]:
    """Return the function that reads rows of the kind of the `first` one: it takes a row and its
    location, and returns the columns of the data sets of the package."""
    if first.get("turning_points") is None:
        return story_salience
    if is_nested(find_column(first, *STORY_NAMES)):
        return partial(window_twins, windows=_WINDOWS)
    return partial(turning_points, windows=_WINDOWS, cleaning=cleaning)


def _labels(row: Mapping[str, Any], name: str) -> list[float]:
    """Return the labels of a row in the data `name`; raise a `ValueError` if it has none."""
    labels: list[float] | None = row["labels"]
    if labels is None:
        raise ValueError(
            f"{name}, id {row['id']!r}, has no labels, only summaries; leave the row out"
        )
    return labels


def _name_of(source: DataSource) -> str:
    """Return a name for a source: the last part of its path or Hub id without a suffix. Of several
    files the first is used; loaded rows are called `data`."""
    if isinstance(source, Mapping):
        source = next(iter(source.values()))
    if isinstance(source, (list, tuple)):
        source = source[0]
    if not isinstance(source, (str, os.PathLike)):
        return "data"  # loaded rows have no name
    return Path(source).name.split(".")[0] or "data"
