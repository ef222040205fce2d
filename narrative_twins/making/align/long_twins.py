"""Long narrative twins: stories in even windows, each with a twin whose windows follow from their
alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.data.rows import Row, RowError, twin_windows
from narrative_twins.making.align.filters import Counts, Filters
from narrative_twins.making.align.tell_me_again import is_tell_me_again, read_work
from narrative_twins.making.align.time_warping import best_path, similarity_matrix
from narrative_twins.making.align.works import Candidate, Work, plain_work
from narrative_twins.stories.reading import Document
from narrative_twins.stories.windows import even_windows

Embed: TypeAlias = Callable[[Sequence[str]], NDArray[np.floating[Any]]]
"""Maps sentences to their vectors, of shape (sentences, dimensions)."""


class LongTwins:
    """Makes rows of long narrative twins, as `load_window_twins` reads them, and counts what it
    drops.

    The twin is drawn from the tellings of a work that pass all filters, by the seed, the id of the
    work and the tellings alone: neither other works nor any order matter.

    Args:
        embed: embeds sentences.
        windows: number of even windows of a story, at most `filters.min_sentences`; otherwise a
            ValueError.
        seed: seed of the draw.
        filters: requirements for stories and twins; None for the defaults.

    Attributes:
        counts: what was read, kept and dropped so far.
    """

    def __init__(
        self, embed: Embed, windows: int = 5, seed: int = 0, filters: Filters | None = None
    ) -> None:
        self.filters = filters or Filters()
        if not 1 <= windows <= self.filters.min_sentences:
            raise ValueError(
                f"{windows} windows for stories of {self.filters.min_sentences} sentences or more;"
                f" use 1 to {self.filters.min_sentences} windows, or raise min_sentences"
            )
        self.embed, self.windows, self.seed = embed, windows, seed
        self.counts = Counts()

    def row(self, work: Work) -> Row | None:
        """The row of a work, None if it is dropped; raises RowError, and does not count it, if it
        can't be aligned."""
        candidates = self._candidates(work)
        vectors = self.embed(work.story) if candidates else None
        for index, candidate in enumerate(candidates):
            assert vectors is not None
            row = self._aligned_row(work, vectors, candidate)
            if row is not None:
                self._count(work, index, len(candidates))
                return row
        self._count(work, None, len(candidates))
        return None

    def count_existing(self, work: Work, twins: Sequence[Sequence[str]]) -> int | None:
        """Count a work as `row` does if an earlier run already made its row, without embedding it.

        `twins` are the twins of earlier rows with the id and the story of the work. Returns the
        index of the first of them that is still a candidate; if none is, None, and nothing is
        counted.
        """
        tellings = [candidate.sentences for candidate in self._candidates(work)]
        found = next((index for index, twin in enumerate(twins) if list(twin) in tellings), None)
        if found is not None:
            self._count(work, tellings.index(list(twins[found])), len(tellings))
        return found

    def _candidates(self, work: Work) -> list[Candidate]:
        """The tellings that pass the filters before alignment, in the random order in which they
        are tried."""
        if len(work.story) < self.filters.min_sentences:
            return []
        passing = [telling for telling in work.candidates if self._rejection(work, telling) is None]
        # Each telling gets a random number of its own, so the order in the input does not matter.
        return sorted(
            passing,
            key=lambda telling: Random(f"{self.seed} {work.id} {telling.sentences}").random(),
        )

    def _rejection(self, work: Work, candidate: Candidate) -> str | None:
        """The field of `Counts` for the filter that drops a telling before alignment, if any."""
        if self.filters.too_different(work.story, candidate):
            return "length"
        return "similar" if self.filters.too_similar(work.story, candidate) else None

    def _aligned_row(
        self, work: Work, vectors: NDArray[np.floating[Any]], candidate: Candidate
    ) -> Row | None:
        """The row of a work with this twin, or None if a window lacks sentences."""
        similarities = similarity_matrix(vectors, self.embed(candidate.sentences))
        try:
            path = best_path(similarities)
        except ValueError as error:
            problem = (
                f"can't be aligned ({error}); check the vectors of the encoder, or remove the work"
            )
            raise RowError(f"work {work.id!r}", problem) from None
        story = [work.story[lo:hi] for lo, hi in even_windows(len(work.story), self.windows)]
        windows_of = twin_windows(path, story, len(candidate.sentences))
        if not self.filters.fills_windows(windows_of, self.windows):
            return None
        return {
            "id": work.id,
            "title": work.title,
            "story": story,
            "twin": candidate.sentences,
            "twin_windows": windows_of,
            "alignment": path,
            "language": candidate.language,
            "similarity": candidate.similarity,
        }

    def _count(self, work: Work, index: int | None, candidates: int) -> None:
        """Count a work by the number of its candidates and the index of the twin among them, None
        if all failed."""
        counts = self.counts
        counts.works += 1
        if len(work.story) < self.filters.min_sentences:
            counts.no_story += not work.story
            counts.short += bool(work.story)
            return
        reasons = [self._rejection(work, telling) for telling in work.candidates]
        counts.tellings += len(reasons)
        counts.length += reasons.count("length")
        counts.similar += reasons.count("similar")
        if index is None:
            counts.no_twin += 1
            counts.windows += candidates
        else:
            counts.kept += 1
            # Candidates before the twin were tried and did not fill the windows; those after it
            # were not tried.
            counts.windows += index
            counts.not_drawn += candidates - index - 1


def read_works(
    documents: Iterable[Document], anonymized: bool = False
) -> Iterator[tuple[str, Work | RowError]]:
    """Yield the work of each document with its name for messages, or an error if the document is
    not a work.

    Args:
        documents: from `works.read_documents`: rows with a `story` and `twins`, or documents of
            `Tell me again!`.
        anonymized: use the translations of `Tell me again!` with names replaced as twins; the story
            keeps its names.
    """
    for name, content, problem in documents:
        try:
            if problem is not None:
                raise RowError(name, problem)
            if not isinstance(content, dict):
                raise RowError(
                    name,
                    f"is {type(content).__name__}; an object with 'story' and 'twins' is needed",
                )
            yield (
                name,
                (
                    read_work(content, name, anonymized)
                    if is_tell_me_again(content)
                    else plain_work(content, name)
                ),
            )
        except RowError as error:
            yield name, error
