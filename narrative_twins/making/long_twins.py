"""Long narrative twins: stories in even windows, each with a twin whose windows follow from their
alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.data.rows import Row, RowError, twin_windows, window_sizes
from narrative_twins.making.alignment import best_path, similarity_matrix
from narrative_twins.making.works import Candidate, Work
from narrative_twins.stories.story import even_windows

Embed: TypeAlias = Callable[[Sequence[str]], NDArray[np.floating[Any]]]
"""Maps sentences to their vectors, of shape (sentences, dimensions)."""

OTHER_LANGUAGES = "other"
"""The key of `MAX_SIMILARITY` for unknown languages and for those without a limit of their own."""

MAX_SIMILARITY: Mapping[str, float] = {
    "fr": 0.681,
    "de": 0.674,
    "it": 0.612,
    "es": 0.591,
    OTHER_LANGUAGES: 0.6,
}
"""By language, the similarity to the story above which a telling counts as a translation; see
`tell_me_again`."""


@dataclass(frozen=True)
class Filters:
    """Requirements for a story and its twin; values out of range raise ValueError.

    Attributes:
        min_sentences: fewest sentences of the story.
        max_difference: largest difference in sentences between story and twin. The paper on
            narrative twins uses the standard deviation of the story lengths, 13.7 in its data.
        min_window: fewest sentences of the twin in a window.
        max_similarity: by language, see `MAX_SIMILARITY`. Copies of the story never pass. Other
            tellings pass if their similarity is unknown, or if neither their language nor
            `OTHER_LANGUAGES` has a limit.
    """

    min_sentences: int = 20
    max_difference: float = 13.7
    min_window: int = 3
    max_similarity: Mapping[str, float] = field(default_factory=lambda: MAX_SIMILARITY)

    def __post_init__(self) -> None:
        if self.min_sentences < 1 or self.min_window < 1:
            raise ValueError("min_sentences and min_window must be 1 or more")
        if not self.max_difference >= 0:
            raise ValueError(f"max_difference={self.max_difference} is not a number of 0 or more")
        for language, value in self.max_similarity.items():
            if not -1 <= value <= 1:
                raise ValueError(
                    f"the maximum similarity {value} ({language}) is not a number from -1 to 1"
                )

    def too_different(self, story: Sequence[str], candidate: Candidate) -> bool:
        """Whether the lengths differ by more than `max_difference`."""
        return abs(len(story) - len(candidate.sentences)) > self.max_difference

    def too_similar(self, story: Sequence[str], candidate: Candidate) -> bool:
        """Whether a telling is a copy of the story, or so similar that it may be a translation."""
        if _normalized(story) == _normalized(candidate.sentences):
            return True
        limit = self.max_similarity.get(
            candidate.language or OTHER_LANGUAGES, self.max_similarity.get(OTHER_LANGUAGES, 1.0)
        )
        return candidate.similarity is not None and candidate.similarity > limit

    def fills_windows(self, windows_of: Sequence[Sequence[int]], windows: int) -> bool:
        """Whether each of `windows` windows has enough sentences of the twin, given the windows of
        each sentence."""
        return min(window_sizes(windows_of, windows)) >= self.min_window

    def settings(self) -> dict[str, Any]:
        """The filters with descriptive names, for the settings of a run and the card."""
        return {
            "sentences of a story, at least": self.min_sentences,
            "difference in sentences, at most": self.max_difference,
            "sentences of the twin in a window, at least": self.min_window,
            "measured similarity, at most": dict(self.max_similarity),
        }


def _normalized(sentences: Sequence[str]) -> str:
    """The text in one case, with single spaces and without sentence boundaries."""
    return " ".join(" ".join(sentences).split()).casefold()


@dataclass
class Counts:
    """Number of works read, and dropped by reason; the same for the tellings of works with a long
    enough story.

    `works` is the sum of `unreadable`, `no_story`, `short`, `no_twin` and `kept`; `tellings` of
    `length`, `similar`, `windows`, `not_drawn` and `kept`. `earlier_rows` are rows of an earlier
    run whose work or twin is not in the input now.
    """

    works: int = 0
    unreadable: int = 0
    no_story: int = 0
    short: int = 0
    no_twin: int = 0
    kept: int = 0
    tellings: int = 0
    length: int = 0
    similar: int = 0
    windows: int = 0
    not_drawn: int = 0
    earlier_rows: int = 0

    @property
    def rows(self) -> int:
        """Number of rows in the output."""
        return self.kept + self.earlier_rows

    def describe(self, filters: Filters) -> Iterator[tuple[str, int]]:
        """Yield each count with its description."""
        yield "works read", self.works
        yield "- could not be read or aligned", self.unreadable
        yield "- without a story in English", self.no_story
        yield f"- story of fewer than {filters.min_sentences} sentences", self.short
        yield "- no telling passed the filters", self.no_twin
        yield "- kept, with a twin each", self.kept
        yield "other tellings of long enough stories", self.tellings
        yield f"- longer or shorter by more than {filters.max_difference:g} sentences", self.length
        yield "- too similar, perhaps a copy or a translation", self.similar
        yield f"- fewer than {filters.min_window} sentences in a window", self.windows
        yield "- not drawn, another telling was", self.not_drawn
        yield "- kept, as a twin", self.kept
        if self.earlier_rows:
            yield (
                "rows of an earlier run, of works or twins that are no longer in the input",
                self.earlier_rows,
            )


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
