"""Highlights exported by annotation tools (Label Studio, Prodigy), converted to rows for
`load_story_salience`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

from narrative_twins.data.labels import LABEL_COLUMNS, check_span
from narrative_twins.data.records import Record, read_records
from narrative_twins.data.rows import RowError, check_list
from narrative_twins.stories.story import shown_value
from narrative_twins.stories.windows import Span

logger = logging.getLogger(__name__)

RowFormat: TypeAlias = Literal["auto", "plain", "label-studio", "label-studio-min", "prodigy"]
"""Who wrote the rows of a file: a person or this package (`plain`), Label Studio as JSON or
JSON-MIN, or Prodigy."""

_KEPT = ("title", "sentences", "windows")
"""Columns of a story that are kept, besides its text."""


@dataclass
class _Answer:
    """The highlights of one annotator in a text. `story` is the key by which answers to the same
    story are merged; `annotator` is None if it is not known who answered."""

    record: Record
    story: str
    annotator: str | None
    columns: Mapping[str, Any]
    highlights: list[tuple[Span, list[str]]]
    """Ranges of characters with the names of their labels."""


def salience_records(
    path: str, row_format: RowFormat = "auto", span_labels: Sequence[str] | None = None
) -> Iterator[Record]:
    """The rows of a file with human labels, in the forms that `shapes.story_salience` reads.

    Rows of annotation tools are converted, and answers to the same story merged, for which the
    whole file is read first. How many answers were skipped, because the annotators rejected,
    ignored or canceled them, is logged.

    Args:
        path: the file.
        row_format: the format of its rows; `"auto"` recognizes it by the columns of the first row.
        span_labels: names of the labels that mark salient text; needed if spans of a tool have
            different labels.

    Raises:
        RowError: a row is invalid, its format is not clear, or nothing is highlighted in the whole
            file.
    """
    records = read_records(path)
    first = next(records, None)
    if first is None:
        return
    if row_format == "auto":
        row_format = recognized_format(first.row, first.where)
    records = chain([first], records)
    if row_format != "plain":
        yield from _merged(path, records, _ANSWERS[row_format], span_labels)
    elif span_labels is not None:
        raise RowError(
            path, "span_labels= is for rows of annotation tools, and these are plain; leave it out"
        )
    else:
        yield from records


def recognized_format(row: Mapping[str, Any], where: str) -> RowFormat:
    """The format of a row by columns that only one of the formats has; RowError for those of
    several formats."""
    signs: dict[RowFormat, bool] = {
        "label-studio": (
            isinstance(row.get("data"), Mapping) and isinstance(row.get("annotations"), list)
        ),
        "label-studio-min": "annotation_id" in row and "annotator" in row,
        "prodigy": (
            "_input_hash" in row
            or ("answer" in row and "text" in row)
            or _objects(row.get("spans"))
        ),
        "plain": any(
            row.get(name) not in (None, []) and not _objects(row[name]) for name in _PLAIN
        ),
    }
    found = [name for name, has in signs.items() if has]
    if len(found) > 1:
        raise RowError(
            where,
            f"has columns of the formats {' and '.join(found)}; name the format by row_format=",
        )
    return found[0] if found else "plain"


_PLAIN = (*LABEL_COLUMNS, "summaries", "summary")


def _objects(value: Any) -> bool:
    """Whether a value is a list with objects."""
    return isinstance(value, list) and any(map(_is_object, value))


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


# Each tool: the answers of a row; those that are skipped are counted by the reason.


def _label_studio(record: Record, skipped: Counter[str]) -> Iterator[_Answer]:
    """The answers to a task: each annotation that was not canceled, also if an annotator made
    several."""
    row, where = record.row, record.where
    if not isinstance(row.get("data"), Mapping):
        raise RowError(
            where, "no object 'data'; a task of Label Studio needs 'data' and 'annotations'"
        )
    text = _text(row["data"], "data.", where)
    annotations = check_list(row.get("annotations"), "annotations", where, "annotations")
    if not annotations:
        skipped["without annotation"] += 1
    for number, annotation in enumerate(annotations):
        name = f"annotations[{number}]"
        if not isinstance(annotation, Mapping):
            raise RowError(
                where, f"'{name}' is {type(annotation).__name__}; an object with 'result' is needed"
            )
        if annotation.get("was_cancelled"):
            skipped["canceled"] += 1
            continue
        highlights = []
        for index, result in enumerate(
            check_list(annotation.get("result"), f"{name}.result", where, "results")
        ):
            place = f"{name}.result[{index}]"
            kind = result.get("type") if isinstance(result, Mapping) else None
            if kind in ("hypertextlabels", "paragraphlabels"):
                raise RowError(
                    where,
                    f"'{place}' is of the type {kind!r}; only Labels of a Text tag can be read",
                )
            if kind == "labels":
                highlights.append(_highlight(result.get("value"), f"{place}.value", text, where))
        yield _Answer(record, where, str(number), row["data"], highlights)


def _label_studio_min(record: Record, skipped: Counter[str]) -> Iterator[_Answer]:
    """The single answer of a row: its highlights are in the column with the name of the Labels
    tag."""
    row, where = record.row, record.where
    text = _text(row, "", where)
    # Other columns of the task may have objects as well.
    found = [
        name
        for name, value in row.items()
        if _objects(value) and "start" in next(filter(_is_object, value))
    ]
    highlights = [
        _highlight(s, f"{name}[{i}]", text, where)
        for name in found
        for i, s in enumerate(row[name])
    ]
    story = record.id if row.get("id") is not None else text
    yield _Answer(record, story, _name(row, "annotation_id", where) or where, row, highlights)


def _prodigy(record: Record, skipped: Counter[str]) -> Iterator[_Answer]:
    """The single answer of a row, if it was accepted."""
    row, where = record.row, record.where
    answer = row.get("answer", "accept")
    if answer not in ("accept", "reject", "ignore"):
        raise RowError(
            where, f"'answer' is {shown_value(answer)}; Prodigy has 'accept', 'reject' and 'ignore'"
        )
    if answer != "accept":
        skipped[answer] += 1
        return
    text, spans = _text(row, "", where), row.get("spans")
    if spans is None and ("accept" in row or "options" in row):
        raise RowError(
            where,
            "has options instead of 'spans'; only highlights (spans_manual, ner_manual) can be"
            " read",
        )
    spans = check_list(
        [] if spans is None else spans, "spans", where, "objects with 'start' and 'end'"
    )
    highlights = [_highlight(span, f"spans[{i}]", text, where) for i, span in enumerate(spans)]
    name = _name(row, "_annotator_id", where) or _name(row, "_session_id", where)
    yield _Answer(record, text, name, row, highlights)


_ANSWERS: dict[str, Callable[[Record, Counter[str]], Iterator[_Answer]]] = {
    "label-studio": _label_studio,
    "label-studio-min": _label_studio_min,
    "prodigy": _prodigy,
}


def _text(row: Mapping[str, Any], prefix: str, where: str) -> str:
    text = row.get("text")
    if not isinstance(text, str):
        names = ", ".join(shown_value(name) for name in list(row)[:20])
        raise RowError(
            where,
            f"no text in '{prefix}text'; rename the column that was annotated; found: {names}",
        )
    return text


def _name(row: Mapping[str, Any], column: str, where: str) -> str | None:
    name = row.get(column)
    if name is not None and type(name) not in (int, str):
        raise RowError(
            where, f"'{column}' is {type(name).__name__}; a string or an integer is needed"
        )
    return None if name is None else str(name)


def _highlight(value: Any, name: str, text: str, where: str) -> tuple[Span, list[str]]:
    """A span in the form `{"start": 3, "end": 7, "labels": ["A"]}`, or with a single `label`, with
    its labels."""
    if not isinstance(value, Mapping):
        raise RowError(
            where, f"'{name}' is {type(value).__name__}; an object with 'start' and 'end' is needed"
        )
    labels = value.get("labels")
    if labels is None:
        labels = [] if value.get("label") is None else [value["label"]]
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise RowError(where, f"'{name}' has the labels {shown_value(labels)}; strings are needed")
    edges = value.get("start"), value.get("end")
    if isinstance(value.get("text"), str) and all(
        type(edge) is int and edge >= 0 for edge in edges
    ):
        edges = _checked_by_text(edges, text, value["text"], name, where)
    return check_span(list(edges), name, text, where), labels


def _checked_by_text(edges: Any, text: str, expected: str, name: str, where: str) -> Span:
    """The edges of a span that has the expected text, white space aside, which Label Studio does
    not always keep."""
    start, end = edges
    if _visible(text[start:end]) == _visible(expected):
        return start, end
    # Up to version 1.4, Label Studio counted UTF-16 units, of which an emoji has two.
    units = text.encode("utf-16-le", "surrogatepass")
    start, end = (len(units[: 2 * edge].decode("utf-16-le", "replace")) for edge in edges)
    if _visible(text[start:end]) == _visible(expected):
        return start, end
    found = text[edges[0] : edges[1]]
    problem = (
        f"the span {list(edges)} of 'text' is {found[:60]!r}, but '{name}.text' is"
        f" {expected[:60]!r}"
    )
    raise RowError(where, f"{problem}; give the text that was annotated, unchanged")


def _visible(text: str) -> str:
    for escaped in ("\\n", "\\r", "\\t"):
        text = text.replace(escaped, "")
    return "".join(text.split())


# Answers to the same story become one row.


@dataclass
class _Story:
    """A story with the highlights of each annotator."""

    first: Record
    columns: dict[str, Any]
    spans: dict[str | None, list[Span]] = field(default_factory=dict)


def _merged(
    path: str,
    records: Iterator[Record],
    answers: Callable[[Record, Counter[str]], Iterator[_Answer]],
    span_labels: Sequence[str] | None,
) -> Iterator[Record]:
    stories: dict[str, _Story] = {}
    skipped: Counter[str] = Counter()
    labels: set[str] = set()
    for record in records:
        for answer in answers(record, skipped):
            labels.update(label for _, names in answer.highlights for label in names)
            if span_labels is None and len(labels) > 1:
                problem = (
                    f"spans have the labels {_listed(labels)}; name those that mark salient text"
                )
                raise RowError(
                    record.where, f"{problem}, for example span_labels=[{min(labels)[:60]!r}]"
                )
            _add(stories, answer, span_labels)
    if missing := set(span_labels or ()) - labels:
        raise RowError(
            path,
            f"no span has the label {min(missing)!r}; the labels are {_listed(labels) or 'none'}",
        )
    counts = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
    if not any(spans for story in stories.values() for spans in story.spans.values()):
        detail = f" (skipped: {counts})" if counts else ""
        raise RowError(
            path,
            f"nothing is highlighted{detail}; export a project in which spans of the text are"
            " labelled",
        )
    if counts:
        logger.warning("%s: answers that were skipped: %s", path, counts)
    for story in stories.values():
        yield story.first._replace(row={**story.columns, "spans": list(story.spans.values())})


def _add(stories: dict[str, _Story], answer: _Answer, span_labels: Sequence[str] | None) -> None:
    """Add the answer of an annotator to its story."""
    where = answer.record.where
    columns = {
        name: answer.columns[name]
        for name in ("text", *_KEPT)
        if answer.columns.get(name) is not None
    }
    story = stories.setdefault(answer.story, _Story(answer.record, columns))
    for name in ("text", *_KEPT):
        if columns.get(name) != story.columns.get(name):
            raise RowError(
                where, f"'{name}' differs from that of {story.first.where}, which is the same story"
            )
    spans = [
        span
        for span, labels in answer.highlights
        if span_labels is None or not {*labels}.isdisjoint(span_labels)
    ]
    if answer.annotator in story.spans:
        if answer.annotator is None:
            problem = (
                "is a second answer to the same text, and there are no annotators; name them by"
                " '_annotator_id'"
            )
            raise RowError(where, problem)
        if sorted(spans) != sorted(story.spans[answer.annotator]):
            problem = (
                f"annotator {answer.annotator!r} has highlighted other spans of the same text"
                " further above"
            )
            raise RowError(where, f"{problem}; remove one of the answers")
    story.spans[answer.annotator] = spans


def _listed(labels: set[str]) -> str:
    return ", ".join(repr(label[:60]) for label in sorted(labels)[:10])


def check_row_format(row_format: str) -> None:
    """Raise a ValueError for an unknown format of rows."""
    if row_format not in get_args(RowFormat):
        raise ValueError(
            f"row_format={row_format!r} is unknown; use {', '.join(map(repr, get_args(RowFormat)))}"
        )
