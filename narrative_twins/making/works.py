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
import lzma
import os
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple

from narrative_twins.data.rows import RowError, check_list, find_column, require_column
from narrative_twins.files import STDIN
from narrative_twins.stories.books.reading import printable_name
from narrative_twins.stories.reading import (
    MAX_LINE,
    Document,
    LimitedFile,
    read_stories,
    stories_in,
)
from narrative_twins.stories.story import Story, StoryError, check_unicode, shown_value

_SUFFIXES = (".json", ".jsonl", ".ndjson")
MAX_ARCHIVE = 20_000_000_000
"""Bytes of all documents of an archive; the largest known corpus has a tenth of it."""
_ENGLISH = "en"
_TELL_ME_AGAIN = ("summaries", "en_translated_summaries")
"""Keys of the documents of `Tell me again!`."""
_TOLERANCE = 0.001
"""How far a cosine in half precision may be outside of -1 to 1."""
_ARCHIVE_ERRORS = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""Raised for archives that are damaged, password-protected, or compressed by an unsupported
method."""


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
            yield Document(
                path, None, f"has an unsupported format; unpack or convert it to {kinds}"
            )


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
        values = _Values(name)
        try:
            if problem is not None:
                raise RowError(name, problem)
            if not isinstance(content, dict):
                kind = type(content).__name__
                raise RowError(name, f"is {kind}; an object with 'story' and 'twins' is needed")
            is_plain = "story" in content or content.keys().isdisjoint(_TELL_ME_AGAIN)
            yield name, values.work(content) if is_plain else values.summaries(content, anonymized)
        except RowError as error:
            yield name, error


class _Values:
    """Reads the values of a document, which `where` names in errors."""

    def __init__(self, where: str) -> None:
        self.where = where

    def work(self, row: Mapping[str, Any]) -> Work:
        """The work of a row."""
        story = self.sentences(require_column(row, self.where, "story"), "story")
        twins = self.items(require_column(row, self.where, "twins"), "twins", "tellings")
        name = row.get("id")
        if isinstance(name, bool) or not isinstance(name, (str, int, type(None))):
            raise self.error("id", f"is {type(name).__name__}; a text or an integer is needed")
        candidates = []
        for number, twin in enumerate(twins):
            column = f"twins[{number}]"
            known = twin if isinstance(twin, Mapping) else {}
            language = self.text(known.get("language"), f"{column}.language")
            similarity = self.similarity(known.get("similarity"), f"{column}.similarity")
            candidates.append(Candidate(self.sentences(twin, column), language, similarity))
        title = self.text(find_column(row, "title"), "title")
        known_name = None if name is None else self.text(str(name), "id")
        return Work(known_name or _id_of(story), title, story, candidates)

    def summaries(self, content: Mapping[str, Any], anonymized: bool) -> Work:
        """The work of a document of `Tell me again!`."""
        own = self.object(content.get("summaries"), "summaries")
        story = self.summary(own.get(_ENGLISH), "summaries.en")
        column = "anonymized" if anonymized else "en_translated_summaries"
        similarities = self.similarities(content.get("similarity"))
        candidates = []
        for language, value in self.object(content.get(column), column).items():
            self.text(language, column)
            key = f"{column}.{language}"
            if not anonymized:
                value, key = self.object(value, key).get("text"), f"{key}.text"
            sentences = self.summary(value, key)
            # The English summary is no translation, also with other names.
            if sentences and language != _ENGLISH:
                candidates.append(Candidate(sentences, language, similarities.get(language)))
        title = content.get("title")
        title = self.text(title.get("value") if isinstance(title, Mapping) else title, "title")
        name = self.text(content.get("wikidata_id"), "wikidata_id")
        if name is None:
            # From the file, if it holds one document.
            file = PurePath(self.where)
            name = f"Q{file.stem}" if file.suffix.lower() == ".json" else _id_of(story)
        return Work(name, title, story, candidates)

    def similarities(self, block: Any) -> dict[str, float | None]:
        """The similarity of each translation to the English summary."""
        block = self.object(block, "similarity")
        listed = self.items(block.get("indexes") or [], "similarity.indexes", "languages")
        labels = [self.text(label, "similarity.indexes") or "" for label in listed]
        column = "similarity.similarities"
        rows = self.items(block.get("similarities") or [], column, "rows")
        sizes = {len(self.items(row, column, "numbers")) for row in rows}
        if len(rows) != len(labels) or (rows and sizes != {len(labels)}):
            problem = f"is not a square matrix of the {len(labels)} 'similarity.indexes'"
            raise self.error(column, problem)
        if _ENGLISH not in labels:
            return {}
        row = rows[labels.index(_ENGLISH)]
        return {
            language: self.similarity(value, f"{column} (en, {language})")
            for language, value in zip(labels, row, strict=True)
        }

    def summary(self, text: Any, column: str) -> list[str]:
        """The sentences of a summary without its headings; empty if it has no letters or digits."""
        lines = (self.text(text, column) or "").splitlines()
        kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
        return self.sentences(kept, column) if any(map(str.isalnum, kept)) else []

    def sentences(self, content: Any, column: str) -> list[str]:
        """The sentences of a telling, which may not be empty."""
        try:
            return list(Story.parse(content, windows=1).sentences)
        except StoryError as error:
            raise self.error(column, f": {error.problem}") from None

    def text(self, value: Any, column: str) -> str | None:
        """A text in valid Unicode, or None."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.error(
                column, f"is {type(value).__name__}; a text is needed, or leave it out"
            )
        try:
            check_unicode(value, f"'{column}'")
        except StoryError as error:
            raise RowError(self.where, error.problem) from None
        return value

    def similarity(self, value: Any, column: str) -> float | None:
        """A number from -1 to 1 (rounding errors are clipped), or None, also for NaN."""
        if value is None or value != value:
            return None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # Percentages are refused too.
        if not is_number or abs(value) > 1 + _TOLERANCE:
            problem = "a similarity of at most 1 is needed, or leave it out"
            raise self.error(column, f"is {shown_value(value)}; {problem}")
        return max(-1.0, min(1.0, float(value)))

    def items(self, value: Any, column: str, kind: str) -> list[Any]:
        """A list."""
        return check_list(value, column, self.where, kind)

    def object(self, value: Any, column: str) -> Mapping[str, Any]:
        """An object; empty for None."""
        if value is not None and not isinstance(value, Mapping):
            kind = type(value).__name__
            raise self.error(column, f"is {kind}; an object is needed, or leave it out")
        return value or {}

    def error(self, column: str, problem: str) -> RowError:
        """The error for the value of a column."""
        return RowError(self.where, f"'{column}'{problem if problem[0] == ':' else f' {problem}'}")


def _id_of(story: list[str]) -> str:
    """The default id of a story: a digest of its sentences."""
    return hashlib.sha256("\n".join(story).encode()).hexdigest()[:12]


def _work_files(names: Iterable[str]) -> list[str]:
    """The names of files that may hold works, sorted."""
    found = sorted(name for name in names if name.lower().endswith(_SUFFIXES))
    return [name for name in found if "summaries" in PurePosixPath(name).parts[:-1]] or found


def _no_works(path: str) -> Document:
    return Document(
        path, None, f"has no file that ends in one of {', '.join(_SUFFIXES)}; check its content"
    )


def _zipped(path: str) -> Iterator[Document]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = _work_files(archive.namelist())
            left = MAX_ARCHIVE
            for name in names:
                left -= yield from _member(archive, name, f"{path}, {printable_name(name)}", left)
            if not names:
                yield _no_works(path)
    except _ARCHIVE_ERRORS as error:
        yield Document(path, None, f"can't be read ({error}); check that the file is complete")


def _member(
    archive: zipfile.ZipFile, name: str, where: str, left: int
) -> Generator[Document, None, int]:
    """Yield the documents in a file of an archive, of which `left` bytes may be read; returns how
    many it has."""
    whole = not name.lower().endswith((".jsonl", ".ndjson"))
    lines = None
    try:
        with archive.open(name) as file:
            lines = LimitedFile(file, total=min(left, MAX_LINE) if whole else left)
            yield from stories_in(lines, where)
    except _ARCHIVE_ERRORS as error:
        yield Document(
            where,
            None,
            f"can't be read ({error}); check that the archive is complete and has no password",
        )
    return 0 if lines is None else lines.count
