"""Filters for stories and their twins, and the number of works and tellings dropped by each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from narrative_twins.data.rows import window_sizes
from narrative_twins.making.align.works import Candidate

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
