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

from narrative_twins.making.names import Gender

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

_PRONOUNS: dict[str, Gender | None] = {
    **dict.fromkeys(("she", "her", "hers", "herself"), "f"),
    **dict.fromkeys(("he", "him", "his", "himself"), "m"),
    **dict.fromkeys("i me my mine myself you your yours yourself we us our ours it its itself".split()),
    **dict.fromkeys("they them their theirs themselves who whom whose that this one".split()),
}
_TITLES: dict[str, Gender | None] = {
    **dict.fromkeys("mrs ms miss mistress madam madame lady dame queen princess aunt auntie sister".split(), "f"),
    **dict.fromkeys("mr mister sir lord king prince uncle brother father".split(), "m"),
    **dict.fromkeys("dr doctor prof professor captain officer detective judge president".split()),
}
_TITLE = re.compile(r"(\w+)\.?\s+")
_TITLE_BEFORE = re.compile(r"(?<!\w)(\w+)\.?\s+$")
_ARTICLE = re.compile(r"the\s", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’ʼ][sS]$")
_EDGES = "\"'`´‘’‚“”„«»‹›()[]{}<>,;:!?…-–—*_"
_JOINERS = "_\u200c\u200d"


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
        return " ".join(self.name.casefold().split())


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


def words_of(text: str) -> list[str]:
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
            if words_of(name) and not _is_pronoun(name):
                title = places.title_before(bare) if kind == "person" else None
                cluster = clusters.get(bare, clusters.get(place))
                reading.mentions.append(Mention(bare, name, kind, cluster, title))
    return reading


def is_title(word: str) -> bool:
    """Whether a word stands before names, as `Dr.` does."""
    return word.rstrip(".").lower() in _TITLES


def occurrences(sentence: str, names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where one of some names stands in a sentence as whole words, half-open; of several the first listed."""
    at = 0
    while at < len(sentence):
        ends = (at + len(name) for name in names if sentence.startswith(name, at))
        end = None if _joined(sentence, at) else next((end for end in ends if not _joined(sentence, end)), None)
        if end is not None:
            yield at, end
        at = end or at + 1


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
        title = _TITLE.match(self.sentences[place.sentence], place.start, place.end)
        if title is None or title.end() >= place.end or not is_title(title[1]):
            return place
        return self.without_title(place._replace(start=title.end()))

    def title_before(self, place: Place) -> Gender | None:
        """The gender that a title before a name tells."""
        title = _TITLE_BEFORE.search(self.sentences[place.sentence][: place.start])
        return _TITLES.get(title[1].lower()) if title else None


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
            gender = _PRONOUNS.get(word.lower()) if _is_pronoun(word) else None
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
    if _ARTICLE.match(sentence[start:end]):
        return _trimmed(sentence, start + 4, end)
    return start, end


def _is_pronoun(word: str) -> bool:
    """Whether a word is one that stands for a name. `US` and `IT` are not."""
    return word.lower() in _PRONOUNS and (len(word) == 1 or not word.isupper())
