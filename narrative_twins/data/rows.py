"""Checks of data rows, with errors that name the file, the row, the problem and the fix."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, SupportsIndex

from narrative_twins.stories.story import Story, StoryError, shown_value

TWINS_COLUMNS = ("story", "twin", "negative", "negative_twin")
"""The columns of a row of narrative twins; all except the story may be missing or None."""

STORY_NAMES = ("story", "english_narrative")
TWIN_NAMES = ("twin", "narrative_twin", "translated_narrative_twin")
NEGATIVE_TWIN_NAMES = ("negative_twin", "negative_narrative_twin")
TEXT_COLUMNS = (*STORY_NAMES, *TWIN_NAMES, "negative", "negative_narrative", *NEGATIVE_TWIN_NAMES)
"""All names of text columns in rows of narrative twins, in this package or as published; first
those of the story."""


class RowError(ValueError):
    """An invalid row of data.

    Args:
        where: the file, the row (counted from 0), its line and its id, as far as they are known.
        problem: what is wrong, and how to fix it.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class ShortWindowError(RowError):
    """A row with too few sentences in a window of the story or the twin."""


def check_twins_row(row: Mapping[str, Any], where: str) -> None:
    """Check that a row of narrative twins can be used for training.

    The columns are `story` and optionally `twin`, `negative` and `negative_twin`; others are
    ignored. A column is a list of sentences, which is one window, or a list of windows. A list of
    sentences may also be split into windows by another column, for example `twin_windows` for
    `twin`: for each sentence a list of the windows that it may belong to, usually one, or none if
    the sentence is left out.

    Args:
        row: the row.
        where: location of the row for error messages.

    Raises:
        RowError: a sentence is empty or not a string, or the columns do not have the same windows.
        ShortWindowError: no sentence of a column is in some window.
    """
    require_column(row, where, "story")
    count = 0  # of the windows of the story
    for column in TWINS_COLUMNS:
        content, windows_of = row.get(column), row.get(f"{column}_windows")
        if content is None:
            continue
        if is_nested(content):
            if windows_of is not None:
                raise RowError(where, f"'{column}' is a list of windows; remove '{column}_windows'")
            used = set(range(len(check_windows(content, column, where))))
        else:
            check_sentences(content, column, where)
            last = (len(content) if column == "story" else count) - 1
            used = (
                {0}
                if windows_of is None
                else _used(windows_of, f"{column}_windows", len(content), last, where)
            )
        if column == "story":
            count = max(used, default=0) + 1
        if windows_of is None and len(used) != count:
            raise RowError(
                where,
                f"'{column}' has {len(used)} window(s) and 'story' {count}; both need the same"
                " number",
            )
        if len(used) < count:
            empty = min(set(range(count)) - used)
            raise ShortWindowError(
                where,
                f"no sentence of '{column}' is in window {empty} of the story; align one or use"
                " fewer windows",
            )


def check_texts(row: Mapping[str, Any], where: str) -> list[str]:
    """Check the text columns of a row of twins (lists of sentences, lists of windows, or named
    sections), and return their names; raises RowError if a column is invalid or the story is
    missing."""
    require_column(row, where, *STORY_NAMES)
    columns = [column for column in TEXT_COLUMNS if row.get(column) is not None]
    for column in columns:
        content = row[column]
        sections = content.items() if isinstance(content, Mapping) else [("", content)]
        for name, section in sections:
            label = f"{column}[{name!r}]" if name else column
            (check_windows if is_nested(section) else check_sentences)(section, label, where)
    return columns


def require_column(row: Mapping[str, Any], where: str, *names: str) -> Any:
    """The first of the named columns that is not missing or None; raises RowError if there is
    none."""
    found = find_column(row, *names)
    if found is None:
        others = f" (or {', '.join(map(repr, names[1:]))})" if names[1:] else ""
        columns = ", ".join(repr(name) for name in row if row[name] is not None) or "none"
        raise RowError(
            where, f"no column {names[0]!r}{others}; the columns with content: {columns}"
        )
    return found


def find_column(row: Mapping[str, Any], *names: str) -> Any:
    """The first of the named columns that is not missing or None, else None."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def is_nested(content: Any) -> bool:
    """Whether the content of a column is a list of lists, such as a list of windows."""
    return (
        isinstance(content, (list, tuple))
        and bool(content)
        and all(isinstance(x, (list, tuple)) for x in content)
    )


def check_list(content: Any, column: str, where: str, of: str) -> list[Any]:
    """Check a list or tuple, and return it as a list; `of` describes its elements in the
    RowError."""
    if not isinstance(content, (list, tuple)):
        raise RowError(where, f"'{column}' is {type(content).__name__}; a list of {of} is needed")
    return list(content)


def check_sentences(content: Any, column: str, where: str) -> list[str]:
    """Check a list of sentences that are not empty; raises RowError."""
    if isinstance(content, str):
        raise RowError(
            where,
            f"'{column}' is one text; split it into sentences (narrative_twins.split_sentences)",
        )
    if is_nested(content):
        raise RowError(where, f"'{column}' is a list of lists; a list of sentences is needed")
    if not check_list(content, column, where, "sentences"):
        raise RowError(
            where, f"'{column}' is empty; give it at least one sentence, or remove the row"
        )
    try:
        return list(Story.parse(content, windows=1).sentences)
    except StoryError as error:
        raise RowError(where, f"'{column}': {error.problem}") from None


def check_windows(content: Any, column: str, where: str) -> list[list[str]]:
    """Check a list of windows, each a list of sentences; raises RowError."""
    windows = check_list(content, column, where, "windows")
    return [check_sentences(window, f"{column}[{w}]", where) for w, window in enumerate(windows)]


def check_integers(values: Any, column: str, where: str, first: int, last: int) -> list[int]:
    """Check a list of integers from `first` to `last`; raises RowError."""
    numbers = []
    for value in check_list(values, column, where, "whole numbers"):
        number = (
            None
            if isinstance(value, bool) or not isinstance(value, SupportsIndex)
            else operator.index(value)
        )
        if number is None or not first <= number <= last:
            problem = (
                f"'{column}' has {shown_value(value)}; whole numbers from {first} to {last} are"
                " needed"
            )
            raise RowError(where, problem)
        numbers.append(number)
    return numbers


def check_numbers(values: Any, column: str, where: str, count: int) -> list[float]:
    """Check a list of `count` numbers that are finite, one for each sentence; raises RowError."""
    values = check_list(values, column, where, "numbers")
    if len(values) != count:
        raise RowError(
            where,
            f"'{column}' has {len(values)} number(s) for {count} sentence(s); give each"
            " sentence one",
        )
    numbers = []
    for index, value in enumerate(values):
        try:
            number = float(value) if isinstance(value, (int, float)) else math.nan
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            problem = (
                f"'{column}' has {shown_value(value)} for sentence {index}; a finite number is"
                " needed"
            )
            raise RowError(where, problem)
        numbers.append(number)
    return numbers


def to_integers(values: Any) -> Any:
    """A list with strings of digits converted to integers; everything else is returned
    unchanged."""
    if not isinstance(values, (list, tuple)):
        return values
    # Python refuses to convert thousands of digits.
    is_number = [
        isinstance(value, str) and value.isdecimal() and len(value) < 20 for value in values
    ]
    return [
        int(value) if digits else value for value, digits in zip(values, is_number, strict=True)
    ]


def _used(windows_of: Any, column: str, sentences: int, last: int, where: str) -> set[int]:
    """The set of all windows in a column of candidate windows, such as `twin_windows`."""
    if len(check_list(windows_of, column, where, "lists of windows")) != sentences:
        raise RowError(
            where,
            f"'{column}' has {len(windows_of)} list(s) of windows for {sentences} sentence(s); each"
            " needs one",
        )
    used = [
        check_integers(windows, f"{column}[{i}]", where, 0, last)
        for i, windows in enumerate(windows_of)
    ]
    return {window for windows in used for window in windows}
