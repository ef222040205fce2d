"""Scoring of books: sentences by the engine for stories, scenes and chapters from one pass over the
book.

At the levels above sentences each scene is read once and alone, in several passes if it exceeds the
context, and all that is kept of it are the sum of its token states and their number. The vector of
any set of scenes or chapters is the mean over their tokens, so each operation with a one-pass form
follows without another pass, and memory does not grow with the length of the book.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.books.result import BookSalience
from narrative_twins.salience.books.units import LEVELS, Level, ScoredChapter, Unit, unit_scores
from narrative_twins.salience.engine import Progress, loaded_encoder, score_stories
from narrative_twins.salience.operations import Operation, resolve_operations
from narrative_twins.salience.options import Approximation, BookOptions, checked_options
from narrative_twins.salience.plans import check_finite, checked_scores, pooled_sums
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.reading import read_book
from narrative_twins.stories.books.scenes import DividedChapter, divided_chapters, paragraph_starts
from narrative_twins.stories.splitting import Span, Splitter
from narrative_twins.stories.story import Story, StoryError, partition

_SHARE = 0.05
"""About the share of the work on a chapter that is the pass over its scenes, if its sentences are
scored exactly."""


def score_book(
    book: Book | str | os.PathLike[str],
    encoder: StoryEncoder | str | Path | None = None,
    *,
    levels: Level | Iterable[Level] = LEVELS,
    **options: Unpack[BookOptions],
) -> BookSalience:
    """Score the chapters of a book, the scenes of each chapter, and the sentences of each scene.

    Sentences are scored as by `score_stories`, each chapter as a story: their windows are the
    automatic ones within each scene, and are read with as much of the chapter around them as fits
    the encoder. Chapters and scenes are scored by the same operations from one pass over the book.
    Shifting is for sentences only: since chapters and scenes are read one by one, their order
    changes nothing.

    Args:
        book: a book, or a file for `read_book`.
        encoder: a `StoryEncoder`, its folder or Hub id, or None for the default encoder.
        levels: one or several of `"chapter"`, `"scene"` and `"sentence"`.
        options: see `BookOptions`; `approximate` and `max_shifts` are for sentences.

    Raises:
        ValueError: an argument is invalid, or a level has no operation; raised before anything is
            scored.
        StoryError: the file can't be read, or a chapter can't be scored.
    """
    scorer = BookScorer.of(encoder, levels, **options)
    book = book if isinstance(book, Book) else read_book(book)
    progress = options.get("progress", False)
    return scorer.result(book, scorer.chapters(book, progress=progress))


@dataclass(frozen=True)
class BookScorer:
    """What to score books with, see `score_book`.

    Attributes:
        encoder, splitter, approximate, max_shifts: as for `score_book`.
        operations: the operations by level, for the levels that are scored.
    """

    encoder: StoryEncoder
    operations: dict[Level, list[Operation]]
    splitter: Splitter | None
    approximate: Approximation | None
    max_shifts: int | None

    @classmethod
    def of(
        cls,
        encoder: StoryEncoder | str | Path | None,
        levels: str | Iterable[str],
        **options: Unpack[BookOptions],
    ) -> BookScorer:
        """A scorer with the arguments of `score_book`, which are checked before an encoder is
        loaded."""
        by_level = level_operations(check_levels(levels), options)
        encoder = loaded_encoder(encoder)
        if encoder.pooling != "mean" and set(by_level) != {"sentence"}:
            raise ValueError(
                "chapters and scenes need mean pooling, and this encoder pools the first token;"
                " choose another encoder or levels='sentence'"
            )
        return cls(
            encoder,
            by_level,
            options.get("splitter"),
            options.get("approximate"),
            options.get("max_shifts"),
        )

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels that are scored."""
        return tuple(self.operations)

    def chapters(
        self,
        book: Book,
        done: Sequence[ScoredChapter] = (),
        progress: bool | Callable[[float], None] = False,
    ) -> Iterator[ScoredChapter]:
        """The chapters of a book, each as soon as its parts are scored; `done` are those that were
        scored before, which come first."""
        divided = divided_chapters(book, self.splitter)
        yield from done
        scenes = sum(len(chapter.unit.children) for chapter in done)
        sentences = sum(len(chapter.sentences) for chapter in divided[: len(done)])
        total = sum(len(chapter.sentences) for chapter in divided)
        with closing(Progress(progress, "sentences", total, sentences)) as bar:
            for number, chapter in enumerate(divided[len(done) :], start=len(done)):
                try:
                    yield self._scored(book, chapter, _Place(number, scenes, sentences), bar)
                except StoryError as error:
                    name = book.heading(chapter.chapter) or f"chapter {number + 1}"
                    raise StoryError(f"{name}: {error.problem}") from error
                scenes += len(chapter.scenes)
                sentences += len(chapter.sentences)
                bar.reach(float(sentences))

    def result(self, book: Book, chapters: Iterable[ScoredChapter]) -> BookSalience:
        """The result for a book, with the scores of its chapters."""
        found = list(chapters)
        scores = self._within(
            [chapter.vector for chapter in found], self.operations.get("chapter", [])
        )
        units = [
            replace(chapter.unit, scores=unit_scores(scores, i)) for i, chapter in enumerate(found)
        ]
        note = self.approximate or (
            None if self.max_shifts is None else f"max_shifts={self.max_shifts}"
        )
        return BookSalience(
            book.title, self.levels, tuple(units), self.encoder.context_tokens, note
        )

    def _scored(
        self, book: Book, chapter: DividedChapter, place: _Place, bar: Progress
    ) -> ScoredChapter:
        story, windows = _story(book, chapter)
        above = any(level != "sentence" for level in self.levels)
        share = (_SHARE if self.approximate is None else 0.5) if "sentence" in self.levels else 1.0
        vectors = self._scene_sums(
            story, chapter.scenes, lambda part: bar.add(part * share * len(story)), above
        )
        within = self._within(list(vectors), self.operations.get("scene", []))
        sentences: dict[str, list[float]] = {}
        if "sentence" in self.levels:
            start = bar.done
            (result,) = score_stories(
                [story],
                self.encoder,
                operations=self.operations["sentence"],
                approximate=self.approximate,
                max_shifts=self.max_shifts,
                on_truncation="ignore",
                progress=lambda part: bar.reach(start + part * (1 - share * above) * len(story)),
            )
            sentences = dict(result.scores)
        unit = _unit(book, chapter, place, windows, within, sentences, "sentence" in self.levels)
        return ScoredChapter(unit, vectors.sum(axis=0))

    def _scene_sums(
        self, story: Story, scenes: Sequence[Span], progress: Callable[[float], None], wanted: bool
    ) -> NDArray[np.float64]:
        """The sum of the token states of each scene, read alone."""
        if not wanted:
            return np.zeros((len(scenes), 0))
        variants = []
        for lo, hi in scenes:
            tokens = self.encoder.tokenize(story.sentences[lo:hi])
            variants.append(tokens.chunks(tuple(range(hi - lo)), (0, hi - lo)))
        vectors = self.encoder.encode(variants, progress)
        check_finite(vectors)
        return pooled_sums(variants, vectors)

    def _within(
        self, sums: Sequence[NDArray[np.float64]], operations: Sequence[Operation]
    ) -> dict[str, list[float]]:
        """The scores of units within the next larger one, from the sums of their token states."""
        if not operations:
            return {}
        stacked = np.stack(sums)
        rest = np.zeros(stacked.shape[1])
        return {
            operation.name: (
                checked_scores(operation, operation.one_pass(stacked, rest), len(stacked)).tolist()
            )
            for operation in operations
        }


class _Place(NamedTuple):
    """How many chapters, scenes and sentences come before a chapter."""

    chapters: int
    scenes: int
    sentences: int


def chapter_stories(book: Book, splitter: Splitter | None = None) -> list[Story]:
    """The chapters of a book as the stories that their sentences are scored in, with their
    windows."""
    return [_story(book, chapter)[0] for chapter in divided_chapters(book, splitter)]


def _story(book: Book, chapter: DividedChapter) -> tuple[Story, list[tuple[Span, ...]]]:
    """A chapter as a story, and the windows of each scene, in which the first sentence of the scene
    has the index 0."""
    start, end = chapter.sentences[0].span[0], chapter.sentences[-1].span[1]
    sentences = tuple(book.text[slice(*sentence.span)] for sentence in chapter.sentences)
    spans = tuple(
        (sentence.span[0] - start, sentence.span[1] - start) for sentence in chapter.sentences
    )
    windows = [partition(sentences[lo:hi], "auto") for lo, hi in chapter.scenes]
    together = tuple(
        (lo + at, hi + at)
        for (at, _), found in zip(chapter.scenes, windows, strict=True)
        for lo, hi in found
    )
    return Story(sentences, book.text[start:end], spans, together), windows


def _unit(
    book: Book,
    chapter: DividedChapter,
    place: _Place,
    windows: Sequence[tuple[Span, ...]],
    within: dict[str, list[float]],
    scores: dict[str, list[float]],
    with_sentences: bool,
) -> Unit:
    starts = set(paragraph_starts(chapter.sentences))
    scenes = []
    for number, (lo, hi) in enumerate(chapter.scenes):
        span = chapter.sentences[lo].span[0], chapter.sentences[hi - 1].span[1]
        scene = Unit("scene", place.scenes + number, span, "", unit_scores(within, number))
        if with_sentences:
            scene = replace(
                scene,
                children=tuple(
                    Unit(
                        "sentence",
                        place.sentences + i,
                        chapter.sentences[i].span,
                        book.text[slice(*chapter.sentences[i].span)],
                        unit_scores(scores, i),
                    )
                    for i in range(lo, hi)
                ),
                windows=windows[number],
                paragraphs=tuple(i - lo for i in range(lo, hi) if i in starts),
            )
        scenes.append(scene)
    span = chapter.sentences[0].span[0], chapter.sentences[-1].span[1]
    return Unit(
        "chapter", place.chapters, span, book.heading(chapter.chapter) or "", {}, tuple(scenes)
    )


def check_levels(levels: str | Iterable[str]) -> tuple[Level, ...]:
    """Some levels in their order, from the highest; raises a `ValueError` if there is none or one
    is unknown."""
    names = [levels] if isinstance(levels, str) else list(levels)
    if unknown := [name for name in names if name not in LEVELS]:
        raise ValueError(f"level {unknown[0]!r} is unknown; choose from {', '.join(LEVELS)}")
    if not names:
        raise ValueError(f"no level to score; choose from {', '.join(LEVELS)}")
    return tuple(level for level in LEVELS if level in names)


def level_operations(levels: Sequence[Level], options: BookOptions) -> dict[Level, list[Operation]]:
    """The operations of each level. Raises a `ValueError` if a level would have none."""
    given = options.get("operations")
    if not (given is None or isinstance(given, (str, Operation))):
        options = {**options, "operations": list(given)}
    if "sentence" not in levels:
        options = {**options, "approximate": None}
    sentences = resolve_operations(checked_options(options)["operations"])
    chosen = resolve_operations(options.get("operations"))
    above = [operation for operation in chosen if operation.has_one_pass]
    found: dict[Level, list[Operation]] = {}
    for level in levels:
        if level == "sentence":
            found[level] = sentences
        elif not above:
            names = ", ".join(operation.name for operation in chosen)
            raise ValueError(
                f"{names}: not available at the level {level!r}, where each unit is read once and"
                " alone, so that moving it changes nothing; choose another operation, or"
                " levels='sentence'"
            )
        else:
            found[level] = above
    return found
