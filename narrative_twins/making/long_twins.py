"""Long narrative twins: of each work a story in even windows, and a twin whose windows follow from their alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.data.rows import RowError
from narrative_twins.data.shapes import Row, twin_windows
from narrative_twins.files import Source
from narrative_twins.making.alignment import best_path, similarity_matrix
from narrative_twins.making.filters import Counts, Filters
from narrative_twins.making.tell_me_again import is_summaries, read_work
from narrative_twins.making.works import Candidate, Work, plain_work
from narrative_twins.story import even_windows

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
        """The row of a work, or None if it is dropped."""
        candidates = self._candidates(work)
        if candidates is None:
            return None
        story = [work.story[lo:hi] for lo, hi in even_windows(len(work.story), self.windows)]
        vectors = self.embed(work.story) if candidates else None
        for place, candidate in enumerate(candidates):
            assert vectors is not None
            path = best_path(similarity_matrix(vectors, self.embed(candidate.sentences)))
            homes = twin_windows(path, story, len(candidate.sentences))
            if self.filters.fills(homes, self.windows):
                self._count(place, len(candidates))
                return {
                    "id": work.id,
                    "title": work.title,
                    "story": story,
                    "twin": candidate.sentences,
                    "twin_windows": homes,
                    "alignment": path,
                    "language": candidate.language,
                    "similarity": candidate.similarity,
                }
        self.counts.windows += len(candidates)
        self.counts.no_twin += 1
        return None

    def recall(self, work: Work, twin: Sequence[str]) -> None:
        """Count a work whose twin is known from an earlier run as `row` would, which spares embedding it.

        Raises:
            ValueError: the twin can't be one.
        """
        tellings = [candidate.sentences for candidate in self._candidates(work) or ()]
        if list(twin) not in tellings:
            raise ValueError(f"the twin of {work.id!r} is not among the tellings that pass; was the input changed?")
        self._count(tellings.index(list(twin)), len(tellings))

    def _candidates(self, work: Work) -> list[Candidate] | None:
        """The tellings that may pass, in the order in which they are tried: the first that passes is the twin. None
        where the story is no long one."""
        self.counts.works += 1
        if not work.story:
            self.counts.no_story += 1
            return None
        if len(work.story) < self.filters.min_sentences:
            self.counts.short += 1
            return None
        self.counts.tellings += len(work.candidates)
        left = []
        for candidate in work.candidates:
            if self.filters.too_different(work.story, candidate):
                self.counts.length += 1
            elif self.filters.too_similar(candidate):
                self.counts.similar += 1
            else:
                left.append(candidate)
        return sorted(left, key=lambda one: Random(f"{self.seed} {work.id} {one.sentences}").random())

    def _count(self, place: int, tried: int) -> None:
        """A work is kept, with the candidate at a place; those before it did not pass."""
        self.counts.kept += 1
        self.counts.windows += place
        self.counts.not_drawn += tried - place - 1


def read_works(found: Iterable[Source], anonymized: bool = False) -> Iterator[tuple[str, Work | RowError]]:
    """The works of some files, each with what to call it; what is none keeps its place as an error.

    Args:
        found: what stands in the files, from `works.sources`: rows with a `story` and `twins`, or documents of
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
