"""Highlighted characters of a text, in the forms of annotation tools: Label Studio, doccano,
Prodigy, brat and others."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple

from narrative_twins.data.rows import RowError, check_list
from narrative_twins.stories.sentences import Span
from narrative_twins.text import shortened, shown_value

logger = logging.getLogger(__name__)

HIGHLIGHTS = ("spans", "highlights", "entities")
"""Columns with highlights."""
_DOCCANO = ("label", "labels")
"""Columns with highlights in doccano; elsewhere they have other labels."""
_KEYS = (
    ("start", "start_offset", "startOffset", "begin"),
    ("end", "end_offset", "endOffset", "stop"),
    ("label", "labels", "type", "category"),
    ("text", "quote", "coveredText"),
)
"""The keys of a span that is an object: of its start, end, label and text."""
_FORMS = "[start, end], [start, end, label, text], or an object with start, end, label and text"


class Highlight(NamedTuple):
    """A highlight as a tool wrote it. `name` is its place in the row, and `source` its form there;
    the offsets count from 0; `text` is what was highlighted, None if the tool does not say it."""

    name: str
    source: Any
    start: Any
    end: Any
    label: Any = None
    text: Any = None

    @property
    def is_said(self) -> bool:
        """Whether the tool says what was highlighted."""
        return isinstance(self.text, str) and not self.text.isspace() and self.text != ""


def highlight_column(row: Mapping[str, Any]) -> str | None:
    """Return the column of a row that has highlights; None without one. A column that may have
    numbers as well has highlights if each item is an object or has a label, in a row with a text
    and no sentences."""
    if (column := next((name for name in HIGHLIGHTS if row.get(name) is not None), None)) is None:
        is_text = isinstance(row.get("text"), str) and not {"story", "sentences"} & row.keys()
        for name in _DOCCANO:
            spans = row.get(name)
            if is_text and isinstance(spans, list) and all(map(_has_label, spans)):
                return name
    return column


def row_of_tool(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return a task of Label Studio as a row with `text` and `spans`, a list of those in each
    annotation that was not cancelled. Any other row is returned unchanged, but for an answer that
    was not accepted in Prodigy, which raises a RowError."""
    if row.get("answer") in ("reject", "ignore"):
        problem = f"was answered {row['answer']!r} in Prodigy; keep the rows with 'accept'"
        raise RowError(where, problem)
    data, answers = row.get("data"), row.get("annotations")
    if not isinstance(data, Mapping) or not isinstance(answers, list):
        return row
    if not all(isinstance(each, Mapping) and "result" in each for each in answers):
        return row
    texts = [value for value in data.values() if isinstance(value, str)]
    spans = [
        [one for one in each["result"] if isinstance(one, Mapping) and "value" in one]
        for each in answers
        if not each.get("was_cancelled")
    ]
    # Without the name of the tag of the text, the longest is the text.
    text = data.get("text", max(texts, key=len, default=None))
    return {"title": data.get("title"), "text": text, "spans": spans}


def highlighted(content: Any, column: str, text: str, where: str) -> list[list[Span]]:
    """Return for each annotator the ranges of characters of a text that are highlighted.

    Offsets count characters (code points). If highlights come with their text, it shows whether
    they count UTF-16 units instead, of which an emoji has two, as tools in JavaScript do, or bytes.
    Without it the user is warned if the text has such characters.

    Args:
        content: of the column: spans, or for each annotator a list of spans, see `_FORMS`.
        column: the name of the column, for messages.
        text: the text that was annotated.
        where: the location of the row, for errors.

    Raises:
        RowError: a span is not a range of the text, or has another text than its range.
    """
    spans = check_list(content, column, where, "[start, end] ranges of characters")
    # An annotator of several may have highlighted nothing.
    is_of_several = bool(spans) and all(map(_is_spans, spans))
    lists = [
        [_highlight(span, f"{column}[{number}]", where) for number, span in enumerate(each)]
        for each in (spans if is_of_several else [spans])
    ]
    every = list(chain(*lists))
    labels = sorted({str(each.label) for each in every if each.label})
    if len(labels) > 1:
        _warn(
            f"highlights have the labels {', '.join(labels)[:200]}; all are read alike, so leave"
            " out those that do not mark salient text"
        )
    ranges = _in_characters(every, text, where)
    return [[ranges.pop(0) for _ in each] for each in lists]


def _has_label(span: Any) -> bool:
    """Return whether a value is a span of doccano: an object, or a list with a label."""
    is_list = isinstance(span, (list, tuple)) and len(span) >= 3 and isinstance(span[2], str)
    return is_list or (isinstance(span, Mapping) and _value(span, 0) is not None)


def _is_spans(spans: Any) -> bool:
    """Return whether a value is a list of lists or objects, so that it is a list of spans."""
    is_list = isinstance(spans, (list, tuple))
    return is_list and all(isinstance(span, (list, tuple, Mapping)) for span in spans)


def _value(span: Mapping[str, Any], part: int) -> Any:
    """Return the start, end, label or text of a span that is an object, by its index in `_KEYS`;
    None without one. The keys may be in an object `value`, as in Label Studio."""
    inside = span["value"] if isinstance(span.get("value"), Mapping) else span
    return next((inside[key] for key in _KEYS[part] if inside.get(key) is not None), None)


def _highlight(span: Any, name: str, where: str) -> Highlight:
    """Return a span in any form as a highlight. Raises a RowError for another form, or if its edges
    are not whole numbers in order."""
    parts: list[Any] = []
    if isinstance(span, Mapping):
        parts = [_value(span, part) for part in range(len(_KEYS))]
    elif isinstance(span, (list, tuple)) and 2 <= len(span) <= len(_KEYS):
        parts = list(span)
    is_range = len(parts) >= 2 and all(type(edge) is int for edge in parts[:2])
    if not is_range or not 0 <= parts[0] < parts[1]:
        problem = f"'{name}' = {shown_value(span)} is not a range [start, end) of characters"
        raise RowError(where, f"{problem} of 'text', counted from 0; a span is {_FORMS}")
    return Highlight(name, span, *parts)


def _in_characters(highlights: Sequence[Highlight], text: str, where: str) -> list[Span]:
    """Return the ranges of characters of some highlights of a text, in the unit that fits their
    texts. Raises a RowError if none does, or a highlight is not within the text."""
    is_said = any(each.is_said for each in highlights)
    is_wide = any(char > "\uffff" for char in text)
    for edges in _units(text) if is_said else [range(len(text) + 1)]:
        index = {offset: at for at, offset in enumerate(edges)}
        spans = [(index.get(each.start, -1), index.get(each.end, -1)) for each in highlights]
        if all(map(_fits, highlights, spans, repeat(text))):
            break
    else:
        wrong = next(each for each in highlights if not _fits(each, each[2:4], text))
        problem = f"'{wrong.name}' is of the text {shortened(wrong.text, 60)!r}, but its range has"
        fix = "give the text that was annotated, unchanged"
        in_range = shortened(text[wrong.start : wrong.end], 60)
        raise RowError(where, f"{problem} {in_range!r}; {fix}")
    for each, span in zip(highlights, spans, strict=True):
        if min(span) < 0:
            problem = f"'{each.name}' = {shown_value(each.source)} is not a range [start, end) of"
            fix = "give the text that was annotated, unchanged"
            fix += ", and each span its text, so that UTF-16 units are noticed" * is_wide
            raise RowError(
                where, f"{problem} the {len(text)} characters of 'text', counted from 0; {fix}"
            )
    if is_wide and highlights and not is_said:
        _warn(
            "a text with emoji or other characters beyond U+FFFF has highlights without their text;"
            " they are counted in characters, which is wrong for tools in JavaScript (UTF-16); give"
            " each its text, as [start, end, label, text], so that this is noticed"
        )
    return spans


def _fits(highlight: Highlight, span: Span, text: str) -> bool:
    """Return whether the text in a range is the text of a highlight, if that is said."""
    is_in_text = 0 <= span[0] <= span[1] <= len(text)
    in_range = _words(text[slice(*span)]) if is_in_text else None
    return not highlight.is_said or in_range == _words(highlight.text)


def _units(text: str) -> Iterator[Sequence[int]]:
    """Yield the offsets of the characters of a text, and of its end, counted in characters, in
    UTF-16 units and in bytes of UTF-8."""
    yield range(len(text) + 1)
    for encoding, size in (("utf-16-le", 2), ("utf-8", 1)):
        sizes = (len(char.encode(encoding, "surrogatepass")) // size for char in text)
        yield list(accumulate(sizes, initial=0))


def _words(text: str) -> str:
    r"""Return a text without white space, of which tools change some; Label Studio writes a line
    break as `\n`."""
    return "".join(text.replace("\\n", " ").split())


@cache
def _warn(message: str) -> None:
    """Log a warning once."""
    logger.warning("%s", message)
