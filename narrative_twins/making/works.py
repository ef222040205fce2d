"""Works: a story and other tellings of it, one of which may become its twin; and the files that
works are read from.

`Tell me again!` (Hatzel and Biemann, 2024): summaries of a work from Wikipedias in
several languages.

Format, from the authors' code that writes (github.com/uhh-lt/story-emb) and reads it
(github.com/uhh-lt/tell-me-again): `tell_me_again_v1.zip` has a JSON document per work,
`summaries/12/1234.json` for Q1234, beside `wikidata/` and lists of splits, with

- `wikidata_id`: `"Q1234"`;
- `title`: the English title, or the label in another language as an object of `language` and
  `value`; also `titles` by language, `title_en`, `title_de`, `description`;
- `summaries`: at least two texts by language (de, en, es, fr, it; English may be missing), one line
  per paragraph, headings in lines that start with `#`;
- `en_translated_summaries`: by language except English, objects of `text` (machine-translated into
  English), `translation_tool`, `source_lang` and, added later, `sentences`;
- `split_into_sents`: `en`, the sentences of the English summary;
- `similarity`: `indexes`, a list of `"en"` (if there is an English summary) and the languages of
  the translations, and `similarities`, a square matrix over them from 0 to 1 with a zero diagonal.
  A cell is the F1 of the mean best matches between the sentences of two summaries, by the cosine of
  all-MiniLM-L6-v2;
- `anonymized`: some of the texts with names replaced, by language including English.

The authors' reader has a translation quality for each language (fr 68.1, de 67.4, it 61.2, es
59.1), which it sorts languages by, and drops summaries with a similarity above 0.6 to an earlier
one, whatever the language. A public script after the recipe of the paper on narrative twins uses
these figures, in percent, as the highest similarity to the English summary at which a translation
counts as an independent telling; so does `long_twins.MAX_SIMILARITY`.
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
            found = (
                file.relative_to(path).as_posix()
                for file in Path(path).rglob("*")
                if file.is_file()
            )
            names = _work_files(found)
            yield from (
                read_stories([str(Path(path) / name) for name in names])
                if names
                else [_no_works(path)]
            )
        elif not os.path.exists(path) or path.lower().endswith(_SUFFIXES):
            yield from read_stories([path])
        elif path.lower().endswith(".zip"):
            yield from _zipped(path)
        else:
            kinds = f"{', '.join(_SUFFIXES)}, .zip or a folder of these"
            yield Document(
                path, None, f"has an unsupported format; unpack or convert it to {kinds}"
            )


def plain_work(row: Mapping[str, Any], where: str) -> Work:
    """A work from a row with a `story`, a list of `twins`, and optionally an `id` and a `title`.

    A telling is a text or a list of sentences; a twin may also be an object with `text` or
    `sentences`, and optionally `language` and `similarity`. The default id is the digest of the
    story. Missing and invalid columns raise RowError.
    """
    story = sentences_of(require_column(row, where, "story"), "story", where)
    twins = check_list(require_column(row, where, "twins"), "twins", where, "tellings")
    name = row.get("id")
    if isinstance(name, bool) or not isinstance(name, (str, int, type(None))):
        raise RowError(where, f"'id' is {type(name).__name__}; a text or an integer is needed")
    candidates = []
    for number, twin in enumerate(twins):
        column = f"twins[{number}]"
        known = twin if isinstance(twin, Mapping) else {}
        candidates.append(
            Candidate(
                sentences_of(twin, column, where),
                optional_text(known.get("language"), f"{column}.language", where),
                optional_similarity(known.get("similarity"), f"{column}.similarity", where),
            )
        )
    title = optional_text(find_column(row, "title"), "title", where)
    return Work(
        id_of(story) if name is None else checked_text(str(name), "id", where),
        title,
        story,
        candidates,
    )


def sentences_of(content: Any, column: str, where: str) -> list[str]:
    """The sentences of a telling; raises RowError if it is invalid or empty."""
    try:
        return list(Story.parse(content, windows=1).sentences)
    except StoryError as error:
        raise RowError(where, f"'{column}': {error.problem}") from None


def optional_text(value: Any, column: str, where: str) -> str | None:
    """A text or None; raises RowError for another type or for a text that is not valid Unicode."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise RowError(
            where, f"'{column}' is {type(value).__name__}; a text is needed, or leave it out"
        )
    return checked_text(value, column, where)


def checked_text(text: str, column: str, where: str) -> str:
    """The text; raises RowError if it is not valid Unicode."""
    try:
        check_unicode(text, f"'{column}'")
    except StoryError as error:
        raise RowError(where, error.problem) from None
    return text


def optional_similarity(value: Any, column: str, where: str) -> float | None:
    """A number from -1 to 1 (rounding errors are clipped), or None, also for NaN; raises RowError
    for other values."""
    if value is None or value != value:
        return None
    # Percentages are refused too.
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or abs(value) > 1 + _TOLERANCE
    ):
        problem = (
            f"'{column}' is {shown_value(value)}; a similarity of at most 1 is needed, or leave"
            " it out"
        )
        raise RowError(where, problem)
    return max(-1.0, min(1.0, float(value)))


def id_of(story: list[str]) -> str:
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


def read_works(
    documents: Iterable[Document], anonymized: bool = False
) -> Iterator[tuple[str, Work | RowError]]:
    """Yield the work of each document with its name for messages, or an error if the document is
    not a work.

    Args:
        documents: from `works.read_documents`: rows with a `story` and `twins`, or documents of
            `Tell me again!`.
        anonymized: use the translations of `Tell me again!` with names replaced as twins; the story
            keeps its names.
    """
    for name, content, problem in documents:
        try:
            if problem is not None:
                raise RowError(name, problem)
            if not isinstance(content, dict):
                raise RowError(
                    name,
                    f"is {type(content).__name__}; an object with 'story' and 'twins' is needed",
                )
            yield (
                name,
                (
                    read_work(content, name, anonymized)
                    if is_tell_me_again(content)
                    else plain_work(content, name)
                ),
            )
        except RowError as error:
            yield name, error


def is_tell_me_again(content: Mapping[str, Any]) -> bool:
    """Whether a document is in the format of `Tell me again!`."""
    return "story" not in content and any(
        key in content for key in ("summaries", "en_translated_summaries")
    )


def read_work(content: Mapping[str, Any], where: str, anonymized: bool = False) -> Work:
    """A work from its document: the English summary is the story, translations from other languages
    are candidates.

    Missing and null keys count as empty. Headings are left out. An invalid value raises a RowError
    that names its key.

    Args:
        content: the document.
        where: its file, for errors. Without a `wikidata_id` the id is `Q` and the name of the
            `.json` file if the document has a file of its own, else the digest of the story.
        anonymized: use the translations with names replaced as candidates. The story keeps its
            names, so that story and twin have no names in common.
    """
    translated = {
        language: _object(item, f"en_translated_summaries.{language}", where)
        for language, item in _object(
            content.get("en_translated_summaries"), "en_translated_summaries", where
        ).items()
    }
    story = _sentences(
        _object(content.get("summaries"), "summaries", where).get(_ENGLISH), "summaries.en", where
    )
    if anonymized:
        column, anonymous = "anonymized", _object(content.get("anonymized"), "anonymized", where)
        texts = {f"{column}.{language}": (language, text) for language, text in anonymous.items()}
    else:
        column = "en_translated_summaries"
        texts = {
            f"{column}.{language}.text": (language, item.get("text"))
            for language, item in translated.items()
        }
    similarities = _similarities(content.get("similarity"), where)
    tellings = {language: _sentences(text, name, where) for name, (language, text) in texts.items()}
    candidates = [
        Candidate(sentences, checked_text(language, column, where), similarities.get(language))
        for language, sentences in tellings.items()
        # The English summary is no translation, also with other names.
        if sentences and language != _ENGLISH
    ]
    name = optional_text(content.get("wikidata_id"), "wikidata_id", where)
    return Work(
        name or _default_id(where, story), _title(content.get("title"), where), story, candidates
    )


def _default_id(where: str, story: list[str]) -> str:
    """The id of a work without `wikidata_id`: from the file if it holds one document, else from the
    story."""
    file = PurePath(where)
    return f"Q{file.stem}" if file.suffix.lower() == ".json" else id_of(story)


def _sentences(text: Any, column: str, where: str) -> list[str]:
    """The sentences of a summary; empty if it has no letters or digits."""
    lines = (optional_text(text, column, where) or "").splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return sentences_of(kept, column, where) if any(map(str.isalnum, kept)) else []


def _similarities(block: Any, where: str) -> dict[str, float | None]:
    """The similarity of each translation to the English summary."""
    block = _object(block, "similarity", where)
    listed = check_list(block.get("indexes") or [], "similarity.indexes", where, "languages")
    labels = [optional_text(label, "similarity.indexes", where) or "" for label in listed]
    rows = check_list(block.get("similarities") or [], "similarity.similarities", where, "rows")
    sizes = {len(check_list(row, "similarity.similarities", where, "numbers")) for row in rows}
    if len(rows) != len(labels) or (rows and sizes != {len(labels)}):
        raise RowError(
            where,
            f"'similarity.similarities' is not a square matrix of the {len(labels)}"
            " 'similarity.indexes'",
        )
    if _ENGLISH not in labels:
        return {}
    row = rows[labels.index(_ENGLISH)]
    return {
        language: optional_similarity(value, f"similarity.similarities (en, {language})", where)
        for language, value in zip(labels, row, strict=True)
    }


def _title(title: Any, where: str) -> str | None:
    return optional_text(
        title.get("value") if isinstance(title, Mapping) else title, "title", where
    )


def _object(value: Any, column: str, where: str) -> dict[str, Any]:
    """An object as a new dict; empty for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RowError(
            where, f"'{column}' is {type(value).__name__}; an object is needed, or leave it out"
        )
    return dict(value)
