"""Long narrative twins: stories in even windows, each with a twin whose windows follow from an
alignment of the two by dynamic time warping over the similarities of their sentences.

Works are read from rows, or from `Tell me again!` (Hatzel and Biemann, 2024), summaries of works
from Wikipedias in several languages. Unpacked, it has a JSON document per work,
`summaries/12/1234.json` for Q1234. As in the authors' code (github.com/uhh-lt/story-emb,
tell-me-again), these keys are read: `wikidata_id`; `title`, a text or an object with `value`;
`summaries` by language, with headings in lines that start with `#`; `en_translated_summaries` by
language, objects with `text`; `anonymized`, some of the texts with names replaced; and
`similarity`, a square matrix `similarities` over the languages in `indexes`, from 0 to 1, of the
sentences of two summaries by all-MiniLM-L6-v2.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePath
from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from narrative_twins.baselines.scorers import cosine_matrix
from narrative_twins.books.story_files import count_story_files, read_story_files
from narrative_twins.data.label_tables import as_released
from narrative_twins.data.rows import RowError, check_list, check_story, twin_windows, window_sizes
from narrative_twins.encoder.loading import encoder_path, fingerprint
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.generated_rows import (
    Columns,
    public_name,
    recipe_text,
    write_facts,
    write_rows,
)
from narrative_twins.stories.rows import RowColumns
from narrative_twins.stories.story import check_unicode, even_windows
from narrative_twins.writing import JsonlLog, digest, digest_of_files

logger = logging.getLogger(__name__)

OTHER_LANGUAGES = "other"
"""The key of `MAX_SIMILARITY` for unknown languages and for languages without a limit."""

MAX_SIMILARITY = {"fr": 0.681, "de": 0.674, "it": 0.612, "es": 0.591, OTHER_LANGUAGES: 0.6}
"""By language, the similarity to the story above which a version counts as a translation. The
authors of `Tell me again!` report these figures, in percent, as qualities of translations. A public
script after the recipe of the paper on narrative twins uses them, and 0.6, as limits."""

STEPS = ((1, 1), (1, 0), (0, 1))
"""The steps of a path: how far each goes in the story and in the twin, in sentences. Of equally
good steps the first is taken."""


class Candidate(NamedTuple):
    """Another version of a story, which may become the twin: its sentences, the language that it
    was translated from, and its similarity to the story, from -1 to 1 (both None if unknown)."""

    sentences: list[str]
    language: str | None = None
    similarity: float | None = None


class Work(NamedTuple):
    """A work: its id, its title or None, the sentences of its story (may be empty), and other
    versions of the story."""

    id: str
    title: str | None
    story: list[str]
    candidates: list[Candidate]


def work_files(paths: Iterable[str]) -> list[str]:
    """Return `paths`, with each folder replaced by the JSON and JSON Lines files in it, sorted by
    name. If some are in folders `summaries`, as in `Tell me again!`, only these are returned."""
    files: list[str] = []
    for path in map(Path, paths):
        suffixes = (".json", ".jsonl", ".ndjson")
        inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in suffixes)
        summaries = [file for file in inside if "summaries" in file.relative_to(path).parts[:-1]]
        files += map(str, summaries or inside or [path])
    return files


def read_works(
    files: Iterable[str], anonymized: bool = False
) -> Iterator[tuple[str, Work | RowError]]:
    """Read works: one per row of JSON Lines files and per document or item of JSON files. Yield,
    for each, a name for messages and the work, or the RowError of an invalid work.

    Args:
        files: names of files; `-` is JSON Lines on standard input. Rows have a `story`, a list of
            `twins`, and optionally an `id` (default: a digest of the story) and a `title`; story
            and twins are texts or lists of sentences, and a twin may also be an object with `text`
            or `sentences`, and optionally `language` and `similarity`. In documents of `Tell me
            again!` the English summary is the story, and translations from other languages are
            candidates; missing and null keys count as empty, and headings are left out.
        anonymized: read the translations of `Tell me again!` with names replaced. The story keeps
            its names, so story and twin have no names in common.
    """
    for name, content, problem, *_ in read_story_files(files, columns=RowColumns("")):
        try:
            if problem is not None:
                raise RowError(name, problem)
            is_row = "story" in content or not {"summaries", "en_translated_summaries"} & {*content}
            work = _work_of_row(content) if is_row else _work_of_document(name, content, anonymized)
            for text in (work.title, *(each.language for each in work.candidates)):
                check_unicode(text or "", "the title or a language")
            yield name, work
        except RowError as error:
            yield name, RowError(name, error.problem)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            needed = "'story' and 'twins', or 'summaries' and 'en_translated_summaries'"
            yield name, RowError(name, f"is not a work ({reason}); a work has {needed}, see --help")


def _work_of_row(row: Mapping[str, Any]) -> Work:
    """Return the work of a row with `story` and `twins`."""
    story = list(check_story(row["story"], "story", "").sentences)
    candidates = []
    for number, twin in enumerate(check_list(row["twins"], "twins", "", "versions")):
        sentences = list(check_story(twin, f"twins[{number}]", "").sentences)
        facts = twin if isinstance(twin, Mapping) else {}
        candidates.append(_candidate(sentences, facts.get("language"), facts.get("similarity")))
    return Work(str(row.get("id") or digest(story)[:12]), row.get("title"), story, candidates)


def _work_of_document(name: str, content: Mapping[str, Any], anonymized: bool) -> Work:
    """Return the work of a document of `Tell me again!` in the file `name`. If `anonymized`, the
    candidates are translations with names replaced."""
    similarities = _similarities_to_english(content.get("similarity") or {})
    key = "anonymized" if anonymized else "en_translated_summaries"
    candidates = []
    for language, version in (content.get(key) or {}).items():
        text = version if anonymized else (version or {}).get("text")
        # The English summary is not a translation, even with other names.
        if language != "en" and (sentences := _summary(f"{key}.{language}", text)):
            candidates.append(_candidate(sentences, language, similarities.get(language)))
    title = content.get("title")
    # The name of a file that holds one document is the id without its Q.
    return Work(
        str(content.get("wikidata_id") or f"Q{PurePath(name).stem}"),
        title.get("value") if isinstance(title, Mapping) else title,
        _summary("summaries", (content.get("summaries") or {}).get("en")),
        candidates,
    )


def _similarities_to_english(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the similarity of each language's summary to the English one, if there is one."""
    languages = block.get("indexes") or []
    if "en" not in languages:
        return {}
    return dict(zip(languages, block["similarities"][languages.index("en")], strict=True))


def _summary(key: str, text: str | None) -> list[str]:
    """Return the sentences of a summary without headings; an empty list if it has no letters or
    digits. `key` names the summary in errors."""
    lines = (text or "").splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return list(check_story(kept, key, "").sentences) if any(map(str.isalnum, kept)) else []


def _candidate(sentences: list[str], language: str | None, similarity: float | None) -> Candidate:
    """Return a candidate with a similarity from -1 to 1. NaN becomes None, and rounding errors are
    clipped (1.0004 → 1). Raises ValueError for a larger number."""
    if similarity is None or similarity != similarity:
        return Candidate(sentences, language)
    if abs(similarity) > 1.001:
        raise ValueError(f"the similarity {similarity} is above 1")
    return Candidate(sentences, language, max(-1.0, min(1.0, float(similarity))))


# Alignment


class SentenceEmbedder:
    """Embeds sentences: a call returns an array of shape (sentences, dimensions), float32.

    Args:
        name: folder or Hub id of an encoder (OSError if missing); None for the default encoder.
        device: torch device; default an accelerator if there is one.
        pooling: `"checkpoint"` is the pooling that is saved with the checkpoint, or else mean
            pooling. `"pooler"` is the `pooler_output` of the model, as SimCSE was trained: the
            first token after a dense layer with tanh. OSError if the checkpoint lacks the weights
            of this layer.
    """

    def __init__(
        self,
        name: str | Path | None = None,
        device: str | None = None,
        pooling: Literal["checkpoint", "pooler"] = "checkpoint",
    ) -> None:
        self.name, self.pooling = encoder_path(name), pooling
        self._encoder = StoryEncoder.from_pretrained(name, device=device, dtype="float32")
        # Distinguishes encoders of the same name.
        self.fingerprint = fingerprint(self.name, self._encoder.model.config)
        if pooling == "pooler":
            model, trained = self._encoder.model, self._encoder.model.checkpoint_settings.pooling
            untrained = any(key.startswith("pooler.") for key in model.untrained)
            problem = ""
            if trained is not None:
                problem = f"it was trained with {trained} pooling, not with its pooler; use that"
            elif untrained or getattr(model, "pooler", None) is None:
                problem = "it has no weights of a pooler; use one such as SimCSE, or other pooling"
            if problem:
                raise OSError(f"encoder {self.name!r}: {problem}")
            self._encoder.pooling = "first"

    def __call__(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        vectors = self._encoder.encode(list(sentences))
        if self.pooling == "checkpoint":
            return vectors
        # The pooler takes token states, and uses the first.
        states = torch.from_numpy(vectors).to(self._encoder.device).unsqueeze(1)
        with torch.inference_mode():
            pooled: NDArray[np.float32] = self._encoder.model.pooler(states).cpu().numpy()
        return pooled


def best_path(similarities: NDArray[np.floating[Any]]) -> list[tuple[int, int]]:
    """Return the monotone path with the largest sum through a matrix of shape (n, m), in O(n·m).
    Raises ValueError if the matrix is empty, or has a cell that is not a finite number.

    A path goes from cell (0, 0) to cell (n − 1, m − 1) by the steps of `STEPS`, as in dynamic time
    warping; its sum includes both ends. Ties are broken from the end, in the order of `STEPS`.

    Returns:
        The cells (i, j) of the path in order, for sentence i of the story and j of the twin.
    """
    cells = np.asarray(similarities, np.float64)
    if cells.ndim != 2 or not cells.size or not np.isfinite(cells).all():
        raise ValueError(
            f"similarities of shape {cells.shape}: a non-empty matrix of finite numbers is needed"
        )
    n, m = cells.shape
    # The total of cell (i, j) is at [i + 1][j + 1]; cells outside of the matrix are -inf, so that
    # no path uses them, but for the one before all paths.
    totals = [[-math.inf] * (m + 1) for _ in range(n + 1)]
    totals[0][0] = 0
    for i, row in enumerate(cells.tolist()):
        for j, cell in enumerate(row):
            totals[i + 1][j + 1] = cell + max(totals[i][j], totals[i][j + 1], totals[i + 1][j])
    i, j = n - 1, m - 1
    path = [(i, j)]
    while (i, j) != (0, 0):
        # `max` returns the first of equal predecessors.
        i, j = max(((i - di, j - dj) for di, dj in STEPS), key=lambda c: totals[c[0] + 1][c[1] + 1])
        path.append((i, j))
    return path[::-1]


# Rows


@dataclass(frozen=True)
class Filters:
    """Requirements for a story and its twin; values out of range raise ValueError.

    Attributes:
        windows: the number of even windows of a story.
        min_sentences: the fewest sentences of a story.
        max_difference: the largest difference in sentences between story and twin. The paper on
            narrative twins uses the standard deviation of the story lengths, 13.7 in its data.
        min_window: the fewest sentences of the twin in any window.
        max_similarity: by language, the largest similarity of a version to the story. Copies of the
            story never pass. Other versions pass if their similarity is unknown, or if neither
            their language nor `OTHER_LANGUAGES` has a limit.
        released: whether to filter as the released code of the paper: text in round brackets is
            removed, a twin has at least `min_sentences` sentences, and `min_window` + 1 in each
            window; `max_difference` is the standard deviation of the lengths of the stories; and a
            work is dropped if the drawn twin has too few sentences in a window.
    """

    windows: int = 5
    min_sentences: int = 20
    max_difference: float = 13.7
    min_window: int = 3
    max_similarity: Mapping[str, float] = field(default_factory=lambda: MAX_SIMILARITY)
    released: bool = False

    def __post_init__(self) -> None:
        limits = all(-1 <= limit <= 1 for limit in self.max_similarity.values())
        if not (1 <= self.windows <= self.min_sentences and self.max_difference >= 0 and limits):
            raise ValueError(
                f"{self.windows} windows for stories of {self.min_sentences} sentences: use 1 to"
                f" {self.min_sentences}; a difference must be 0 or more, similarities from -1 to 1"
            )

    def rejection(self, story: Sequence[str], version: Candidate) -> str | None:
        """Return why to drop a version (`"versions that are too short"`), or None to keep it."""
        longer, most = len(version.sentences) - len(story), self.max_difference
        if longer < -most or longer > (math.ceil(most) if self.released else most):
            return "versions that are too different in length"
        if self.released and len(version.sentences) < self.min_sentences:
            return "versions that are too short"
        texts = {" ".join(" ".join(s).split()).casefold() for s in (story, version.sentences)}
        others = self.max_similarity.get(OTHER_LANGUAGES, 1.0)
        limit = self.max_similarity.get(version.language or OTHER_LANGUAGES, others)
        if len(texts) == 1 or (version.similarity is not None and version.similarity > limit):
            return "versions that are too similar, perhaps a copy or a translation"
        return None


def long_twin(
    work: Work, embed: Callable[[Sequence[str]], Any], filters: Filters, seed: int = 0
) -> tuple[Columns | None, Counter[str]]:
    """Return the row of a work, for `load_window_twins`, or None if it is dropped; and counts of
    kept and dropped works and versions, such as `{"works without a twin": 1}`. The twin is drawn
    from the versions that pass all filters, depending on the seed, the id of the work and the
    versions alone. `embed` maps sentences to vectors of shape (sentences, dimensions)."""
    if len(work.story) < filters.min_sentences:
        kind = "with a story that is too short" if work.story else "without a story in English"
        return None, Counter(["works read", f"works {kind}"])
    if filters.released:
        cleaned = [
            one._replace(sentences=[*map(as_released, one.sentences)]) for one in work.candidates
        ]
        work = work._replace(story=[*map(as_released, work.story)], candidates=cleaned)
    row, reasons, is_drawn = None, [], False
    # Each version gets a random number of its own, so the order in the input does not matter.
    for version in sorted(
        work.candidates, key=lambda one: Random(f"{seed} {work.id} {one.sentences}").random()
    ):
        if reason := filters.rejection(work.story, version):
            reasons.append(reason)
        elif row is None and not is_drawn:
            is_drawn = filters.released
            row = _aligned(work, version, embed([*work.story, *version.sentences]), filters)
            if row is None:
                reasons.append("versions with too few sentences in a window")
    words = "works kept, with a twin" if row else "works without a twin"
    return row, Counter(["works read", words, *reasons])


def _aligned(work: Work, twin: Candidate, vectors: Any, filters: Filters) -> Columns | None:
    """Align a twin with the story of a work, and return their row; None if a window has too few
    sentences of the twin. `vectors`, shape (sentences, dimensions), are of the sentences of the
    story, then of the twin."""
    path = best_path(cosine_matrix(vectors)[: len(work.story), len(work.story) :])
    story = [work.story[lo:hi] for lo, hi in even_windows(len(work.story), filters.windows)]
    windows_of = twin_windows(path, story, len(twin.sentences))
    fewest = filters.min_window + filters.released
    if min(window_sizes(windows_of, filters.windows)) < fewest:
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
    """Make rows of long narrative twins from several versions of works, and write the rows and
    their facts, see `write_facts`. Until all works are done, the results are in `OUT.part`. Returns
    the counts of `long_twin`, summed over works.

    Args:
        paths: the files of works, see `read_works`, and folders of them.
        out: the JSON Lines file to write.
        embed: embeds sentences.
        filters, seed: see `long_twin`.
        anonymized: see `read_works`.
        language: the language of the versions, for the facts.
        resume: resume an interrupted run, or raise ResumeError if its works or settings differ.
        progress, report: whether to show a progress bar; and a function that is called with a
            message about each invalid work.
    """
    settings = {
        "works of": {Path(path).resolve().name: digest_of_files(path) for path in paths},
        "sentence encoder": f"{public_name(embed.name)} {embed.fingerprint or ''}",
        "sentence pooling": embed.pooling,
        **asdict(filters),
        "seed": seed,
        "names of 'Tell me again!' replaced": "in the twins only" if anonymized else "no",
    }
    files = work_files(paths)
    if filters.released:
        spread = _spread_of_lengths(read_works(files, anonymized), filters.min_sentences)
        filters = replace(filters, max_difference=spread)
        settings["max_difference"] = spread
    log = JsonlLog(f"{out}.part", settings, resume)
    with log:
        remaining = islice(read_works(files, anonymized), len(log.rows), None)
        total = count_story_files(files) - len(log.rows)
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
    write_facts(out, _facts_of(settings, counts, language))
    return counts


def _spread_of_lengths(works: Iterable[tuple[str, Work | RowError]], min_sentences: int) -> float:
    """Return the standard deviation of the lengths of stories, of those that are long enough and
    have another version; 0 if there are none."""
    lengths = [len(work.story) for _, work in works if isinstance(work, Work) and work.candidates]
    return float(np.std([length for length in lengths if length >= min_sentences] or [0]))


def _facts_of(
    settings: Mapping[str, Any], counts: Mapping[str, int], language: str
) -> DatasetFacts:
    """Return the facts of rows of long twins, for their card."""
    counted = "\n".join(f"- {words}: {number:,}" for words, number in sorted(counts.items()))
    return DatasetFacts(
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
