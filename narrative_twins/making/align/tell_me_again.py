"""Works from `Tell me again!` (Hatzel and Biemann, 2024), summaries of one work from Wikipedias in several languages.

What its files look like, by the code of its authors, github.com/uhh-lt/story-emb, which wrote them, and
github.com/uhh-lt/tell-me-again, which reads them; other people's readers agree. The file `tell_me_again_v1.zip` has one
JSON document a work, `summaries/12/1234.json` for Q1234, beside `wikidata/` and lists of splits, with

- `wikidata_id`: `"Q1234"`;
- `title`: the English title, or where there is none the label in another language, as an object of `language` and
  `value`; also `titles` by language, `title_en`, `title_de`, `description`;
- `summaries`: texts by language (de, en, es, fr, it) in that language, paragraphs in lines, headings as lines that
  begin with `#`; at least two of them, English is not always there;
- `en_translated_summaries`: by language, English not among them, objects of `text` (into English by a translation
  model), `translation_tool`, `source_lang` and, later added, `sentences`;
- `split_into_sents`: `en`, the sentences of the English summary;
- `similarity`: `indexes`, a list of `"en"` (where there is an English summary) and the languages of the translations in
  order; and `similarities`, a square matrix over them from 0 to 1, with 0 on its diagonal. A cell is the F1 of the mean
  best matches between the sentences of two summaries, by the cosine of all-MiniLM-L6-v2;
- `anonymized`: texts by language, English among them, with names replaced; not of every summary.

Their reader knows a figure for the quality of translation from each language (fr 68.1, de 67.4, it 61.2, es 59.1), by
which it sorts languages, and drops what is more similar to an earlier summary than 0.6, whatever the language. A public
script after the recipe of the paper on narrative twins takes these figures, in percent, as the highest similarity with
the English summary at which a translation counts as a telling of its own; so does `filters.MAX_SIMILARITY`.
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
    optional_share,
    optional_text,
    sentences_of,
)

ENGLISH = "en"


def is_summaries(content: Mapping[str, Any]) -> bool:
    """Whether a document is one of `Tell me again!`."""
    return "story" not in content and any(key in content for key in ("summaries", "en_translated_summaries"))


def read_work(content: Mapping[str, Any], where: str, anonymized: bool = False) -> Work:
    """A work from its document: the English summary is the story, those from other languages are candidates.

    Keys that are missing or null are as empty. Headings are left out.

    Args:
        content: the document.
        where: what it stands in, for errors. Where there is no `wikidata_id` the id is the name of the document's own
            `.json` file, else the story's digest.
        anonymized: take the texts with names replaced, for the story and its candidates.

    Raises:
        RowError: a key holds what it can't; names the file and the key.
    """
    translated = {
        language: _object(one, f"en_translated_summaries.{language}", where)
        for language, one in _object(content.get("en_translated_summaries"), "en_translated_summaries", where).items()
    }
    if anonymized:
        anonymous = _object(content.get("anonymized"), "anonymized", where)
        texts = {f"anonymized.{language}": (language, text) for language, text in anonymous.items()}
    else:
        english = _object(content.get("summaries"), "summaries", where).get(ENGLISH)
        texts = {
            "summaries.en": (ENGLISH, english),
            **{
                f"en_translated_summaries.{language}.text": (language, one.get("text"))
                for language, one in translated.items()
            },
        }
    similarities = _similarities(content.get("similarity"), where)
    tellings = {language: _sentences(text, column, where) for column, (language, text) in texts.items()}
    story = tellings.pop(ENGLISH, [])
    candidates = [
        Candidate(sentences, checked_text(language, "en_translated_summaries", where), similarities.get(language))
        for language, sentences in tellings.items()
        if sentences
    ]
    name = optional_text(content.get("wikidata_id"), "wikidata_id", where)
    return Work(name or _name_of(where, story), _title(content.get("title"), where), story, candidates)


def _name_of(where: str, story: list[str]) -> str:
    """What a work is called that does not say it; of several documents in one file each is called something else."""
    file = PurePath(where)
    return f"Q{file.stem}" if file.suffix.lower() == ".json" else id_of(story)


def _sentences(text: Any, column: str, where: str) -> list[str]:
    """The sentences of a summary; none where there is nothing to read."""
    lines = (optional_text(text, column, where) or "").splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return sentences_of(kept, column, where) if any(map(str.isalnum, kept)) else []


def _similarities(block: Any, where: str) -> dict[str, float | None]:
    """The similarity of each translation with the English summary."""
    block = _object(block, "similarity", where)
    listed = check_list(block.get("indexes") or [], "similarity.indexes", where, "languages")
    labels = [optional_text(label, "similarity.indexes", where) or "" for label in listed]
    rows = check_list(block.get("similarities") or [], "similarity.similarities", where, "rows")
    sizes = {len(check_list(row, "similarity.similarities", where, "numbers")) for row in rows}
    if len(rows) != len(labels) or (rows and sizes != {len(labels)}):
        raise RowError(
            where, f"'similarity.similarities' is no square of the {len(labels)} languages of 'similarity.indexes'"
        )
    if ENGLISH not in labels:
        return {}
    row = rows[labels.index(ENGLISH)]
    return {
        language: optional_share(value, f"similarity.similarities (en, {language})", where)
        for language, value in zip(labels, row, strict=True)
    }


def _title(title: Any, where: str) -> str | None:
    return optional_text(title.get("value") if isinstance(title, Mapping) else title, "title", where)


def _object(value: Any, column: str, where: str) -> dict[str, Any]:
    """An object, as a dict of its own; none is as empty."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RowError(where, f"'{column}' is {type(value).__name__}; an object is needed, or leave it out")
    return dict(value)
