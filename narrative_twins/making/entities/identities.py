"""Who is who: mentions of a row put together to people, places and organizations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from narrative_twins.making.entities.mentions import Cluster, Kind, Mention, Place, Reading, stands_after_the
from narrative_twins.making.entities.names import Gender, GivenNames


@dataclass(eq=False)
class Entity:
    """Someone or something that a row names, by all its names.

    Attributes:
        kind: a person, a place or an organization.
        parts: what it may be called by: the words of a person's names, else whole names, in lower case.
        mentions: where it is recognized.
        places: where its names stand, recognized or not.
        loud: those of them where all is in upper case and elsewhere is not.
        genders: what pronouns and titles tell of the gender.
    """

    kind: Kind
    parts: set[str] = field(default_factory=set)
    mentions: list[Mention] = field(default_factory=list)
    places: set[Place] = field(default_factory=set)
    loud: set[Place] = field(default_factory=set)
    genders: Counter[Gender] = field(default_factory=Counter)

    @property
    def names(self) -> list[str]:
        """What it is called where it is recognized, the names of most words first."""
        names = dict.fromkeys(mention.name for mention in self.mentions)
        return sorted(names, key=lambda name: -len(name.split()))

    @property
    def given(self) -> list[str]:
        """Words of its names that may be given names, in lower case: all but those that end a longer one."""
        forms = dict.fromkeys(mention.form for mention in self.mentions)
        names = sorted(map(_words, forms), key=len, reverse=True)
        surnames = {words[-1] for words in names if len(words) > 1}
        return [word for words in names for word in words if word not in surnames]

    @property
    def gender(self) -> Gender | None:
        """The gender that pronouns and titles tell."""
        if self.genders["f"] == self.genders["m"]:
            return None
        return "f" if self.genders["f"] > self.genders["m"] else "m"

    def add(self, mentions: Iterable[Mention]) -> None:
        """Take further mentions for its own."""
        for mention in mentions:
            self.mentions.append(mention)
            self.places.add(mention.place)
            self.parts |= _parts(mention, self.kind)
            if mention.title is not None:
                self.genders[mention.title] += 1

    def join(self, other: Entity) -> None:
        """Take another for the same."""
        self.parts |= other.parts
        self.mentions += other.mentions
        self.places |= other.places
        self.genders += other.genders


def entities_of(readings: Sequence[Reading], texts: Sequence[Sequence[str]], names: GivenNames) -> list[Entity]:
    """The people, places and organizations of a row, in the order they appear.

    Mentions of a cluster are one entity. Names put the rest together: people where one is called by words of the
    other's names (`Karenina`, `Anna Karenina`) and nothing tells them apart, else equal names. Where several fit it is
    the first of those of its gender, if that is told.

    Args:
        readings: of each text of the row.
        texts: the sentences of each.
        names: tell the gender of people by their given names.
    """
    entities: list[Entity] = []
    # The fullest names first, since shorter ones are to find them.
    for one in sorted(_groups(readings, texts), key=_fullness, reverse=True):
        fit_text = [entity for entity in entities if _is_called_so(entity, one, names)]
        if not fit_text:
            entities.append(one)
            continue
        first, *others = sorted(fit_text, key=lambda entity: (one.gender not in (None, entity.gender), _first(entity)))
        first.join(one)
        # One name never means two places, whatever clusters say; of people it may.
        for same in others if one.kind != "person" else []:
            first.join(same)
            entities.remove(same)
    return sorted(entities, key=_first)


def gender_of(entity: Entity, names: GivenNames) -> Gender | None:
    """The gender of a person: by the pronouns of its clusters and by titles such as `Mrs.`, else by its given names,
    else None."""
    known = (names.gender_of(word) for word in entity.given)
    return entity.gender or next((gender for gender in known if gender is not None), None)


def _groups(readings: Sequence[Reading], texts: Sequence[Sequence[str]]) -> Iterable[Entity]:
    """Mentions of one cluster, or of equal names and titles where there is none. A name is of the kind it is mostly
    taken for."""
    mentions = list(_without_plurals([mention for reading in readings for mention in reading.mentions], texts))
    votes: dict[str, Counter[Kind]] = {}
    for mention in mentions:
        votes.setdefault(mention.form, Counter())[mention.kind] += 1
    groups: dict[tuple[object, Kind], Entity] = {}
    for mention in mentions:
        ((kind, _),) = votes[mention.form].most_common(1)
        alike = mention.cluster or (mention.form, mention.title if kind == "person" else None)
        groups.setdefault((alike, kind), Entity(kind)).add([mention])
    for group in groups.values():
        cluster = _cluster(group)
        if cluster is not None:
            group.genders += readings[cluster[0]].genders.get(cluster, Counter())
    return groups.values()


def _without_plurals(mentions: Sequence[Mention], texts: Sequence[Sequence[str]]) -> Iterator[Mention]:
    """Mentions, `the Browns` without the `s` and as one of `Brown`, where somebody is called so."""
    people = {word for mention in mentions if mention.kind == "person" for word in _words(mention.form)}
    singular = {plural_of(word): word for word in people}
    for mention in mentions:
        word = singular.get(mention.form)
        text, sentence, start, end = mention.place
        if word is not None and stands_after_the(texts[text][sentence], start):
            place, name = mention.place._replace(end=end - 1), mention.name[: len(word)]
            # The cluster of a family is not that of one of them.
            mention = Mention(place, name, "person")
        yield mention


def plural_of(name: str) -> str:
    """What all of a name are called together."""
    return f"{name}es" if name.lower().endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"


def _words(form: str) -> list[str]:
    return [word.rstrip(".") for word in form.split()]


def _parts(mention: Mention, kind: Kind) -> set[str]:
    return set(_words(mention.form)) if kind == "person" else {mention.form}


def _fullest(entity: Entity) -> set[str]:
    """The words of the longest name."""
    return max((_parts(mention, entity.kind) for mention in entity.mentions), key=len)


def _is_called_so(entity: Entity, one: Entity, names: GivenNames) -> bool:
    """Whether one may be the same as an entity: by the fullest name of a person, by any of another."""
    if entity.kind != one.kind or entity.parts.isdisjoint(one.parts):
        return False
    return entity.kind != "person" or (_fullest(one) <= entity.parts and not _told_apart(entity, one, names))


def is_another(entity: Entity, gender: Gender | None, words: Set[str], names: GivenNames) -> bool:
    """Whether who is called by words of a person's names has another gender than that person. Given names tell the
    gender of a person too, but not where the words are among them."""
    told = entity.gender or (gender_of(entity, names) if words.isdisjoint(entity.given) else None)
    return gender is not None and told not in (None, gender)


def _told_apart(entity: Entity, one: Entity, names: GivenNames) -> bool:
    """Whether two people are two, though one is called by words of the other's names."""
    if is_another(entity, one.gender, one.parts, names):
        return True
    # A surname is a whole family's, so that in one text clusters tell who is meant.
    taken = {mention.cluster[0] for mention in entity.mentions if mention.cluster}
    cluster = _cluster(one)
    return cluster is not None and cluster[0] in taken and one.parts.isdisjoint(entity.given)


def _cluster(entity: Entity) -> Cluster | None:
    return entity.mentions[0].cluster


def _fullness(entity: Entity) -> tuple[int, int]:
    """How many words the fullest name of a group has, and all its names together."""
    return len(_fullest(entity)), len(entity.parts)


def _first(entity: Entity) -> Place:
    return min(entity.places)
