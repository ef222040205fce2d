"""Long narrative twins: stories in even windows, each with a twin whose windows follow from their
alignment."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from narrative_twins.data.loading import load_window_twins
from narrative_twins.data.rows import Row, RowError, twin_windows, window_sizes
from narrative_twins.files import STDIN
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.alignment import SentenceEmbedder, best_path, similarity_matrix
from narrative_twins.making.made import Report, RowsFile, public_name, recipe_text
from narrative_twins.making.works import Candidate, Work, read_documents, read_works
from narrative_twins.stories.reading import count_stories
from narrative_twins.stories.story import even_windows

logger = logging.getLogger(__name__)

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
`works`."""


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
        if min(self.min_sentences, self.min_window) < 1 or not self.max_difference >= 0:
            raise ValueError(
                "min_sentences and min_window must be 1 or more, max_difference 0 or more"
            )
        for language, value in self.max_similarity.items():
            if not -1 <= value <= 1:
                raise ValueError(f"the maximum similarity {value} ({language}) is not from -1 to 1")

    def rejection(self, story: Sequence[str], telling: Candidate) -> str | None:
        """The count of the filter that drops a telling before alignment, if any: `length`, or
        `similar` for a copy of the story and for what may be a translation."""
        if abs(len(story) - len(telling.sentences)) > self.max_difference:
            return "length"
        limits, similarity = self.max_similarity, telling.similarity
        limit = limits.get(telling.language or OTHER_LANGUAGES, limits.get(OTHER_LANGUAGES, 1.0))
        if _normalized(story) == _normalized(telling.sentences):
            return "similar"
        return "similar" if similarity is not None and similarity > limit else None


def _normalized(sentences: Sequence[str]) -> str:
    """The text in one case, with single spaces and without sentence boundaries."""
    return " ".join(" ".join(sentences).split()).casefold()


def describe_counts(counts: Mapping[str, int], filters: Filters) -> dict[str, int]:
    """The counts of `LongTwins` by their descriptions; those that start with `-` are reasons, which
    add up to the count before them."""
    described = {
        "works read": "works",
        "- could not be read or aligned": "unreadable",
        "- without a story in English": "no_story",
        f"- story of fewer than {filters.min_sentences} sentences": "short",
        "- no telling passed the filters": "no_twin",
        "- kept, with a twin each": "kept",
        "other tellings of long enough stories": "tellings",
        f"- longer or shorter by more than {filters.max_difference:g} sentences": "length",
        "- too similar, perhaps a copy or a translation": "similar",
        f"- fewer than {filters.min_window} sentences in a window": "windows",
        "- not drawn, another telling was": "not_drawn",
        "- kept, as a twin": "kept",
    }
    if counts["earlier_rows"]:
        words = "rows of an earlier run, of works or twins that are no longer in the input"
        described[words] = "earlier_rows"
    return {words: counts[name] for words, name in described.items()}


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
        counts: what was read, kept and dropped so far, see `describe_counts`.
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
        self.counts = Counter[str]()

    def row(self, work: Work, earlier: list[list[str]] | None = None) -> Row | None:
        """The row of a work; None if it is dropped, or if an earlier run has made its row.

        Args:
            work: the work.
            earlier: the twins of earlier rows with the id and the story of the work; the one that
                is still a candidate is removed, and the work is not embedded again.

        Raises:
            RowError: the work can't be aligned; it is not counted.
        """
        if len(work.story) < self.filters.min_sentences:
            self.counts.update(["works", "short" if work.story else "no_story"])
            return None
        reasons = [self.filters.rejection(work.story, telling) for telling in work.candidates]
        # Each telling gets a random number of its own, so the order in the input does not matter.
        candidates = sorted(
            (one for one, reason in zip(work.candidates, reasons, strict=True) if reason is None),
            key=lambda one: Random(f"{self.seed} {work.id} {one.sentences}").random(),
        )
        found = [index for index, one in enumerate(candidates) if one.sentences in (earlier or ())]
        drawn, row = (found[0] if found else None), None
        if drawn is not None and earlier:
            earlier.remove(candidates[drawn].sentences)
        elif candidates:
            vectors = self.embed(work.story)
            for index, candidate in enumerate(candidates):
                if row := self._aligned_row(work, vectors, candidate):
                    drawn = index
                    break
        self.counts.update(["works", "no_twin" if drawn is None else "kept"])
        self.counts.update(filter(None, reasons))
        # Candidates before the twin did not fill the windows; those after it were not tried.
        tried = len(candidates) if drawn is None else drawn
        self.counts.update(tellings=len(reasons), windows=tried)
        self.counts.update(not_drawn=0 if drawn is None else len(candidates) - drawn - 1)
        return row

    def _aligned_row(
        self, work: Work, vectors: NDArray[np.floating[Any]], candidate: Candidate
    ) -> Row | None:
        """The row of a work with this twin, or None if a window lacks sentences."""
        similarities = similarity_matrix(vectors, self.embed(candidate.sentences))
        try:
            path = best_path(similarities)
        except ValueError as error:
            raise RowError(f"work {work.id!r}", f"can't be aligned ({error})") from None
        story = [work.story[lo:hi] for lo, hi in even_windows(len(work.story), self.windows)]
        windows_of = twin_windows(path, story, len(candidate.sentences))
        if min(window_sizes(windows_of, self.windows)) < self.filters.min_window:
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


def make_long_twins(
    files: Sequence[str],
    out: str,
    embed: SentenceEmbedder | None = None,
    *,
    windows: int = 5,
    seed: int = 0,
    filters: Filters | None = None,
    anonymized: bool = False,
    language: str = "en",
    resume: bool = False,
    progress: bool = False,
    report: Report = logger.warning,
) -> Counter[str]:
    """Make rows of long narrative twins from several tellings of works, and write them with their
    facts and their card, see `RowsFile`.

    Args:
        files: the files of works, see `read_documents`.
        out: the JSON Lines file to write.
        embed: embeds sentences; None for the default encoder.
        windows, seed, filters: see `LongTwins`.
        anonymized: see `read_works`.
        language: the language of the tellings, for the card.
        resume: resume an interrupted run; works that have a row are not embedded again.
        progress: show a progress bar.
        report: is called with each problem.

    Returns:
        The numbers of works and tellings that were kept and dropped, see `describe_counts`.

    Raises:
        ResumeError: the earlier run was started with other settings.
        OSError, ValueError: a setting is invalid, or a file can't be read or written.
    """
    embed = embed or SentenceEmbedder()
    twins = LongTwins(embed, windows, seed, filters)
    settings = {
        "works of": ["standard input" if f == STDIN else Path(f).resolve().name for f in files],
        "sentence encoder": public_name(embed.name),
        "encoder fingerprint": embed.fingerprint,
        "sentence pooling": embed.pooling,
        "windows": windows,
        "sentences of a story, at least": twins.filters.min_sentences,
        "difference in sentences, at most": twins.filters.max_difference,
        "sentences of the twin in a window, at least": twins.filters.min_window,
        "measured similarity, at most": dict(twins.filters.max_similarity),
        "seed": seed,
        "names of 'Tell me again!' replaced": "in the twins only" if anonymized else "no",
    }
    file, counts = RowsFile(out, settings, resume), twins.counts
    # Works with the same id and story may have different twins.
    done: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for number, row in enumerate(file.rows(), start=1):
        try:
            done[(row["id"], *chain(*row["story"]))].append(row["twin"])
        except (KeyError, TypeError):
            raise file.not_resumable(number, "is not a row of this command") from None
    with file:
        works = read_works(read_documents(files), anonymized)
        total = count_stories(list(files)) or None
        for name, work in tqdm(works, total=total, unit=" works", disable=not progress):
            try:
                if isinstance(work, RowError):
                    raise work
                made = twins.row(work, done.get((work.id, *work.story)))
            except RowError as error:
                counts.update(["works", "unreadable"])
                report(str(error) if error is work else f"{name}: {error}")
            else:
                if made is not None:
                    file.write_row(made)
    if earlier := sum(map(len, done.values())):
        counts["earlier_rows"] = earlier
        report(
            f"{earlier:,} rows of the earlier run are of works or twins that are not in"
            " the input now, and are kept; start over to drop them"
        )
    if embed.truncated:
        report(
            f"{embed.truncated:,} sentences are longer than the encoder's context; their ends had"
            " no effect"
        )
    counted = "\n".join(
        # Counts by reason become nested lists.
        f"{'  ' if words.startswith('-') else '- '}{words}: {number:,}"
        for words, number in describe_counts(counts, twins.filters).items()
    )
    facts = DatasetFacts(
        "Long narrative twins",
        "Stories in windows, each with a narrative twin: the same plot told by someone else. The"
        " story is cut into even windows; a sentence of the twin is in the windows of the sentences"
        f" of the story that dynamic time warping aligns it to.\n\n{counted}",
        recipe_text("narrative-twins make align", settings),
        "No human has checked the twins; sentences are aligned by the similarities of an encoder."
        " The program does not know the authors and the licence of the texts: add them before you"
        " share the data.",
        language=language,
        tags=["narrative-twins"],
    )
    file.describe(facts, load_window_twins, report)
    return counts
