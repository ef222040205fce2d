"""Names in texts: the entities and coreference clusters of a spaCy document, mapped to
sentences."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol, TypeAlias

from narrative_twins.making.entities.names import Gender
from narrative_twins.making.entities.titles import (
    after_titles,
    is_pronoun,
    is_title,
    pronoun_gender,
    title_gender,
)

Kind: TypeAlias = Literal["person", "place", "organization", "miscellaneous"]
Cluster: TypeAlias = tuple[int, str]
"""A coreference cluster: the index of its text in the row, and its key in `doc.spans`."""

KINDS: dict[str, Kind] = {
    "PERSON": "person",
    "PER": "person",
    "GPE": "place",
    "LOC": "place",
    "FAC": "place",
    "ORG": "organization",
    # The label of CoNLL-2003, and the labels of OntoNotes for what it covers.
    "MISC": "miscellaneous",
    "NORP": "miscellaneous",
    "EVENT": "miscellaneous",
    "WORK_OF_ART": "miscellaneous",
    "LAW": "miscellaneous",
    "LANGUAGE": "miscellaneous",
    "PRODUCT": "miscellaneous",
}
"""The kind of each entity label of spaCy pipelines; entities with other labels, such as dates, are
not replaced."""

CLUSTERS = "coref_clusters_"
"""Prefix of the keys of `doc.spans` that hold coreference clusters."""

# Articles and possessive pronouns are not replaced even if a pipeline has them in a name, as in
# `His Majesty`.
_ARTICLE = re.compile(r"(?:the|my|your|his|her|its|our|their)\s+", re.IGNORECASE)
_THE = re.compile(r"(?<!\w)the\s+$", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’ʼ][sS]$")
_EDGES = "\"'`´‘’‚“”„«»‹›()[]{}<>,;:!?…-–—*_"
_JOINERS = "_\u200c\u200d"
_SENTENCE_START = re.compile(r"(?:^|[.!?…:\"'“„‘«‹(\[*_])[\W_]*$")
_ABBREVIATION = re.compile(r"(?<![\w'’])(\w+)\.\s+$")


class SpacySpan(Protocol):
    """The used part of a spaCy span: its half-open range of characters in the text, and its
    label."""

    @property
    def start_char(self) -> int: ...  # noqa: D102
    @property
    def end_char(self) -> int: ...  # noqa: D102
    @property
    def label_(self) -> str: ...  # noqa: D102


class SpacyDoc(Protocol):
    """The used part of a spaCy document: its entities, and its groups of spans by name."""

    @property
    def ents(self) -> Iterable[SpacySpan]: ...  # noqa: D102
    @property
    def spans(self) -> Mapping[str, Iterable[SpacySpan]]: ...  # noqa: D102


class TextSpan(NamedTuple):
    """A half-open range of characters in a sentence: indices of the text and the sentence, start
    and end."""

    text: int
    sentence: int
    start: int
    end: int


@dataclass(frozen=True)
class Mention:
    """A recognized name, its kind, its cluster if it has one, and the gender of a title before
    it."""

    span: TextSpan
    name: str
    kind: Kind
    cluster: Cluster | None = None
    title: Gender | None = None

    @property
    def form(self) -> str:
        """The name normalized for comparison."""
        return " ".join(self.name.casefold().replace("’", "'").split())


@dataclass(frozen=True)
class TextMentions:
    """What is recognized in a text."""

    mentions: list[Mention]
    others: list[TextSpan]  # Entities of other kinds, which are not replaced.
    genders: dict[Cluster, Counter[Gender]]  # The number of pronouns by gender in each cluster.


def split_words(text: str) -> list[str]:
    """The words of a text, in order."""
    return re.findall(r"\w+", text)


def join_sentences(sentences: Sequence[str]) -> str:
    """The text of a story as it is passed to a pipeline."""
    return " ".join(sentences)


def find_mentions(document: SpacyDoc, text: int, sentences: Sequence[str]) -> TextMentions:
    """The mentions in a document for `join_sentences(sentences)`; `text` is the index of the text
    in the row. An entity across a sentence boundary becomes one mention in each sentence."""
    spans = _SentenceSpans(text, sentences)
    clusters, genders = _clusters(document, spans)
    found = TextMentions([], [], genders)
    for entity in document.ents:
        kind = KINDS.get(entity.label_)
        for span in spans.of(entity):
            if kind is None:
                found.others.append(span)
                continue
            bare = spans.without_title(span) if kind == "person" else span
            name = spans.text_of(bare)
            # Skip pronouns and entities of punctuation only.
            if split_words(name) and not _is_pronoun(name):
                title = (
                    title_gender(sentences[bare.sentence], bare.start) if kind == "person" else None
                )
                cluster = clusters.get(bare, clusters.get(span))
                found.mentions.append(Mention(bare, name, kind, cluster, title))
    return found


def occurrences(sentence: str, names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges where names are whole words of a sentence; if several match, the
    first listed."""
    # Most names are in few sentences only: drop the others before searching each position.
    names = [name for name in names if name in sentence]
    at = 0 if names else len(sentence)
    while at < len(sentence):
        ends = (at + len(name) for name in names if sentence.startswith(name, at))
        end = (
            None
            if _within_word(sentence, at)
            else next((e for e in ends if not _within_word(sentence, e)), None)
        )
        if end is not None:
            yield at, end
        at = end or at + 1


def begins_sentence(sentence: str, at: int) -> bool:
    """Whether a sentence may begin at a position (also after a quote or colon), so any word has a
    capital letter."""
    # The period of a title or an initial (`Mr.`, `J.`) does not end a sentence.
    abbreviation = _ABBREVIATION.search(sentence[:at])
    if abbreviation is not None and (is_title(abbreviation[1]) or _is_initial(abbreviation[1])):
        return False
    return _SENTENCE_START.search(sentence[:at]) is not None


def _is_initial(word: str) -> bool:
    return len(word) == 1 and word.isupper() and not is_pronoun(word)


def follows_the(sentence: str, at: int) -> bool:
    """Whether the word before a position is `the`."""
    return _THE.search(sentence[:at]) is not None


def _within_word(sentence: str, at: int) -> bool:
    return 0 < at < len(sentence) and _in_word(sentence[at - 1]) and _in_word(sentence[at])


def _in_word(char: str) -> bool:
    # Combining marks (Unicode category M) belong to the letter before them.
    return char.isalnum() or char in _JOINERS or unicodedata.category(char).startswith("M")


class _SentenceSpans:
    """Maps character ranges of a joined text to spans of its sentences; `text` is the index of the
    text in the row."""

    def __init__(self, text: int, sentences: Sequence[str]) -> None:
        self.text, self.sentences = text, sentences
        self.starts = [0, *accumulate(len(sentence) + 1 for sentence in sentences)]

    def of(self, entity: SpacySpan) -> Iterator[TextSpan]:
        """Yield the span of an entity in each of its sentences, without surrounding quotes,
        articles and `'s`."""
        first = bisect_right(self.starts, entity.start_char) - 1
        for number in range(first, len(self.sentences)):
            start, end = (
                entity.start_char - self.starts[number],
                entity.end_char - self.starts[number],
            )
            if end <= 0:
                break
            sentence = self.sentences[number]
            start, end = _trimmed(sentence, max(0, start), min(len(sentence), end))
            if start < end:
                yield TextSpan(self.text, number, start, end)

    def text_of(self, span: TextSpan) -> str:
        return self.sentences[span.sentence][span.start : span.end]

    def without_title(self, span: TextSpan) -> TextSpan:
        """The span of a person's name without the titles before it."""
        return span._replace(
            start=after_titles(self.sentences[span.sentence], span.start, span.end)
        )


def _clusters(
    document: SpacyDoc, spans: _SentenceSpans
) -> tuple[dict[TextSpan, Cluster], dict[Cluster, Counter[Gender]]]:
    """The cluster of each span, the first if it is in several, and the number of pronouns of each
    gender by cluster."""
    clusters: dict[TextSpan, Cluster] = {}
    genders: dict[Cluster, Counter[Gender]] = {}
    for key in sorted(key for key in document.spans if key.startswith(CLUSTERS)):
        cluster = spans.text, key
        for span in (span for member in document.spans[key] for span in spans.of(member)):
            # Entities and cluster members may differ in the title: find them with or without it.
            for form in (span, spans.without_title(span)):
                clusters.setdefault(form, cluster)
            word = spans.text_of(span)
            gender = pronoun_gender(word) if _is_pronoun(word) else None
            if gender is not None:
                genders.setdefault(cluster, Counter())[gender] += 1
    return clusters, genders


def _trimmed(sentence: str, start: int, end: int) -> tuple[int, int]:
    def outside(char: str) -> bool:
        return char.isspace() or char in _EDGES

    # Twice, since a quote may end before the `'s`: `"Anna"'s` becomes `Anna"`, then `Anna`.
    for _ in range(2):
        while start < end and outside(sentence[start]):
            start += 1
        while start < end and outside(sentence[end - 1]):
            end -= 1
        if _POSSESSIVE.search(sentence[start:end]):
            end -= 2
    article = _ARTICLE.match(sentence, start, end)
    if article is not None:
        return _trimmed(sentence, article.end(), end)
    return start, end


def _is_pronoun(word: str) -> bool:
    """Whether a word is a pronoun; `US` and `IT` are not."""
    return is_pronoun(word) and (len(word) == 1 or not word.isupper())
