"""Who is who in a row: recognized names grouped into people, places, organizations and other
entities, and the places where a name was missed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from narrative_twins.making.names import (
    Found,
    Gender,
    GivenNames,
    Kind,
    Mention,
    Pronoun,
    Span,
    is_pronoun,
    is_title,
    occurrences,
    split_words,
    title_gender,
)

_THE = re.compile(r"(?<!\w)the\s+$", re.IGNORECASE)
_SENTENCE_START = re.compile(r"(?:^|[.!?…:\"'“„‘«‹(\[*_])[\W_]*$")
_ABBREVIATION = re.compile(r"(?<![\w'’])(\w+)\.\s+$")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’ʼ][^\W\d_]+)*")
_SHORTEST_UPPER_CASE = 3


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
