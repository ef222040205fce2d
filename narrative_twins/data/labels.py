"""Human labels of the sentences of a story, from votes, selected sentences, grades or highlighted
characters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from narrative_twins.data.rows import (
    RowError,
    check_integers,
    check_list,
    check_numbers,
    is_nested,
    to_integers,
)
from narrative_twins.stories.story import shown_value
from narrative_twins.stories.windows import Span

CHOICES, HIGHLIGHTS, VOTES = (
    ("choices", "most_important"),
    ("spans", "highlights"),
    ("votes", "story_votes"),
)
LABEL_COLUMNS = (*CHOICES, *HIGHLIGHTS, *VOTES, "annotations", "labels", "turning_points")
"""All names of columns with human labels, except summaries. The first that a row has is read."""


class Labels(NamedTuple):
    """The labels of a story: one a sentence, higher for more salient ones; the same of each
    annotator; the sentence that each annotator chose, counted from 1; and the votes for each
    sentence, if only these are known. What is not known, or does not apply, is None."""

    labels: list[float] | None = None
    annotations: list[list[float]] | None = None
    choices: list[int] | None = None
    votes: list[int] | None = None


def label_column(row: Mapping[str, Any], where: str) -> str | None:
    """The column that the labels of a row are read from, if there is any; RowError if it has
    choices and highlights."""
    given = [name for name in LABEL_COLUMNS if row.get(name) is not None]
    # An empty list of choices says nothing, while an annotator may have highlighted nothing.
    full = [name for name in given if name not in CHOICES or row[name] != []]
    kinds = [[name for name in full if name in names] for names in (CHOICES, HIGHLIGHTS)]
    if all(kinds):
        raise RowError(
            where,
            f"has both '{kinds[0][0]}' and '{kinds[1][0]}'; remove the column that is not meant",
        )
    return next(iter(full or given), None)


def read_labels(
    row: Mapping[str, Any], sentences: int, spans: Sequence[Span], where: str
) -> Labels:
    """The labels of a row, from its first column of `LABEL_COLUMNS`.

    `labels` and `annotations` that are there as well, as in the rows that the package's data sets
    export, must be those that follow from this column.

    Args:
        row: the row.
        sentences: number of sentences of the story.
        spans: the character span of each sentence in the `text` of the row; needed for highlights
            only.
        where: location of the row for error messages.

    Raises:
        RowError: labels have another form or number, or contradict each other.
    """
    column = label_column(row, where)
    content = None if column is None else row[column]
    found = Labels()
    if column in CHOICES:
        found = _from_choices(content, sentences, where)
    elif column in HIGHLIGHTS:
        highlights = check_highlights(content, column, row["text"], where)
        found = _from_annotations(highlighted(row["text"], spans, highlights))
    elif column in VOTES:
        votes = check_votes(content, column, sentences, where)
        found = Labels([count / sum(votes) for count in votes], votes=votes)
    elif column == "annotations":
        found = _from_annotations(check_annotations(content, sentences, where))
    elif column == "labels":
        found = Labels(check_numbers(content, "labels", where, sentences))
    elif column == "turning_points":
        found = Labels(
            _ones(check_integers(to_integers(content), column, where, 0, sentences - 1), sentences)
        )
    _check_agreement(row, found, where)
    return found


def _from_annotations(annotations: list[list[float]]) -> Labels:
    """Labels as means over at least one annotator."""
    return Labels(
        [fmean(of_sentence) for of_sentence in zip(*annotations, strict=True)], annotations
    )


def _from_choices(chosen: Any, sentences: int, where: str) -> Labels:
    """Labels from the sentence that each annotator chose, or from a list of sentences of each
    annotator."""
    if chosen == []:
        return Labels(choices=[])
    if is_nested(chosen):
        selected = [
            check_integers(to_integers(own), f"choices[{annotator}]", where, 1, sentences)
            for annotator, own in enumerate(chosen)
        ]
        choices = None
    else:
        # A single number is the choice of a single annotator.
        chosen = (
            [chosen]
            if isinstance(chosen, int) and not isinstance(chosen, bool)
            else to_integers(chosen)
        )
        choices = check_integers(chosen, "choices", where, 1, sentences)
        selected = [[choice] for choice in choices]
    annotations = [_ones([number - 1 for number in own], sentences) for own in selected]
    return _from_annotations(annotations)._replace(choices=choices)


def check_votes(votes: Any, column: str, sentences: int, where: str) -> list[int]:
    """Check the number of votes for each sentence, of which at least one has a vote; raises
    RowError."""
    checked = check_integers(to_integers(votes), column, where, 0, 2**31 - 1)
    if len(checked) != sentences or not any(checked):
        problem = (
            f"has {len(checked)} number(s) for {sentences} sentence(s)"
            if any(checked)
            else "has no vote"
        )
        raise RowError(where, f"'{column}' {problem}; give the number of votes for each sentence")
    return checked


def _ones(indices: Sequence[int], sentences: int) -> list[float]:
    """1.0 for the sentences of these indices, 0.0 for the others."""
    return [float(index in indices) for index in range(sentences)]


def check_annotations(annotations: Any, sentences: int, where: str) -> list[list[float]]:
    """Check a list with one label a sentence of each annotator; raises RowError."""
    of_annotators = check_list(
        annotations, "annotations", where, "lists of numbers, one for each annotator"
    )
    if not of_annotators:
        raise RowError(
            where,
            "'annotations' is empty; give it a list of numbers for each annotator, or remove it",
        )
    return [
        check_numbers(own, f"annotations[{a}]", where, sentences)
        for a, own in enumerate(of_annotators)
    ]


def check_highlights(highlights: Any, column: str, text: str, where: str) -> list[list[Span]]:
    """Check highlighted `[start, end]` ranges of characters, of one annotator or in a list for each
    annotator; returns those of each annotator, or raises RowError."""
    highlights = check_list(highlights, column, where, "[start, end] ranges of characters")
    if not highlights or not all(
        isinstance(own, list) and all(map(_is_pair, own)) for own in highlights
    ):
        return [
            [check_span(span, f"{column}[{i}]", text, where) for i, span in enumerate(highlights)]
        ]
    return [
        [check_span(span, f"{column}[{annotator}][{i}]", text, where) for i, span in enumerate(own)]
        for annotator, own in enumerate(highlights)
    ]


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def check_span(span: Any, name: str, text: str, where: str) -> Span:
    """Check a `[start, end]` range of characters of a text, which is called `name` in the
    RowError."""
    shown = f"'{name}' = {shown_value(span)}"
    if isinstance(span, Mapping):
        raise RowError(
            where,
            f"{shown} is not [start, end]; if an annotation tool exported it, name it by"
            " row_format=",
        )
    if (
        not isinstance(span, (list, tuple))
        or len(span) != 2
        or not all(type(edge) is int for edge in span)
    ):
        raise RowError(
            where, f"{shown} is not [start, end], two whole numbers that count characters"
        )
    start, end = span
    if start >= end:
        problem = "is empty" if start == end else "is reversed"
        raise RowError(
            where,
            f"{shown} {problem}; the end is the index after the last character, or remove the span",
        )
    if start < 0 or end > len(text):
        problem = f"is outside of 'text', which has {len(text)} characters, counted from 0"
        raise RowError(where, f"{shown} {problem}; give the text that was annotated, unchanged")
    return start, end


def highlighted(
    text: str, sentences: Sequence[Span], highlights: Sequence[Sequence[Span]]
) -> list[list[float]]:
    """For each annotator and sentence the share of its characters, without white space, that are
    highlighted.

    Args:
        text: the text.
        sentences: the half-open span of each sentence in the text; none is only white space.
        highlights: the half-open spans that each annotator highlighted; they may overlap.
    """
    visible = np.array([not char.isspace() for char in text])
    annotations = []
    for spans in highlights:
        marked = np.zeros(len(text), bool)
        for start, end in spans:
            marked[start:end] = True
        marked &= visible
        annotations.append(
            [float(marked[lo:hi].sum() / visible[lo:hi].sum()) for lo, hi in sentences]
        )
    return annotations


def _check_agreement(row: Mapping[str, Any], found: Labels, where: str) -> None:
    """Raise a RowError if a row has `labels` or `annotations` that differ from those found in
    another column."""
    if row.get("labels") is not None and found.labels is not None:
        labels = check_numbers(row["labels"], "labels", where, len(found.labels))
        _check_equal(labels, found.labels, "labels", where)
    if row.get("annotations") is not None and found.annotations is not None:
        given = check_annotations(row["annotations"], len(found.annotations[0]), where)
        if len(given) != len(found.annotations):
            raise RowError(
                where,
                f"'annotations' is of {len(given)} annotator(s), and there are"
                f" {len(found.annotations)}",
            )
        for annotator, (own, expected) in enumerate(zip(given, found.annotations, strict=True)):
            _check_equal(own, expected, f"annotations[{annotator}]", where)


def _check_equal(
    given: Sequence[float], expected: Sequence[float], column: str, where: str
) -> None:
    for index, (own, other) in enumerate(zip(given, expected, strict=True)):
        if not math.isclose(own, other, rel_tol=1e-6, abs_tol=1e-6):
            problem = (
                f"'{column}' has {own:g} for sentence {index}, but the other columns give {other:g}"
            )
            raise RowError(where, f"{problem}; remove '{column.partition('[')[0]}' or the others")
