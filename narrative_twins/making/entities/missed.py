"""Names that the pipeline missed: other occurrences of recognized names, and short forms of
people's names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from narrative_twins.making.entities.identities import Entity, has_other_gender, plural_of
from narrative_twins.making.entities.mentions import (
    TextMentions,
    TextSpan,
    begins_sentence,
    follows_the,
    occurrences,
    split_words,
)
from narrative_twins.making.entities.names import GivenNames
from narrative_twins.making.entities.titles import is_pronoun, is_title, title_gender

_WORD = re.compile(r"[^\W\d_]+(?:[-'’ʼ][^\W\d_]+)*")
_SHORTEST_UPPER_CASE = 3


@dataclass(frozen=True)
class _Name:
    """A form of a name to search for."""

    entity: Entity
    base: str  # The recognized name, or a word of it, that the form is made from.
    full: bool = False  # `base` is a recognized name, not only a word of one.
    plural: bool = (
        False  # The form is the plural for a family, after `the`; its final `s` is not replaced.
    )
    upper_case: bool = False  # The form is `base` in upper case.


@dataclass(frozen=True)
class _Match:
    """A form of a name found in a text."""

    name: _Name
    span: TextSpan
    begins: bool  # A sentence may begin there.
    overlapping: list[
        tuple[TextSpan, Entity | None]
    ]  # Recognized spans and their entities, None for other kinds.

    @property
    def is_recognized(self) -> bool:
        """Whether at least a part of it was recognized as the entity."""
        return any(owner is self.name.entity for _, owner in self.overlapping)

    @property
    def is_ambiguous(self) -> bool:
        """Whether it may be a common word: an unrecognized single word whose capital letters mean
        nothing."""
        name, is_word = self.name, len(self.name.base.split()) == 1
        return (
            is_word
            and (self.begins or name.upper_case)
            and not name.plural
            and not self.is_recognized
        )

    @property
    def fits(self) -> bool:
        """Whether it contains all overlapping spans, and these belong to its entity."""
        _, _, start, end = self.span
        return all(
            owner is self.name.entity and start <= at.start <= at.end <= end
            for at, owner in self.overlapping
        )


def find_missed(
    entities: Sequence[Entity],
    found: Sequence[TextMentions],
    texts: Sequence[Sequence[str]],
    names: GivenNames,
) -> None:
    """Add to each entity the spans of its names that were not recognized, or only in part.

    Searched are full names and the first and last words of people's names, also in upper case, and
    plurals for families (`the Browns`), but no single word that the row has in lower case too. In
    upper case or where a sentence may begin, a single word must also be known as a name: it is in
    the list, is found within a sentence or at the end of a longer name, or is a full name that is
    recognized in at least half of such places. If several entities have a name, the first is
    preferred. The arguments are as in `entities_of`.
    """
    forms = _forms(
        entities, {word for sentences in texts for text in sentences for word in split_words(text)}
    )
    matches = list(_matches(forms, entities, found, texts, names))
    known = _known_words(matches)
    for match in matches:
        entity, word = match.name.entity, match.name.base
        if not match.fits or (match.is_ambiguous and word not in known and word not in names):
            continue
        # The match replaces recognized parts of it.
        entity.spans.difference_update(span for span, _ in match.overlapping)
        entity.spans.add(match.span)
        if match.name.upper_case:
            entity.upper_case.add(match.span)


def _forms(entities: Sequence[Entity], words: set[str]) -> dict[str, list[_Name]]:
    """The forms to search for, with the names they may be, in the order of the entities; `words`
    are all of the row."""
    named: dict[str, list[_Name]] = {}
    # Full names come before single words, so that a word that is the full name of an entity is
    # preferred.
    for entity in entities:
        for name in entity.names:
            _add(named, name, _Name(entity, name, full=True))
    for entity in (entity for entity in entities if entity.kind == "person"):
        for word, is_last in (word for name in entity.names for word in _short_forms(name)):
            _add(named, word, _Name(entity, word))
            if is_last:
                _add(named, plural_of(word), _Name(entity, word, plural=True))
    # A name that the row has in lower case too may be a common word.
    distinct = {
        form: names
        for form, names in named.items()
        if form == form.lower() or form.lower() not in words
    }
    forms: dict[str, list[_Name]] = {}
    # Upper case first: if both `Mary` and `MARY` were recognized, `MARY` is a form of `Mary`.
    for form, names in distinct.items():
        if len(form) >= _SHORTEST_UPPER_CASE and form != form.upper():
            for item in names:
                _add(forms, form.upper(), replace(item, upper_case=True))
    for form, names in distinct.items():
        for item in names:
            _add(forms, form, item)
    return forms


def _add(forms: dict[str, list[_Name]], form: str, name: _Name) -> None:
    """Add a name under a form, unless its entity has one there."""
    others = forms.setdefault(form, [])
    if all(other.entity is not name.entity for other in others):
        others.append(name)


def _short_forms(name: str) -> Iterator[tuple[str, bool]]:
    """Yield the first and the last word of a name, with whether it is the last, except titles and
    pronouns."""
    words = name.split()
    # No last word of names such as `Alexander the Great`, since `Great` may begin a sentence.
    last = len(words) - 1 if all(word[0].isupper() for word in words) else 0
    for at in sorted({0, last}):
        word = words[at]
        if (
            word[0].isupper()
            and _WORD.fullmatch(word)
            and not is_title(word)
            and not is_pronoun(word)
        ):
            yield word, at == len(words) - 1


def _matches(
    forms: Mapping[str, Sequence[_Name]],
    entities: Sequence[Entity],
    found: Sequence[TextMentions],
    texts: Sequence[Sequence[str]],
    names: GivenNames,
) -> Iterator[_Match]:
    """Yield the occurrences of all forms, each with the name it is and the recognized spans it
    overlaps with."""
    recognized: dict[tuple[int, int], list[tuple[TextSpan, Entity | None]]] = {}
    for entity in entities:
        for span in sorted(entity.spans):
            recognized.setdefault(span[:2], []).append((span, entity))
    for span in (span for text in found for span in text.others):
        recognized.setdefault(span[:2], []).append((span, None))
    longest_first = sorted(forms, key=len, reverse=True)
    for t, s, sentence in (
        (t, s, text) for t, sentences in enumerate(texts) for s, text in enumerate(sentences)
    ):
        for start, end in occurrences(sentence, longest_first):
            overlapping = [
                item
                for item in recognized.get((t, s), ())
                if item[0].start < end and start < item[0].end
            ]
            name = _chosen(
                forms[sentence[start:end]],
                sentence,
                start,
                [owner for _, owner in overlapping],
                names,
            )
            if name is not None:
                span = TextSpan(t, s, start, end - name.plural)
                yield _Match(name, span, begins_sentence(sentence, start), overlapping)


def _chosen(
    candidates: Sequence[_Name],
    sentence: str,
    start: int,
    owners: Sequence[Entity | None],
    names: GivenNames,
) -> _Name | None:
    """The name whose entity is recognized there, else the first whose entity fits the gender of a
    title before it."""
    gender, after_the = title_gender(sentence, start), follows_the(sentence, start)
    possible = [name for name in candidates if after_the or not name.plural]
    for name in possible:
        if name.entity in owners:
            return name
    possible = [
        name
        for name in possible
        if not has_other_gender(name.entity, gender, set(name.base.casefold().split()), names)
    ]
    # Entities known to have the gender of the title come before those of unknown gender.
    return min(possible, key=lambda name: gender not in (None, name.entity.gender), default=None)


def _known_words(matches: Sequence[_Match]) -> set[str]:
    """Words that are names even if any word may have a capital letter in their place; see
    `find_missed`."""
    known: set[str] = set()
    recognized: Counter[str] = Counter()
    for match in matches:
        words = match.name.base.split()
        if match.name.upper_case or match.name.plural or not match.fits:
            continue
        if not match.begins or len(words) > 1:
            known.add(words[-1])
        elif match.name.full:
            recognized[words[0]] += 1 if match.is_recognized else -1
    return known | {word for word, balance in recognized.items() if balance >= 0}
