"""Scoring of books: sentences by the engine for stories, scenes and chapters in one more pass.

For chapters and scenes, each scene is encoded once and alone; in several passes if it exceeds the
context. Only the sum of its token states and their number are kept. The vector of any set of scenes
or chapters is the mean of their token states, from which one-pass scores are computed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.books.book import Book
from narrative_twins.books.result import BookSalience
from narrative_twins.books.table import LEVELS, BookTable, Level, Unit, book_table, within
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.salience.engine import Engine, check_one_pass, loaded_encoder
from narrative_twins.salience.operations import EXACTLY, Operation
from narrative_twins.salience.options import FAST, ScoringOptions
from narrative_twins.salience.plans import check_finite, one_pass_scores, pooled_sums
from narrative_twins.salience.progress import Progress
from narrative_twins.salience.result import StorySalience
from narrative_twins.salience.wording import other_language
from narrative_twins.stories.story import Story, StoryError

logger = logging.getLogger(__name__)

_VECTOR = "sum of states"
"""The key, in the row of a chapter, of the sum of its token states and their number, from which the
scores of chapters are computed at the end."""


def score_book(
    book: Book | BookTable | str | os.PathLike[str],
    encoder: StoryEncoder | str | Path | None = None,
    *,
    levels: Level | Iterable[Level] = LEVELS,
    options: ScoringOptions | None = None,
    **fields: Any,
) -> BookSalience:
    """Score the chapters of a book, the scenes of each chapter, and the sentences of each scene.

    Sentences are scored as by `score_stories`, with each chapter as a story. Each scene is divided
    into windows as a story is by `windows="auto"`; a window is read with as much of its chapter as
    fits the encoder. Chapters and scenes are scored by the same operations, in one more pass.

    Args:
        book: a book, its `book_table`, or a file for `read_book`.
        encoder: a `StoryEncoder`, its folder or Hub id, or None for the default encoder.
        levels: one or several of `"chapter"`, `"scene"` and `"sentence"`.
        options: the options of scoring; None for the defaults of `ScoringOptions` in one pass.
        fields: fields of `ScoringOptions` that differ from `options`: operations, approximate,
            similarity, splitter and progress (in sentences). `approximate` is for sentences, which
            are scored in one pass by default (`FAST`); `approximate=None` is exact.

    Raises:
        ValueError: before anything is scored: an argument is invalid, or `levels` has chapters or
            scenes and no operation has a one-pass form.
        StoryError: the file can't be read, or a chapter can't be scored.

    Example:
        ```python
        from narrative_twins import score_book

        with open("book.txt", "w") as file:
            file.write("Chapter 1\\n\\nNadia ran.\\n\\nChapter 2\\n\\nThe mill burned down.")
        assert [chapter.text for chapter in score_book("book.txt").top(2, "chapter")]
        ```
    """
    scorer = BookScorer.of(encoder, levels, ScoringOptions.of_call(options, fields, **FAST))
    if not isinstance(book, BookTable):
        book = book_table(book, scorer.options.splitter)
    tells = scorer.encoder.is_english and scorer.options.on_truncation != "ignore"
    if tells and (note := other_language(book.sentences.texts)):
        logger.warning("the text of the book %s", note)
    return scorer.score(book)


@dataclass(frozen=True)
class BookScorer:
    """Scores books as `score_book` does.

    Attributes:
        encoder, options: what to score with.
        operations: the operations of each level that is scored.
    """

    encoder: StoryEncoder
    options: ScoringOptions
    operations: dict[Level, list[Operation]]

    @classmethod
    def of(
        cls,
        encoder: StoryEncoder | str | Path | None,
        levels: str | Iterable[str],
        options: ScoringOptions,
    ) -> BookScorer:
        """Check the arguments of `score_book`, then load the encoder, and return a scorer."""
        by_level = level_operations(levels, options)
        encoder = loaded_encoder(encoder)
        if encoder.pooling != "mean" and set(by_level) != {"sentence"}:
            raise ValueError(
                f"chapters and scenes need mean pooling; choose levels='sentence', and {EXACTLY}"
            )
        check_one_pass(encoder, options)
        return cls(encoder, options, by_level)

    def result(self, table: BookTable) -> BookSalience:
        """Return the result for a book, still without scores."""
        with_sentences = "sentence" in self.operations
        note = self.options.approximate if with_sentences else None
        about = self.encoder.context_tokens, note, self.encoder.dtype_name, self.options.similarity
        table = table if with_sentences else table.without_sentences()
        units = table.chapters, table.scenes, table.sentences, table.left_out
        return BookSalience(table.title, *units, tuple(self.operations), *about)

    def score(self, table: BookTable) -> BookSalience:
        """Score a book, and return its result with all scores."""
        result = self.result(table)
        for _ in self.rows(table, result):
            pass
        return result

    def rows(
        self, table: BookTable, result: BookSalience, done: Sequence[Mapping[str, Any]] = ()
    ) -> Iterator[dict[str, Any]]:
        """Score a book: add the scores to its `result`, and yield each chapter as plain data
        (`BookTable.row`) when its scenes and sentences are scored. `done` has chapters that an
        earlier run yielded: their scores are only added. Scores of chapters come last."""
        sums = []
        scored = table.sentences_of(table.chapters[len(done) - 1])[1] if done else 0
        total = len(table.sentences)
        with closing(Progress(self.options.progress, "sentences", total, scored)) as bar:
            for row in done:
                result.add_scores(row)
                sums.append(np.array(row[_VECTOR]))
            for chapter in table.chapters[len(done) :]:
                try:
                    sums.append(self._score_chapter(table, result, chapter, bar))
                except StoryError as error:
                    raise StoryError(f"{chapter.name}: {error.problem}") from error
                row = result.row(result.chapters[chapter.index])
                yield row | {_VECTOR: sums[-1].tolist()}
                bar.reach(float(table.sentences_of(chapter)[1]))
        result.chapters.scores = self._level_scores("chapter", np.array(sums))

    def _score_chapter(
        self, table: BookTable, result: BookSalience, chapter: Unit, bar: Progress
    ) -> NDArray[np.float64]:
        """Score the scenes and sentences of a chapter, and add the scores to the result. Return a
        vector for the chapter: the sum of its token states, and their number as the last value."""
        (lo, hi), start = table.sentences_of(chapter), bar.done
        scenes = table.scenes.inside[slice(*chapter.inside)]
        with_sentences = "sentence" in self.operations
        sums = np.zeros((len(scenes), 0))
        if set(self.operations) != {"sentence"}:
            # Where sentences are scored, too, they are nearly all of the work.
            share = 0 if with_sentences else hi - lo
            variants = []
            for first, stop in scenes:
                tokens = self.encoder.tokenize(table.sentences.texts[first:stop])
                variants.append(tokens.chunks(tuple(range(stop - first)), (0, stop - first)))
            vectors = self.encoder.encode(variants, lambda part: bar.add(part * share))
            check_finite(vectors)
            sums = pooled_sums(variants, vectors)
            result.scenes.add_scores(self._level_scores("scene", sums), len(scenes))
        if with_sentences:
            windows = [
                (first - lo, stop - lo)
                for first, stop in within(table.sentences.windows, (lo,), (hi,))
            ]
            story = Story.parse({"sentences": table.sentences.texts[lo:hi], "windows": windows})
            engine = Engine(self.encoder, self.options)
            engine.on_progress = lambda part: bar.reach(start + part * (hi - lo))
            (scored,) = engine.outcomes([StorySalience.unscored(story, self.options)])
            if isinstance(scored, StoryError):
                raise scored
            result.sentences.add_scores(scored.scores, hi - lo)
        total: NDArray[np.float64] = sums.sum(axis=0)
        return total

    def _level_scores(self, level: Level, sums: NDArray[np.float64]) -> dict[str, list[float]]:
        """Return the scores, by operation, of units that are compared with one another: all
        chapters or the scenes of a chapter. Each row of `sums` is of one unit: the sum of its token
        states and, as the last value, the number of its tokens."""
        return {
            operation.name: one_pass_scores(operation, sums, len(sums)).tolist()
            for operation in self.operations.get(level, ())
        }


def level_operations(
    levels: str | Iterable[str], options: ScoringOptions
) -> dict[Level, list[Operation]]:
    """Return the operations that score each of the `levels`, from the highest level. Raises a
    `ValueError` if a level is unknown, or if no operation has the one-pass form that chapters and
    scenes need."""
    names = {levels} if isinstance(levels, str) else set(levels)
    if not names or not names <= set(LEVELS):
        unknown = ", ".join(sorted(names.difference(LEVELS))) or "no level"
        raise ValueError(f"{unknown}: choose levels from {', '.join(LEVELS)}")
    above = [operation for operation in options.operations if operation.has_one_pass]
    if not above and names != {"sentence"}:
        raise ValueError(
            f"{', '.join(operation.name for operation in options.operations)} has no one-pass form,"
            " by which chapters and scenes are scored; choose another operation, or"
            " levels='sentence'"
        )
    by_level: dict[Level, list[Operation]] = {
        "chapter": above,
        "scene": above,
        "sentence": options.operations,
    }
    return {level: by_level[level] for level in LEVELS if level in names}
