"""Units of a book: chapters, their scenes and the sentences of these, as a tree, as plain data, and
as lines of JSON, one per chapter, by which an interrupted run is resumed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from narrative_twins.salience.operations import compared_scores
from narrative_twins.salience.result import saved_scores
from narrative_twins.stories.splitting import Span

Level: TypeAlias = Literal["chapter", "scene", "sentence"]

LEVELS: tuple[Level, ...] = get_args(Level)

_VECTOR = "sum of states"
"""The key of the vector of a chapter in its line."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A chapter, a scene or a sentence of a book.

    Attributes:
        level: which of these it is.
        index: its index among all units of this level in the book, counted from 0.
        span: its characters in the text of the book; those of a chapter begin after the heading.
        text: the text of a sentence; the heading of a chapter on one line; empty without one, and
            for scenes.
        scores: by operation; of a chapter within the book, of a scene within its chapter, of a
            sentence within its window. Empty if the level was not scored.
        children: the scenes of a chapter, the sentences of a scene; no sentences if they were not
            scored.
        windows: of a scene the windows of its sentences, as half-open ranges of indices of
            `children`.
        paragraphs: of a scene the indices of `children` that begin a paragraph.
    """

    level: Level
    index: int
    span: Span
    text: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    children: tuple[Unit, ...] = field(default=(), repr=False)
    windows: tuple[Span, ...] = field(default=(), repr=False)
    paragraphs: tuple[int, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The heading of a chapter or the text of a sentence; otherwise the level and the number,
        as `scene 3`."""
        return self.text or f"{self.level} {self.index + 1}"


class ScoredChapter(NamedTuple):
    """A chapter whose parts are scored.

    Attributes:
        unit: the chapter, without its own scores, which need all chapters.
        vector: the sum of its token states; empty if no level above sentences is scored.
    """

    unit: Unit
    vector: NDArray[np.float64]


def scores_of(units: Sequence[Unit]) -> dict[str, list[float]]:
    """The scores of units of one level by operation, in their order."""
    return {
        name: [unit.scores[name] for unit in units] for name in (units[0].scores if units else ())
    }


def compared(
    units: Sequence[Unit], operation: str, windows: Sequence[Span] | None = None
) -> list[float]:
    """The scores of units of one level as ranks, bars and shades compare them, see
    `compared_scores`; `windows` are ranges of these units that were each scored by itself, None if
    all were scored together."""
    return compared_scores(
        operation, [unit.scores[operation] for unit in units], windows or [(0, len(units))]
    )


def sentences_of(scenes: Iterable[Unit]) -> tuple[list[Unit], list[Span]]:
    """The sentences of some scenes, and their windows as ranges of these sentences."""
    sentences, windows = list[Unit](), list[Span]()
    for scene in scenes:
        windows += [(len(sentences) + lo, len(sentences) + hi) for lo, hi in scene.windows]
        sentences += scene.children
    return sentences, windows


def unit_scores(scores: Mapping[str, Sequence[float]], index: int) -> dict[str, float]:
    """The scores of one of several units, the inverse of `scores_of`."""
    return {name: values[index] for name, values in scores.items()}


def chapter_data(chapter: Unit) -> dict[str, Any]:
    """A chapter without its own scores as plain data, for JSON."""
    scenes = [
        {
            "span": list(scene.span),
            "sentences": [sentence.text for sentence in scene.children],
            "spans": [list(sentence.span) for sentence in scene.children],
            "windows": [list(window) for window in scene.windows],
            "paragraphs": list(scene.paragraphs),
            "scores": scores_of(scene.children),
        }
        for scene in chapter.children
    ]
    return {
        "heading": chapter.text or None,
        "span": list(chapter.span),
        "scenes": scenes,
        "scores of scenes": scores_of(chapter.children),
    }


def chapters_of(
    rows: Sequence[Mapping[str, Any]], scores: Mapping[str, Any] | None
) -> tuple[Unit, ...]:
    """The chapters of a book from the `chapter_data` of each and from their scores; a `ValueError`
    if they are not such data."""
    chapters = list(_chapters(rows))
    found = _saved(scores or {}, len(chapters))
    return tuple(
        replace(chapter, scores=unit_scores(found, i)) for i, chapter in enumerate(chapters)
    )


def chapter_line(chapter: ScoredChapter) -> str:
    """A chapter as a line: `chapter_data`, and the sum of its token states, from which the scores
    of chapters are computed when all are done."""
    return json_line(chapter_data(chapter.unit) | {_VECTOR: chapter.vector.tolist()})


def json_line(data: Mapping[str, Any]) -> str:
    """Plain data as a line."""
    return json.dumps(data, ensure_ascii=False) + "\n"


def scored_chapters(lines: Iterable[str]) -> list[ScoredChapter]:
    """The chapters of the lines of a run, in order; a last line for the book is left out. Raises
    `ValueError` for other lines."""
    rows = [row for row in map(json.loads, lines) if not is_book_row(row)]
    found = []
    for number, (row, unit) in enumerate(zip(rows, _chapters(rows), strict=True), start=1):
        vector = np.asarray(row.get(_VECTOR, ()), np.float64)
        if vector.ndim != 1 or not np.isfinite(vector).all():
            raise ValueError(f"the {_VECTOR!r} of chapter {number} is no list of numbers")
        found.append(ScoredChapter(unit, vector))
    return found


def is_complete(lines: Sequence[str]) -> bool:
    """Whether the lines of a run end with that of the book."""
    return bool(lines) and is_book_row(json.loads(lines[-1]))


def is_book_row(data: Any) -> bool:
    """Whether plain data are about the book as a whole."""
    return isinstance(data, Mapping) and "levels" in data


def _chapters(rows: Iterable[Mapping[str, Any]]) -> Iterator[Unit]:
    """The chapters of the `chapter_data` of each; raises `ValueError` for other data."""
    scenes = sentences = 0
    for number, row in enumerate(rows):
        chapter = _chapter_of(row, number, scenes, sentences)
        yield chapter
        scenes += len(chapter.children)
        sentences += sum(len(scene.children) for scene in chapter.children)


def _chapter_of(data: Mapping[str, Any], number: int, scenes: int, sentences: int) -> Unit:
    """The chapter of `chapter_data`, with the numbers of chapters, scenes and sentences that come
    before it."""
    try:
        found: list[Unit] = []
        of_scenes = _saved(data["scores of scenes"], len(data["scenes"]))
        for at, scene in enumerate(data["scenes"]):
            texts, spans = scene["sentences"], scene["spans"]
            scores = _saved(scene["scores"], len(texts))
            children = tuple(
                Unit("sentence", sentences + i, _span(span), _text(text), unit_scores(scores, i))
                for i, (text, span) in enumerate(zip(texts, spans, strict=True))
            )
            windows = tuple(map(_span, scene["windows"]))
            in_windows = [i for lo, hi in windows for i in range(lo, min(hi, len(texts) + 1))]
            if in_windows != list(range(len(texts))):
                raise ValueError("the windows do not partition the sentences")
            unit = Unit(
                "scene",
                scenes + at,
                _span(scene["span"]),
                scores=unit_scores(of_scenes, at),
                children=children,
                windows=windows,
                paragraphs=tuple(map(int, scene["paragraphs"])),
            )
            found.append(unit)
            sentences += len(children)
        heading = "" if data["heading"] is None else _text(data["heading"])
        span = _span(data["span"])
        return Unit("chapter", number, span, heading, children=tuple(found))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"chapter {number + 1} is no result of score_book: {what}") from None


def _saved(scores: Mapping[str, Any], count: int) -> dict[str, list[float]]:
    """Saved scores, which are empty for a level that was not scored."""
    return saved_scores(scores, count) if scores != {} else {}


def _span(value: Any) -> Span:
    lo, hi = value
    if type(lo) is not int or type(hi) is not int or not 0 <= lo <= hi:
        raise ValueError(f"{value!r:.50} is no span")
    return lo, hi


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is no text")
    return value
