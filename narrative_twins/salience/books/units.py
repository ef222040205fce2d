"""Units of a book: chapters, their scenes and the sentences of these, as a tree and as plain
data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from narrative_twins.salience.operations import compared_scores
from narrative_twins.salience.saved import saved_scores
from narrative_twins.stories.windows import Span

Level: TypeAlias = Literal["chapter", "scene", "sentence"]

LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True)
class Unit:
    """A chapter, a scene or a sentence of a book.

    Attributes:
        level: which of these it is.
        index: its index among all units of this level in the book, counted from 0.
        span: its characters in the text of the book; those of a chapter begin behind the heading.
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
    chapters, scenes, sentences = list[Unit](), 0, 0
    for number, row in enumerate(rows):
        chapter = chapter_of(row, number, scenes, sentences)
        scenes += len(chapter.children)
        sentences += sum(len(scene.children) for scene in chapter.children)
        chapters.append(chapter)
    found = _saved(scores or {}, len(chapters))
    return tuple(
        replace(chapter, scores=unit_scores(found, i)) for i, chapter in enumerate(chapters)
    )


def chapter_of(data: Mapping[str, Any], number: int, scenes: int, sentences: int) -> Unit:
    """The chapter of `chapter_data`.

    Args:
        data: the data.
        number, scenes, sentences: how many chapters, scenes and sentences come before it.

    Raises:
        ValueError: these are no such data.
    """
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
            windows, paragraphs = (
                tuple(map(_span, scene["windows"])),
                tuple(map(int, scene["paragraphs"])),
            )
            if [i for lo, hi in windows for i in range(lo, min(hi, len(texts) + 1))] != list(
                range(len(texts))
            ):
                raise ValueError("the windows do not partition the sentences")
            own = unit_scores(of_scenes, at)
            found.append(
                Unit(
                    "scene",
                    scenes + at,
                    _span(scene["span"]),
                    "",
                    own,
                    children,
                    windows,
                    paragraphs,
                )
            )
            sentences += len(children)
        heading = "" if data["heading"] is None else _text(data["heading"])
        return Unit("chapter", number, _span(data["span"]), heading, {}, tuple(found))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"chapter {number + 1} is no result of score_book: {what}") from None


def _saved(scores: Mapping[str, Any], count: int) -> dict[str, list[float]]:
    """Saved scores, which are empty for a level that was not scored."""
    return saved_scores({"scores": scores}, count) if scores != {} else {}


def _span(value: Any) -> Span:
    lo, hi = value
    if type(lo) is not int or type(hi) is not int or not 0 <= lo <= hi:
        raise ValueError(f"{value!r:.50} is no span")
    return lo, hi


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is no text")
    return value
