"""Rows that are sentences, grouped into stories and sorted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from narrative_twins.stories.rows import Document, RowColumns, cell_of_story, check_column, kept_of
from narrative_twins.stories.sentences import is_blank
from narrative_twins.stories.story import StoryError, is_table, plain_id, plain_row, simple_name
from narrative_twins.text import shown_value

ORDER_COLUMNS = (
    *("sentenceid", "sentenceindex", "sentenceidx", "sentencenumber", "sentenceno", "sentencenr"),
    *("sentenceposition", "sentenceorder", "sentid", "sentindex", "sentidx", "sentnumber"),
    *("sentno", "lineid", "linenumber", "lineno", "position", "index", "idx"),
)
"""Columns that number the sentences of a story, written as `simple_name` has them."""
MAX_CHARACTERS = 1_000_000_000
"""Characters of the sentences of a file whose rows are grouped, as they are held in memory."""
_FILE_ORDER = "row"
_NUMBER = re.compile(r"(\d+)")


def group_rows(
    rows: Any,
    by: str,
    *,
    order: str | None = None,
    column: str | None = None,
    keep: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Make stories of rows that are sentences, for `score_stories` and the pipeline.

    Args:
        rows: a table of pandas, polars or pyarrow, a data set, or mappings. The rows of a story
            need not be together.
        by: the column that has the same value in all rows of a story, such as `story_id`.
        order: the column by which the sentences of a story are sorted, as numbers or as text;
            default the first of `ORDER_COLUMNS` that the rows have; `"row"` for the order of rows.
        column: the column of the sentences; default `sentence`, `text` or a similar name.
        keep: columns whose values are kept, in a list with one for each sentence.

    Returns:
        A mapping for each story, in order of their first rows: `id`, `sentences`, `rows` (the index
        of the row of each sentence, from 0), and the columns of `keep`.

    Raises:
        StoryError: a row lacks a value, or two rows of a story have the same place. The message
            names the row and the column.

    Example:
        ```python
        from narrative_twins import group_rows

        rows = [
            {"story_id": "a", "sentence_id": 2, "text": "It rained."},
            {"story_id": "a", "sentence_id": 1, "text": "Nadia ran."},
        ]
        (story,) = group_rows(rows, "story_id")
        assert story["sentences"] == ["Nadia ran.", "It rained."]
        ```
    """
    columns = RowColumns(column, keep=tuple(keep), group=by, order=order)
    if is_table(rows):
        rows = rows.to_pylist() if hasattr(rows, "to_pylist") else _records(rows)
    documents = (Document(f"row {at}", plain_row(row), row=at) for at, row in enumerate(rows))
    stories = []
    for document in grouped(documents, columns):
        if document.problem is not None:
            raise StoryError(f"{document.name}: {document.problem}")
        stories.append({**document.content, "rows": list(document.rows), **document.kept})
    return stories


def _records(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table of pandas or polars."""
    if hasattr(table, "to_dicts"):
        return list(table.to_dicts())
    return list(table.to_dict("records"))


def grouped(rows: Iterable[Document], columns: RowColumns, file: str = "") -> Iterator[Document]:
    """Yield the stories that rows make, in order of their first rows, and the problems of rows. All
    rows are held in memory, up to `MAX_CHARACTERS`.

    Args:
        rows: documents whose content is a row; each row is a sentence.
        columns: which columns of the rows are read; `columns.group` is not None.
        file: the name of the file for messages.
    """
    groups: dict[str | int, list[Document]] = {}
    characters = 0
    for document in rows:
        if document.problem is None:
            try:
                key = _key(document.content, str(columns.group))
                sentence = _sentence(document.content, columns)
                kept = kept_of(document.content, columns, document.name)
                place = _place(document.content, columns)
            except ValueError as error:
                document = document._replace(content=None, problem=str(error))
            else:
                characters += len(sentence)
                if characters > MAX_CHARACTERS:
                    problem = f"has more than {MAX_CHARACTERS:,} characters, too many to group"
                    yield Document(file, None, f"{problem}; divide the file", document.row)
                    return
                member = document._replace(content=(sentence, place), kept=kept)
                groups.setdefault(key, []).append(member)
                continue
        yield document
    for key, members in groups.items():
        yield _story_of(key, members, columns, file)


def _story_of(
    key: str | int, members: Sequence[Document], columns: RowColumns, file: str
) -> Document:
    """Return the story of some rows, whose contents are pairs of their sentence, and the column and
    value of their place in the story."""
    numbers = tuple(each.row for each in members)
    name = f"{file}, " * bool(file) + f"story {key!r} (rows {_shown(numbers)})"
    places = [each.content[1] for each in members]
    try:
        order = reading_order(places, [each.name for each in members], columns.order is not None)
    except ValueError as error:
        return Document(name, None, str(error), numbers[0], rows=numbers)
    if places[0] is not None and columns.order is None and order != sorted(order):
        columns.say(
            f"the sentences of a story are sorted by the column {places[0][0]!r}; --order takes"
            f" another, --order {_FILE_ORDER} keeps the order of the file"
        )
    content = {"id": key, "sentences": [members[at].content[0] for at in order]}
    kept = {column: [members[at].kept[column] for at in order] for column in columns.keep}
    rows = tuple(numbers[at] for at in order)
    return Document(name, content, row=numbers[0], rows=rows, kept=kept)


def _key(row: Any, column: str) -> str | int:
    """Return the value of the column by which a row is grouped. Raises a `ValueError` if it is
    missing, or neither text nor a whole number."""
    check_column(column, row if isinstance(row, Mapping) else (), "--group")
    value = plain_id(row[column])
    if value is None or value == "":
        raise ValueError(f"the row has nothing in the column {column!r}; say which story it is of")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"the column {column!r} has {shown_value(value)}, neither text nor number")
    return value


def _sentence(row: Mapping[str, Any], columns: RowColumns) -> str:
    """Return the sentence in a row. Raises a `ValueError` if there is none."""
    sentence = cell_of_story(row, columns)
    if not isinstance(sentence, str):
        kind = type(sentence).__name__
        raise ValueError(f"the sentence is {kind}, not text; each row of a group is a sentence")
    if is_blank(sentence):
        raise ValueError("the sentence is empty or white space; leave the row out")
    return sentence


def order_column(names: Iterable[Any]) -> Any:
    """Return the first of `ORDER_COLUMNS` among the names of columns; None without one."""
    columns = {simple_name(name): name for name in names}
    return next((columns[name] for name in ORDER_COLUMNS if name in columns), None)


def _place(row: Mapping[str, Any], columns: RowColumns) -> tuple[str, Any] | None:
    """Return the column by which the sentences of a story are sorted, with its value in a row; None
    if they are not sorted. Raises a `ValueError` if there is no such column."""
    column = order_column(row) if columns.order is None else columns.order
    if column is None or (column == _FILE_ORDER and column not in row):
        return None
    check_column(column, row, "--order")
    return column, row[column]


def reading_order(
    places: Sequence[tuple[str, Any] | None], names: Sequence[str], is_named: bool = False
) -> list[int]:
    """Return the indices of rows in the order of their values: of numbers, if all are; otherwise of
    texts, in which numbers are compared as such, so that `s2` is before `s10`.

    Args:
        places: for each row the name of the column, and the value; all None if rows are in order.
        names: the places of the rows, for messages.
        is_named: whether the user has named the column. If not, rows stay in order if the values
            do not number them, such as digests, and equal values stay in order.

    Raises:
        ValueError: a value is missing, or the same as another.
    """
    column = next((place[0] for place in places if place), "")
    values = [None if place is None or _is_missing(place[1]) else place[1] for place in places]
    if not any(places) or (not is_named and all(value is None for value in values)):
        return list(range(len(values)))
    if None in values:
        problem = f"{names[values.index(None)]} has nothing in the column {column!r}"
        raise ValueError(f"{problem}, by which the sentences are sorted; number all or none")
    keys, are_numbers = _sort_keys(values)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if not is_named and (not are_numbers or order == sorted(order)):
        return list(range(len(values)))
    for one, other in pairwise(order):
        if keys[one] == keys[other]:
            raise ValueError(
                f"{names[one]} and {names[other]} have the same value, {shown_value(values[one])},"
                f" in the column {column!r}, by which the sentences are sorted; number the"
                " sentences of a story from its beginning to its end"
            )
    return order


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or empty text."""
    return value is None or value != value or str(value).strip() == ""


def _sort_keys(values: Sequence[Any]) -> tuple[list[Any], bool]:
    """Return for each value what it is sorted by, a number, or parts of a text; and whether the
    values differ in their numbers only, such as `s2` and `s10`."""
    try:
        numbers = [Decimal(str(value).strip()) for value in values]
        if all(number.is_finite() for number in numbers):
            return numbers, True
    except InvalidOperation:
        pass
    parts = [_NUMBER.split(str(value).strip()) for value in values]
    keys = [[int(part) if at % 2 else part for at, part in enumerate(each)] for each in parts]
    return keys, len({tuple(each[::2]) for each in parts}) == 1


def _shown(rows: Sequence[int]) -> str:
    """Return numbers of rows as text: `0 to 4` if they follow one another, otherwise `0, 2, 5`."""
    if len(rows) > 2 and rows[-1] - rows[0] == len(rows) - 1:
        return f"{rows[0]} to {rows[-1]}"
    shown = ", ".join(map(str, rows[:10]))
    return shown if len(rows) <= 10 else f"{shown} and {len(rows) - 10} more"
