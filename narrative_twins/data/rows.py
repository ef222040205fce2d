"""Rows of data, and what is wrong with one: which file, which row, what, and the cure."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, SupportsIndex

from narrative_twins.stories.story import Story, StoryError

TWINS_COLUMNS = ("story", "twin", "negative", "negative_twin")
"""The columns of a row of narrative twins; all but the story may be missing or None."""

STORY_NAMES = ("story", "english_narrative")
TEXT_COLUMNS = (
    *STORY_NAMES,
    *("twin", "narrative_twin", "translated_narrative_twin"),
    *("negative", "negative_narrative"),
    *("negative_twin", "negative_narrative_twin"),
)
"""All names under which rows of narrative twins have texts, here or as published, and those of the story."""


class RowError(ValueError):
    """What is wrong with a row of data, and the cure.

    Args:
        where: the file, the row (counted from 0), its line and its id, as far as they are known.
        problem: what is wrong, and what to do about it.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


def check_twins_row(row: Mapping[str, Any], where: str) -> None:
    """Refuse a row of narrative twins that can't be trained on.

    The columns are `story` and, where there are any, `twin`, `negative` and `negative_twin`. A column is a list of
    sentences, which is one window, or a list of windows. A list of sentences may instead be cut by a further column,
    named as `twin_windows` is: for each sentence the windows it may belong to, mostly one, none if it is left out.

    Args:
        row: the columns; others than these are not looked at.
        where: what to call the row in an error.

    Raises:
        RowError: a sentence is empty or no text, or the columns do not have the same windows.
    """
    require(row, where, "story")
    count = 0
    for column in TWINS_COLUMNS:
        content, windows_of = row.get(column), row.get(f"{column}_windows")
        if content is None:
            continue
        if is_nested(content):
            if windows_of is not None:
                raise RowError(where, f"'{column}' is a list of windows, so '{column}_windows' is not to be given")
            used = set(range(len(check_windows(content, column, where))))
        else:
            check_sentences(content, column, where)
            last = (len(content) if column == "story" else count) - 1
            used = {0} if windows_of is None else _used(windows_of, f"{column}_windows", len(content), last, where)
        if column == "story":
            count = max(used, default=0) + 1
        if windows_of is None and len(used) != count:
            raise RowError(where, f"'{column}' has {len(used)} window(s) and 'story' {count}; cut both into the same")
        if len(used) < count:
            lone = min(set(range(count)) - used)
            raise RowError(
                where, f"no sentence of '{column}' is in window {lone} of the story; align one, or cut fewer"
            )


def check_texts(row: Mapping[str, Any], where: str) -> list[str]:
    """The columns of a row that hold texts of twins: lists of sentences, lists of windows, or sections by name.

    Raises:
        RowError: one of them is none of these, or there is no story.
    """
    require(row, where, *STORY_NAMES)
    columns = [column for column in TEXT_COLUMNS if row.get(column) is not None]
    for column in columns:
        content = row[column]
        sections = content.items() if isinstance(content, Mapping) else [("", content)]
        for name, section in sections:
            title = f"{column}[{name!r}]" if name else column
            (check_windows if is_nested(section) else check_sentences)(section, title, where)
    return columns


def require(row: Mapping[str, Any], where: str, *names: str) -> Any:
    """The column of a row, under the first of its names that is there.

    Raises:
        RowError: it has none of the names, or is empty there.
    """
    found = find(row, *names)
    if found is None:
        others = f" (or {', '.join(map(repr, names[1:]))})" if names[1:] else ""
        there = ", ".join(repr(name) for name in row if row[name] is not None) or "none"
        raise RowError(where, f"no column {names[0]!r}{others}; the columns with content: {there}")
    return found


def find(row: Mapping[str, Any], *names: str) -> Any:
    """The column of a row, under the first of its names that is there, or None."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def is_nested(content: Any) -> bool:
    """Whether the content of a column is a list of windows."""
    return (
        isinstance(content, (list, tuple)) and bool(content) and all(isinstance(one, (list, tuple)) for one in content)
    )


def check_list(content: Any, column: str, where: str, of: str) -> list[Any]:
    """A list, as a list.

    Raises:
        RowError: it is none; says that a list `of` something is needed.
    """
    if not isinstance(content, (list, tuple)):
        raise RowError(where, f"'{column}' is {type(content).__name__}; a list of {of} is needed")
    return list(content)


def check_sentences(content: Any, column: str, where: str) -> list[str]:
    """A list of sentences, each of them a text that is not empty.

    Raises:
        RowError: it is not that.
    """
    if isinstance(content, str):
        raise RowError(
            where, f"'{column}' is one text; cut it into sentences, perhaps by narrative_twins.split_sentences"
        )
    if is_nested(content):
        raise RowError(where, f"'{column}' is a list of lists; a list of sentences is needed")
    if not check_list(content, column, where, "sentences"):
        raise RowError(where, f"'{column}' is empty; give it at least one sentence, or leave the row out")
    try:
        return list(Story.parse(content, windows=1).sentences)
    except StoryError as error:
        raise RowError(where, f"'{column}': {error.problem}") from None


def check_windows(content: Any, column: str, where: str) -> list[list[str]]:
    """A list of windows, each a list of sentences.

    Raises:
        RowError: it is not that.
    """
    windows = check_list(content, column, where, "windows")
    return [check_sentences(window, f"{column}[{w}]", where) for w, window in enumerate(windows)]


def check_places(places: Any, column: str, where: str, first: int, last: int) -> list[int]:
    """A list of whole numbers from `first` to `last`.

    Raises:
        RowError: it is not that.
    """
    numbers = []
    for place in check_list(places, column, where, "whole numbers"):
        number = None if isinstance(place, bool) or not isinstance(place, SupportsIndex) else operator.index(place)
        if number is None or not first <= number <= last:
            raise RowError(where, f"'{column}' has {place!r}; whole numbers from {first} to {last} are needed")
        numbers.append(number)
    return numbers


def _used(windows_of: Any, column: str, sentences: int, last: int, where: str) -> set[int]:
    """The windows that a column of candidate windows names."""
    if len(check_list(windows_of, column, where, "lists of windows")) != sentences:
        raise RowError(
            where, f"'{column}' has {len(windows_of)} list(s) of windows for {sentences} sentence(s); give each one"
        )
    used = [check_places(one, f"{column}[{i}]", where, 0, last) for i, one in enumerate(windows_of)]
    return {window for one in used for window in one}
