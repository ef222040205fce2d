"""Rows with stories within a JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from narrative_twins.stories.rows import WRAPPERS, has_story
from narrative_twins.stories.story import simple_name

Places: TypeAlias = list[tuple[str, Any]]
"""Rows, each after its place in the document, such as `item 3`."""

_DEPTH = 3
"""How deep in a document stories are looked for."""


def rows_in_json(
    value: Any, column: str | None, say: Callable[[str], None]
) -> Iterator[tuple[str, Any]]:
    """Yield the rows in a JSON document, each after its place in the document.

    A list has a row in each item. An object with a story is a row. Otherwise its rows are in the
    only list of objects within it (or texts, see `WRAPPERS`), in several lists if nothing else is
    in it, or in the objects within it by their ids.

    Args:
        value: the document.
        column: the column of the stories, see `RowColumns`; if it is `""`, the object is a row.
        say: is called with a message that names the keys of the rows.

    Raises:
        ValueError: other values and several lists of objects are within the object.
    """
    if isinstance(value, list):
        yield from ((f"item {at}", item) for at, item in enumerate(value))
        return
    if not isinstance(value, Mapping) or column == "" or has_story(value, column):
        yield "", value
        return
    places = _by_id("", value, column)
    if places is None:
        lists = dict(_lists_in(value, column))
        paths = ", ".join(map(repr, lists))
        if len(lists) > 1 and len(lists) < len(value):  # not splits such as `train` and `test`
            fix = f"leave one in the file, perhaps with `jq .{next(iter(lists))}`"
            raise ValueError(f"has several lists of objects, under the keys {paths}; {fix}")
        if lists:
            say(f"the stories are read from the JSON under {paths}")
        places = [place for rows in lists.values() for place in rows]
    yield from places or [("", value)]


def _lists_in(
    value: Mapping[str, Any], column: str | None, depth: int = _DEPTH
) -> Iterator[tuple[str, Places]]:
    """Yield the rows in the lists within an object, with the keys of each list, `a.b`."""
    for key, inside in value.items():
        is_wrapper = simple_name(key) in WRAPPERS
        if isinstance(inside, list) and inside:
            kinds: Any = (Mapping, str, list) if is_wrapper else Mapping
            if all(isinstance(row, kinds) for row in inside):
                yield key, [(f"{key}, item {at}", row) for at, row in enumerate(inside)]
        elif isinstance(inside, Mapping) and depth > 1:
            if (places := _by_id(f"{key}, ", inside, column, is_wrapper)) is not None:
                yield key, places
            else:
                within = _lists_in(inside, column, depth - 1)
                yield from (
                    (f"{key}.{path}", [(f"{key}.{place}", row) for place, row in rows])
                    for path, rows in within
                )


def _by_id(
    place: str, value: Mapping[str, Any], column: str | None, may_be_texts: bool = False
) -> Places | None:
    """Return the rows in an object that has a story under each key, the id; None for another."""
    rows = [
        {"id": key, "text": row} if may_be_texts and isinstance(row, str) else row
        for key, row in value.items()
    ]
    if not rows or not all(isinstance(row, Mapping) and has_story(row, column) for row in rows):
        return None
    return [
        (f"{place}key {key!r}", {"id": key, **row}) for key, row in zip(value, rows, strict=True)
    ]
