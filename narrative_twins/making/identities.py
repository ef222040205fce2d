"""Who is who: mentions of a row put together to people, places and organizations, and where else their names stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from narrative_twins.making.mentions import Kind, Mention, Place, Reading, is_title, occurrences, words_of
from narrative_twins.making.names import Gender


@dataclass(eq=False)
class Entity:
    """Someone or something that a row names, by all its names.

    Attributes:
        kind: a person, a place or an organization.
        parts: what it may be called by: the words of a person's names, else whole names, in lower case.
        mentions: where it is recognized.
        places: where its names stand, recognized or not.
        genders: what pronouns and titles tell of the gender.
    """

    kind: Kind
    parts: set[str] = field(default_factory=set)
    mentions: list[Mention] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    genders: Counter[Gender] = field(default_factory=Counter)

    @property
    def names(self) -> list[str]:
        """What it is called where it is recognized, the names of most words first."""
        names = dict.fromkeys(mention.name for mention in sorted(self.mentions, key=lambda mention: mention.place))
        return sorted(names, key=lambda name: -len(name.split()))

    def add(self, mentions: Sequence[Mention]) -> None:
        """Take further mentions for its own."""
        self.mentions += mentions
        self.places += [mention.place for mention in mentions]
        self.genders.update(mention.title for mention in mentions if mention.title is not None)
        for mention in mentions:
            self.parts |= _parts(mention, self.kind)


def entities_of(readings: Sequence[Reading], texts: Sequence[Sequence[str]]) -> list[Entity]:
    """The people, places and organizations of a row, in the order they appear.

    Mentions of a cluster are one entity. Names put the rest together: people where one is called by words of the
    other's names (`Karenina`, `Anna Karenina`), else equal names. Where several fit it is the first of them.

    Args:
        readings: of each text of the row.
        texts: the sentences of each.
    """
    entities: list[Entity] = []
    # The fullest names first, since shorter ones are to find them.
    for kind, group in sorted(_groups(readings), key=lambda found: _fullness(*found), reverse=True):
        fitting = sorted((entity for entity in entities if _is_called_so(entity, kind, group)), key=_first)
        entity = fitting[0] if fitting else Entity(kind)
        if not fitting:
            entities.append(entity)
        entity.add(group)
        # One name never means two places, whatever clusters say; of people it may.
        for same in fitting[1:] if kind != "person" else []:
            entity.add(same.mentions)
            entities.remove(same)
        for reading in readings:
            for cluster in {mention.cluster for mention in group if mention.cluster in reading.genders}:
                entity.genders.update(reading.genders[cluster])
    entities.sort(key=_first)
    _find_elsewhere(entities, readings, texts)
    return sorted(entities, key=_first)


def _groups(readings: Sequence[Reading]) -> Iterator[tuple[Kind, list[Mention]]]:
    """Mentions of one cluster, or of equal names where there is none. A name is of the kind it is mostly taken for."""
    mentions = [mention for reading in readings for mention in reading.mentions]
    votes: dict[str, Counter[Kind]] = {}
    for mention in mentions:
        votes.setdefault(mention.form, Counter())[mention.kind] += 1
    groups: dict[tuple[object, Kind], list[Mention]] = {}
    for mention in mentions:
        ((kind, _),) = votes[mention.form].most_common(1)
        groups.setdefault((mention.cluster or mention.form, kind), []).append(mention)
    return ((kind, group) for (_, kind), group in groups.items())


def _parts(mention: Mention, kind: Kind) -> set[str]:
    return {word.rstrip(".") for word in mention.form.split()} if kind == "person" else {mention.form}


def _is_called_so(entity: Entity, kind: Kind, group: Sequence[Mention]) -> bool:
    """Whether a group may be of an entity: by the fullest name of a person, by any of another."""
    names = [_parts(mention, kind) for mention in group]
    if kind == "person":
        return entity.kind == kind and max(names, key=len) <= entity.parts
    return entity.kind == kind and any(name <= entity.parts for name in names)


def _fullness(kind: Kind, group: Sequence[Mention]) -> tuple[int, int]:
    """How many words the fullest name of a group has, and all its names together."""
    parts = [_parts(mention, kind) for mention in group]
    return max(map(len, parts)), len(set().union(*parts))


def _first(entity: Entity) -> Place:
    return min(entity.places)


def _find_elsewhere(entities: Sequence[Entity], readings: Sequence[Reading], texts: Sequence[Sequence[str]]) -> None:
    """Add the places where a name stands that was recognized elsewhere only, or there in part."""
    called = _called(entities, {word for sentences in texts for text in sentences for word in words_of(text)})
    names = sorted(called, key=len, reverse=True)
    busy: dict[tuple[int, int], list[tuple[Place, Entity | None]]] = {}
    for entity in entities:
        for place in entity.places:
            busy.setdefault(place[:2], []).append((place, entity))
    for place in (place for reading in readings for place in reading.others):
        busy.setdefault(place[:2], []).append((place, None))
    for t, sentences in enumerate(texts):
        for s, sentence in enumerate(sentences):
            for start, end in occurrences(sentence, names):
                place, entity = Place(t, s, start, end), called[sentence[start:end]]
                there = [found for found in busy.get((t, s), ()) if found[0].start < end and start < found[0].end]
                if any(owner is not entity or not start <= at.start <= at.end <= end for at, owner in there):
                    continue
                entity.places = [at for at in entity.places if all(at != found for found, _ in there)] + [place]


def _called(entities: Iterable[Entity], words: set[str]) -> dict[str, Entity]:
    """Whom a name means where nothing else tells: whole names, and of people the first and the last word. A word that
    is there in lower case too is none, since it may begin a sentence.

    Args:
        entities: in the order they appear.
        words: all there are in the row.
    """
    called: dict[str, Entity] = {}
    for entity in entities:
        for name in entity.names:
            called.setdefault(name, entity)
    for entity in (entity for entity in entities if entity.kind == "person"):
        for name in entity.names:
            first, *others = name.split()
            # `Great` of `Alexander the Great` may begin a sentence.
            last = others[-1:] if all(word[0].isupper() for word in others) else []
            for word in [first, *last] if others else []:
                if word[0].isupper() and word[1:].isalpha() and not is_title(word):
                    called.setdefault(word, entity)
    return {name: entity for name, entity in called.items() if name == name.lower() or name.lower() not in words}
