"""Works from `Tell me again!` (Hatzel and Biemann, 2024): summaries of a work from Wikipedias in
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
counts as an independent telling; so does `filters.MAX_SIMILARITY`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from narrative_twins.data.rows import RowError, check_list
from narrative_twins.making.align.works import (
    Candidate,
    Work,
    checked_text,
    id_of,
    optional_similarity,
    optional_text,
    sentences_of,
)

ENGLISH = "en"


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
        _object(content.get("summaries"), "summaries", where).get(ENGLISH), "summaries.en", where
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
        if sentences and language != ENGLISH
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
    if ENGLISH not in labels:
        return {}
    row = rows[labels.index(ENGLISH)]
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
