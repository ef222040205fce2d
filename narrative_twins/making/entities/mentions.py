"""Names in texts: what a spaCy pipeline recognizes, sentence by sentence, and what its clusters put together."""

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
from narrative_twins.making.entities.titles import after_titles, is_pronoun, is_title, pronoun_gender, title_gender

Kind: TypeAlias = Literal["person", "place", "organization"]
Cluster: TypeAlias = tuple[int, str]
"""A cluster of coreference: which text of the row, and the key in `doc.spans`."""

KINDS: dict[str, Kind] = {
    "PERSON": "person",
    "PER": "person",
    "GPE": "place",
    "LOC": "place",
    "FAC": "place",
    "ORG": "organization",
}
"""What the labels of spaCy's pipelines stand for; others are left alone."""

CLUSTERS = "coref_clusters_"
"""How the keys of `doc.spans` begin that hold clusters of coreference."""

# A pronoun is kept as articles are, also where a pipeline takes it for a part of a name, as in `His Majesty`.
_ARTICLE = re.compile(r"(?:the|my|your|his|her|its|our|their)\s+", re.IGNORECASE)
_THE = re.compile(r"(?<!\w)the\s+$", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’ʼ][sS]$")
_EDGES = "\"'`´‘’‚“”„«»‹›()[]{}<>,;:!?…-–—*_"
_JOINERS = "_\u200c\u200d"
_BEGINNING = re.compile(r"(?:^|[.!?…:\"'“„‘«‹(\[*_])[\W_]*$")
_SHORTENED = re.compile(r"(?<![\w'’])(\w+)\.\s+$")


class RecognizedSpan(Protocol):
    """What is used of a span of spaCy: its characters in the text, half-open, and its label."""

    @property
    def start_char(self) -> int: ...  # noqa: D102
    @property
    def end_char(self) -> int: ...  # noqa: D102
    @property
    def label_(self) -> str: ...  # noqa: D102


class RecognizedText(Protocol):
    """What is used of a document of spaCy: its entities, and its groups of spans by name."""

    @property
    def ents(self) -> Iterable[RecognizedSpan]: ...  # noqa: D102
    @property
    def spans(self) -> Mapping[str, Iterable[RecognizedSpan]]: ...  # noqa: D102


class Place(NamedTuple):
    """Characters of a sentence: which text of the row, which sentence of it, and where, half-open."""

    text: int
    sentence: int
    start: int
    end: int


@dataclass(frozen=True)
class Mention:
    """A name where it stands: the characters, what kind of thing it names, the cluster it is in, if any, and the gender
    that a title before it tells, if any."""

    place: Place
    name: str
    kind: Kind
    cluster: Cluster | None = None
    title: Gender | None = None

    @property
    def form(self) -> str:
        """The name as it is compared with others."""
        return " ".join(self.name.casefold().replace("’", "'").split())


@dataclass(frozen=True)
class Reading:
    """What is recognized in a text.

    Attributes:
        mentions: the names, in the order of the text.
        others: where entities of other kinds stand, which are left as they are.
        genders: what the pronouns of each cluster tell of the gender.
    """

    mentions: list[Mention]
    others: list[Place]
    genders: dict[Cluster, Counter[Gender]]


def split_words(text: str) -> list[str]:
    """The words of a text, in order."""
    return re.findall(r"\w+", text)


def join(sentences: Sequence[str]) -> str:
    """The text of a story as a pipeline reads it."""
    return " ".join(sentences)


def read(document: RecognizedText, text: int, sentences: Sequence[str]) -> Reading:
    """What a document holds, in places of the sentences. An entity that goes over the end of a sentence is two.

    Args:
        document: what the pipeline made of `join(sentences)`.
        text: which text of the row it is.
        sentences: of the text.
    """
    places = _Places(text, sentences)
    clusters, genders = _clusters(document, places)
    reading = Reading([], [], genders)
    for span in document.ents:
        kind = KINDS.get(span.label_)
        for place in places.of(span):
            if kind is None:
                reading.others.append(place)
                continue
            bare = places.without_title(place) if kind == "person" else place
            name = places.text_of(bare)
            if split_words(name) and not _is_pronoun(name):
                title = title_gender(sentences[bare.sentence], bare.start) if kind == "person" else None
                cluster = clusters.get(bare, clusters.get(place))
                reading.mentions.append(Mention(bare, name, kind, cluster, title))
    return reading


def occurrences(sentence: str, names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where one of some names stands in a sentence as whole words, half-open; of several the first listed."""
    # Nearly all of them are in no sentence but a few.
    names = [name for name in names if name in sentence]
    at = 0 if names else len(sentence)
    while at < len(sentence):
        ends = (at + len(name) for name in names if sentence.startswith(name, at))
        end = None if _joined(sentence, at) else next((end for end in ends if not _joined(sentence, end)), None)
        if end is not None:
            yield at, end
        at = end or at + 1


def begins_sentence(sentence: str, at: int) -> bool:
    """Whether a place is where a sentence may begin, and so any word has a capital letter: at the very first, after the
    end of another, in quotes."""
    shortened = _SHORTENED.search(sentence[:at])
    if shortened is not None and (is_title(shortened[1]) or _is_initial(shortened[1])):
        return False
    return _BEGINNING.search(sentence[:at]) is not None


def _is_initial(word: str) -> bool:
    return len(word) == 1 and word.isupper() and not is_pronoun(word)


def stands_after_the(sentence: str, at: int) -> bool:
    """Whether the word before a place is `the`."""
    return _THE.search(sentence[:at]) is not None


def _joined(sentence: str, at: int) -> bool:
    """Whether a word goes on at a place between two characters. Marks belong to the letters before them."""
    return 0 < at < len(sentence) and _in_word(sentence[at - 1]) and _in_word(sentence[at])


def _in_word(char: str) -> bool:
    return char.isalnum() or char in _JOINERS or unicodedata.category(char).startswith("M")


class _Places:
    """Characters of a text as places of its sentences.

    Args:
        text: which text of the row it is.
        sentences: of the text.
    """

    def __init__(self, text: int, sentences: Sequence[str]) -> None:
        self.text, self.sentences = text, sentences
        self.starts = [0, *accumulate(len(sentence) + 1 for sentence in sentences)]

    def of(self, span: RecognizedSpan) -> Iterator[Place]:
        """A span, without what is not of the name: quotes, `the`, `'s`. It has a place in each sentence."""
        first = bisect_right(self.starts, span.start_char) - 1
        for number in range(first, len(self.sentences)):
            start, end = span.start_char - self.starts[number], span.end_char - self.starts[number]
            if end <= 0:
                break
            sentence = self.sentences[number]
            start, end = _trimmed(sentence, max(0, start), min(len(sentence), end))
            if start < end:
                yield Place(self.text, number, start, end)

    def text_of(self, place: Place) -> str:
        """What stands there."""
        return self.sentences[place.sentence][place.start : place.end]

    def without_title(self, place: Place) -> Place:
        """The name of a person without the titles before it."""
        return place._replace(start=after_titles(self.sentences[place.sentence], place.start, place.end))


def _clusters(document: RecognizedText, places: _Places) -> tuple[dict[Place, Cluster], dict[Cluster, Counter[Gender]]]:
    """Which cluster each place is in, the first if there are several, and what the pronouns of each tell."""
    clusters: dict[Place, Cluster] = {}
    genders: dict[Cluster, Counter[Gender]] = {}
    for key in sorted(key for key in document.spans if key.startswith(CLUSTERS)):
        cluster = places.text, key
        for place in (place for span in document.spans[key] for place in places.of(span)):
            for form in (place, places.without_title(place)):
                clusters.setdefault(form, cluster)
            word = places.text_of(place)
            gender = pronoun_gender(word) if _is_pronoun(word) else None
            if gender is not None:
                genders.setdefault(cluster, Counter())[gender] += 1
    return clusters, genders


def _trimmed(sentence: str, start: int, end: int) -> tuple[int, int]:
    def outside(char: str) -> bool:
        return char.isspace() or char in _EDGES

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
    """Whether a word is one that stands for a name. `US` and `IT` are not."""
    return is_pronoun(word) and (len(word) == 1 or not word.isupper())
