"""Rows with stories: which columns have the story, its name, and what is kept beside the scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from narrative_twins.stories.story import CONTENTS, name_column, simple_name

TEXT_COLUMNS = ("text", "story", "content", "synopsis", "plot", "summary")
"""Columns that are taken for the stories if no other is named, the first that a table has."""
STORY_COLUMNS = frozenset({*CONTENTS, *TEXT_COLUMNS})
"""All columns that are taken for stories."""
_ROC_SENTENCES = tuple(f"sentence{number}" for number in range(1, 6))
"""Columns of ROCStories (Mostafazadeh et al., 2016); the others are `storyid` and `storytitle`."""
WRAPPERS = frozenset({"stories", "texts", "documents", "docs", "data", "rows", "items", "records"})
"""Keys of stories that are texts or lists of sentences, written as `simple_name` has them; a list
of texts under another key is a story."""
_DEPTH = 3
"""How deep in a JSON value lists of stories, and texts, are looked for."""


class Document(NamedTuple):
    """A story in a file, or why it can't be read.

    Attributes:
        name: the place of the story for messages, such as `a.csv, line 3 (row 1)`.
        content: the story in a form for `Story.parse`, or the row that has it.
        problem: the error message; None without an error.
        row: the number of the row in its file, from 0; of several rows, that of the first.
        file: the name of the file; None for standard input.
        rows: for a story of several rows, the number of the row of each sentence.
        kept: the columns that are kept beside the scores.
    """

    name: str
    content: Any
    problem: str | None = None
    row: int = 0
    file: str | None = None
    rows: tuple[int, ...] = ()
    kept: Mapping[str, Any] = {}


def _say_nothing(message: str) -> None:
    """Ignore a message."""


@dataclass(frozen=True)
class RowColumns:
    """Which columns of rows are read, and for what.

    Attributes:
        story: the column of the stories; in JSON a key, or keys in one another as `data.text`. If
            it is `""`, the row itself is the story. None: the row if `Story.parse` accepts it;
            otherwise the five columns of ROCStories, the only column, or the first of
            `TEXT_COLUMNS`.
        id: the column of the ids; None for the first of `NAME_COLUMNS` that has a value.
        keep: columns that are kept beside the scores.
        group: the column whose value the rows of one story share; each row is a sentence. None:
            each row is a story.
        order: the column by which the sentences of a group are sorted; `row` for the order of the
            file; None for the first of `ORDER_COLUMNS` that the rows have.
        say: is called with messages about the columns that were chosen.
    """

    story: str | None = None
    id: str | None = None
    keep: tuple[str, ...] = ()
    group: str | None = None
    order: str | None = None
    say: Callable[[str], None] = _say_nothing

    @property
    def named(self) -> list[tuple[str, str]]:
        """The columns that the user has named, except that of the stories, with their options."""
        order = None if self.order == "row" else self.order
        options = {"--id-column": self.id, "--group": self.group, "--order": order}
        named = [(column, option) for option, column in options.items() if column is not None]
        return named + [(column, "--keep") for column in self.keep]

    def check_table(self, names: Sequence[str]) -> None:
        """Raise a `ValueError` unless a table with columns of these names has each column that is
        read, and has it once."""
        if not names:
            return
        for column, option in self.named:
            check_column(column, names, option)
        used = [column for column, _ in self.named]
        if self.story is not None or not _is_roc(names):
            used.append(story_column(tuple(names), self.story, self.group is not None))
        if twice := next((column for column in used if names.count(column) > 1), None):
            raise ValueError(f"has several columns {twice!r}; rename or remove all but one")


def check_column(column: str, names: Any, option: str) -> None:
    """Raise a `ValueError`, which tells the option, if `column` is not among the `names`."""
    if column not in names:
        shown = ", ".join(map(str, names))[:500] or "no columns"
        raise ValueError(
            f"the row has no column {column!r} (it has {shown}); name one of them with {option}"
        )


def story_in_row(document: Document, columns: RowColumns, is_table: bool = False) -> Document:
    """Return a document whose content is a row, with the story in the row as its content, in a form
    for `Story.parse`; or with the problem of the row. `is_table`: the cells of the row are texts,
    so the row itself is no story."""
    row = document.content
    if document.problem is not None or columns.story == "":
        return document
    try:
        story = _story(row, columns, is_table)
        kept = kept_of(row, columns, document.name)
    except ValueError as error:
        return document._replace(content=None, problem=str(error))
    return document._replace(content=story, kept=kept)


def _story(row: Any, columns: RowColumns, is_table: bool) -> Any:
    """Return the story in a row, see `story_in_row`. Raises a `ValueError` without one."""
    if not isinstance(row, Mapping):
        for column, option in [*filter(None, [_named_story(columns)]), *columns.named]:
            check_column(column, (), option)
        return row
    if columns.id is not None:
        check_column(columns.id, row, "--id-column")
    elif (name := name_column(row)) not in (None, "id"):
        columns.say(f"the stories are named by the column {name!r}; --id-column takes another")
    if columns.story is None and not is_table and not CONTENTS.isdisjoint(row):
        story = dict(row)
        for column in CONTENTS & row.keys():
            _check_content(row, column, row[column])
    elif columns.story is None and _is_roc(row):
        story = _roc_story(row)
    else:
        cell = cell_of_story(row, columns)
        story = {"text" if isinstance(cell, str) else "sentences": cell}
    column = name_column(row) if columns.id is None else columns.id
    if column is not None:
        story["id"] = None if row[column] == "" else row[column]
    return story


def _named_story(columns: RowColumns) -> tuple[str, str] | None:
    """Return the column of the stories with its option, if the user has named one."""
    return None if columns.story is None else (columns.story, "--column")


def cell_of_story(row: Mapping[str, Any], columns: RowColumns) -> Any:
    """Return the value of a row in the column of the stories, or of the sentences if rows are
    grouped into stories. Raises a `ValueError` if there is no such column, or nothing in it."""
    column, content = columns.story, None
    if column is None:
        names = tuple(name for name in row if isinstance(name, str))
        try:
            column = story_column(names, None, columns.group is not None)
        except ValueError as error:
            raise ValueError(f"the row {error}{_texts_to_name(row)}") from None
    if column in row:
        content = row[column]
    else:
        content = _at_keys(row, column)
    if content is None:
        raise ValueError(f"the row has nothing in the column {column!r}")
    _check_content(row, column, content)
    return content


def _check_content(row: Mapping[str, Any], column: str, content: Any) -> None:
    """Raise a `ValueError` if the content of a column is objects, perhaps with texts in them."""
    first = content[0] if isinstance(content, list) and content else content
    if isinstance(first, Mapping):
        kind = "an object" if first is content else "a list of objects"
        if simple_name(column) in WRAPPERS and first is not content:
            fix = "; in a file that ends in .json each is read as a story"
        else:
            fix = _texts_to_name(row)
        raise ValueError(f"the column {column!r} has {kind}, not a story{fix}")


def _texts_to_name(row: Mapping[str, Any]) -> str:
    """Return the end of a message that names texts within a row; empty without any."""
    paths = " or ".join(f"--column {path}" for path in islice(_texts_in(row), 3))
    return paths and f"; texts within it are named by {paths}"


@lru_cache
def story_column(names: tuple[str, ...], asked: str | None, is_grouped: bool) -> str:
    """Return the name of the column that has the stories of a table, or, if its rows are grouped
    into stories, their sentences.

    Args:
        names: the columns of the table.
        asked: the column that the user has named. If None, it is the only column of the table, or
            the first of `TEXT_COLUMNS`; with `is_grouped`, the column `sentence` comes before them.
        is_grouped: whether each row is a sentence. If not, a table with a column `sentence` is
            refused unless the user has named a column, as its rows may be sentences.

    Raises:
        ValueError: there is no such column; the message begins with `has`.
    """
    if asked in names or not names:
        return asked or ""
    problem, hint = f"no column {asked!r}", ""
    if asked is None:
        if len(names) == 1:
            return names[0]
        by_name = {name.strip().lower(): name for name in names}
        if is_grouped or "sentence" not in by_name:
            usual = [name for name in ("sentence", *TEXT_COLUMNS) if name in by_name]
            if usual:
                return by_name[usual[0]]
        else:
            hint = "; if each row is a sentence, --group COLUMN makes stories of rows"
        problem = "no column of stories that is known"
    shown = ", ".join(names[:20])
    raise ValueError(f"has {problem} (its columns: {shown}); name one of them with --column{hint}")


def kept_of(row: Any, columns: RowColumns, place: str) -> dict[str, Any]:
    """Return the columns to keep of a row, as JSON data. A column that it lacks is None, and the
    user is told; `place` is the place of the row."""
    kept: dict[str, Any] = {}
    for column in columns.keep:
        if not isinstance(row, Mapping) or column not in row:
            columns.say(f"{place} has no column {column!r} to keep; it is null there")
            kept[column] = None
            continue
        try:
            kept[column] = _as_json(row[column])
        except RecursionError:
            raise ValueError(f"the column {column!r} is nested too deeply to be kept") from None
    return kept


def _as_json(value: Any) -> Any:
    """Return a value of a row as JSON data: NaN and infinite numbers as None, and what JSON has
    not, such as a date, as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(each) for each in value]
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _is_roc(row: Any) -> bool:
    """Return whether a row, or the names of columns, are of ROCStories."""
    return {"storyid", *_ROC_SENTENCES} <= set(row)


def _roc_story(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `id`, `title` and `sentences` in a row of ROCStories, with single spaces between
    words. An empty id or title becomes None."""
    title, *sentences = (
        " ".join((row.get(name) or "").split()) for name in ("storytitle", *_ROC_SENTENCES)
    )
    return {"id": row["storyid"] or None, "title": title or None, "sentences": sentences}


def _texts_in(row: Any, depth: int = _DEPTH) -> Iterator[str]:
    """Yield the keys of texts within the objects of a row, `data.text` for `{"data": {"text": ...`,
    those of the columns of stories first."""
    row = row[0] if isinstance(row, list) and row else row
    if not isinstance(row, Mapping) or depth == 0:
        return
    for key in sorted(row, key=lambda key: key not in STORY_COLUMNS):
        inside = row[key][0] if isinstance(row[key], list) and row[key] else row[key]
        if isinstance(inside, str) and depth < _DEPTH:
            yield str(key)
        yield from (f"{key}.{path}" for path in _texts_in(inside, depth - 1))


def _at_keys(row: Mapping[str, Any], path: str) -> Any:
    """Return what is at the keys `path`, such as `data.text`, in the objects of a row; of a list of
    objects the texts of all, as paragraphs. Raises a `ValueError` if there are no such keys."""
    content: Any = row
    for key in path.split("."):
        parts = content if isinstance(content, list) else [content]
        if not all(isinstance(part, Mapping) and key in part for part in parts):
            check_column(path, row, "--column")
        values = [part[key] for part in parts]
        is_text = isinstance(content, list) and all(isinstance(value, str) for value in values)
        content = "\n\n".join(values) if is_text else values if parts is content else values[0]
    return content


def has_story(row: Mapping[str, Any], column: str | None) -> bool:
    """Return whether an object has a story of its own in `column`, or without one in a column that
    is known."""
    if column is not None:
        return column.split(".")[0] in row
    names = {name.strip().lower() for name in row if isinstance(name, str)}
    return bool(names & STORY_COLUMNS) or _is_roc(row)


def shown_json(value: Any) -> str:
    """Return a kept value as the text of a cell: texts unchanged, nothing for None, lists and
    objects as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
