"""Names that were missed: where else a row has what was recognized in one place, and what is short for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from narrative_twins.making.entities.identities import Entity, is_another, plural_of
from narrative_twins.making.entities.mentions import (
    Place,
    Reading,
    begins_sentence,
    occurrences,
    split_words,
    stands_after_the,
)
from narrative_twins.making.entities.names import GivenNames
from narrative_twins.making.entities.titles import is_pronoun, is_title, title_gender

_WORD = re.compile(r"[^\W\d_]+(?:[-'’ʼ][^\W\d_]+)*")
_SHORTEST_LOUD = 3


@dataclass(frozen=True)
class _Name:
    """Something that is looked for.

    Attributes:
        entity: whom it means.
        usual: how it is mostly written, which tells the names that are in upper case from those that are not.
        whole: it is recognized as a name somewhere.
        plural: it means a family, after `the`; the last letter is not of the name.
        loud: it is in upper case, and `usual` is not.
    """

    entity: Entity
    usual: str
    whole: bool = False
    plural: bool = False
    loud: bool = False


@dataclass(frozen=True)
class _Found:
    """A name where it stands, what else is there already, and whose that is (None: of other kinds)."""

    name: _Name
    place: Place
    begins: bool
    there: list[tuple[Place, Entity | None]]

    @property
    def is_recognized(self) -> bool:
        """Whether all of it or a part is recognized as such."""
        return any(owner is self.name.entity for _, owner in self.there)

    @property
    def is_unsure(self) -> bool:
        """Whether it may be some other word: alone where any word has a capital letter."""
        name, alone = self.name, len(self.name.usual.split()) == 1
        return alone and (self.begins or name.loud) and not name.plural and not self.is_recognized

    @property
    def fits(self) -> bool:
        """Whether it is no part of what is there, but all of it."""
        _, _, start, end = self.place
        return all(owner is self.name.entity and start <= at.start <= at.end <= end for at, owner in self.there)


def find_missed(
    entities: Sequence[Entity], readings: Sequence[Reading], texts: Sequence[Sequence[str]], names: GivenNames
) -> None:
    """Give entities the places where their names stand that were recognized elsewhere only, or there in part.

    These are whole names, and of people the first and the last word; the same in upper case, and of families (`the
    Browns`). A word by itself that is there in lower case too is none. Where a sentence begins and in upper case it is
    one if it is known: it has a capital letter in other places, is a given name, or is mostly recognized there.

    Args:
        entities: in the order they appear. Of several that are called so it is the first.
        readings: of each text of the row.
        texts: the sentences of each.
        names: the given names there are.
    """
    called = _called(entities, {word for sentences in texts for text in sentences for word in split_words(text)})
    found = list(_found(called, entities, readings, texts, names))
    known = _known(found)
    for one in found:
        entity, word = one.name.entity, one.name.usual
        if not one.fits or (one.is_unsure and word not in known and word not in names):
            continue
        entity.places.difference_update(at for at, _ in one.there)
        entity.places.add(one.place)
        if one.name.loud:
            entity.loud.add(one.place)


def _called(entities: Sequence[Entity], words: set[str]) -> dict[str, list[_Name]]:
    """What to look for, by how it is written, and whom it may mean.

    Args:
        entities: in the order they appear.
        words: all there are in the row.
    """
    called: dict[str, list[_Name]] = {}
    for entity in entities:
        for name in entity.names:
            _add(called, name, _Name(entity, name, whole=True))
    for entity in (entity for entity in entities if entity.kind == "person"):
        for word, is_last in (word for name in entity.names for word in _short_for(name)):
            _add(called, word, _Name(entity, word))
            if is_last:
                _add(called, plural_of(word), _Name(entity, word, plural=True))
    usual = {name: ones for name, ones in called.items() if name == name.lower() or name.lower() not in words}
    wanted: dict[str, list[_Name]] = {}
    for name, ones in usual.items():
        if len(name) >= _SHORTEST_LOUD and name != name.upper():
            for one in ones:
                _add(wanted, name.upper(), replace(one, loud=True))
    for name, ones in usual.items():
        for one in ones:
            _add(wanted, name, one)
    return wanted


def _add(called: dict[str, list[_Name]], written: str, name: _Name) -> None:
    """Add a name, but for those of the same entity that are written so."""
    others = called.setdefault(written, [])
    if all(other.entity is not name.entity for other in others):
        others.append(name)


def _short_for(name: str) -> Iterator[tuple[str, bool]]:
    """The first and the last word of a name of several words, else its word, with whether that is the last. What is no
    plain word, a title or a pronoun is left out."""
    words = name.split()
    # `Great` of `Alexander the Great` may begin a sentence.
    lasts = len(words) - 1 if all(word[0].isupper() for word in words) else 0
    for at in sorted({0, lasts}):
        word = words[at]
        if word[0].isupper() and _WORD.fullmatch(word) and not is_title(word) and not is_pronoun(word):
            yield word, at == len(words) - 1


def _found(
    called: Mapping[str, Sequence[_Name]],
    entities: Sequence[Entity],
    readings: Sequence[Reading],
    texts: Sequence[Sequence[str]],
    names: GivenNames,
) -> Iterator[_Found]:
    """Where what is looked for stands, with what is there already."""
    taken: dict[tuple[int, int], list[tuple[Place, Entity | None]]] = {}
    for entity in entities:
        for place in sorted(entity.places):
            taken.setdefault(place[:2], []).append((place, entity))
    for place in (place for reading in readings for place in reading.others):
        taken.setdefault(place[:2], []).append((place, None))
    longest_first = sorted(called, key=len, reverse=True)
    for t, s, sentence in ((t, s, text) for t, sentences in enumerate(texts) for s, text in enumerate(sentences)):
        for start, end in occurrences(sentence, longest_first):
            there = [one for one in taken.get((t, s), ()) if one[0].start < end and start < one[0].end]
            name = _meant(called[sentence[start:end]], sentence, start, [owner for _, owner in there], names)
            if name is not None:
                place = Place(t, s, start, end - name.plural)
                yield _Found(name, place, begins_sentence(sentence, start), there)


def _meant(
    candidates: Sequence[_Name], sentence: str, start: int, owners: Sequence[Entity | None], names: GivenNames
) -> _Name | None:
    """Whom a name means: whose it is already, else the first whom a title before it may mean, of its gender if there
    is one."""
    gender, after_the = title_gender(sentence, start), stands_after_the(sentence, start)
    fit_text = [one for one in candidates if after_the or not one.plural]
    for one in fit_text:
        if one.entity in owners:
            return one
    fit_text = [one for one in fit_text if not is_another(one.entity, gender, set(one.usual.casefold().split()), names)]
    return min(fit_text, key=lambda one: gender not in (None, one.entity.gender), default=None)


def _known(found: Sequence[_Found]) -> set[str]:
    """Words that are names also where any word may have a capital letter."""
    known: set[str] = set()
    recognized: Counter[str] = Counter()
    for one in found:
        words = one.name.usual.split()
        if one.name.loud or one.name.plural or not one.fits:
            continue
        if not one.begins or len(words) > 1:
            known.add(words[-1])
        elif one.name.whole:
            recognized[words[0]] += 1 if one.is_recognized else -1
    return known | {word for word, balance in recognized.items() if balance >= 0}
