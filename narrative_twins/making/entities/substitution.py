"""Entity substitution: people, places and organizations of a row of twins under other names, the same all through it.

An encoder that is trained on such rows can't go by names: a story, its twin and its negatives share one mapping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from random import Random
from string import ascii_uppercase
from typing import Any, Protocol

from narrative_twins.data.rows import RowError, check_texts
from narrative_twins.making.entities.identities import Entity, entities_of, gender_of
from narrative_twins.making.entities.mentions import Kind, Reading, RecognizedText, join, occurrences, read, split_words
from narrative_twins.making.entities.missed import find_missed
from narrative_twins.making.entities.names import GivenNames, read_names

LABELS: dict[Kind, str] = {"place": "Location", "organization": "Organization"}
"""What is called by a word and a letter."""

BATCH = 32
"""So many rows are read together."""


class Recognizer(Protocol):
    """What recognizes names: a spaCy pipeline, or what gives documents as one does."""

    def pipe(self, texts: Iterable[str]) -> Iterable[RecognizedText]:
        """A document for each text, in order."""


@dataclass(frozen=True)
class Substituted:
    """A row under other names, and how many people, places and organizations got one."""

    row: dict[str, Any]
    counts: Counter[Kind]


class EntitySubstitution:
    """Gives the people, places and organizations of rows other names.

    A person gets a given name, whether called by first name, surname or both; places become `Location A`, `Location B`
    and so on, organizations `Organization A`, in the order they appear. Pronouns are kept, and so is every other
    character. A name that the pipeline missed in one place and found in another is replaced in both, unless it may be
    some other word there (see `find_missed`).

    Args:
        pipeline: a spaCy pipeline that recognizes entities, and perhaps fills `doc.spans["coref_clusters_*"]`.
        names: to draw given names from, as often as people have them; None is the package's own list.
        seed: other seeds draw other names. The same seed and id of a row draw the same on every machine.
    """

    def __init__(self, pipeline: Recognizer, names: GivenNames | None = None, seed: int = 0) -> None:
        self.pipeline, self.seed = pipeline, seed
        self.names = read_names() if names is None else names

    def __call__(self, row: Mapping[str, Any], id: str, where: str = "row") -> Substituted:
        """A row under other names. Columns that hold no texts of twins are as they were, the title among them.

        Args:
            row: of narrative twins, in any shape that `load_story_twins` or `load_window_twins` reads.
            id: of the row; names are drawn by it.
            where: what to call the row in an error.

        Raises:
            RowError: a text is no list of sentences or windows, the pipeline can't read it, or the list of names has
                none left.
        """
        (substituted,) = self.pipe([(row, id, where)])
        return substituted

    def pipe(self, rows: Iterable[tuple[Mapping[str, Any], str, str]], batch: int = BATCH) -> Iterator[Substituted]:
        """Rows under other names, in order, lazily. The same as one by one, and quicker where the pipeline is.

        Args:
            rows: each with its id and what to call it in an error.
            batch: rows whose texts the pipeline is given together.

        Raises:
            RowError: see `__call__`.
        """
        waiting = iter(rows)
        while some := list(islice(waiting, batch)):
            texts = [_texts(row, where) for row, _, where in some]
            try:
                readings = list(self._read(texts))
            except ValueError:
                # One of them can't be read: by itself it tells which.
                readings = []
            for number, (row, id, where) in enumerate(some):
                try:
                    (reading,) = readings[number : number + 1] or self._read(texts[number : number + 1])
                    substituted = self._substituted(row, id, texts[number], reading)
                except ValueError as error:
                    raise RowError(where, str(error)) from None
                yield substituted

    def _read(self, rows: Sequence[Mapping[str, list[str]]]) -> Iterator[list[Reading]]:
        """What is recognized in the texts of rows."""
        documents = iter(self.pipeline.pipe(join(sentences) for texts in rows for sentences in texts.values()))
        for texts in rows:
            yield [read(next(documents), t, sentences) for t, sentences in enumerate(texts.values())]

    def _substituted(
        self, row: Mapping[str, Any], id: str, columns: Mapping[str, list[str]], readings: Sequence[Reading]
    ) -> Substituted:
        """A row under other names, from what is recognized in the sentences of its columns."""
        texts = list(columns.values())
        entities = entities_of(readings, texts, self.names)
        find_missed(entities, readings, texts, self.names)
        entities.sort(key=lambda entity: min(entity.places))
        _replace(texts, entities, self._names(entities, texts, id))
        changed = {column: _like(row[column], iter(sentences)) for column, sentences in columns.items()}
        return Substituted({**row, **changed}, Counter(entity.kind for entity in entities))

    def _names(self, entities: Sequence[Entity], texts: Sequence[Sequence[str]], id: str) -> list[str]:
        """A name for each entity, none of which is in the texts."""
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
    """A spaCy pipeline from a folder, or the name of an installed one.

    Raises:
        ImportError: spaCy is not installed.
        OSError: there is no such pipeline.
    """
    try:
        import spacy
    except ImportError:
        raise ImportError("recognizing names needs spaCy; pip install narrative_twins[entities]") from None
    try:
        pipeline: Recognizer = spacy.load(name)
    except OSError as error:
        raise OSError(
            f"{name!r} is no spaCy pipeline that can be had ({error}); name a folder, or one that is installed, such "
            "as en_core_web_sm after `python -m spacy download en_core_web_sm`"
        ) from None
    return pipeline


def _free_labels(label: str, folded: Sequence[str]) -> Iterator[str]:
    """`Location A` to `Location Z`, `Location AA` and so on, but for those that texts in lower case have already."""
    for length in count(1):
        for letters in product(ascii_uppercase, repeat=length):
            name = f"{label} {''.join(letters)}"
            if not any(True for text in folded for _ in occurrences(text, [name.casefold()])):
                yield name


def _replace(texts: Sequence[list[str]], entities: Sequence[Entity], names: Sequence[str]) -> None:
    """Put the names where the entities stand."""
    places = [
        (place, name.upper() if place in entity.loud else name)
        for entity, name in zip(entities, names, strict=True)
        for place in entity.places
    ]
    # From the end, so that places before keep their characters.
    for (t, s, start, end), name in sorted(places, reverse=True):
        texts[t][s] = texts[t][s][:start] + name + texts[t][s][end:]


def _texts(row: Mapping[str, Any], where: str) -> dict[str, list[str]]:
    """The sentences of each column that holds texts of twins."""
    return {column: list(_sentences(row[column])) for column in check_texts(row, where)}


def _sentences(content: Any) -> Iterator[str]:
    """The sentences of a column: of a list of them, of windows, or of sections by name."""
    if isinstance(content, str):
        yield content
        return
    for part in content.values() if isinstance(content, Mapping) else content:
        yield from _sentences(part)


def _like(content: Any, sentences: Iterator[str]) -> Any:
    """Sentences in the shape of a column."""
    if isinstance(content, str):
        return next(sentences)
    if isinstance(content, Mapping):
        return {name: _like(part, sentences) for name, part in content.items()}
    return [_like(part, sentences) for part in content]
