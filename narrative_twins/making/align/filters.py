"""Which tellings can be twins, and how many could not, by reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from narrative_twins.making.align.works import Candidate

OTHERS = "other"
"""Stands for the languages that are not named, and for none."""

MAX_SIMILARITY: Mapping[str, float] = {"fr": 0.681, "de": 0.674, "it": 0.612, "es": 0.591, OTHERS: 0.6}
"""By language the similarity above which a telling is taken for a translation of the story; see `tell_me_again`."""


@dataclass(frozen=True)
class Filters:
    """What a story and its twin have to be like.

    Attributes:
        min_sentences: of the story.
        max_difference: how many sentences longer or shorter the twin may be. The standard deviation of the stories'
            lengths is what the paper on narrative twins takes, 13.7 in its data.
        min_window: sentences of the twin in each window.
        max_similarity: by language, see `MAX_SIMILARITY`. A telling without a similarity passes, unless it is the story
            itself; so does one in a language that has no number, where there is none for all others.

    Raises:
        ValueError: a filter would let everything or nothing pass.
    """

    min_sentences: int = 20
    max_difference: float = 13.7
    min_window: int = 3
    max_similarity: Mapping[str, float] = field(default_factory=lambda: MAX_SIMILARITY)

    def __post_init__(self) -> None:
        if self.min_sentences < 1 or self.min_window < 1:
            raise ValueError("min_sentences and min_window count sentences, 1 or more")
        if not self.max_difference >= 0:
            raise ValueError(f"max_difference={self.max_difference} is no number of sentences, 0 or more")
        for language, value in self.max_similarity.items():
            if not -1 <= value <= 1:
                raise ValueError(f"the similarity {value} ({language}) is no cosine; it goes up to 1")

    def too_different(self, story: Sequence[str], candidate: Candidate) -> bool:
        """Whether the lengths are."""
        return abs(len(story) - len(candidate.sentences)) > self.max_difference

    def too_similar(self, story: Sequence[str], candidate: Candidate) -> bool:
        """Whether a telling is the story itself or a translation of it, rather than a telling of its own."""
        if _folded(story) == _folded(candidate.sentences):
            return True
        highest = self.max_similarity.get(candidate.language or OTHERS, self.max_similarity.get(OTHERS, 1.0))
        return candidate.similarity is not None and candidate.similarity > highest

    def fills(self, windows_of: Sequence[Sequence[int]], windows: int) -> bool:
        """Whether a twin has enough sentences in each window.

        Args:
            windows_of: for each sentence of the twin its windows.
            windows: how many there are.
        """
        return all(sum(w in one for one in windows_of) >= self.min_window for w in range(windows))

    def settings(self) -> dict[str, Any]:
        """The filters as data, by their names in words."""
        return {
            "sentences of a story, at least": self.min_sentences,
            "difference in sentences, at most": self.max_difference,
            "sentences of the twin in a window, at least": self.min_window,
            "measured similarity, at most": dict(self.max_similarity),
        }


def _folded(sentences: Sequence[str]) -> str:
    """A text of which case, white space and where it is cut do not matter."""
    return " ".join(" ".join(sentences).split()).casefold()


@dataclass
class Counts:
    """How many works there were, how many of them were dropped and why; the same of the tellings of long stories.

    `works` is the sum of `unreadable`, `no_story`, `short`, `no_twin` and `kept`; `tellings` of `length`, `similar`,
    `windows`, `not_drawn` and `kept`. Rows that an earlier run made of what is not read now are `left`.
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
    left: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.kept + self.left

    def describe(self, filters: Filters) -> Iterator[tuple[str, int]]:
        """What was counted, and how many."""
        yield "works read", self.works
        yield "- could not be read or aligned", self.unreadable
        yield "- without a story in English", self.no_story
        yield f"- story of fewer than {filters.min_sentences} sentences", self.short
        yield "- no telling left to be a twin", self.no_twin
        yield "- kept, with a twin each", self.kept
        yield "other tellings of long stories", self.tellings
        yield f"- longer or shorter by more than {filters.max_difference:g} sentences", self.length
        yield "- too similar, so perhaps a copy or a translation", self.similar
        yield f"- fewer than {filters.min_window} sentences in a window", self.windows
        yield "- not drawn, another one was", self.not_drawn
        yield "- kept, as a twin", self.kept
        if self.left:
            yield "rows of an earlier run, of works or twins that are not read now", self.left
