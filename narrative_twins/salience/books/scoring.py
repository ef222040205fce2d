"""Scoring of books: sentences by the engine for stories, scenes and chapters from one pass over the
book.

At the levels above sentences each scene is read once and alone, in several passes if it exceeds the
context, and all that is kept of it are the sum of its token states and their number. The vector of
any set of scenes or chapters is the mean over their tokens, so each operation with a one-pass form
follows without another pass, and memory does not grow with the length of the book.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.books.result import LEVELS, BookSalience, Level, Row, chapters_of
from narrative_twins.salience.engine import check_pooling, loaded_encoder, score_stories
from narrative_twins.salience.operations import EXACTLY, Operation, resolve_operations
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.salience.plans import check_finite, checked_scores, pooled_sums
from narrative_twins.salience.progress import Progress, Watch
from narrative_twins.stories.books.book import Book
from narrative_twins.stories.books.reading import read_book
from narrative_twins.stories.books.scenes import (
    DividedChapter,
    divided_chapters,
    paragraph_starts,
    within,
)
from narrative_twins.stories.sentences import Span, Splitter
from narrative_twins.stories.story import Story, StoryError, partition

_VECTOR = "sum of states"
"""The key of the sum of the token states in the row of a chapter, from which the scores of chapters
are computed when all are read."""


def score_book(
    book: Book | str | os.PathLike[str],
    encoder: StoryEncoder | str | Path | None = None,
    *,
    levels: Level | Iterable[Level] = LEVELS,
    **options: Any,
) -> BookSalience:
    """Score the chapters of a book, the scenes of each chapter, and the sentences of each scene.

    Sentences are scored as by `score_stories`, each chapter as a story: their windows are the
    automatic ones within each scene, and are read with as much of the chapter around them as fits
    the encoder. Chapters and scenes are scored by the same operations from one pass over the book.

    Args:
        book: a book, or a file for `read_book`.
        encoder: a `StoryEncoder`, its folder or Hub id, or None for the default encoder.
        levels: one or several of `"chapter"`, `"scene"` and `"sentence"`.
        options: see `ScoringOptions`; `approximate` and `max_shifts` are for sentences, which are
            scored in one pass by default (`FAST`): `approximate=None` scores them exactly.

    Raises:
        ValueError: an argument is invalid, or a level has no operation; raised before anything is
            scored.
        StoryError: the file can't be read, or a chapter can't be scored.

    Example:
        ```python
        from narrative_twins import score_book

        with open("book.txt", "w") as file:
            file.write("Chapter 1\n\nNadia ran.\n\nChapter 2\n\nThe mill burned down.")
        assert [chapter.text for chapter in score_book("book.txt").top(2, "chapter")]
        ```
    """
    scorer = BookScorer.of(encoder, levels, **options)
    book = book if isinstance(book, Book) else read_book(book)
    progress = options.get("progress", False)
    return scorer.result(book, scorer.rows(book, progress=progress))


@dataclass(frozen=True)
class BookScorer:
    """What to score books with, see `score_book`.

    Attributes:
        encoder: the encoder.
        operations: the operations by level, for the levels that are scored.
        options: the options of scoring, checked.
    """

    encoder: StoryEncoder
    operations: dict[Level, list[Operation]]
    options: dict[str, Any]

    @classmethod
    def of(
        cls, encoder: StoryEncoder | str | Path | None, levels: str | Iterable[str], **options: Any
    ) -> BookScorer:
        """A scorer with the arguments of `score_book`, which are checked before an encoder is
        loaded."""
        options = {**FAST, **options}
        by_level = level_operations(levels, options)
        encoder = loaded_encoder(encoder)
        if encoder.pooling != "mean" and set(by_level) != {"sentence"}:
            raise ValueError(
                f"chapters and scenes need mean pooling; choose levels='sentence', and {EXACTLY}"
            )
        check_pooling(encoder, ScoringOptions(**options | {"operations": None}))
        return cls(encoder, by_level, options)

    def rows(
        self,
        book: Book,
        divided: Sequence[DividedChapter] | None = None,
        done: Sequence[Row] = (),
        progress: bool | Callable[[float], None] | Watch = False,
    ) -> Iterator[Row]:
        """The chapters of a book as rows, each as soon as its parts are scored; `divided` are its
        `divided_chapters`, if they are known, and `done` the rows that were scored before, which
        come first."""
        if divided is None:
            divided = divided_chapters(book, self.options.get("splitter"))
        yield from done
        scored = sum(len(chapter.sentences) for chapter in divided[: len(done)])
        total = sum(len(chapter.sentences) for chapter in divided)
        with closing(Progress(progress, "sentences", total, scored)) as bar:
            for chapter in divided[len(done) :]:
                try:
                    yield self._row(book, chapter, bar)
                except StoryError as error:
                    name = book.heading(chapter.chapter) or f"chapter {chapter.chapter + 1}"
                    raise StoryError(f"{name}: {error.problem}") from error
                scored += len(chapter.sentences)
                bar.reach(float(scored))

    def result(self, book: Book, rows: Iterable[Row]) -> BookSalience:
        """The result for a book, with the scores of its chapters."""
        found, sums = [], []
        for row in rows:
            # Lists of numbers would take four times the memory.
            sums.append(np.array(row[_VECTOR]))
            found.append({name: value for name, value in row.items() if name != _VECTOR})
        scores = self._above("chapter", np.array(sums))
        chapters = chapters_of(found, scores)
        encoder = self.encoder
        note = None
        if "sentence" in self.operations:
            note = ScoringOptions(**self.options).approximation
        settings = encoder.context_tokens, note, encoder.dtype_name
        return BookSalience(book.title, tuple(self.operations), chapters, *settings)

    def _row(self, book: Book, chapter: DividedChapter, bar: Progress) -> Row:
        """Score the scenes and the sentences of a chapter."""
        story, windows = _story(book, chapter)
        start, count, with_sentences = bar.done, len(story), "sentence" in self.operations
        sums = np.zeros((len(chapter.scenes), 0))
        if set(self.operations) != {"sentence"}:
            # Where sentences are scored, too, they are nearly all of the work.
            share = 0 if with_sentences else count
            sums = self._scene_sums(story, chapter.scenes, lambda part: bar.add(part * share))
        scores: Mapping[str, list[float]] = {}
        if with_sentences:
            if self.options.get("approximate") is None:
                bar.compare(self.encoder, self.operations["sentence"], story)
            options: Any = self.options | {
                "operations": self.operations["sentence"],
                "on_truncation": "ignore",
                "progress": lambda part: bar.reach(start + part * count),
            }
            (result,) = score_stories([story], self.encoder, **options)
            scores = result.scores
        spans = [list(sentence.span) for sentence in chapter.sentences]
        starts = paragraph_starts(chapter.sentences)
        scenes: list[Row] = []
        for (lo, hi), own in zip(chapter.scenes, windows, strict=True):
            inside = slice(lo, hi if with_sentences else lo)
            scenes.append(
                {
                    "span": [spans[lo][0], spans[hi - 1][1]],
                    "sentences": list(story.sentences[inside]),
                    "spans": spans[inside],
                    "windows": [list(window) for window in own if with_sentences],
                    "paragraphs": [at - lo for at in within(starts, lo, inside.stop)],
                    "scores": {name: values[inside] for name, values in scores.items()},
                }
            )
        return {
            "heading": book.heading(chapter.chapter),
            "span": [spans[0][0], spans[-1][1]],
            "scenes": scenes,
            "scores of scenes": self._above("scene", sums),
            _VECTOR: sums.sum(axis=0).tolist(),
        }

    def _scene_sums(
        self, story: Story, scenes: Sequence[Span], progress: Callable[[float], None]
    ) -> NDArray[np.float64]:
        """The sum of the token states of each scene, read alone."""
        variants = []
        for lo, hi in scenes:
            tokens = self.encoder.tokenize(story.sentences[lo:hi])
            variants.append(tokens.chunks(tuple(range(hi - lo)), (0, hi - lo)))
        vectors = self.encoder.encode(variants, progress)
        check_finite(vectors)
        return pooled_sums(variants, vectors)

    def _above(self, level: Level, sums: NDArray[np.float64]) -> dict[str, list[float]]:
        """The scores of chapters or scenes within the next larger unit, from the sums of their
        token states."""
        rest = np.zeros(sums.shape[1])
        return {
            operation.name: checked_scores(
                operation, operation.one_pass(sums, rest), len(sums)
            ).tolist()
            for operation in self.operations.get(level, ())
        }


def chapter_stories(book: Book, splitter: Splitter | None = None) -> list[Story]:
    """The chapters of a book as the stories that their sentences are scored in, with their
    windows."""
    return [_story(book, chapter)[0] for chapter in divided_chapters(book, splitter)]


def _story(book: Book, chapter: DividedChapter) -> tuple[Story, list[tuple[Span, ...]]]:
    """A chapter as a story, and the windows of each scene, in which the first sentence of the scene
    has the index 0."""
    spans = [sentence.span for sentence in chapter.sentences]
    start, end = spans[0][0], spans[-1][1]
    sentences = tuple(book.text[lo:hi] for lo, hi in spans)
    windows = [partition(hi - lo, "auto") for lo, hi in chapter.scenes]
    together = tuple(
        (first + lo, first + hi)
        for (first, _), found in zip(chapter.scenes, windows, strict=True)
        for lo, hi in found
    )
    in_story = tuple((lo - start, hi - start) for lo, hi in spans)
    return Story(sentences, book.text[start:end], in_story, together), windows


def level_operations(
    levels: str | Iterable[str], options: dict[str, Any]
) -> dict[Level, list[Operation]]:
    """The operations of each level, from the highest. Raises a `ValueError` if a level is unknown
    or would have no operation, or if an option is invalid."""
    names = {levels} if isinstance(levels, str) else set(levels)
    if not names or not names <= set(LEVELS):
        unknown = ", ".join(sorted(names.difference(LEVELS))) or "no level"
        raise ValueError(f"{unknown}: choose levels from {', '.join(LEVELS)}")
    if "sentence" not in names:
        options = {**options, "approximate": None}
    given = options.get("operations")
    chosen = resolve_operations(given)
    if given is not None:
        options = {**options, "operations": chosen}
    sentences = cast("list[Operation]", ScoringOptions(**options).operations)
    above = [operation for operation in chosen if operation.has_one_pass]
    if not above and names != {"sentence"}:
        raise ValueError(
            f"{', '.join(operation.name for operation in chosen)} has no one-pass form, by which"
            " chapters and scenes are scored; choose another operation, or levels='sentence'"
        )
    return {
        level: sentences if level == "sentence" else above for level in LEVELS if level in names
    }
