"""Names in texts: given names and the gender that they indicate, titles and pronouns, and the names
that a spaCy pipeline recognizes. Who is who in a row: names grouped into people, places and other
entities, and the places where a name was missed."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
_THE = re.compile(r"(?<!\w)the\s+$", re.IGNORECASE)
_SENTENCE_START = re.compile(r"(?:^|[.!?…:\"'“„‘«‹(\[*_])[\W_]*$")
_ABBREVIATION = re.compile(r"(?<![\w'’])(\w+)\.\s+$")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’ʼ][^\W\d_]+)*")
_SHORTEST_UPPER_CASE = 3


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


@dataclass(eq=False)
class Entity:
    """A person, place, organization or other entity of a row, with all its names.

    Attributes:
        kind: what it is.
        parts: the words of a person's names, else the full names, case-folded.
        mentions: its recognized names.
        spans: where its names are, recognized or not, and whether they are in upper case, unlike
            its recognized names.
        pronouns: the pronouns that its name replaces, and whether they are possessive.
    """

    kind: Kind
    parts: set[str] = field(default_factory=set)
    mentions: list[Mention] = field(default_factory=list)
    spans: dict[Span, bool] = field(default_factory=dict)
    pronouns: dict[Span, bool] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The recognized names, those with most words first."""
        names = dict.fromkeys(mention.name for mention in self.mentions)
        return sorted(names, key=lambda name: -len(name.split()))

    @property
    def given(self) -> list[str]:
        """Case-folded words that may be given names: all words but the last ones of names of
        several words."""
        forms = dict.fromkeys(mention.form for mention in self.mentions)
        names = sorted(map(_words, forms), key=len, reverse=True)
        surnames = {words[-1] for words in names if len(words) > 1}
        return [word for words in names for word in words if word not in surnames]

    @property
    def title(self) -> Gender | None:
        """The gender of most titles."""
        titles = Counter(mention.title for mention in self.mentions)
        women, men = titles["f"], titles["m"]
        return None if women == men else "f" if women > men else "m"

    def gender(self, names: GivenNames) -> Gender | None:
        """The gender of a person by titles, else by given names, else None."""
        known = map(names.gender_of, self.given)
        return self.title or next(filter(None, known), None)

    def may_have(self, gender: Gender | None, words: Collection[str], names: GivenNames) -> bool:
        """Whether a person can be meant by these words of the person's names, with a title of a
        gender. The given names show the person's gender only if `words` has none of them; titles
        are stronger evidence."""
        known = self.gender(names) if not set(words) & set(self.given) else self.title
        return gender is None or known in (None, gender)

    def add(self, mention: Mention) -> None:
        """Add a mention."""
        self.mentions.append(mention)
        self.spans[mention.span] = False
        self.parts |= set(_words(mention.form)) if self.kind == "person" else {mention.form}

    def written(self, name: str, span: Span) -> str:
        """A new name as it is written in place of one of its names or pronouns."""
        if span in self.pronouns:
            return f"{name}'s" if self.pronouns[span] else name
        return name.upper() if self.spans[span] else name


def add_pronouns(entities: Sequence[Entity], pronouns: Iterable[Pronoun]) -> None:
    """Add pronouns to the entities that most of their names are of."""
    entity_of = {span: entity for entity in entities for span in entity.spans}
    for pronoun in pronouns:
        named = Counter(entity_of[span] for span in pronoun.names if span in entity_of)
        if named and pronoun.span not in entity_of:
            named.most_common(1)[0][0].pronouns[pronoun.span] = pronoun.possessive


def entities_of(found: Found, lines: Sequence[str], names: GivenNames) -> list[Entity]:
    """The entities of a row in the order they appear, from the mentions and the lines.

    Equal names are of one entity; of people, if they have titles of the same gender. A person whose
    name consists of words of another person's names (`Karenina`, `Anna Karenina`) is the same
    person, if nothing tells them apart. If there are several, the first with the gender of the
    title is chosen, if that is known. The given names in `names` indicate the gender of people.
    """
    mentions = list(_without_plurals(found.mentions, lines))
    # A pipeline may label a name differently in different places: the most frequent kind is used
    # for all of them.
    votes: defaultdict[str, Counter[Kind]] = defaultdict(Counter)
    for mention in mentions:
        votes[mention.form][mention.kind] += 1
    groups: dict[tuple[str, Gender | None], Entity] = {}
    for mention in mentions:
        kind = votes[mention.form].most_common(1)[0][0]
        title = mention.title if kind == "person" else None
        groups.setdefault((mention.form, title), Entity(kind)).add(mention)
    entities: list[Entity] = []
    # Long names first, so that the entity of `Anna Karenina` exists when `Karenina` is matched.
    for group in sorted(groups.values(), key=lambda group: -len(group.parts)):
        gender = group.title
        matching = [
            entity
            for entity in entities
            if entity.kind == group.kind == "person"
            and group.parts <= entity.parts
            and entity.may_have(gender, group.parts, names)
        ]
        if not matching:
            entities.append(group)
            continue
        # Entities of the gender of the group first, in the order they appear.
        same = min(matching, key=lambda one: (gender not in (None, one.title), min(one.spans)))
        for mention in group.mentions:
            same.add(mention)
    return sorted(entities, key=lambda entity: min(entity.spans))


def _without_plurals(mentions: Sequence[Mention], lines: Sequence[str]) -> Iterator[Mention]:
    """Yield the mentions; `Browns` in `the Browns` becomes a mention of `Brown` if a person has
    that name."""
    people = {word for m in mentions if m.kind == "person" for word in _words(m.form)}
    singular = {_plural_of(word): word for word in people}
    for mention in mentions:
        word, span = singular.get(mention.form), mention.span
        if word is not None and _THE.search(lines[span.line][: span.start]):
            name = mention.name[: len(word)]
            mention = Mention(span._replace(end=span.end - 1), name, "person")
        yield mention


def _plural_of(name: str) -> str:
    return f"{name}es" if name.lower().endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"


def _words(form: str) -> list[str]:
    return [word.rstrip(".") for word in form.split()]


class _Form(NamedTuple):
    """A form of a name to search for.

    Attributes:
        entity: whose name it is.
        base: the recognized name, or a word of it, that the form is made from.
        full: `base` is a recognized name, not only a word of one.
        plural: the form is the plural for a family, after `the`; its final `s` is not replaced.
        upper_case: the form is `base` in upper case.
    """

    entity: Entity
    base: str
    full: bool = False
    plural: bool = False
    upper_case: bool = False


class _Match(NamedTuple):
    """A form found in a line: where, whether a sentence may begin there, and the spans recognized
    as names of the entity that it replaces, if any."""

    form: _Form
    span: Span
    begins: bool
    replaced: list[Span]


def find_missed(
    entities: Sequence[Entity], found: Found, lines: Sequence[str], names: GivenNames
) -> None:
    """Add to each entity the spans of its names that were not recognized, or only in part.

    Searched are full names and the first and last words of people's names, also in upper case, and
    plurals for families (`the Browns`), but no single word that the row has in lower case too. In
    upper case or where a sentence may begin, a single word must also be known as a name: it is in
    the list, is found within a sentence or at the end of a longer name, or is a full name that is
    recognized in at least half of such places. If several entities have a name, the first is
    preferred. The arguments are as in `entities_of`.
    """
    matches = list(_matches(_forms(entities, lines), entities, found, lines, names))
    certain: set[str] = set()
    balance: Counter[str] = Counter()
    for form, _, begins, replaced in matches:
        if form.upper_case or form.plural:
            continue
        if not begins or " " in form.base:
            certain.add(form.base.split()[-1])
        elif form.full:
            balance[form.base] += 1 if replaced else -1
    certain |= {word for word, count in balance.items() if count >= 0}
    for form, span, begins, replaced in matches:
        # A single word whose capital letters mean nothing may be a common word.
        is_ambiguous = (begins or form.upper_case) and " " not in form.base
        is_certain = replaced or form.plural or form.base in certain or form.base in names
        if is_certain or not is_ambiguous:
            for part in replaced:
                form.entity.spans.pop(part, None)
            form.entity.spans[span] = form.upper_case


def _forms(entities: Sequence[Entity], lines: Sequence[str]) -> dict[str, dict[Entity, _Form]]:
    """The forms to search for by text, one for each entity that may be meant; the first is
    preferred."""
    # Full names come before single words, so that a word that is the full name of an entity is
    # preferred; names of most words come first.
    named = [(name, _Form(one, name, full=True)) for one in entities for name in one.names]
    people = [one for one in entities if one.kind == "person"]
    for entity, words in [(one, name.split()) for one in people for name in one.names]:
        # No last word of names such as `Alexander the Great`, since `Great` may begin a sentence.
        last = len(words) - 1 if all(word[0].isupper() for word in words) else 0
        for at in sorted({0, last}):
            word = words[at]
            is_name = word[0].isupper() and _WORD.fullmatch(word)
            if is_name and not is_title(word) and not is_pronoun(word):
                named.append((word, _Form(entity, word)))
                if at == len(words) - 1:
                    named.append((_plural_of(word), _Form(entity, word, plural=True)))
    # A name that the row has in lower case too may be a common word.
    lower = {word for line in lines for word in split_words(line) if word == word.lower()}
    named = [
        (text, form) for text, form in named if text == text.lower() or text.lower() not in lower
    ]
    upper = [
        (text.upper(), form._replace(upper_case=True))
        for text, form in named
        if len(text) >= _SHORTEST_UPPER_CASE and text != text.upper()
    ]
    forms: defaultdict[str, dict[Entity, _Form]] = defaultdict(dict)
    # Upper case first: if both `Mary` and `MARY` were recognized, `MARY` is a form of `Mary`.
    for text, form in [*upper, *named]:
        forms[text].setdefault(form.entity, form)
    return forms


def _matches(
    forms: dict[str, dict[Entity, _Form]],
    entities: Sequence[Entity],
    found: Found,
    lines: Sequence[str],
    names: GivenNames,
) -> Iterator[_Match]:
    """Yield the occurrences of all forms, except those that were recognized as something else or
    as a part of a longer name."""
    recognized: defaultdict[int, list[tuple[Span, Entity | None]]] = defaultdict(list)
    owned = [(span, entity) for entity in entities for span in entity.spans]
    for span, owner in [*owned, *((span, None) for span in found.others)]:
        recognized[span.line].append((span, owner))
    longest_first = sorted(forms, key=len, reverse=True)
    for number, line in enumerate(lines):
        for start, end in occurrences(line, longest_first):
            overlapping = [
                (span, owner)
                for span, owner in recognized[number]
                if span.start < end and start < span.end
            ]
            owners = {owner for _, owner in overlapping}
            form = _chosen(forms[line[start:end]], line, start, owners, names)
            if form is None or owners - {form.entity}:
                continue
            match = Span(number, start, end - form.plural)
            replaced = [span for span, _ in overlapping]
            if all(match.start <= span.start and span.end <= match.end for span in replaced):
                yield _Match(form, match, begins_sentence(line, start), replaced)


def _chosen(
    forms: dict[Entity, _Form], line: str, start: int, owners: set[Entity | None], names: GivenNames
) -> _Form | None:
    """The form whose entity is recognized there, else the first whose entity fits the gender of a
    title before it."""
    gender, after_the = title_gender(line, start), _THE.search(line[:start])
    possible = [form for form in forms.values() if after_the or not form.plural]
    if recognized := [form for form in possible if form.entity in owners]:
        return recognized[0]
    # Entities known to have the gender of the title come before those of unknown gender.
    return min(
        (
            form
            for form in possible
            if form.entity.may_have(gender, form.base.casefold().split(), names)
        ),
        key=lambda form: gender not in (None, form.entity.title),
        default=None,
    )


def begins_sentence(line: str, at: int) -> bool:
    """Whether a sentence may begin at a position (also after a quote or colon), so any word has a
    capital letter."""
    # The period of a title or an initial (`Mr.`, `J.`) does not end a sentence.
    abbreviation = _ABBREVIATION.search(line[:at])
    if abbreviation is not None:
        word = abbreviation[1]
        if is_title(word) or (len(word) == 1 and word.isupper() and not is_pronoun(word)):
            return False
    return _SENTENCE_START.search(line[:at]) is not None
