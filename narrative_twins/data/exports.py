"""Highlights exported by annotation tools (Label Studio, Prodigy), converted to rows for
`load_story_salience`. A tool is a record in `TOOLS`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from narrative_twins.data.labels import LABEL_COLUMNS, SUMMARIES, check_span
from narrative_twins.data.records import Record, read_records
from narrative_twins.data.rows import RowError, find_column
from narrative_twins.stories.splitting import Span

logger = logging.getLogger(__name__)

_STORY_COLUMNS = ("text", "title", "sentences", "windows")


@dataclass
class Answer:
    """The highlights of one annotator in a text.

    Attributes:
        story: the key by which answers to the same story are merged.
        annotator: who answered, None if that is not known.
        columns: the columns of the story, one of which is its `text`.
        spans: objects with `start` and `end` in characters, and a `label` or `labels`.
    """

    story: str
    annotator: str | None
    columns: Mapping[str, Any]
    spans: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class AnnotationTool:
    """A tool whose exports can be read.

    Attributes:
        recognizes: whether a row has columns that only this format has.
        answers: the answers in a row; those that are skipped are counted by the reason. Errors of
            any kind mean that the row is not of this format.
    """

    recognizes: Callable[[Mapping[str, Any]], bool]
    answers: Callable[[Record, Counter[str]], Iterator[Answer]]


def salience_records(
    path: str, row_format: str = "auto", span_labels: Sequence[str] | None = None
) -> Iterator[Record]:
    """The rows of a file with human labels, in the forms that `labels.story_salience` reads.

    Rows of annotation tools are converted, and answers to the same story merged, for which the
    whole file is read first. How many answers were skipped, because the annotators rejected,
    ignored or canceled them, is logged.

    Args:
        path: the file.
        row_format: `"plain"` or a name of `TOOLS`; `"auto"` recognizes it by the columns of the
            first row.
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
        yield from _merged(path, records, row_format, span_labels)
    elif span_labels is not None:
        raise RowError(
            path, "span_labels= is for rows of annotation tools, and these are plain; leave it out"
        )
    else:
        yield from records


def check_row_format(row_format: str) -> None:
    """Raise a ValueError for an unknown format of rows."""
    known = ("auto", "plain", *TOOLS)
    if row_format not in known:
        raise ValueError(f"row_format={row_format!r} is unknown; use {', '.join(known)}")


def recognized_format(row: Mapping[str, Any], where: str) -> str:
    """The format of a row by columns that only one of the formats has; RowError for those of
    several formats."""
    found = [name for name, tool in TOOLS.items() if tool.recognizes(row)]
    plain = [row[name] for name in (*LABEL_COLUMNS, *SUMMARIES) if row.get(name) is not None]
    if any(content != [] and not _has_objects(content) for content in plain):
        found.append("plain")
    if len(found) > 1:
        formats = " and ".join(found)
        problem = f"has columns of the formats {formats}; name the format by row_format="
        raise RowError(where, problem)
    return found[0] if found else "plain"


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


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
        results = [result for result in annotation["result"] if result.get("type") == "labels"]
        spans = [result["value"] for result in results]
        yield Answer(record.where, str(number), record.row["data"], spans)


def _label_studio_min(record: Record, skipped: Counter[str]) -> Iterator[Answer]:
    """The single answer of a row: its highlights are in the column with the name of the Labels
    tag."""
    row = record.row
    # Other columns of the task may have objects as well.
    lists = [value for value in row.values() if _has_objects(value) and "start" in value[0]]
    story = record.id if row.get("id") is not None else row["text"]
    yield Answer(story, str(row["annotation_id"]), row, [span for spans in lists for span in spans])


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


def _is_label_studio(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("data"), Mapping) and isinstance(row.get("annotations"), list)


def _is_label_studio_min(row: Mapping[str, Any]) -> bool:
    return "annotation_id" in row and "annotator" in row


def _is_prodigy(row: Mapping[str, Any]) -> bool:
    is_answer = "_input_hash" in row or ("answer" in row and "text" in row)
    return is_answer or _has_objects(row.get("spans"))


TOOLS = {
    "label-studio": AnnotationTool(_is_label_studio, _label_studio),
    "label-studio-min": AnnotationTool(_is_label_studio_min, _label_studio_min),
    "prodigy": AnnotationTool(_is_prodigy, _prodigy),
}
"""The annotation tools by the name of their format: Label Studio's JSON and JSON-MIN, Prodigy's
JSON Lines."""


def _highlight(span: Mapping[str, Any], text: str, where: str) -> tuple[Span, list[str]]:
    """The range of a span with its labels. If the span has a `text`, that must be in its place,
    white space aside, which Label Studio does not always keep."""
    labels = span.get("labels") or [span["label"]] * ("label" in span)
    start, end = check_span([span["start"], span["end"]], "spans", text, where)
    expected = span.get("text")
    if expected is not None and _visible(text[start:end]) != _visible(expected):
        raise RowError(
            where,
            f"the span {[start, end]} of 'text' is {text[start:end][:60]!r}, but its own text is"
            f" {expected[:60]!r}; give the text that was annotated, unchanged",
        )
    return (start, end), list(map(str, labels))


def _visible(text: str) -> str:
    for escaped in ("\\n", "\\r", "\\t"):
        text = text.replace(escaped, "")
    return "".join(text.split())


@dataclass
class _Story:
    """A story with the highlights of each annotator, and the names of their labels."""

    first: Record
    columns: dict[str, Any]
    highlights: dict[str | None, list[tuple[Span, list[str]]]] = field(default_factory=dict)


def _merged(
    path: str, records: Iterable[Record], row_format: str, span_labels: Sequence[str] | None
) -> Iterator[Record]:
    """One row for each story, with the highlights of all annotators."""
    stories: dict[str, _Story] = {}
    skipped: Counter[str] = Counter()
    labels, marks = set[str](), set(span_labels or ())
    for record in records:
        try:
            for answer in TOOLS[row_format].answers(record, skipped):
                labels.update(_add(stories, record, answer))
        except RowError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"is not in the format {row_format} ({type(error).__name__}: {error})"
            hint = "the annotated text must be called 'text'; see row_format="
            raise RowError(record.where, f"{problem}; {hint}") from error
        if span_labels is None and len(labels) > 1:
            raise RowError(
                record.where,
                f"spans have the labels {_listed(labels)}; name those that mark salient text, for"
                f" example span_labels=[{min(labels)[:60]!r}]",
            )
    if missing := marks - labels:
        known = _listed(labels) or "none"
        raise RowError(path, f"no span has the label {min(missing)!r}; the labels are {known}")
    counts = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
    if not any(own for story in stories.values() for own in story.highlights.values()):
        raise RowError(
            path,
            f"nothing is highlighted (skipped: {counts or 'none'}); export a project in which spans"
            " of a text are labelled",
        )
    if counts:
        logger.warning("%s: answers that were skipped: %s", path, counts)
    for story in stories.values():
        spans = [
            [span for span, names in own if span_labels is None or not marks.isdisjoint(names)]
            for own in story.highlights.values()
        ]
        yield story.first._replace(row={**story.columns, "spans": spans})


def _add(stories: dict[str, _Story], record: Record, answer: Answer) -> set[str]:
    """Add the answer of an annotator to its story; returns the names of its labels."""
    given = {name: answer.columns.get(name) for name in _STORY_COLUMNS}
    columns = {name: value for name, value in given.items() if value is not None}
    story = stories.setdefault(answer.story, _Story(record, columns))
    if columns != story.columns:
        problem = f"differs in {', '.join(_STORY_COLUMNS)} from {story.first.where}"
        raise RowError(record.where, f"{problem}, which is the same story")
    found = [_highlight(span, columns["text"], record.where) for span in answer.spans]
    earlier = story.highlights.get(answer.annotator)
    if earlier is not None and (answer.annotator is None or sorted(found) != sorted(earlier)):
        raise RowError(
            record.where,
            f"is a second answer to the same text of annotator {answer.annotator!r}; remove one,"
            " or name the annotators by '_annotator_id'",
        )
    story.highlights[answer.annotator] = found
    return {label for _, names in found for label in names}


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(repr(label[:60]) for label in sorted(labels)[:10])
