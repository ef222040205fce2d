"""Human labels of the sentences of a story, from votes, selected sentences, grades or highlighted
characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from narrative_twins.data.rows import (
    Row,
    RowError,
    check_integers,
    check_list,
    check_numbers,
    check_sentences,
    check_votes,
    even_spans,
    find_column,
    is_nested,
    require_column,
    story_errors,
    synopsis,
    title_of,
    vote_counts,
)
from narrative_twins.stories.splitting import Span
from narrative_twins.stories.story import Story, shown_value

CHOICES = ("choices", "most_important")
HIGHLIGHTS = ("spans", "highlights")
VOTES = ("votes", "story_votes")
SUMMARIES = ("summaries", "summary")
LABEL_COLUMNS = (*CHOICES, *HIGHLIGHTS, *VOTES, "annotations", "labels", "turning_points")
"""All names of columns with human labels, except summaries. The first that a row has is read."""


class Labels(NamedTuple):
    """The labels of a story: one a sentence, higher for more salient ones; the same of each
    annotator; the sentence that each annotator chose, counted from 1; and the votes for each
    sentence. What is not known, or does not apply, is None."""

    labels: list[float] | None = None
    annotations: list[list[float]] | None = None
    choices: list[int] | None = None
    counts: list[int] | None = None


def story_salience(row: Mapping[str, Any], where: str) -> Row:
    """Convert a row of human labels: `story` (or `sentences`), optionally `title` (or `storytitle`)
    and `windows`, labels in one of the forms of `load_story_salience`, and `summaries` (or
    `summary`), with labels or alone."""
    column, summaries = _label_column(row), find_column(row, *SUMMARIES)
    if column is None and summaries is None:
        require_column(row, where, *LABEL_COLUMNS, *SUMMARIES)
    if column in HIGHLIGHTS:
        located = _text_with_sentences(row, where)
        story = list(located.sentences)
        labels = _from_highlights(located, row[column], column, where)
    elif column == "turning_points":
        story, points = synopsis(row, where)
        labels = Labels(_ones(points, len(story)))
    else:
        story = check_sentences(require_column(row, where, "story", "sentences"), "story", where)
        labels = _read_labels(row, column, len(story), where)
    windows = row.get("windows")
    if isinstance(summaries, str):
        summaries = [summaries]
    return {
        "title": title_of(row),
        "story": story,
        "windows": None if windows is None else even_spans(story, windows, "windows", where),
        **labels._asdict(),
        "summaries": None if summaries is None else check_sentences(summaries, "summaries", where),
    }


def roc_story(row: Mapping[str, Any], where: str) -> Row:
    """Convert a row of ROCStories: as `story_salience` if it has human labels, otherwise without
    them."""
    if find_column(row, *CHOICES, *SUMMARIES) is not None:
        return story_salience(row, where)
    if row.get("turning_points") is not None:
        raise RowError(where, "is a synopsis with turning points; load it with load_turning_points")
    story = check_sentences(require_column(row, where, "story", "sentences"), "story", where)
    return {"title": title_of(row), "story": story, "summaries": None, **Labels()._asdict()}


def _label_column(row: Mapping[str, Any]) -> str | None:
    """The column that the labels of a row are read from, if there is any."""
    given = [name for name in LABEL_COLUMNS if row.get(name) is not None]
    # An empty list of choices says nothing, while an annotator may have highlighted nothing.
    full = [name for name in given if name not in CHOICES or row[name] != []]
    return next(iter(full or given), None)


def _read_labels(row: Mapping[str, Any], column: str | None, sentences: int, where: str) -> Labels:
    """The labels of a story of this many sentences in a column; RowError if they have another form
    or number."""
    if column is None:
        return Labels()
    content = row[column]
    if column in CHOICES:
        return _from_choices(content, sentences, where)
    if column in VOTES:
        votes = check_votes(content, column, sentences, where)
        return Labels([count / sum(votes) for count in votes], counts=votes)
    if column == "labels":
        return Labels(check_numbers(content, "labels", where, sentences))
    annotations = check_list(content, column, where, "lists of numbers, one for each annotator")
    if not annotations:
        problem = "'annotations' is empty; give it a list of numbers for each annotator"
        raise RowError(where, problem)
    return _from_annotations(
        [
            check_numbers(own, f"annotations[{annotator}]", where, sentences)
            for annotator, own in enumerate(annotations)
        ]
    )


def _from_annotations(annotations: list[list[float]]) -> Labels:
    """Labels as means over at least one annotator."""
    return Labels(list(map(fmean, zip(*annotations, strict=True))), annotations)


def _from_choices(chosen: Any, sentences: int, where: str) -> Labels:
    """Labels from the sentence that each annotator chose, or from a list of sentences of each
    annotator."""
    if chosen == []:
        return Labels(choices=[], counts=[0] * sentences)
    if is_nested(chosen):
        return _from_annotations(
            [
                _ones(_indices(own, f"choices[{annotator}]", sentences, where), sentences)
                for annotator, own in enumerate(chosen)
            ]
        )
    # A single number is the choice of a single annotator.
    chosen = [chosen] if isinstance(chosen, int) and not isinstance(chosen, bool) else chosen
    indices = _indices(chosen, "choices", sentences, where)
    choices = [index + 1 for index in indices]
    labels = _from_annotations([_ones([index], sentences) for index in indices])
    return labels._replace(choices=choices, counts=vote_counts(choices, sentences))


def _indices(numbers: Any, column: str, sentences: int, where: str) -> list[int]:
    """Indices of sentences from their numbers, which are counted from 1."""
    return [number - 1 for number in check_integers(numbers, column, where, 1, sentences)]


def _ones(indices: Sequence[int], sentences: int) -> list[float]:
    """1.0 for the sentences of these indices, 0.0 for the others."""
    return [float(index in indices) for index in range(sentences)]


def _text_with_sentences(row: Mapping[str, Any], where: str) -> Story:
    """The story of a raw `text`, with the sentences of the row, or split."""
    text = require_column(row, where, "text")
    if not isinstance(text, str):
        problem = f"'text' is {type(text).__name__}; highlights need the text that they are in"
        raise RowError(where, problem)
    sentences = find_column(row, "sentences", "story")
    if sentences is not None:
        sentences = check_sentences(sentences, "sentences", where)
    with story_errors("text", where):
        return Story.parse({"text": text, "sentences": sentences}, windows=1)


def _from_highlights(story: Story, highlights: Any, column: str, where: str) -> Labels:
    """Labels from highlighted `[start, end]` ranges of characters, of one annotator or in a list
    for each annotator: the share of the characters of a sentence, without white space, that are
    highlighted."""
    highlights = check_list(highlights, column, where, "[start, end] ranges of characters")
    is_of_several = highlights and all(
        isinstance(own, list) and all(isinstance(span, (list, tuple)) for span in own)
        for own in highlights
    )
    visible = np.array([not char.isspace() for char in story.text])
    annotations = []
    for spans in highlights if is_of_several else [highlights]:
        marked = np.zeros(len(story.text), bool)
        for number, span in enumerate(spans):
            start, end = check_span(span, f"{column}[{number}]", story.text, where)
            marked[start:end] = visible[start:end]
        annotations.append(
            [float(marked[lo:hi].sum() / visible[lo:hi].sum()) for lo, hi in story.spans]
        )
    return _from_annotations(annotations)


def check_span(span: Any, name: str, text: str, where: str) -> Span:
    """Check a `[start, end]` range of characters of a text, which is called `name` in the
    RowError."""
    shown = f"'{name}' = {shown_value(span)}"
    is_pair = isinstance(span, (list, tuple)) and len(span) == 2
    if not is_pair or not all(type(edge) is int for edge in span):
        problem = f"{shown} is not [start, end], two whole numbers that count characters"
        if isinstance(span, Mapping):
            problem += "; if an annotation tool exported it, name it by row_format="
        raise RowError(where, problem)
    start, end = span
    if not 0 <= start < end <= len(text):
        raise RowError(
            where,
            f"{shown} is empty, reversed or outside of 'text', which has {len(text)} characters,"
            " counted from 0; the end is the index after the last character. Give the text that"
            " was annotated, unchanged",
        )
    return start, end
