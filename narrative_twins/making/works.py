"""Works: a story and other versions of it, one of which may become its twin; and the files that
works are read from.

`Tell me again!` (Hatzel and Biemann, 2024) has summaries of works from Wikipedias in several
languages: once unpacked, a JSON document per work, `summaries/12/1234.json` for Q1234. Read of it,
after the authors' code (github.com/uhh-lt/story-emb, tell-me-again), are `wikidata_id`; `title`, a
text or an object with `value`; `summaries` by language, with headings in lines that start with `#`;
`en_translated_summaries` by language, objects with `text`; `anonymized`, some of the texts with
names replaced; and `similarity`, a square matrix `similarities` over the languages in `indexes`,
from 0 to 1, of the sentences of two summaries by all-MiniLM-L6-v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from narrative_twins.data.rows import RowError, check_list, check_story
from narrative_twins.stories.reading import read_stories
from narrative_twins.stories.story import check_unicode
from narrative_twins.writing import digest


class Candidate(NamedTuple):
    """Another version of a story, which may become the twin: its sentences, the language it was
    translated from, and its similarity to the story, at most 1; both None if not known."""

    sentences: list[str]
    language: str | None = None
    similarity: float | None = None


class Work(NamedTuple):
    """A work: the sentences of its story (empty if it has none), and other versions of it."""

    id: str
    title: str | None
    story: list[str]
    candidates: list[Candidate]


def work_files(paths: Iterable[str]) -> list[str]:
    """The paths, with each folder replaced by the JSON and JSON Lines files in it and its folders,
    in the order of their names; if some are in a folder `summaries`, as in `Tell me again!`, only
    these."""
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
    """Yield the work in each row of JSON Lines files and each document or item of JSON files, with
    its name for messages; or an error that says what is wrong.

    Args:
        files: names of files; `-` is JSON Lines on standard input. Rows have a `story`, a list of
            `twins`, and optionally an `id` (default: a digest of the story) and a `title`; a
            version is a text or a list of sentences, and a twin may also be an object with `text`
            or `sentences`, and optionally `language` and `similarity`. In documents of `Tell me
            again!` the English summary is the story, and translations from other languages are
            candidates; missing and null keys count as empty, and headings are left out.
        anonymized: use the translations of `Tell me again!` with names replaced as twins; the story
            keeps its names, so that story and twin have no names in common.
    """
    for name, content, problem in read_stories(files, column=""):
        try:
            if problem is not None:
                raise RowError(name, problem)
            is_row = "story" in content or not {"summaries", "en_translated_summaries"} & {*content}
            work = _row(content) if is_row else _document(name, content, anonymized)
            for text in (work.title, *(each.language for each in work.candidates)):
                check_unicode(text or "", "the title or a language")
            yield name, work
        except RowError as error:
            yield name, RowError(name, error.problem)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            needed = "'story' and 'twins', or 'summaries' and 'en_translated_summaries'"
            yield name, RowError(name, f"is not a work ({reason}); a work has {needed}, see --help")


def _row(row: Mapping[str, Any]) -> Work:
    """The work of a row."""
    story = list(check_story(row["story"], "story", "").sentences)
    candidates = []
    for number, twin in enumerate(check_list(row["twins"], "twins", "", "versions")):
        sentences = list(check_story(twin, f"twins[{number}]", "").sentences)
        facts = twin if isinstance(twin, Mapping) else {}
        candidates.append(_candidate(sentences, facts.get("language"), facts.get("similarity")))
    return Work(str(row.get("id") or digest(story)[:12]), row.get("title"), story, candidates)


def _document(name: str, content: Mapping[str, Any], anonymized: bool) -> Work:
    """The work of a document of `Tell me again!`."""
    block, similarities = content.get("similarity") or {}, {}
    if "en" in (languages := block.get("indexes") or []):
        row = block["similarities"][languages.index("en")]
        similarities = dict(zip(languages, row, strict=True))
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


def _summary(key: str, text: str | None) -> list[str]:
    """The sentences of a summary without its headings; empty if it has no letters or digits."""
    lines = (text or "").splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return list(check_story(kept, key, "").sentences) if any(map(str.isalnum, kept)) else []


def _candidate(sentences: list[str], language: str | None, similarity: float | None) -> Candidate:
    """A version whose similarity is not known if it is NaN; rounding errors of half precision are
    clipped."""
    if similarity is None or similarity != similarity:
        return Candidate(sentences, language)
    if abs(similarity) > 1.001:
        raise ValueError(f"the similarity {similarity} is above 1")
    return Candidate(sentences, language, max(-1.0, min(1.0, float(similarity))))
