"""Tables of human labels, with one row a sentence, or one a sentence and annotator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from narrative_twins.data.rows import RowError

COLUMNS = ("story_id", "sentence", "label")
"""The columns that a table must have; `annotator`, `window` and `title` are optional."""


class _Sentence(NamedTuple):
    """A row of a table, with its location for error messages."""

    where: str
    story_id: str
    sentence: str
    label: float
    annotator: str
    window: str
    title: str


def read_table(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Read the stories of a table.

    Args:
        rows: the rows with their locations for error messages. Those of a story follow each other,
            in story order for each annotator, either annotator by annotator or sentence by
            sentence.

    Yields:
        The location of the first row, the id and the story, as a row for `load_story_salience`:
        with `annotations` if
        annotators are named, else with `labels`; with `windows`, half-open ranges of sentences with
        the same `window`.

    Raises:
        RowError: a cell is invalid, annotators have different sentences, or rows of a story are not
            together.
    """
    seen: set[str] = set()
    for story_id, group in groupby((_sentence(*row) for row in rows), key=lambda row: row.story_id):
        of_story = list(group)
        if story_id in seen:
            problem = (
                f"story {story_id!r} has rows further above; put the rows of a story together, in"
                " story order"
            )
            raise RowError(of_story[0].where, problem)
        seen.add(story_id)
        yield of_story[0].where, story_id, _story(of_story)


def _sentence(where: str, row: Mapping[str, Any]) -> _Sentence:
    cells = {
        name: (row.get(name) or "").strip() for name in (*COLUMNS, "annotator", "window", "title")
    }
    for name in COLUMNS:
        if not cells[name]:
            raise RowError(where, f"'{name}' is empty; each row needs {', '.join(COLUMNS)}")
    try:
        label = float(cells["label"])
    except ValueError:
        label = math.nan
    if not math.isfinite(label):
        raise RowError(
            where,
            f"'label' is {cells['label'][:60]!r}; a finite number is needed, such as 1 or 0.25",
        )
    return _Sentence(
        where, label=label, **{name: text for name, text in cells.items() if name != "label"}
    )


def _story(rows: list[_Sentence]) -> dict[str, Any]:
    """The rows of a story as one row."""
    by_annotator: dict[str, list[_Sentence]] = {}
    for row in rows:
        by_annotator.setdefault(row.annotator, []).append(row)
    first = next(iter(by_annotator.values()))
    if "" in by_annotator and len(by_annotator) > 1:
        raise RowError(
            by_annotator[""][0].where,
            "'annotator' is empty, but not in all rows of the story; fill it in",
        )
    for annotator, own in by_annotator.items():
        for row, expected in zip(own, first, strict=False):
            if (row.sentence, row.window) != (expected.sentence, expected.window):
                problem = (
                    f"annotator {annotator!r} has {row.sentence[:60]!r} in window {row.window!r},"
                    " and "
                )
                problem += (
                    f"{first[0].annotator!r} {expected.sentence[:60]!r} in window"
                    f" {expected.window!r}"
                )
                raise RowError(
                    row.where,
                    f"{problem}; each annotator needs a row for each sentence, in story order",
                )
        if len(own) != len(first):
            problem = (
                f"annotator {annotator!r} has {len(own)} sentence(s), and {first[0].annotator!r}"
                f" {len(first)}"
            )
            raise RowError(
                own[-1].where, f"{problem}; each annotator needs a row for each sentence"
            )
    labels = [[row.label for row in own] for own in by_annotator.values()]
    return {
        "title": first[0].title or None,
        "story": [row.sentence for row in first],
        "windows": _windows(first),
        **({"labels": labels[0]} if "" in by_annotator else {"annotations": labels}),
    }


def _windows(rows: list[_Sentence]) -> list[list[int]] | None:
    """The half-open ranges of sentences with the same window; None if no window is given."""
    if not any(row.window for row in rows):
        return None
    windows: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        if not row.window:
            raise RowError(
                row.where, "'window' is empty, but not in all rows of the story; fill it in"
            )
        window = windows.setdefault(row.window, [index, index])
        if window[1] != index:
            raise RowError(
                row.where,
                f"window {row.window!r} has sentences further above; windows are consecutive",
            )
        window[1] += 1
    return list(windows.values())
