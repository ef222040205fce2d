"""Names in texts: given names and the gender that they indicate, titles and pronouns, and the names
that a spaCy pipeline recognizes."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

Gender: TypeAlias = Literal["f", "m"]
Kind: TypeAlias = Literal["person", "place", "organization", "miscellaneous"]

LOCALE = "en_US"
"""The default locale of given names."""

KINDS: dict[str, Kind] = {
    **dict.fromkeys("PERSON PER".split(), "person"),
    **dict.fromkeys("GPE LOC FAC".split(), "place"),
    "ORG": "organization",
    # The label of CoNLL-2003, and the labels of OntoNotes for what it covers.
    **dict.fromkeys("MISC NORP EVENT WORK_OF_ART LAW LANGUAGE PRODUCT".split(), "miscellaneous"),
}
"""The kind of each entity label of spaCy pipelines; entities with other labels, such as dates, are
not replaced."""

_PRONOUNS = frozenset(
    "she her hers herself he him his himself i me my mine myself you your yours yourself yourselves"
    " we us our ours ourselves it its itself they them their theirs themselves who whom whose that"
    " this these those one".split()
)
_POSSESSIVES = frozenset("his her its their whose".split())
_REPLACED = _POSSESSIVES | frozenset("he she it they him them".split())
"""Pronouns that a name may replace. Those of the first and second person stay, since the verb
would not fit."""
NEAR = 8
"""A pronoun up to so many tokens after the start of the mention before it stays a pronoun."""
_TITLES: dict[str, Gender | None] = {
    **dict.fromkeys(
        "mrs ms miss mistress madam madame mademoiselle mme mlle señora señorita senora senorita"
        " lady dame queen empress princess duchess countess viscountess baroness mother mom mum"
        " grandmother grandma granny aunt auntie sister".split(),
        "f",
    ),
    **dict.fromkeys(
        "mr mister messrs monsieur señor senor master sir lord king emperor prince duke count"
        " viscount baron father dad grandfather grandpa uncle brother".split(),
        "m",
    ),
    **dict.fromkeys(
        "dr doctor prof professor judge president senator governor mayor minister general gen"
        " colonel col major maj captain capt commander lieutenant lt admiral sergeant sgt corporal"
        " private inspector detective officer constable sheriff rev reverend saint st pastor bishop"
        " rabbi".split()
    ),
}
_COMMON_WORDS = frozenset(
    "Angel April Amber Art Autumn Bill Bob Carter Chance Chase Christian Cliff Crystal Daisy Dawn"
    " Dean Destiny Dick Drew Earl Faith Frank Ginger Grace Grant Guy Holly Hope Hunter Iris Ivy"
    " Jack Jade Joy June Lance Lily Mark Mason Max May Melody Miles Misty Nick Norma Pat Penny Ray"
    " Rich Rob Rose Ruby Savannah Sierra Skip Sterling Sue Summer Tiffany Violet Wade Will".split()
)
"""Names that indicate a gender but are never drawn, since they are also other words."""

# Articles and possessive pronouns are not replaced even if a pipeline has them in a name, as in
# `His Majesty`.
_ARTICLE = re.compile(r"(?:the|my|your|his|her|its|our|their)\s+", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’ʼ][sS]$")
_EDGES = "\"'`´‘’‚“”„«»‹›()[]{}<>,;:!?…-–—*_"
_TITLE = re.compile(r"(\w+)\.?\s+")
_TITLE_BEFORE = re.compile(r"(?<!\w)(\w+)\.?\s+$")


class GivenNames:
    """Given names to draw from, and the gender that each indicates.

    Args:
        women, men: weights by name; a name may be in both. A name with a weight of 0 indicates a
            gender, but is never drawn.
    """

    def __init__(self, women: Mapping[str, float], men: Mapping[str, float]) -> None:
        self._weights: dict[Gender | None, Counter[str]] = {"f": Counter(women), "m": Counter(men)}
        self._weights[None] = self._weights["f"] + self._weights["m"]
        self._genders: dict[str, Gender | None] = {}
        for name in (*women, *men):
            woman, man = women.get(name, -1.0), men.get(name, -1.0)
            likely: Gender = "f" if woman > man else "m"
            self._genders[name.casefold()] = None if woman == man else likely

    def gender_of(self, name: str) -> Gender | None:
        """The gender of most people with a name; None if it is unknown, or both are equally
        frequent."""
        return self._genders.get(name.casefold())

    def __contains__(self, name: str) -> bool:
        """Whether a name is known, also if its weight is 0."""
        return name.casefold() in self._genders

    def draw(self, random: Random, gender: Gender | None, taken: Collection[str] = ()) -> str:
        """Draw a name of a gender (None for any) by weight, without the case-folded words in
        `taken`. Raises `ValueError` if all names are taken."""
        free = {
            name: weight
            for name, weight in self._weights[gender].items()
            if weight and not any(word in taken for word in name.casefold().split())
        }
        if not free:
            people = {"f": "women", "m": "men", None: "people"}[gender]
            raise ValueError(f"there is no name left for {people}; use a locale with more names")
        return random.choices(list(free), list(free.values()))[0]


@cache
def read_names(locale: str = LOCALE) -> GivenNames:
    """The given names of a locale of Faker, such as `de_DE`, weighted by their frequency if Faker
    knows it.

    Raises:
        ImportError: Faker is not installed.
        ValueError: Faker has no given names of women and men for this locale.
    """
    try:
        from faker import Faker
        from faker.config import AVAILABLE_LOCALES
    except ImportError:
        raise ImportError(
            "drawing names needs Faker; pip install narrative_twins[entities]"
        ) from None
    providers: list[Any] = []
    if locale in AVAILABLE_LOCALES:
        providers = Faker(locale, providers=["faker.providers.person"]).get_providers()

    def weights(gender: str) -> dict[str, float]:
        # Faker uses another locale if it has no names for this one.
        own = (getattr(p, f"first_names_{gender}", ()) for p in providers if p.__lang__ == locale)
        names = next(own, ())
        known = names if isinstance(names, Mapping) else dict.fromkeys(names, 1.0)
        return {name: 0.0 if name in _COMMON_WORDS else float(known[name]) for name in known}

    women, men = weights("female"), weights("male")
    if not women or not men:
        raise ValueError(
            f"{locale!r} is not a locale of Faker with names of women and men; use one such as"
            f" {LOCALE} or de_DE"
        )
    return GivenNames(women, men)


class Span(NamedTuple):
    """A half-open range of characters in a line, which is a sentence of the row, by its number."""

    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Mention:
    """A recognized name, its kind, and the gender of a title before it."""

    span: Span
    name: str
    kind: Kind
    title: Gender | None = None

    @property
    def form(self) -> str:
        """The name normalized for comparison."""
        return " ".join(self.name.casefold().replace("’", "'").split())


class Pronoun(NamedTuple):
    """A pronoun that is far from the mention before it, whether it is possessive, and the names of
    what it refers to."""

    span: Span
    possessive: bool
    names: list[Span]


class Found(NamedTuple):
    """What is recognized in a row: names, the spans of entities of other kinds, which are not
    replaced, and pronouns that are, see `find_pronouns`."""

    mentions: list[Mention]
    others: list[Span]
    pronouns: list[Pronoun]


def find_mentions(documents: Iterable[Any], texts: Sequence[range], lines: Sequence[str]) -> Found:
    """The mentions in a row. An entity across a sentence boundary becomes one mention in each
    sentence.

    Args:
        documents: the spaCy document of each text, whose sentences are joined by spaces.
        texts: the lines of each text.
        lines: all sentences of the row.
    """
    found = Found([], [], [])
    for document, text in zip(documents, texts, strict=True):
        starts = list(accumulate((len(lines[line]) + 1 for line in text), initial=0))
        for entity in document.ents:
            kind = KINDS.get(entity.label_)
            for at in range(bisect_right(starts, entity.start_char) - 1, len(text)):
                line, number = lines[text[at]], text[at]
                start, end = entity.start_char - starts[at], entity.end_char - starts[at]
                if end <= 0:
                    break
                start, end = _trimmed(line, max(0, start), min(len(line), end))
                if kind == "person":
                    start = _after_titles(line, start, end)
                name = line[start:end]
                # Pronouns and entities of punctuation only are no names.
                if kind is None:
                    found.others.append(Span(number, start, end))
                elif split_words(name) and not _means_pronoun(name):
                    title = title_gender(line, start) if kind == "person" else None
                    found.mentions.append(Mention(Span(number, start, end), name, kind, title))
        named = {mention.span for mention in found.mentions}
        found.pronouns.extend(find_pronouns(document, starts, text, lines, named))
    return found


def find_pronouns(
    document: Any, starts: Sequence[int], text: range, lines: Sequence[str], named: Collection[Span]
) -> Iterator[Pronoun]:
    """The pronouns of a document that stand more than `NEAR` tokens after the start of the mention
    before them, or before all others, if the pipeline finds coreference: `doc._.coref_clusters`,
    for each cluster a list of `(start, end)` in characters, as of the component `fastcoref`.

    Args:
        document: of the text.
        starts: where each line of the text begins in the document.
        text: the lines of the text.
        lines: all sentences of the row.
        named: the spans of names.
    """
    for cluster in getattr(getattr(document, "_", None), "coref_clusters", None) or ():
        pronouns, names, before = list[tuple[Span, bool]](), list[Span](), None
        for first, last in sorted(cluster):
            at = bisect_right(starts, first) - 1
            start, end = first - starts[at], last - starts[at]
            tokens = document.char_span(first, last)
            if tokens is None or end > len(lines[text[at]]):
                continue
            is_far = before is None or tokens.start - before > NEAR
            before = tokens.start
            number, line = text[at], lines[text[at]]
            if tokens.text.lower() in _REPLACED:
                tag = tokens[0].tag_
                possessive = tag == "PRP$" if tag else tokens.text.lower() in _POSSESSIVES
                if is_far:
                    pronouns.append((Span(number, start, end), possessive))
                continue
            start, end = _trimmed(line, start, end)
            spans = (Span(number, at, end) for at in (start, _after_titles(line, start, end)))
            names += [span for span in spans if span in named][:1]
        if names:
            yield from (Pronoun(span, possessive, names) for span, possessive in pronouns)


def _after_titles(line: str, start: int, end: int) -> int:
    """Where a name begins after its titles; the last word counts as the name even if it is a
    title."""
    while (title := _TITLE.match(line, start, end)) and title.end() < end and is_title(title[1]):
        start = title.end()
    return start


def _trimmed(line: str, start: int, end: int) -> tuple[int, int]:
    """A range without quotes and spaces around it, the article before it, and `'s`."""

    def outside(char: str) -> bool:
        return char.isspace() or char in _EDGES

    # Twice, since a quote may end before the `'s`: `"Anna"'s` becomes `Anna"`, then `Anna`.
    for _ in range(2):
        while start < end and outside(line[start]):
            start += 1
        while start < end and outside(line[end - 1]):
            end -= 1
        if _POSSESSIVE.search(line[start:end]):
            end -= 2
    article = _ARTICLE.match(line, start, end)
    return _trimmed(line, article.end(), end) if article is not None else (start, end)


def split_words(text: str) -> list[str]:
    """The words of a text, in order."""
    return re.findall(r"\w+", text)


def is_pronoun(word: str) -> bool:
    """Whether a word is a pronoun, in upper or lower case."""
    return word.lower() in _PRONOUNS


def _means_pronoun(word: str) -> bool:
    """Whether a name is a pronoun; `US` and `IT` are not."""
    return is_pronoun(word) and (len(word) == 1 or not word.isupper())


def is_title(word: str) -> bool:
    """Whether a word is a title, with or without a period."""
    return word.rstrip(".").lower() in _TITLES


def title_gender(line: str, start: int) -> Gender | None:
    """The gender indicated by the titles right before a name; the nearest one that indicates a
    gender decides."""
    while (title := _TITLE_BEFORE.search(line[:start])) is not None and is_title(title[1]):
        gender = _TITLES[title[1].lower()]
        if gender is not None:
            return gender
        start = title.start()
    return None


def occurrences(line: str, names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges where names are whole words of a line; if several match, the first
    listed."""
    # Most names are in few lines only: drop the others before searching each position.
    names = [name for name in names if name in line]
    at = 0 if names else len(line)
    while at < len(line):
        ends = (at + len(name) for name in names if line.startswith(name, at))
        whole = () if _within_word(line, at) else (e for e in ends if not _within_word(line, e))
        end = next(iter(whole), None)
        if end is not None:
            yield at, end
        at = end or at + 1


def _within_word(line: str, at: int) -> bool:
    return 0 < at < len(line) and _in_word(line[at - 1]) and _in_word(line[at])


def _in_word(char: str) -> bool:
    # Joiners, and combining marks (Unicode category M), which belong to the letter before them.
    return char.isalnum() or char in "_\u200c\u200d" or unicodedata.category(char).startswith("M")
