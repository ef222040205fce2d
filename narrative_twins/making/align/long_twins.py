"""Long narrative twins: of each work a story in even windows, and a twin whose windows follow from their alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.data.rows import RowError
from narrative_twins.data.shapes import Row, twin_windows
from narrative_twins.making.align.filters import Counts, Filters
from narrative_twins.making.align.tell_me_again import is_summaries, read_work
from narrative_twins.making.align.time_warping import best_path, similarity_matrix
from narrative_twins.making.align.works import Candidate, Work, plain_work
from narrative_twins.stories.reading import Document
from narrative_twins.stories.windows import even_windows

Embed: TypeAlias = Callable[[Sequence[str]], NDArray[np.floating[Any]]]
"""From sentences to a vector each."""


class LongTwins:
    """Makes rows of long narrative twins, as `load_window_twins` reads them, and counts what it drops.

    Of the tellings of a work that pass all filters one is drawn, by the seed and the id of the work alone: neither the
    other works nor the order of anything matter.

    Args:
        embed: embeds sentences.
        windows: how many even windows the story is cut into.
        seed: of what is drawn.
        filters: what can be a twin.

    Attributes:
        counts: of what was read so far.

    Raises:
        ValueError: there would be more windows than sentences.
    """

    def __init__(self, embed: Embed, windows: int = 5, seed: int = 0, filters: Filters | None = None) -> None:
        self.filters = filters or Filters()
        if not 1 <= windows <= self.filters.min_sentences:
            raise ValueError(
                f"{windows} windows for stories of {self.filters.min_sentences} sentences or more; cut fewer windows, "
                "or ask for longer stories"
            )
        self.embed, self.windows, self.seed = embed, windows, seed
        self.counts = Counts()

    def row(self, work: Work) -> Row | None:
        """The row of a work, or None if it is dropped.

        Raises:
            RowError: it can't be aligned; names the work, which is not counted.
        """
        drawn = self._drawn(work)
        vectors = self.embed(work.story) if drawn else None
        for place, candidate in enumerate(drawn):
            assert vectors is not None
            row = self._aligned(work, vectors, candidate)
            if row is not None:
                self._count(work, place, len(drawn))
                return row
        self._count(work, None, len(drawn))
        return None

    def recall(self, work: Work, twins: Sequence[Sequence[str]]) -> int | None:
        """Count a work of which an earlier run made a row as `row` would, which spares embedding it.

        Args:
            work: the work.
            twins: those of the earlier rows that may be of this work.

        Returns:
            The place of its twin among them: the first that may pass; None, with nothing counted, if none may.
        """
        tellings = [candidate.sentences for candidate in self._drawn(work)]
        found = next((place for place, twin in enumerate(twins) if list(twin) in tellings), None)
        if found is not None:
            self._count(work, tellings.index(list(twins[found])), len(tellings))
        return found

    def _drawn(self, work: Work) -> list[Candidate]:
        """The tellings that may pass, in the order in which they are tried: the first that passes is the twin."""
        if len(work.story) < self.filters.min_sentences:
            return []
        passing = [one for one in work.candidates if self._refused(work, one) is None]
        return sorted(passing, key=lambda one: Random(f"{self.seed} {work.id} {one.sentences}").random())

    def _refused(self, work: Work, candidate: Candidate) -> str | None:
        """Why a telling can't be the twin, whatever it is aligned to, as `Counts` has it."""
        if self.filters.too_different(work.story, candidate):
            return "length"
        return "similar" if self.filters.too_similar(work.story, candidate) else None

    def _aligned(self, work: Work, vectors: NDArray[np.floating[Any]], candidate: Candidate) -> Row | None:
        """The row of a work with this twin, or None if a window would lack sentences."""
        similarities = similarity_matrix(vectors, self.embed(candidate.sentences))
        try:
            path = best_path(similarities)
        except ValueError as error:
            problem = f"can't be aligned ({error}); see what the encoder makes of it, or leave it out"
            raise RowError(f"work {work.id!r}", problem) from None
        story = [work.story[lo:hi] for lo, hi in even_windows(len(work.story), self.windows)]
        windows_of = twin_windows(path, story, len(candidate.sentences))
        if not self.filters.fills(windows_of, self.windows):
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

    def _count(self, work: Work, place: int | None, drawn: int) -> None:
        """A work is kept with the twin at a place of those drawn, of which those before it did not pass; or dropped."""
        counts = self.counts
        counts.works += 1
        if len(work.story) < self.filters.min_sentences:
            counts.no_story += not work.story
            counts.short += bool(work.story)
            return
        reasons = [self._refused(work, one) for one in work.candidates]
        counts.tellings += len(reasons)
        counts.length += reasons.count("length")
        counts.similar += reasons.count("similar")
        if place is None:
            counts.no_twin += 1
            counts.windows += drawn
        else:
            counts.kept += 1
            counts.windows += place
            counts.not_drawn += drawn - place - 1


def read_works(found: Iterable[Document], anonymized: bool = False) -> Iterator[tuple[str, Work | RowError]]:
    """The works of some files, each with what to call it; what is none keeps its place as an error.

    Args:
        found: what stands in the files, from `works.read_documents`: rows with a `story` and `twins`, or documents of
            `Tell me again!`.
        anonymized: of the latter take the texts with names replaced.
    """
    for name, content, problem in found:
        try:
            if problem is not None:
                raise RowError(name, problem)
            if not isinstance(content, dict):
                raise RowError(name, f"is {type(content).__name__}; an object with 'story' and 'twins' is needed")
            yield name, read_work(content, name, anonymized) if is_summaries(content) else plain_work(content, name)
        except RowError as error:
            yield name, error
