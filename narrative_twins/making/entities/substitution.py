"""Entity substitution: replaces the names of people, places and other entities in rows of narrative
twins.

A twin gets other names than its story, so an encoder that is trained on them can't tell twins by
the same names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from random import Random
from string import ascii_uppercase
from typing import Any, Protocol

from narrative_twins.data.rows import (
    NEGATIVE_TWIN_NAMES,
    TEXT_COLUMNS,
    TWIN_NAMES,
    RowError,
    check_texts,
)
from narrative_twins.making.entities.identities import Entity, entities_of, gender_of
from narrative_twins.making.entities.mentions import (
    Kind,
    SpacyDoc,
    TextMentions,
    TextSpan,
    find_mentions,
    join_sentences,
    occurrences,
    split_words,
)
from narrative_twins.making.entities.missed import find_missed
from narrative_twins.making.entities.names import GivenNames, read_names

LABELS: dict[Kind, str] = {
    "place": "Location",
    "organization": "Organization",
    "miscellaneous": "Entity",
}
"""Kinds of entities that are replaced by a label and a letter."""

TWIN_SIDES = (TWIN_NAMES, NEGATIVE_TWIN_NAMES)
"""The columns that get names of their own: a twin, and the twin of the distractor."""

BATCH = 32
"""Number of rows that are passed to the pipeline together."""


class Recognizer(Protocol):
    """Recognizes names: a spaCy pipeline, or an object that returns documents like it."""

    def pipe(self, texts: Iterable[str]) -> Iterable[SpacyDoc]:
        """Yield a document for each text, in order."""


@dataclass(frozen=True)
class Substituted:
    """A row with replaced names, and the number of entities by kind whose names were replaced."""

    row: dict[str, Any]
    counts: Counter[Kind]


class EntitySubstitution:
    """Replaces the names in the twins of each row, so that the story and its twin have no name in
    common.

    The twin (`twin`) and the twin of the distractor (`negative_twin`) each get new names that occur
    nowhere else in the row; story and distractor (`negative`) keep their texts. Within a text, a
    person gets one given name for first name, surname and full name. Places become `Location A`,
    `Location B` and so on, organizations `Organization A`, other entities `Entity A`, in the order
    they appear. All other text is kept, pronouns included. A name that the pipeline missed in one
    place and found in another, in any text of the row, is replaced in both, unless it may be a
    common word there (see `find_missed`).

    Source: the substitution of the paper on narrative twins, after "Tell me again!" (Hatzel and
    Biemann, 2024).

    Args:
        pipeline: a spaCy pipeline that recognizes entities, and optionally fills
            `doc.spans["coref_clusters_*"]`.
        names: given names to draw from, by frequency; None for the package's own list.
        seed: seed of the draws. The same seed and row id draw the same names on every machine.
        same_names: replace the names in all texts of a row, each entity by the same new name in all
            of them.
    """

    def __init__(
        self,
        pipeline: Recognizer,
        names: GivenNames | None = None,
        seed: int = 0,
        *,
        same_names: bool = False,
    ) -> None:
        self.pipeline, self.seed, self.same_names = pipeline, seed, same_names
        self.names = read_names() if names is None else names

    def __call__(self, row: Mapping[str, Any], id: str, where: str = "row") -> Substituted:
        """Replace the names in the texts of a row; other columns, such as the title, are kept.

        Args:
            row: a row in any shape that `load_story_twins` or `load_window_twins` reads.
            id: the id of the row, on which the draw of names depends.
            where: the name of the row in errors.

        Raises:
            RowError: a text is invalid or can't be processed by the pipeline, or all names in the
                list are taken.
        """
        (substituted,) = self.pipe([(row, id, where)])
        return substituted

    def pipe(
        self, rows: Iterable[tuple[Mapping[str, Any], str, str]], batch: int = BATCH
    ) -> Iterator[Substituted]:
        """Replace the names in rows, lazily: the same as `__call__` for each of them (row, id,
        where), but the pipeline gets the texts of `batch` rows together, which may be faster."""
        remaining = iter(rows)
        while chunk := list(islice(remaining, batch)):
            texts = [_texts(row, where) for row, _, where in chunk]
            try:
                found = list(self._recognized(texts))
            except ValueError:
                # The pipeline failed on some row: process the rows one at a time to find out which.
                found = []
            for number, (row, id, where) in enumerate(chunk):
                try:
                    (mentions,) = found[number : number + 1] or self._recognized(
                        texts[number : number + 1]
                    )
                    substituted = self._substituted(row, id, texts[number], mentions)
                except ValueError as error:
                    raise RowError(where, str(error)) from None
                yield substituted

    def _recognized(self, rows: Sequence[Mapping[str, list[str]]]) -> Iterator[list[TextMentions]]:
        """Yield the mentions in the texts of each row."""
        documents = iter(
            self.pipeline.pipe(join_sentences(text) for texts in rows for text in texts.values())
        )
        for texts in rows:
            yield [
                find_mentions(next(documents), t, sentences)
                for t, sentences in enumerate(texts.values())
            ]

    def _substituted(
        self,
        row: Mapping[str, Any],
        id: str,
        columns: Mapping[str, list[str]],
        mentions: Sequence[TextMentions],
    ) -> Substituted:
        """A row with replaced names, from the sentences of its columns and the mentions in each."""
        texts = list(columns.values())
        entities = entities_of(mentions, texts, self.names)
        find_missed(entities, mentions, texts, self.names)
        # An entity that is in both twin sides is replaced in each by a name of its own.
        replaced = [
            (entity, spans)
            for side in ([TEXT_COLUMNS] if self.same_names else TWIN_SIDES)
            for entity, spans in _spans_in([column in side for column in columns], entities)
        ]
        _replace(texts, replaced, self._new_names([entity for entity, _ in replaced], texts, id))
        changed = {
            column: _reshaped(row[column], iter(sentences)) for column, sentences in columns.items()
        }
        return Substituted(
            {**row, **changed},
            Counter(entity.kind for entity in {entity for entity, _ in replaced}),
        )

    def _new_names(
        self, entities: Sequence[Entity], texts: Sequence[Sequence[str]], id: str
    ) -> list[str]:
        """A new name for each of the entities, all different and none of them in the texts."""
        random = Random(f"{self.seed}\n{id}")
        folded = [sentence.casefold() for sentences in texts for sentence in sentences]
        taken = {word for sentence in folded for word in split_words(sentence)}
        labels = {kind: _free_labels(label, folded) for kind, label in LABELS.items()}
        names = []
        for entity in entities:
            if entity.kind == "person":
                names.append(self.names.draw(random, gender_of(entity, self.names), taken))
                taken.update(split_words(names[-1].casefold()))
            else:
                names.append(next(labels[entity.kind]))
        return names


def load_pipeline(name: str) -> Recognizer:
    """Load a spaCy pipeline, a folder or an installed one; raises ImportError without spaCy,
    OSError if that fails."""
    try:
        import spacy
    except ImportError:
        raise ImportError(
            "recognizing names needs spaCy; pip install narrative_twins[entities]"
        ) from None
    try:
        pipeline: Recognizer = spacy.load(name)
    except OSError as error:
        raise OSError(
            f"the spaCy pipeline {name!r} can't be loaded ({error}); give a folder, or install a"
            " pipeline, for example with `python -m spacy download en_core_web_sm`"
        ) from None
    return pipeline


def _free_labels(label: str, folded: Sequence[str]) -> Iterator[str]:
    """Yield `Location A` to `Location Z`, `Location AA` and so on, except those in the case-folded
    texts."""
    for length in count(1):
        for letters in product(ascii_uppercase, repeat=length):
            name = f"{label} {''.join(letters)}"
            if not any(True for text in folded for _ in occurrences(text, [name.casefold()])):
                yield name


def _spans_in(
    is_replaced: Sequence[bool], entities: Sequence[Entity]
) -> list[tuple[Entity, list[TextSpan]]]:
    """The entities that are in the texts to replace, in the order they appear there, with their
    spans there."""
    found = [
        (entity, sorted(span for span in entity.spans if is_replaced[span.text]))
        for entity in entities
    ]
    return sorted((item for item in found if item[1]), key=lambda item: item[1][0])


def _replace(
    texts: Sequence[list[str]],
    entities: Sequence[tuple[Entity, list[TextSpan]]],
    names: Sequence[str],
) -> None:
    """Replace the spans of the entities by their new names, in place."""
    spans = [
        (span, name.upper() if span in entity.upper_case else name)
        for (entity, its_spans), name in zip(entities, names, strict=True)
        for span in its_spans
    ]
    # From the end, so that the positions of earlier spans stay valid.
    for (t, s, start, end), name in sorted(spans, reverse=True):
        texts[t][s] = texts[t][s][:start] + name + texts[t][s][end:]


def _texts(row: Mapping[str, Any], where: str) -> dict[str, list[str]]:
    """The sentences of each column with texts of twins."""
    return {column: list(_sentences(row[column])) for column in check_texts(row, where)}


def _sentences(content: Any) -> Iterator[str]:
    """Yield the sentences of a column: of a list of sentences or windows, or of sections by
    name."""
    if isinstance(content, str):
        yield content
        return
    for part in content.values() if isinstance(content, Mapping) else content:
        yield from _sentences(part)


def _reshaped(content: Any, sentences: Iterator[str]) -> Any:
    """The sentences in the same nested lists and mappings as `content`."""
    if isinstance(content, str):
        return next(sentences)
    if isinstance(content, Mapping):
        return {name: _reshaped(part, sentences) for name, part in content.items()}
    return [_reshaped(part, sentences) for part in content]
