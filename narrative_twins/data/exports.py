"""Answers of several annotators, merged into one row a story for `load_story_salience`: exports of
annotation tools (Label Studio, Prodigy), and what `narrative-twins annotate` writes. A tool is a
record in `TOOLS`."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from narrative_twins.data.labels import check_span
from narrative_twins.data.records import Record, read_records
from narrative_twins.data.rows import Row, RowError, find_column, require_column

logger = logging.getLogger(__name__)

_STORY_COLUMNS = ("text", "title", "sentences", "windows")


class Answer(NamedTuple):
    """What one annotator (None if not known) said about a story: `story` is the key by which
    answers to the same story are merged, `columns` belong to the story, such as its `text`, and
    `said`, of a tool, has the highlights: objects with `start` and `end` in characters, and a
    `label` or `labels`."""

    story: str
    annotator: str | None
    columns: Mapping[str, Any]
    said: Any


class AnnotationTool(NamedTuple):
    """A tool whose exports can be read: whether a row has columns that only its format has; and the
    answers in a row, where skipped ones are counted by the reason, and any error means that the row
    is not of this format."""

    recognizes: Callable[[Mapping[str, Any]], bool]
    answers: Callable[[Record, Counter[str]], Iterator[Answer]]


def salience_records(
    path: str, row_format: str = "auto", span_labels: Sequence[str] | None = None
) -> Iterator[Record]:
    """The rows of a file with human labels, in the forms that `labels.story_salience` reads.

    Answers to the same story are merged, for which the whole file is read first. How many answers
    were skipped, because the annotators rejected, ignored or canceled them, is logged.

    Args:
        path: the file.
        row_format: `"plain"` or a name of `TOOLS`; `"auto"` recognizes it by the columns of the
            first row.
        span_labels: names of the labels that mark salient text; needed if spans of a tool have
            different labels.

    Raises:
        RowError: a row is invalid, or nothing is highlighted in the whole file.
    """
    records = read_records(path)
    first = next(records, None)
    if first is None:
        return
    if row_format == "auto":
        row_format = next((name for name in TOOLS if TOOLS[name].recognizes(first.row)), "plain")
    records = chain([first], records)
    if row_format != "plain":
        yield from _highlights(path, records, row_format, span_labels)
    elif span_labels is not None:
        problem = "span_labels= is for rows of annotation tools, and these are plain; leave it out"
        raise RowError(path, problem)
    elif {"annotator", "choice"} <= set(first.row):
        yield from _choices(records)
    else:
        yield from records


def _choices(records: Iterable[Record]) -> Iterator[Record]:
    """One row for each story, with the choices and the summaries of all annotators, from a row for
    each answer as `narrative-twins annotate` writes it."""

    def answers() -> Iterator[tuple[Record, Answer]]:
        for record in records:
            columns = {name: record.row.get(name) for name in ("title", "story", "windows")}
            value = require_column(record.row, record.where, "choice"), record.row.get("summary")
            yield record, Answer(record.id, str(record.row.get("annotator")), columns, value)

    for first, columns, values in _merged(answers()):
        choices, summaries = map(list, zip(*values, strict=True))
        of_all = {"choices": choices, "summaries": None if None in summaries else summaries}
        yield first._replace(row=columns | of_all)


def _merged(answers: Iterable[tuple[Record, Answer]]) -> Iterator[tuple[Record, Row, list[Any]]]:
    """The first record of each story, the columns that belong to the story, and what its annotators
    said; an annotator may say the same twice."""
    stories: dict[str, tuple[Record, Row, dict[str | None, Any]]] = {}
    for record, answer in answers:
        story, columns = answer.story, dict(answer.columns)
        first, expected, by_annotator = stories.setdefault(story, (record, columns, {}))
        earlier, problem = by_annotator.get(answer.annotator, answer.said), ""
        if columns != expected:
            problem = f"is another story than {first.where}, or differs from it in"
            problem += f" {', '.join(columns)}; give it an id of its own, or correct it"
        # An annotator who is not known can't have answered twice.
        elif earlier != answer.said or (answer.annotator is None and None in by_annotator):
            problem = f"is a second answer to the same story of annotator {answer.annotator!r}"
            problem += "; remove one, or name the annotators (in Prodigy by '_annotator_id')"
        if problem:
            raise RowError(record.where, problem)
        by_annotator[answer.annotator] = answer.said
    for first, columns, by_annotator in stories.values():
        yield first, columns, list(by_annotator.values())


def _label_studio(record: Record, skipped: Counter[str]) -> Iterator[Answer]:
    """The answers to a task: each annotation that was not canceled, also if an annotator made
    several."""
    annotations = record.row["annotations"]
    if not annotations:
        skipped["without annotation"] += 1
    for number, annotation in enumerate(annotations):
        if annotation.get("was_cancelled"):
            skipped["canceled"] += 1
            continue
        spans = [each["value"] for each in annotation["result"] if each.get("type") == "labels"]
        yield Answer(record.where, str(number), record.row["data"], spans)


def _prodigy(record: Record, skipped: Counter[str]) -> Iterator[Answer]:
    """The single answer of a row, if it was accepted."""
    row = record.row
    answer = row.get("answer", "accept")
    if answer != "accept":
        skipped[answer] += 1
        return
    annotator = find_column(row, "_annotator_id", "_session_id")
    annotator = None if annotator is None else str(annotator)
    yield Answer(row["text"], annotator, row, row.get("spans") or [])


TOOLS = {
    "label-studio": AnnotationTool(
        lambda row: isinstance(row.get("data"), Mapping) and "annotations" in row, _label_studio
    ),
    "prodigy": AnnotationTool(
        # Ranges of the package's own rows are pairs, not objects.
        lambda row: (
            not {"_input_hash", "answer"}.isdisjoint(row)
            or any(isinstance(span, Mapping) for span in row.get("spans") or ())
        ),
        _prodigy,
    ),
}
"""The annotation tools by the name of their format: Label Studio's JSON, Prodigy's JSON Lines."""


def _highlights(
    path: str, records: Iterable[Record], row_format: str, span_labels: Sequence[str] | None
) -> Iterator[Record]:
    """One row for each story, with the highlights of all annotators."""
    skipped: Counter[str] = Counter()
    answers = [(r, answer) for r in records for answer in _checked_answers(r, row_format, skipped)]
    counts = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
    spans = [span for _, answer in answers for span in answer.said]
    labels = {label for span in spans for label in _labels_of(span)}
    problem = ""
    if not spans:
        problem = f"nothing is highlighted (skipped: {counts or 'none'}); export a project in which"
        problem += " spans of a text are labelled"
    elif (span_labels is None and len(labels) > 1) or not labels.issuperset(span_labels or ()):
        names = ", ".join(repr(label[:60]) for label in sorted(labels)[:10]) or "none"
        problem = f"the labels of spans are {names}; name those that mark salient text by"
        problem += " span_labels=[...]"
    if problem:
        raise RowError(path, problem)
    if counts:
        logger.warning("%s: answers that were skipped: %s", path, counts)

    def marked(answer: Answer) -> Answer:
        columns = {name: answer.columns.get(name) for name in _STORY_COLUMNS}
        ranges = [
            [span["start"], span["end"]]
            for span in answer.said
            if not span_labels or not set(span_labels).isdisjoint(_labels_of(span))
        ]
        return answer._replace(columns=columns, said=ranges)

    for first, columns, highlights in _merged((record, marked(each)) for record, each in answers):
        yield first._replace(row=columns | {"spans": highlights})


def _checked_answers(record: Record, row_format: str, skipped: Counter[str]) -> list[Answer]:
    """The answers in a row of a tool, whose spans are in the text; if a span has a `text`, that
    must be in its place, white space aside, which Label Studio does not always keep."""
    try:
        answers = list(TOOLS[row_format].answers(record, skipped))
        for answer in answers:
            text = answer.columns["text"]
            for span in answer.said:
                _labels_of(span)
                start, end = check_span([span["start"], span["end"]], "spans", text, record.where)
                marked, text_of_span = text[start:end], span.get("text")
                if text_of_span is not None and _visible(marked) != _visible(text_of_span):
                    problem = f"the span {[start, end]} of 'text' is {marked[:60]!r}, but its own"
                    fix = "give the text that was annotated, unchanged"
                    raise RowError(record.where, f"{problem} text is {text_of_span[:60]!r}; {fix}")
    except RowError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"is not in the format {row_format} ({type(error).__name__}: {error})"
        hint = "the annotated text must be called 'text'; see row_format="
        raise RowError(record.where, f"{problem}; {hint}") from error
    return answers


def _visible(text: str) -> str:
    return re.sub(r"\\[nrt]|\s", "", text)


def _labels_of(span: Mapping[str, Any]) -> list[str]:
    return list(map(str, span.get("labels") or [span["label"]] * ("label" in span)))
