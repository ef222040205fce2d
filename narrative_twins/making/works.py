"""Works: a story and other tellings of it, one of which may become its twin; and the files that
works are read from.

`Tell me again!` (Hatzel and Biemann, 2024) has summaries of works from Wikipedias in several
languages. `tell_me_again_v1.zip` has a JSON document per work, `summaries/12/1234.json` for Q1234.
The keys that are read, after the authors' code (github.com/uhh-lt/story-emb, tell-me-again):

- `wikidata_id`: `"Q1234"`;
- `title`: the English title, or the label in another language as an object with `value`;
- `summaries`: texts by language (English may be missing), one line per paragraph, headings in lines
  that start with `#`;
- `en_translated_summaries`: by language except English, objects with `text`, machine-translated
  into English;
- `similarity`: `indexes`, a list of languages, with `"en"` if there is an English summary, and
  `similarities`, a square matrix over them from 0 to 1 with a zero diagonal: the F1 of the mean
  best matches between the sentences of two summaries, by the cosine of all-MiniLM-L6-v2;
- `anonymized`: some of the texts with names replaced, by language including English.

The authors' reader has a translation quality for each language (fr 68.1, de 67.4, it 61.2, es
59.1), which it sorts languages by, and drops summaries with a similarity above 0.6 to an earlier
one. A public script after the recipe of the paper on narrative twins uses these figures, in
percent, as the highest similarity to the English summary at which a translation counts as an
independent telling; so does `long_twins.MAX_SIMILARITY`.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple, cast

from narrative_twins.data.rows import RowError, check_story, require_column
from narrative_twins.files import STDIN
from narrative_twins.stories.books.archive import ARCHIVE_ERRORS
from narrative_twins.stories.books.reading import printable_name
from narrative_twins.stories.reading import Document, read_stories, stories_in
from narrative_twins.stories.story import StoryError, check_unicode, shown_value

MAX_ARCHIVE = 20_000_000_000
"""Bytes of all documents of an archive; the largest known corpus has a tenth of it."""
_SUFFIXES = (".json", ".jsonl", ".ndjson")
_ENGLISH = "en"
_TELL_ME_AGAIN = ("summaries", "en_translated_summaries")
"""Keys of the documents of `Tell me again!`."""
_TOLERANCE = 0.001
"""How far a cosine in half precision may be outside of -1 to 1."""
_KINDS: dict[type, str] = {str: "a text", list: "a list", Mapping: "an object"}


class Candidate(NamedTuple):
    """Another telling of the story's plot, which may become the twin.

    Attributes:
        sentences: the sentences of the telling.
        language: the language it was translated from, if known.
        similarity: its similarity to the story, at most 1, if measured.
    """

    sentences: list[str]
    language: str | None = None
    similarity: float | None = None


class Work(NamedTuple):
    """A work: the sentences of its story (empty if it has none), and other tellings of it."""

    id: str
    title: str | None
    story: list[str]
    candidates: list[Candidate]


def read_documents(paths: Iterable[str]) -> Iterator[Document]:
    """Yield each row of JSON Lines files (`.jsonl`, `.ndjson`), and each document or list item of
    JSON files.

    Folders and `.zip` archives are searched for these files, in order of their names; if some are
    in a folder `summaries`, as in `Tell me again!`, only those are read. `-` is standard input, in
    JSON Lines. A file that is none of these or can't be read yields a document with a problem.
    """
    for path in paths:
        if path == STDIN:
            yield from read_stories([path], "jsonl")
        elif os.path.isdir(path):
            files = (str(f.relative_to(path)) for f in Path(path).rglob("*") if f.is_file())
            names = _work_files(files)
            yield from read_stories([str(Path(path) / name) for name in names])
            if not names:
                yield _no_works(path)
        elif not os.path.exists(path) or path.lower().endswith(_SUFFIXES):
            yield from read_stories([path])
        elif path.lower().endswith(".zip"):
            yield from _zipped(path)
        else:
            kinds = f"{', '.join(_SUFFIXES)}, .zip or a folder of these"
            problem = f"has an unsupported format; unpack or convert it to {kinds}"
            yield Document(path, None, problem)


def read_works(
    documents: Iterable[Document], anonymized: bool = False
) -> Iterator[tuple[str, Work | RowError]]:
    """Yield the work of each document with its name for messages, or an error if the document is
    not a work. An error names the key whose value is invalid.

    Args:
        documents: from `read_documents`. Rows have a `story`, a list of `twins`, and optionally an
            `id` (default: a digest of the story) and a `title`; a telling is a text or a list of
            sentences, and a twin may also be an object with `text` or `sentences`, and optionally
            `language` and `similarity`. In documents of `Tell me again!` the English summary is the
            story, and translations from other languages are candidates; missing and null keys count
            as empty, and headings are left out.
        anonymized: use the translations of `Tell me again!` with names replaced as twins; the story
            keeps its names, so that story and twin have no names in common.
    """
    for name, content, problem in documents:
        try:
            if problem is not None:
                raise StoryError(problem)
            if not isinstance(content, dict):
                kind = type(content).__name__
                raise StoryError(f"is {kind}; an object with 'story' and 'twins' is needed")
            is_plain = "story" in content or content.keys().isdisjoint(_TELL_ME_AGAIN)
            work = _row(content) if is_plain else _summaries(name, content, anonymized)
            # The sentences are checked already.
            for text in (work.id, work.title, *(each.language for each in work.candidates)):
                check_unicode(text or "", "the id, the title or a language")
            yield name, work
        except (StoryError, RowError) as error:
            yield name, RowError(name, error.problem)


def _row(row: Mapping[str, Any]) -> Work:
    """The work of a row."""
    story = _sentences("story", require_column(row, "", "story"))
    candidates = []
    for number, twin in enumerate(_value("twins", require_column(row, "", "twins"), list)):
        key = f"twins[{number}]"
        known = twin if isinstance(twin, Mapping) else {}
        language = _value(f"{key}.language", known.get("language"), str)
        similarity = _similarity(f"{key}.similarity", known.get("similarity"))
        candidates.append(Candidate(_sentences(key, twin), language, similarity))
    name = row.get("id")
    name = str(name) if type(name) is int else _value("id", name, str)
    title = _value("title", row.get("title"), str)
    return Work(name or _id_of(story), title, story, candidates)


def _summaries(where: str, content: Mapping[str, Any], anonymized: bool) -> Work:
    """The work of a document of `Tell me again!`."""
    own = _value("summaries", content.get("summaries"), Mapping) or {}
    story = _summary("summaries.en", own.get(_ENGLISH))
    column = "anonymized" if anonymized else "en_translated_summaries"
    similarities = _similarities(content.get("similarity"))
    candidates = []
    for language, value in (_value(column, content.get(column), Mapping) or {}).items():
        key = f"{column}.{language}"
        if not anonymized:
            value = (_value(key, value, Mapping) or {}).get("text")
        sentences = _summary(key, value)
        # The English summary is not a translation, even with other names.
        if sentences and language != _ENGLISH:
            candidates.append(Candidate(sentences, language, similarities.get(language)))
    title = content.get("title")
    title = _value("title", title.get("value") if isinstance(title, Mapping) else title, str)
    name = _value("wikidata_id", content.get("wikidata_id"), str)
    if name is None:
        # From the file, if it holds one document.
        file = PurePath(where)
        name = f"Q{file.stem}" if file.suffix.lower() == ".json" else _id_of(story)
    return Work(name, title, story, candidates)


def _similarities(block: Any) -> dict[str, float | None]:
    """The similarity of each translation to the English summary."""
    block = _value("similarity", block, Mapping) or {}
    labels = _value("similarity.indexes", block.get("indexes"), list) or []
    key = "similarity.similarities"
    rows = _value(key, block.get("similarities"), list) or []
    if [len(row) if isinstance(row, list) else -1 for row in rows] != [len(labels)] * len(labels):
        problem = f"is not a square matrix of the {len(labels)} 'similarity.indexes'"
        raise StoryError(f"'{key}' {problem}")
    if _ENGLISH not in labels:
        return {}
    row = rows[labels.index(_ENGLISH)]
    return {
        str(language): _similarity(f"{key} (en, {language})", value)
        for language, value in zip(labels, row, strict=True)
    }


def _summary(key: str, text: Any) -> list[str]:
    """The sentences of a summary without its headings; empty if it has no letters or digits."""
    lines = (_value(key, text, str) or "").splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return _sentences(key, kept) if any(map(str.isalnum, kept)) else []


def _sentences(key: str, content: Any) -> list[str]:
    """The sentences of a telling, which may not be empty."""
    return list(check_story(content, key, "").sentences)


def _similarity(key: str, value: Any) -> float | None:
    """A number from -1 to 1 (rounding errors are clipped), or None, also for NaN."""
    if value is None or value != value:
        return None
    # Percentages are refused too.
    if type(value) not in (int, float) or abs(value) > 1 + _TOLERANCE:
        problem = "a similarity of at most 1 is needed, or leave it out"
        raise StoryError(f"'{key}' is {shown_value(value)}; {problem}")
    return max(-1.0, min(1.0, float(value)))


def _value(key: str, value: Any, kind: type) -> Any:
    """A value of this kind, or None."""
    if value is not None and not isinstance(value, kind):
        raise StoryError(f"'{key}' is {type(value).__name__}; {_KINDS[kind]} is needed")
    return value


def _id_of(story: list[str]) -> str:
    """The default id of a story: a digest of its sentences."""
    return hashlib.sha256("\n".join(story).encode()).hexdigest()[:12]


def _work_files(names: Iterable[str]) -> list[str]:
    """The names of files that may hold works, sorted."""
    found = sorted(name for name in names if name.lower().endswith(_SUFFIXES))
    return [name for name in found if "summaries" in PurePosixPath(name).parts[:-1]] or found


def _no_works(path: str) -> Document:
    problem = f"has no file that ends in one of {', '.join(_SUFFIXES)}; check its content"
    return Document(path, None, problem)


def _zipped(path: str) -> Iterator[Document]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = _work_files(archive.namelist())
            # No more than its size in the archive's list is read of a file.
            if sum(archive.getinfo(name).file_size for name in names) > MAX_ARCHIVE:
                raise ValueError(f"it has more than {MAX_ARCHIVE:,} bytes; unpack it first")
            for name in names:
                where = f"{path}, {printable_name(name)}"
                try:
                    with archive.open(name) as file:
                        yield from stories_in(io.BufferedReader(cast(io.RawIOBase, file)), where)
                except ARCHIVE_ERRORS as error:
                    yield _damaged(where, error)
            if not names:
                yield _no_works(path)
    except ARCHIVE_ERRORS as error:
        yield _damaged(path, error)


def _damaged(where: str, error: Exception) -> Document:
    problem = "check that the archive is complete and has no password"
    return Document(where, None, f"can't be read ({error}); {problem}")
