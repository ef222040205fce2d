"""Tables (CSV): of human labels with one row per sentence, and TRIPOD's of synopses."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias

from narrative_twins.data.rows import RowError

Entry: TypeAlias = tuple[str, str | None, Any]
"""A row of a file: its location, its key or id (None if it has none), and its content."""
Rows: TypeAlias = Iterable[tuple[str, Mapping[str, Any]]]
"""The locations and the cells of rows."""

_LABEL_COLUMNS = ("story_id", "sentence", "label")
_OPTIONAL_COLUMNS = ("annotator", "window", "title")
_SYNOPSIS_SENTENCE = re.compile(r"\[STR_SENT\](.*?)\[END_SENT\]", re.DOTALL)
# Names of actors in round brackets, and footnote marks like "[2]"; words like "[him]" belong to the
# sentence.
_ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\d\]")
_ROUND = re.compile(r"\([^()]*\)")
# Spaces before punctuation, except if a word follows as in ".45".
_LOOSE = re.compile(r"\s+(?=[,.;:!?](?!\w))")


def read_table(path: str, columns: Iterable[str]) -> Callable[[Rows], Iterator[Entry]]:
    """The reader of the rows of a table by its columns; raises RowError if there is none."""
    names = list(filter(None, columns))
    for needed, reader in TABLES.items():
        if set(needed) <= set(names):
            return reader
    tables = "; or ".join(", ".join(needed) for needed in TABLES)
    shown = ", ".join(map(repr, names))[:500]
    raise RowError(path, f"the columns of the table are {shown}; it needs {tables}")


def _read_labels(rows: Rows) -> Iterator[Entry]:
    """The stories of a table with one row a sentence, or one a sentence and annotator, as rows for
    `load_story_salience`: with `annotations` if annotators are named, else with `labels`; sentences
    with the same `window` are a window. The rows of a story follow each other, in story order for
    each annotator; otherwise, or if a cell is invalid, a RowError is raised.
    """
    names = (*_LABEL_COLUMNS, *_OPTIONAL_COLUMNS)
    cells = (
        (where, {name: (row.get(name) or "").strip() for name in names}) for where, row in rows
    )
    seen: set[str] = set()
    for story_id, group in groupby(cells, key=lambda row: row[1]["story_id"]):
        of_story = list(group)
        where = of_story[0][0]
        if story_id in seen:
            fix = "put the rows of a story together, in story order"
            raise RowError(where, f"story {story_id!r} has rows further above; {fix}")
        seen.add(story_id)
        yield where, story_id, _labelled_story(where, story_id, of_story)


def _labelled_story(
    where: str, story_id: str, rows: list[tuple[str, dict[str, str]]]
) -> dict[str, Any]:
    """The rows of a story as one row."""
    by_annotator: dict[str, list[tuple[str, str, float]]] = {}
    for place, row in rows:
        if not all(row[name] for name in _LABEL_COLUMNS):
            raise RowError(place, f"an empty cell; each row needs {', '.join(_LABEL_COLUMNS)}")
        sentence = row["sentence"], row["window"], _number(row["label"], place)
        by_annotator.setdefault(row["annotator"], []).append(sentence)
    first, *others = ([each[:2] for each in sentences] for sentences in by_annotator.values())
    if any(sentences != first for sentences in others):
        problem = f"the annotators of story {story_id!r} have different sentences or windows"
        raise RowError(where, f"{problem}; each needs a row for each sentence, in story order")
    sizes = [(name, len(list(group))) for name, group in groupby(window for _, window in first)]
    names = [name for name, _ in sizes]
    if len(set(names)) < len(names) or ("" in names and len(names) > 1):
        problem = f"the windows of the story are {', '.join(map(repr, names))}"
        fix = "give each row its window, and put the rows of a window together"
        raise RowError(where, f"{problem}; {fix}")
    labels = [[label for _, _, label in sentences] for sentences in by_annotator.values()]
    return {
        "title": rows[0][1]["title"] or None,
        "story": [sentence for sentence, _ in first],
        "windows": None if names == [""] else [size for _, size in sizes],
        **({"labels": labels[0]} if list(by_annotator) == [""] else {"annotations": labels}),
    }


def _number(text: str, where: str) -> float:
    try:
        label = float(text)
    except ValueError:
        label = math.nan
    if not math.isfinite(label):
        problem = f"'label' is {text[:60]!r}; a finite number is needed, such as 1 or 0.25"
        raise RowError(where, problem)
    return label


def _read_synopses(rows: Rows) -> Iterator[Entry]:
    """Read TRIPOD's table of film synopses: rows of cleaned `sentences`, the sentences as
    `released` with the paper, and `turning_points`, counted from 0.

    Sentences that cleaning leaves empty are kept, so that the turning points stay valid. Synopses
    that repeat another one with the labels of another annotator are skipped.
    """
    for where, row in rows:
        name = str(row["movie_name"])
        if not name.endswith(("_1", "_2")):
            sentences = _SYNOPSIS_SENTENCE.findall(row["synopsis_segmented"] or "")
            story = {
                "sentences": list(map(_clean, sentences)),
                "released": [_as_released(text) for text in sentences if text.strip()],
                "turning_points": [row.get(f"tp{number}") for number in range(1, 6)],
            }
            yield where, name, story


def _clean(sentence: str) -> str:
    sentence = _without(_ASIDE, unicodedata.normalize("NFKC", sentence))
    return _LOOSE.sub("", " ".join(sentence.split()))


def _as_released(sentence: str) -> str:
    """A sentence as the code released with the paper cleans it: without text in round brackets,
    also unclosed ones, with single spaces. One that this leaves empty keeps its text, since a
    sentence without text can't be scored."""
    kept = _without(_ROUND, sentence).partition("(")[0].replace(")", "")
    return unicodedata.normalize("NFKC", " ".join((kept if kept.strip() else sentence).split()))


def _without(pattern: re.Pattern[str], text: str) -> str:
    """A text without what the pattern matches, also nested."""
    while (shorter := pattern.sub("", text)) != text:
        text = shorter
    return text


TABLES: dict[tuple[str, ...], Callable[[Rows], Iterator[Entry]]] = {
    _LABEL_COLUMNS: _read_labels,
    ("movie_name", "synopsis_segmented"): _read_synopses,
}
"""The readers of tables, by the columns that each needs."""
