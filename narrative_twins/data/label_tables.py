"""Tables of human labels: one row per sentence, or TRIPOD's table of film synopses."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias

from narrative_twins.data.rows import RowError
from narrative_twins.stories.groups import order_column, reading_order

Entry: TypeAlias = tuple[str, str | None, Any]
"""A row of a file: its location, its key or id (None if it has none), and its content."""
Rows: TypeAlias = Iterable[tuple[str, Mapping[str, Any]]]
"""Rows of a table: the location of each, and its cells by column."""

_LabelRow: TypeAlias = tuple[str, dict[str, str], tuple[str, Any] | None]
"""A row of a table of labels: its location, its cells, and the column and value of its number."""

LABEL_CELLS = ("story_id", "sentence", "label")
_OPTIONAL_COLUMNS = ("annotator", "window", "title")
_SYNOPSIS_SENTENCE = re.compile(r"\[STR_SENT\](.*?)\[END_SENT\]", re.DOTALL)
# Names of actors in round brackets, and footnote marks like "[2]"; words like "[him]" belong to the
# sentence.
_ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\d\]")
_ROUND = re.compile(r"\([^()]*\)")
# Spaces before punctuation, except if a word follows as in ".45".
_LOOSE = re.compile(r"\s+(?=[,.;:!?](?!\w))")


def read_table(path: str, columns: Iterable[str]) -> Callable[[Rows], Iterator[Entry]]:
    """Return the function in `TABLES` that reads a table with these columns. Raise RowError, with
    the `path` of the table, if there is none."""
    names = list(filter(None, columns))
    for needed, reader in TABLES.items():
        if set(needed) <= set(names):
            return reader
    tables = "; or ".join(", ".join(needed) for needed in TABLES)
    shown = ", ".join(map(repr, names))[:500]
    raise RowError(path, f"the columns of the table are {shown}; it needs {tables}")


def read_labels(rows: Rows) -> Iterator[Entry]:
    """Yield one row per story of a table of labels, for `load_story_salience`. The table has a row
    for each sentence (and annotator), in story order, or with a number of each sentence in one of
    `ORDER_COLUMNS`, by which the rows are sorted. The labels become `annotations` if annotators are
    named, else `labels`. Sentences with the same `window` form a window. Raises RowError if a cell
    is invalid, rows without numbers are not together, numbers are missing or occur twice, or the
    annotators of a story have different sentences."""
    stories: dict[str, list[_LabelRow]] = {}
    last = None
    for where, row in rows:
        number = order_column(row)
        names = (*LABEL_CELLS, *_OPTIONAL_COLUMNS)
        cells = {name: _cell(row.get(name)) for name in names}
        story_id = cells["story_id"]
        if story_id in stories and story_id != last and number is None:
            fix = "put the rows of a story together, in story order"
            raise RowError(where, f"story {story_id!r} has rows further above; {fix}")
        place = None if number is None else (number, row[number])
        stories.setdefault(story_id, []).append((where, cells, place))
        last = story_id
    for story_id, of_story in stories.items():
        where = of_story[0][0]
        yield where, story_id, _labelled_story(where, story_id, of_story)


def _labelled_story(where: str, story_id: str, rows: list[_LabelRow]) -> dict[str, Any]:
    """Merge the rows of a story in a table of labels into one row. `where` is the location of the
    first row."""
    rows_of: dict[str, list[_LabelRow]] = {}
    for place, row, _ in rows:
        if not all(row[name] for name in LABEL_CELLS):
            raise RowError(place, f"an empty cell; each row needs {', '.join(LABEL_CELLS)}")
    for each in rows:
        rows_of.setdefault(each[1]["annotator"], []).append(each)
    by_annotator = {
        annotator: [
            ((row["sentence"], row["window"]), _number(row["label"], place))
            for place, row, _ in _in_order(of_one)
        ]
        for annotator, of_one in rows_of.items()
    }
    first, *others = ([each for each, _ in rows] for rows in by_annotator.values())
    if any(sentences != first for sentences in others):
        problem = f"the annotators of story {story_id!r} have different sentences or windows"
        raise RowError(where, f"{problem}; each needs a row for each sentence, in story order")
    sentences, windows = map(list, zip(*first, strict=True))
    labels = [[label for _, label in rows] for rows in by_annotator.values()]
    return {
        "title": rows[0][1]["title"] or None,
        "story": sentences,
        "windows": _sizes_of_windows(windows, where),
        **({"labels": labels[0]} if list(by_annotator) == [""] else {"annotations": labels}),
    }


def _in_order(rows: list[_LabelRow]) -> list[_LabelRow]:
    """Return the rows of a story by one annotator in the order of their numbers."""
    places, _, numbers = zip(*rows, strict=True)
    try:
        return [rows[at] for at in reading_order(numbers, places)]
    except ValueError as error:
        raise RowError(places[0], str(error)) from None


def _sizes_of_windows(windows: Iterable[str], where: str) -> list[int] | None:
    """Return the number of sentences in each window, from the name of the window of each sentence;
    None if no sentence has one. Raise RowError if some have none, or a window is in two parts."""
    names, sizes = zip(*((name, len(list(rows))) for name, rows in groupby(windows)), strict=True)
    if names == ("",):
        return None
    if "" in names or len(set(names)) < len(names):
        problem = f"the windows of the story are {', '.join(map(repr, names))}"
        fix = "give each row its window, and put the rows of a window together"
        raise RowError(where, f"{problem}; {fix}")
    return list(sizes)


def _cell(value: Any) -> str:
    """Return the content of a cell as text; empty for None."""
    return "" if value is None else str(value).strip()


def _number(text: str, where: str) -> float:
    """Return the label in the cell `text`; raise RowError if it is not a finite number."""
    try:
        label = float(text)
    except ValueError:
        label = math.nan
    if not math.isfinite(label):
        problem = f"'label' is {text[:60]!r}; a finite number is needed, such as 1 or 0.25"
        raise RowError(where, problem)
    return label


def _read_synopses(rows: Rows) -> Iterator[Entry]:
    """Yield a row for each film synopsis in TRIPOD's table: its `sentences`, cleaned by `_clean`;
    the sentences cleaned by `as_released` (`released`); and the indices of its `turning_points`.
    Sentences that cleaning leaves empty are kept, so that the indices stay valid. A synopsis that
    repeats another one, with the labels of another annotator, is skipped."""
    for where, row in rows:
        name = str(row["movie_name"])
        if not name.endswith(("_1", "_2")):
            sentences = _SYNOPSIS_SENTENCE.findall(row["synopsis_segmented"] or "")
            story = {
                "sentences": list(map(_clean, sentences)),
                "released": [as_released(text) for text in sentences if text.strip()],
                "turning_points": [row.get(f"tp{number}") for number in range(1, 6)],
            }
            yield where, name, story


def _clean(sentence: str) -> str:
    """Return a sentence of TRIPOD without names of actors, footnote marks and extra white space:
    `"Ann (J. Roe) left [2] ."` → `"Ann left."`."""
    sentence = _without(_ASIDE, unicodedata.normalize("NFKC", sentence))
    return _LOOSE.sub("", " ".join(sentence.split()))


def as_released(sentence: str) -> str:
    """Clean a sentence as the code released with the paper does: remove text in round brackets, or
    after a bracket that is not closed, and extra white space. A sentence that would become empty
    keeps its text."""
    kept = _without(_ROUND, sentence).partition("(")[0].replace(")", "")
    return unicodedata.normalize("NFKC", " ".join((kept if kept.strip() else sentence).split()))


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Remove all matches of `pattern` from `text`, nested matches such as `((a) b)` too."""
    while (shorter := pattern.sub("", text)) != text:
        text = shorter
    return text


TABLES: dict[tuple[str, ...], Callable[[Rows], Iterator[Entry]]] = {
    LABEL_CELLS: read_labels,
    ("movie_name", "synopsis_segmented"): _read_synopses,
}
"""The readers of tables, by the columns that each needs."""
