"""Entity resolution: the mentions of a row grouped into people, places, organizations and other
entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from narrative_twins.making.entities.mentions import (
    Cluster,
    Kind,
    Mention,
    TextMentions,
    TextSpan,
    follows_the,
)
from narrative_twins.making.entities.names import Gender, GivenNames


@dataclass(eq=False)
class Entity:
    """A person, place, organization or other entity of a row, with all its names."""

    kind: Kind
    parts: set[str] = field(
        default_factory=set
    )  # The words of a person's names, else the full names, case-folded.
    mentions: list[Mention] = field(default_factory=list)
    spans: set[TextSpan] = field(default_factory=set)  # Where its names are, recognized or not.
    upper_case: set[TextSpan] = field(
        default_factory=set
    )  # Spans in upper case, unlike its recognized names.
    genders: Counter[Gender] = field(
        default_factory=Counter
    )  # The number of pronouns and titles by gender.

    @property
    def names(self) -> list[str]:
        """Its recognized names, those with most words first."""
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
    def gender(self) -> Gender | None:
        """The gender of most pronouns and titles."""
        if self.genders["f"] == self.genders["m"]:
            return None
        return "f" if self.genders["f"] > self.genders["m"] else "m"

    def add(self, mentions: Iterable[Mention]) -> None:
        """Add mentions of this entity."""
        for mention in mentions:
            self.mentions.append(mention)
            self.spans.add(mention.span)
            self.parts |= _parts(mention, self.kind)
            if mention.title is not None:
                self.genders[mention.title] += 1

    def merge(self, other: Entity) -> None:
        """Add everything of another entity."""
        self.parts |= other.parts
        self.mentions += other.mentions
        self.spans |= other.spans
        self.genders += other.genders


def entities_of(
    found: Sequence[TextMentions], texts: Sequence[Sequence[str]], names: GivenNames
) -> list[Entity]:
    """The entities of a row in the order they appear, from the mentions and the sentences of each
    text.

    Mentions are grouped by coreference cluster. Groups are then merged by name: people if the words
    of one's longest name are among the other's names (`Karenina`, `Anna Karenina`) and nothing
    tells them apart, others if they share a name. If several people match, the first with the
    gender of the group is chosen, if that is known. The given names in `names` indicate the gender
    of people.
    """
    entities: list[Entity] = []
    # Long names first, so that the entity of `Anna Karenina` exists when `Karenina` is matched.
    for group in sorted(_groups(found, texts), key=_name_lengths, reverse=True):
        matching = [entity for entity in entities if _may_be_same(entity, group, names)]
        if not matching:
            entities.append(group)
            continue
        # Entities of the gender of the group first (all, if it is unknown), in the order they
        # appear.
        first, *others = sorted(
            matching, key=lambda entity: (group.gender not in (None, entity.gender), _first(entity))
        )
        first.merge(group)
        # Other entities of one name are the same, whatever their clusters; people may share a name.
        for same in others if group.kind != "person" else []:
            first.merge(same)
            entities.remove(same)
    return sorted(entities, key=_first)


def gender_of(entity: Entity, names: GivenNames) -> Gender | None:
    """The gender of a person by pronouns and titles, else by given names, else None."""
    known = (names.gender_of(word) for word in entity.given)
    return entity.gender or next((gender for gender in known if gender is not None), None)


def _groups(found: Sequence[TextMentions], texts: Sequence[Sequence[str]]) -> Iterable[Entity]:
    """Mentions grouped by cluster, or without one by name and, for people, gender of the title."""
    mentions = list(
        _without_plurals([mention for text in found for mention in text.mentions], texts)
    )
    # A pipeline may label a name differently in different places: the most frequent kind is used
    # for all of them.
    votes: dict[str, Counter[Kind]] = {}
    for mention in mentions:
        votes.setdefault(mention.form, Counter())[mention.kind] += 1
    groups: dict[tuple[object, Kind], Entity] = {}
    for mention in mentions:
        ((kind, _),) = votes[mention.form].most_common(1)
        key = mention.cluster or (mention.form, mention.title if kind == "person" else None)
        groups.setdefault((key, kind), Entity(kind)).add([mention])
    for group in groups.values():
        cluster = _cluster(group)
        if cluster is not None:
            group.genders += found[cluster[0]].genders.get(cluster, Counter())
    return groups.values()


def _without_plurals(
    mentions: Sequence[Mention], texts: Sequence[Sequence[str]]
) -> Iterator[Mention]:
    """Yield the mentions; `Browns` in `the Browns` becomes a mention of `Brown` if a person has
    that name."""
    people = {
        word for mention in mentions if mention.kind == "person" for word in _words(mention.form)
    }
    singular = {plural_of(word): word for word in people}
    for mention in mentions:
        word = singular.get(mention.form)
        text, sentence, start, end = mention.span
        if word is not None and follows_the(texts[text][sentence], start):
            span, name = mention.span._replace(end=end - 1), mention.name[: len(word)]
            # Without the cluster, which is that of the family and not of a member.
            mention = Mention(span, name, "person")
        yield mention


def plural_of(name: str) -> str:
    """The plural of a family name."""
    return f"{name}es" if name.lower().endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"


def _words(form: str) -> list[str]:
    return [word.rstrip(".") for word in form.split()]


def _parts(mention: Mention, kind: Kind) -> set[str]:
    return set(_words(mention.form)) if kind == "person" else {mention.form}


def _longest_name(entity: Entity) -> set[str]:
    return max((_parts(mention, entity.kind) for mention in entity.mentions), key=len)


def _may_be_same(entity: Entity, group: Entity, names: GivenNames) -> bool:
    """Whether a group can be merged into an entity: kind and names match, and nothing tells them
    apart."""
    if entity.kind != group.kind or entity.parts.isdisjoint(group.parts):
        return False
    return entity.kind != "person" or (
        _longest_name(group) <= entity.parts and not _are_distinct(entity, group, names)
    )


def has_other_gender(
    entity: Entity, gender: Gender | None, words: Set[str], names: GivenNames
) -> bool:
    """Whether a person can't be meant by these words of the person's names, beside a title or
    pronouns of `gender`. The given names show the person's gender only if `words` has none of them;
    titles and pronouns are stronger evidence.
    """
    known = entity.gender or (gender_of(entity, names) if words.isdisjoint(entity.given) else None)
    return gender is not None and known not in (None, gender)


def _are_distinct(entity: Entity, group: Entity, names: GivenNames) -> bool:
    """Whether two people are distinct though one has words of the other's names."""
    if has_other_gender(entity, group.gender, group.parts, names):
        return True
    # Two clusters of one text that share only a surname are different people, perhaps of one
    # family.
    texts = {mention.cluster[0] for mention in entity.mentions if mention.cluster}
    cluster = _cluster(group)
    return cluster is not None and cluster[0] in texts and group.parts.isdisjoint(entity.given)


def _cluster(entity: Entity) -> Cluster | None:
    return entity.mentions[0].cluster


def _name_lengths(entity: Entity) -> tuple[int, int]:
    return len(_longest_name(entity)), len(entity.parts)


def _first(entity: Entity) -> TextSpan:
    return min(entity.spans)
