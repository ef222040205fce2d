"""Entity substitution: people, places and organizations of a row of twins under other names, the same all through it.

An encoder that is trained on such rows can't go by names: a story, its twin and its negatives share one mapping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from random import Random
from string import ascii_uppercase
from typing import Any, Protocol

from narrative_twins.data.rows import RowError, check_texts
from narrative_twins.making.identities import Entity, entities_of
from narrative_twins.making.mentions import Kind, RecognizedText, join, occurrences, read, words_of
from narrative_twins.making.names import Gender, GivenNames, read_names

LABELS: dict[Kind, str] = {"place": "Location", "organization": "Organization"}
"""What is called by a word and a letter."""


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
    character. A name that the pipeline missed in one place and found in another is replaced in both.

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
        columns = check_texts(row, where)
        texts = [list(_sentences(row[column])) for column in columns]
        try:
            documents = self.pipeline.pipe([join(sentences) for sentences in texts])
            readings = [read(document, t, texts[t]) for t, document in enumerate(documents)]
            entities = entities_of(readings, texts)
            names = self._names(entities, texts, id)
        except ValueError as error:
            raise RowError(where, str(error)) from None
        _replace(texts, entities, names)
        changed = {column: _like(row[column], iter(texts[t])) for t, column in enumerate(columns)}
        return Substituted({**row, **changed}, Counter(entity.kind for entity in entities))

    def _names(self, entities: Sequence[Entity], texts: Sequence[Sequence[str]], id: str) -> list[str]:
        """A name for each entity, none of which is in the texts."""
        random = Random(f"{self.seed}\n{id}")
        folded = [sentence.casefold() for sentences in texts for sentence in sentences]
        taken = {word for sentence in folded for word in words_of(sentence)}
        labels = {kind: _free_labels(label, folded) for kind, label in LABELS.items()}
        names = []
        for entity in entities:
            if entity.kind == "person":
                names.append(self.names.draw(random, gender_of(entity, self.names), taken))
                taken.update(words_of(names[-1].casefold()))
            else:
                names.append(next(labels[entity.kind]))
        return names


def gender_of(entity: Entity, names: GivenNames) -> Gender | None:
    """The gender of a person: by the pronouns of its clusters and by titles such as `Mrs.`, else by its names, else
    None."""
    told = entity.genders
    if told["f"] != told["m"]:
        return "f" if told["f"] > told["m"] else "m"
    known = (names.gender_of(word) for name in entity.names for word in name.split())
    return next((gender for gender in known if gender is not None), None)


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
    places = [(place, name) for entity, name in zip(entities, names, strict=True) for place in entity.places]
    # From the end, so that places before keep their characters.
    for (t, s, start, end), name in sorted(places, reverse=True):
        texts[t][s] = texts[t][s][:start] + name + texts[t][s][end:]


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
