"""Results of books as lines of JSON, one per chapter as soon as it is scored and a last one for the
book, so that an interrupted run can be continued; and such files read again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.books.units import ScoredChapter, chapter_data, chapter_of

_VECTOR = "sum of states"


def chapter_line(chapter: ScoredChapter) -> str:
    """A chapter as a line: `chapter_data`, and the sum of its token states, from which the scores
    of chapters are computed when all are done."""
    return _line(chapter_data(chapter.unit) | {_VECTOR: chapter.vector.tolist()})


def book_line(result: BookSalience) -> str:
    """The last line: what is known when all chapters are scored."""
    return _line(result.book_data())


def scored_chapters(lines: Iterable[str]) -> list[ScoredChapter]:
    """The chapters of some lines, in order; a last line for the book is left out. Raises
    `ValueError` for others."""
    found: list[ScoredChapter] = []
    scenes = sentences = 0
    for number, line in enumerate(lines):
        data = json.loads(line)
        if _is_book(data):
            break
        unit = chapter_of(data, number, scenes, sentences)
        vector = np.asarray(data.get(_VECTOR, ()), np.float64)
        if vector.ndim != 1 or not np.isfinite(vector).all():
            raise ValueError(f"the {_VECTOR!r} of chapter {number + 1} is no list of numbers")
        found.append(ScoredChapter(unit, vector))
        scenes += len(unit.children)
        sentences += sum(len(scene.children) for scene in unit.children)
    return found


def is_complete(lines: list[str]) -> bool:
    """Whether the lines end with that of the book."""
    return bool(lines) and _is_book(json.loads(lines[-1]))


def read_book_salience(path: str | os.PathLike[str]) -> BookSalience:
    """Read the saved salience of a book.

    Args:
        path: a file that `narrative-twins score --level` wrote as JSON or JSON Lines, or
            `BookSalience.to_dict` as JSON.

    Raises:
        ValueError: the file has no such result, or it is not complete.
        OSError: the file can't be read.
    """
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file if line.strip()]
        if len(rows) == 1 and "chapters" in rows[0]:
            return BookSalience.from_dict(rows[0])
        if not rows or not _is_book(rows[-1]):
            raise ValueError(
                "the result of the book is not complete; continue the run with --resume"
            )
        return BookSalience.from_dict(rows[-1] | {"chapters": rows[:-1]})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None


def is_book_salience(path: str | os.PathLike[str]) -> bool:
    """Whether a file has the saved salience of a book, by the keys of its first line; False if it
    can't be read."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.loads(next((line for line in file if line.strip()), ""))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, Mapping) and ("chapters" in data or "scenes" in data)


def _is_book(data: Any) -> bool:
    return isinstance(data, Mapping) and "levels" in data


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False) + "\n"
