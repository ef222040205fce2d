"""Long narrative twins: stories in even windows, each with a twin whose windows follow from their
alignment."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from tqdm import tqdm

from narrative_twins.baselines.graph import cosine_matrix
from narrative_twins.data.rows import RowError, twin_windows, window_sizes
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.alignment import SentenceEmbedder, best_path
from narrative_twins.making.generated import (
    Columns,
    public_name,
    recipe_text,
    write_facts,
    write_rows,
)
from narrative_twins.making.works import Candidate, Work, read_works, work_files
from narrative_twins.stories.reading import count_stories
from narrative_twins.stories.story import even_windows
from narrative_twins.writing import JsonlLog, digest_of_files

logger = logging.getLogger(__name__)

OTHER_LANGUAGES = "other"
"""The key of `MAX_SIMILARITY` for unknown languages and for languages without a limit."""

MAX_SIMILARITY = {"fr": 0.681, "de": 0.674, "it": 0.612, "es": 0.591, OTHER_LANGUAGES: 0.6}
"""By language, the similarity to the story above which a version counts as a translation. The
authors of `Tell me again!` have these figures, in percent, as qualities of translations; a public
script after the recipe of the paper on narrative twins uses them as limits, and 0.6."""


@dataclass(frozen=True)
class Filters:
    """Requirements for a story and its twin; values out of range raise ValueError.

    Attributes:
        windows: number of even windows of a story.
        min_sentences: fewest sentences of the story.
        max_difference: largest difference in sentences between story and twin. The paper on
            narrative twins uses the standard deviation of the story lengths, 13.7 in its data.
        min_window: fewest sentences of the twin in a window.
        max_similarity: by language. Copies of the story never pass. Other versions pass if their
            similarity is unknown, or if neither their language nor `OTHER_LANGUAGES` has a limit.
    """

    windows: int = 5
    min_sentences: int = 20
    max_difference: float = 13.7
    min_window: int = 3
    max_similarity: Mapping[str, float] = field(default_factory=lambda: MAX_SIMILARITY)

    def __post_init__(self) -> None:
        limits = all(-1 <= limit <= 1 for limit in self.max_similarity.values())
        if not (1 <= self.windows <= self.min_sentences and self.max_difference >= 0 and limits):
            raise ValueError(
                f"{self.windows} windows for stories of {self.min_sentences} sentences: use 1 to"
                f" {self.min_sentences}; a difference must be 0 or more, similarities from -1 to 1"
            )

    def rejection(self, story: Sequence[str], version: Candidate) -> str | None:
        """Why a version is dropped before alignment, if it is, for the counts of `long_twin`."""
        if abs(len(story) - len(version.sentences)) > self.max_difference:
            return "versions that are too different in length"
        texts = {" ".join(" ".join(s).split()).casefold() for s in (story, version.sentences)}
        others = self.max_similarity.get(OTHER_LANGUAGES, 1.0)
        limit = self.max_similarity.get(version.language or OTHER_LANGUAGES, others)
        if len(texts) == 1 or (version.similarity is not None and version.similarity > limit):
            return "versions that are too similar, perhaps a copy or a translation"
        return None


def long_twin(
    work: Work, embed: Callable[[Sequence[str]], Any], filters: Filters, seed: int = 0
) -> tuple[Columns | None, Counter[str]]:
    """The row of a work, as `load_window_twins` reads it, or None if it is dropped; and the counts
    of what is kept and dropped, in words. The twin is drawn from the versions that pass all
    filters, by the seed, the id of the work and the versions alone: neither other works nor any
    order matter. `embed` maps sentences to vectors, of shape (sentences, dimensions)."""
    if len(work.story) < filters.min_sentences:
        kind = "with a story that is too short" if work.story else "without a story in English"
        return None, Counter(["works read", f"works {kind}"])
    row, reasons = None, []
    # Each version gets a random number of its own, so the order in the input does not matter.
    for version in sorted(
        work.candidates, key=lambda one: Random(f"{seed} {work.id} {one.sentences}").random()
    ):
        if reason := filters.rejection(work.story, version):
            reasons.append(reason)
        elif row is None:
            row = _aligned(work, version, embed([*work.story, *version.sentences]), filters)
            if row is None:
                reasons.append("versions with too few sentences in a window")
    words = "works kept, with a twin" if row else "works without a twin"
    return row, Counter(["works read", words, *reasons])


def _aligned(work: Work, twin: Candidate, vectors: Any, filters: Filters) -> Columns | None:
    """The row of a work with this twin, or None if a window lacks sentences."""
    path = best_path(cosine_matrix(vectors)[: len(work.story), len(work.story) :])
    story = [work.story[lo:hi] for lo, hi in even_windows(len(work.story), filters.windows)]
    windows_of = twin_windows(path, story, len(twin.sentences))
    if min(window_sizes(windows_of, filters.windows)) < filters.min_window:
        return None
    columns = {"id": work.id, "title": work.title, "story": story, "twin": twin.sentences}
    alignment = {"twin_windows": windows_of, "alignment": path}
    return columns | alignment | {"language": twin.language, "similarity": twin.similarity}


def make_long_twins(
    paths: Sequence[str],
    out: str,
    embed: SentenceEmbedder,
    filters: Filters = Filters(),
    *,
    seed: int = 0,
    anonymized: bool = False,
    language: str = "en",
    resume: bool = False,
    progress: bool = False,
    report: Callable[[str], object] = logger.warning,
) -> Counter[str]:
    """Make rows of long narrative twins from several versions of works, and write them with their
    facts, see `write_facts`. Works that are done are in `OUT.part` until all are. Returns the
    counts of `long_twin`.

    Args:
        paths: the files of works, see `read_works`, and folders of them.
        out: the JSON Lines file to write.
        embed: embeds sentences.
        filters, seed: see `long_twin`.
        anonymized: see `read_works`.
        language: the language of the versions, for the facts.
        resume: resume an interrupted run, of the same works and settings (ResumeError).
        progress, report: whether to show a progress bar, and what is called with each work that is
            invalid.
    """
    settings = {
        "works of": {Path(path).resolve().name: digest_of_files(path) for path in paths},
        "sentence encoder": f"{public_name(embed.name)} {embed.fingerprint or ''}",
        "sentence pooling": embed.pooling,
        **asdict(filters),
        "seed": seed,
        "names of 'Tell me again!' replaced": "in the twins only" if anonymized else "no",
    }
    files, log = work_files(paths), JsonlLog(f"{out}.part", settings, resume)
    with log:
        remaining = islice(read_works(files, anonymized), len(log.rows), None)
        total = count_stories(files) - len(log.rows)
        for _, work in tqdm(remaining, None, max(0, total) or None, disable=not progress):
            if isinstance(work, RowError):
                report(str(work))
                row, counts = None, Counter(["works read", "works that are invalid"])
            else:
                row, counts = long_twin(work, embed, filters, seed)
            log.rows.append({"row": row, "counts": counts})
            log.append(log.rows[-1])
    write_rows(out, [each["row"] for each in log.rows if each["row"]])
    Path(log.path).unlink()
    counts = sum((Counter(each["counts"]) for each in log.rows), Counter[str]())
    counted = "\n".join(f"- {words}: {number:,}" for words, number in sorted(counts.items()))
    facts = DatasetFacts(
        "Long narrative twins",
        "Stories in even windows, each with a narrative twin. A sentence of the twin is in the"
        " windows of the sentences of the story that dynamic time warping aligns it to."
        f"\n\n{counted}",
        recipe_text("narrative-twins make align", settings),
        "No human has checked the twins. The authors and the licence of the texts are not known to"
        " the program: add them before you share the data.",
        language=language,
        tags=["narrative-twins"],
    )
    write_facts(out, facts)
    return counts
