"""Units of a book: chapters, their scenes and the sentences of these, as a tree; and the rows of
plain data, one per chapter, from which it is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeAlias, get_args

from narrative_twins.salience.result import Scored, saved_scores
from narrative_twins.stories.sentences import Span

Level: TypeAlias = Literal["chapter", "scene", "sentence"]

LEVELS: tuple[Level, ...] = get_args(Level)

Row: TypeAlias = dict[str, Any]
"""A chapter as plain data, for JSON: its heading, span and scenes, with the scores of these and of
their sentences, but without its own, which need all chapters."""


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


class UnitScores(Scored):
    """The scores of some units of one level, in order.

    Args:
        units: the units.
        windows: ranges of them, each of which was scored by itself; by default all together.
    """

    def __init__(self, units: Iterable[Unit], windows: Sequence[Span] | None = None) -> None:
        self.units = list(units)
        self.windows = windows or [(0, len(self.units))]
        self.scores = {
            name: [unit.scores[name] for unit in self.units]
            for name in (self.units[0].scores if self.units else ())
        }

    @classmethod
    def of_children(cls, parents: Iterable[Unit]) -> UnitScores:
        """The scores of the scenes of chapters, or of the sentences of scenes."""
        units: list[Unit] = []
        windows: list[Span] = []
        for parent in parents:
            own = parent.windows or [(0, len(parent.children))]
            windows += [(len(units) + lo, len(units) + hi) for lo, hi in own]
            units += parent.children
        return cls(units, windows)


def row_of(chapter: Unit) -> Row:
    """A chapter as plain data, without its own scores."""
    scenes = [
        {
            "span": list(scene.span),
            "sentences": [sentence.text for sentence in scene.children],
            "spans": [list(sentence.span) for sentence in scene.children],
            "windows": [list(window) for window in scene.windows],
            "paragraphs": list(scene.paragraphs),
            "scores": UnitScores(scene.children).scores,
        }
        for scene in chapter.children
    ]
    return {
        "heading": chapter.text or None,
        "span": list(chapter.span),
        "scenes": scenes,
        "scores of scenes": UnitScores(chapter.children).scores,
    }


def chapters_of(rows: Sequence[Row], scores: Mapping[str, Any]) -> tuple[Unit, ...]:
    """The chapters of a book from their rows and scores; a `ValueError` if these are no such
    data."""
    own = list(_of_each(scores, len(rows)))
    scene_numbers, sentence_numbers = count(), count()

    def scene_of(scene: Row, its_scores: Mapping[str, float]) -> Unit:
        texts, windows = scene["sentences"], tuple(map(_span, scene["windows"]))
        if [i for lo, hi in windows for i in range(lo, hi)] != list(range(len(texts))):
            raise ValueError("the windows do not partition the sentences")
        children = tuple(
            Unit("sentence", next(sentence_numbers), _span(span), text, found)
            for text, span, found in zip(
                texts, scene["spans"], _of_each(scene["scores"], len(texts)), strict=True
            )
        )
        span, starts = _span(scene["span"]), tuple(scene["paragraphs"])
        return Unit("scene", next(scene_numbers), span, "", its_scores, children, windows, starts)

    chapters = []
    for number, row in enumerate(rows):
        try:
            of_scenes = _of_each(row["scores of scenes"], len(row["scenes"]))
            scenes = tuple(map(scene_of, row["scenes"], of_scenes))
            span, heading = _span(row["span"]), row["heading"] or ""
            chapters.append(Unit("chapter", number, span, heading, own[number], scenes))
        except (KeyError, TypeError, ValueError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"chapter {number + 1} is not a result of score_book: {what}"
            ) from None
    return tuple(chapters)


def _of_each(scores: Mapping[str, Any], count: int) -> Iterator[dict[str, float]]:
    """The scores of each of some units, from lists by operation."""
    found = saved_scores(scores, count)
    return ({name: values[i] for name, values in found.items()} for i in range(count))


def _span(value: Sequence[int]) -> Span:
    lo, hi = value
    return lo, hi
