"""A book as flat tables of chapters, scenes and sentences: chapters are ranges of scenes, scenes
are ranges of sentences, and each operation is a column of scores."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

from narrative_twins.books.book import Book, Chapter
from narrative_twins.books.reading import read_book
from narrative_twins.salience.ranking import Scored
from narrative_twins.salience.result import saved_scores
from narrative_twins.stories.sentences import Span, Splitter
from narrative_twins.stories.story import even_windows, partition, sentence_spans

Level: TypeAlias = Literal["chapter", "scene", "sentence"]
LEVELS: tuple[Level, ...] = get_args(Level)

SCENE = 60
"""Sentences of a scene, about, where no break marks it; up to twice as many are not divided."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A chapter, a scene or a sentence of a book: a row of a table.

    Attributes:
        index: the index among all units of this level, counted from 0.
        span: the half-open character span in the text of the book, without a chapter's heading.
        text: the text of a sentence, or the heading of a chapter on one line; otherwise empty.
        scores: the scores by operation; empty if the level was not scored. Chapters are compared
            within the book, scenes within their chapter, sentences within their window.
        inside: the half-open range of the scenes of a chapter, or of the sentences of a scene;
            `(0, 0)` for a sentence.
    """

    level: Level
    index: int
    span: Span
    text: str
    scores: Mapping[str, float]
    inside: Span

    @property
    def name(self) -> str:
        """The heading of a chapter or the text of a sentence; otherwise for example `scene 3`."""
        return self.text or f"{self.level} {self.index + 1}"


@dataclass
class Units(Scored, Sequence[Unit]):
    """The units of a level in order, stored as columns. An item of this sequence is a `Unit`.

    Attributes:
        spans, texts, inside: a value for each unit, see `Unit`.
        scores: by operation, one number per unit; empty if the level was not scored.
        windows: half-open ranges of units that are compared with one another: all chapters, the
            scenes of a chapter, the windows of sentences.
        starts: the indices of the sentences that begin a paragraph; empty for other levels.
    """

    level: Level
    spans: list[Span] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    inside: list[Span] = field(default_factory=list)
    scores: dict[str, list[float]] = field(default_factory=dict)
    windows: list[Span] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        scores = {name: values[index] for name, values in self.scores.items()}
        row = self.spans[index], self.texts[index], scores, self.inside[index]
        return Unit(self.level, range(len(self))[index], *row)

    def add(
        self, texts: Sequence[str], spans: Any, windows: Any, inside: Sequence[Span] = ()
    ) -> None:
        """Append units without scores: a text, a span and, except for sentences, `inside` for each.
        Raises a `ValueError` if `windows`, counted from 0, do not partition the new units."""
        first = len(self)
        if [i for lo, hi in windows for i in range(lo, hi)] != list(range(len(texts))):
            raise ValueError("the windows do not partition the sentences")
        self.spans += [(lo, hi) for (lo, hi), _ in zip(spans, texts, strict=True)]
        self.texts += texts
        self.inside += inside or [(0, 0)] * len(texts)
        self.windows += [(first + lo, first + hi) for lo, hi in windows]

    def add_scores(self, scores: Any, count: int) -> None:
        """Append the scores of the next `count` units, by operation. Raises a `ValueError` if an
        operation has another number of scores, or a score that is not finite."""
        for name, values in saved_scores(scores, count).items():
            self.scores.setdefault(name, []).extend(values)


@dataclass
class BookTable:
    """The units of a book, made by `book_table`.

    Attributes:
        title: the title of the book; None if it is unknown.
        chapters, scenes, sentences: the units of each level.
        left_out: sentences about what was left out of the file, from `Book.notes`.
    """

    title: str | None
    chapters: Units = field(default_factory=lambda: Units("chapter"), repr=False)
    scenes: Units = field(default_factory=lambda: Units("scene"), repr=False)
    sentences: Units = field(default_factory=lambda: Units("sentence"), repr=False)
    left_out: list[str] = field(default_factory=list, repr=False)

    def units(self, level: Level) -> Units:
        """Return all units of a level. Raises a `ValueError` if the level is unknown."""
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is unknown; choose from {', '.join(LEVELS)}")
        return (self.chapters, self.scenes, self.sentences)[LEVELS.index(level)]

    def without_sentences(self) -> BookTable:
        """Return a table with the same chapters and scenes, but without sentences."""
        count, scenes = len(self.scenes), self.scenes
        alone = Units("scene", scenes.spans, scenes.texts, [(0, 0)] * count, windows=scenes.windows)
        return BookTable(self.title, self.chapters, alone, left_out=self.left_out)

    def sentences_of(self, chapter: Unit) -> Span:
        """Return the half-open range of the indices of the sentences of a chapter."""
        lo, hi = chapter.inside
        return self.scenes.inside[lo][0], self.scenes.inside[hi - 1][1]

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a chapter without scores, from plain data as `row` returns. Raises a `KeyError`,
        `TypeError` or `ValueError` if the data are invalid."""
        ranges = []
        for scene in row["scenes"]:
            first = len(self.sentences)
            self.sentences.add(scene["sentences"], scene["spans"], scene["windows"])
            self.sentences.starts += [first + start for start in scene["paragraphs"]]
            ranges.append((first, len(self.sentences)) if scene["sentences"] else (0, 0))
        first, count = len(self.scenes), len(ranges)
        self.scenes.add([""] * count, [s["span"] for s in row["scenes"]], [(0, count)], ranges)
        self.chapters.add([row["heading"] or ""], [row["span"]], [(0, 1)], [(first, first + count)])
        self.chapters.windows = [(0, len(self.chapters))]

    def add_scores(self, row: Mapping[str, Any]) -> None:
        """Append the scores of the scenes and sentences of the next chapter, from its `row`."""
        for scene in row["scenes"]:
            self.sentences.add_scores(scene["scores"], len(scene["sentences"]))
        self.scenes.add_scores(row["scores of scenes"], len(row["scenes"]))

    def row(self, chapter: Unit) -> dict[str, Any]:
        """Return a chapter as plain data for JSON: its heading, its span, and its scenes with their
        sentences. Scores of scenes and sentences are included, scores of the chapter are not."""
        (first, last), rows, columns = chapter.inside, [], self.sentences
        for scene in self.scenes[first:last]:
            lo, hi = scene.inside
            windows = within(columns.windows, (lo,), (hi,))
            starts = within(columns.starts, lo, hi)
            rows.append(
                {
                    "span": list(scene.span),
                    "sentences": columns.texts[lo:hi],
                    "spans": [list(span) for span in columns.spans[lo:hi]],
                    "windows": [[start - lo, stop - lo] for start, stop in windows],
                    "paragraphs": [start - lo for start in starts],
                    "scores": {name: values[lo:hi] for name, values in columns.scores.items()},
                }
            )
        scores = {name: values[first:last] for name, values in self.scenes.scores.items()}
        heading = chapter.text or None
        about = {"heading": heading, "span": list(chapter.span), "scenes": rows}
        return about | {"scores of scenes": scores}


def book_table(book: Book | str | os.PathLike[str], splitter: Splitter | None = None) -> BookTable:
    r"""Return the chapters, scenes and sentences of a book. Each sentence lies in one paragraph, no
    heading is a sentence, and a chapter without a sentence is left out. Each scene has windows as a
    story has by `windows="auto"`. Scenes begin at breaks, and `scene_spans` divides long ones.

    Args:
        book: a book, or a file for `read_book`.
        splitter: how a paragraph is split, see `Story.parse`.

    Raises:
        StoryError: the file can't be read, there is no sentence, or the splitter loses text.

    Example:
        ```python
        from narrative_twins.books import book_table

        with open("book.txt", "w") as file:
            file.write("Chapter 1\n\nNadia ran. It rained.\n\nChapter 2\n\nShe fell.")
        table = book_table("book.txt")
        assert [unit.text for unit in table.sentences[:2]] == ["Nadia ran.", "It rained."]
        assert [unit.text for unit in table.chapters] == ["Chapter 1", "Chapter 2"]
        ```
    """
    book = book if isinstance(book, Book) else read_book(book)
    table = BookTable(book.title, left_out=book.notes)
    all_spans = sentence_spans(book.text, splitter, book.paragraphs)
    for number, chapter in enumerate(book.chapters):
        end = chapter.paragraphs[-1][1]
        lo = bisect_right(all_spans, chapter.paragraphs[0][0], key=lambda span: span[1])
        spans = all_spans[lo : bisect_right(all_spans, end, key=lambda span: span[1])]
        if spans:
            scenes = _scene_rows(book, chapter, spans)
            span = spans[0][0], spans[-1][1]
            table.add({"heading": book.heading(number), "span": span, "scenes": scenes})
    return table


def _scene_rows(book: Book, chapter: Chapter, spans: Sequence[Span]) -> list[dict[str, Any]]:
    """Return the scenes of a chapter as `BookTable.row` does. `spans` are of its sentences."""
    texts = [book.text[slice(*span)] for span in spans]
    stops = [stop for _, stop in chapter.paragraphs]
    paragraphs = [bisect_left(stops, stop) for _, stop in spans]
    starts = [0, *_changes(paragraphs)]
    # A paragraph without a sentence, such as a name that is one sentence with the speech after it,
    # leaves its break to the next paragraph.
    marks = sorted(chapter.breaks)
    breaks = _changes([bisect_right(marks, paragraph) for paragraph in paragraphs])
    return [
        {
            "span": (spans[lo][0], spans[hi - 1][1]),
            "sentences": texts[lo:hi],
            "spans": spans[lo:hi],
            "windows": partition(hi - lo, "auto"),
            "paragraphs": [start - lo for start in within(starts, lo, hi)],
        }
        for lo, hi in scene_spans(len(texts), starts, breaks)
    ]


def _changes(values: Sequence[int]) -> list[int]:
    """Return the indices of the values that differ from the value before."""
    return [i for i, (before, value) in enumerate(pairwise(values), start=1) if before != value]


def within(ordered: Sequence[Any], lo: Any, hi: Any) -> Sequence[Any]:
    """Return the values of a sorted sequence that are at least `lo` and less than `hi`."""
    return ordered[bisect_left(ordered, lo) : bisect_left(ordered, hi)]


def scene_spans(
    count: int, paragraphs: Iterable[int], breaks: Iterable[int] = ()
) -> tuple[Span, ...]:
    """Return the scenes of a chapter, as half-open ranges of the indices of its `count` sentences.
    `paragraphs` has the indices of sentences that begin a paragraph; `breaks`, in order and without
    0, of sentences after a marked break, which begin a scene.

    A scene of more than twice `SCENE` sentences is divided evenly into scenes of about `SCENE`. A
    division is moved to the nearest paragraph within a third of a scene.
    """
    starts = sorted(paragraphs)
    edges = [0, *breaks, count]
    for lo, hi in pairwise(list(edges)):
        scenes = round((hi - lo) / SCENE) if hi - lo > 2 * SCENE else 1
        # Further away, scenes would be of very different lengths; then a paragraph is divided.
        reach = (hi - lo) // scenes // 3
        for _, size in even_windows(hi - lo, scenes)[:-1]:
            even = lo + size
            near = within(starts, even - reach, even + reach + 1) or [even]
            edges.append(min((abs(start - even), start) for start in near)[1])
    return tuple(pairwise(sorted(edges)))
