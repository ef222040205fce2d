"""Conversion of human labels of stories (choices, votes, numbers, highlighted characters) to one
number for each sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np

from narrative_twins.data.file_formats import Record, read_records
from narrative_twins.data.highlights import HIGHLIGHTS, highlight_column, highlighted, row_of_tool
from narrative_twins.data.label_tables import LABEL_CELLS, read_labels
from narrative_twins.data.rows import (
    Row,
    RowError,
    check_integers,
    check_list,
    check_sentences,
    check_story,
    check_votes,
    find_column,
    is_nested,
    require_column,
    synopsis,
    title_of,
)
from narrative_twins.text import shown_value

CHOICES = ("choices", "most_important")
VOTES = ("votes", "story_votes")
SUMMARIES = ("summaries", "summary")
LABEL_COLUMNS = (*CHOICES, *HIGHLIGHTS, *VOTES, "annotations", "labels", "turning_points")
"""The columns with human labels, except summaries. Of those that a row has, the first is read."""
_LARGEST = 1e30
"""The largest absolute value of a label, so that sums and squares of labels are finite."""


def salience_records(path: str) -> Iterator[Record]:
    """Yield the rows of a file with human labels, in a form that `story_salience` reads. A file of
    `narrative-twins annotate`, with one answer per row, is read as a whole first, and the answers
    to a story become one row; so do rows of sentences with `story_id`, `sentence` and `label`, as
    in a table. Raises RowError if a row is invalid or contradicts another one."""
    records = read_records(path)
    if (first := next(records, None)) is None:
        return
    records = chain([first], records)
    if set(LABEL_CELLS) <= set(first.row):
        rows = ((record.where, record.row) for record in records)
        for where, story_id, row in read_labels(rows):
            yield Record(where, str(story_id), row)
        return
    if not {"annotator", "choice"} <= set(first.row):
        yield from records
        return
    stories: dict[str, tuple[Record, Row, dict[str, Any]]] = {}
    for record in records:
        columns = {name: record.row.get(name) for name in ("title", "story", "windows")}
        said = require_column(record.row, record.where, "choice"), record.row.get("summary")
        first, expected, answers = stories.setdefault(record.id, (record, columns, {}))
        annotator = str(record.row.get("annotator"))
        if columns != expected:
            problem = f"is another story than {first.where}; give it an id of its own"
            raise RowError(record.where, problem)
        # Files that are put together may have an answer twice.
        if answers.setdefault(annotator, said) != said:
            problem = f"is a second answer of annotator {annotator!r} to a story; remove one"
            raise RowError(record.where, problem)
    for first, columns, answers in stories.values():
        choices, summaries = map(list, zip(*answers.values(), strict=True))
        of_all = {"choices": choices, "summaries": None if None in summaries else summaries}
        yield first._replace(row=columns | of_all)


def story_salience(row: Mapping[str, Any], where: str) -> Row:
    """Convert a row of a file to the columns of `load_story_salience`, except `id`. The row has a
    story; labels, summaries or both; and optionally a title and windows. `load_story_salience`
    lists the names of these columns, and the forms of labels. `where` locates the row in errors."""
    row = row_of_tool(row, where)
    column, summaries = _label_column(row), find_column(row, *SUMMARIES)
    if column is None and summaries is None:
        require_column(row, where, *LABEL_COLUMNS, *SUMMARIES)
    if column is not None and column == highlight_column(row):
        story, labels = _from_highlights(row, column, where)
    elif column == "turning_points":
        story, points = synopsis(row, where)
        labels = {"labels": _indicators(points, len(story))}
    else:
        story = check_sentences(require_column(row, where, "story", "sentences"), "story", where)
        labels = {} if column is None else _READERS[column](row[column], column, len(story), where)
    windows = row.get("windows")
    if windows is not None:
        windows = list(map(list, check_story(story, "windows", where, windows).windows))
    if summaries is not None:
        summaries = [summaries] if isinstance(summaries, str) else summaries
        summaries = check_sentences(summaries, "summaries", where)
    empty = dict.fromkeys(("labels", "annotations", "choices", "counts"))
    columns = {"title": title_of(row), "story": story, "windows": windows}
    return {**columns, **empty, **labels, "summaries": summaries}


def _label_column(row: Mapping[str, Any]) -> str | None:
    """Return the first of `LABEL_COLUMNS` that a row has. An empty list of choices says nothing and
    comes last, while an annotator may have highlighted nothing."""
    names = [name for name in LABEL_COLUMNS if row.get(name) is not None]
    full = [name for name in names if name not in CHOICES or row[name] != []]
    return next(iter(full or names), highlight_column(row))


# Readers of label columns. Each takes the content of a column, its name, the number of sentences
# and the location of the row, and returns columns of `load_story_salience`.


def _from_votes(votes: Any, column: str, count: int, where: str) -> Row:
    """How many annotators voted for each sentence."""
    votes = check_votes(votes, column, count, where)
    return {"labels": [number / sum(votes) for number in votes], "counts": votes}


def _from_numbers(numbers: Any, column: str, count: int, where: str) -> Row:
    """A number for each sentence."""
    return {"labels": _numbers(numbers, column, where, count)}


def _from_annotations(annotations: Any, column: str, count: int, where: str) -> Row:
    """A list of numbers for each annotator."""
    annotations = check_list(annotations, column, where, "lists of numbers, one for each annotator")
    if not annotations:
        problem = "'annotations' is empty; give it a list of numbers for each annotator"
        raise RowError(where, problem)
    return _means(
        _numbers(numbers, f"annotations[{annotator}]", where, count)
        for annotator, numbers in enumerate(annotations)
    )


def _from_choices(choices: Any, column: str, count: int, where: str) -> Row:
    """The sentence that each annotator chose, counted from 1, or a list of those of each."""
    if is_nested(choices):
        lists = [
            check_integers(numbers, f"choices[{annotator}]", where, 1, count)
            for annotator, numbers in enumerate(choices)
        ]
        return _means(_indicators([n - 1 for n in numbers], count) for numbers in lists)
    # A single number is the choice of a single annotator.
    choices = [choices] if type(choices) is int else choices
    choices = check_integers(choices, "choices", where, 1, count)
    counts = {"choices": choices, "counts": [choices.count(n + 1) for n in range(count)]}
    return counts | (_means(_indicators([n - 1], count) for n in choices) if choices else {})


_READERS: dict[str, Callable[[Any, str, int, str], Row]] = {
    **dict.fromkeys(CHOICES, _from_choices),
    **dict.fromkeys(VOTES, _from_votes),
    "annotations": _from_annotations,
    "labels": _from_numbers,
}


def _means(annotations: Iterable[list[float]]) -> Row:
    """Return the columns `annotations`, a list of labels for each annotator (one or more), and
    `labels`, the mean label of each sentence."""
    annotations = list(annotations)
    means = list(map(fmean, zip(*annotations, strict=True)))
    return {"labels": means, "annotations": annotations}


def _indicators(indices: Sequence[int], count: int) -> list[float]:
    """Return a list of `count` numbers, 1.0 at the `indices`: `[1]`, 3 → `[0.0, 1.0, 0.0]`."""
    return [float(index in indices) for index in range(count)]


def _numbers(values: Any, column: str, where: str, count: int) -> list[float]:
    """Return `values` as floats. Raise RowError unless they are `count` finite numbers."""
    values = check_list(values, column, where, "numbers", count)
    for index, value in enumerate(values):
        # False for NaN, too.
        if not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
            problem = f"'{column}' has {shown_value(value)} for sentence {index}"
            raise RowError(where, f"{problem}; a finite number is needed, at most {_LARGEST:.0e}")
    return list(map(float, values))


def _from_highlights(row: Mapping[str, Any], column: str, where: str) -> tuple[list[str], Row]:
    """Return the sentences and the label columns of a row with highlights, see `highlighted`. The
    label of a sentence is the share of its characters, without white space, that are highlighted.
    The text is split here if the row has no sentences."""
    text, sentences = require_column(row, where, "text"), find_column(row, "sentences", "story")
    if not isinstance(text, str):
        problem = f"'text' is {type(text).__name__}; highlights need the text that they are in"
        raise RowError(where, problem)
    if sentences is not None:
        sentences = check_sentences(sentences, "sentences", where)
    story = check_story({"text": text, "sentences": sentences}, "text", where)
    visible = np.array([not char.isspace() for char in text])
    annotations = []
    for spans in highlighted(row[column], column, text, where):
        marked = np.zeros(len(text), bool)
        for start, end in spans:
            marked[start:end] = visible[start:end]
        annotations.append(
            [float(marked[lo:hi].sum() / visible[lo:hi].sum()) for lo, hi in story.spans]
        )
    return list(story.sentences), _means(annotations)
