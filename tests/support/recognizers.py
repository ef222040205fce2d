"""A small spaCy pipeline with listed entities."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

PEOPLE = "Anna Karenina|Anna|Karenina|Vronsky|Tom Brown|Mary Brown|Brown|William|Bill|Alex"
ENTITIES = {
    "PERSON": PEOPLE.split("|"),
    "GPE": ["Moscow", "New York"],
    "ORG": ["Acme", "the United Nations"],
    "DATE": ["June"],
}


@cache
def _listed(entities: str):
    import spacy

    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("entity_ruler")
    for label, names in json.loads(entities).items():
        ruler.add_patterns([{"label": label, "pattern": name} for name in names])
    return pipeline


def recognizer(entities: Mapping[str, Sequence[str]] = ENTITIES):
    """A blank English pipeline that recognizes the listed entities, by label; cached for each
    list."""
    return _listed(json.dumps(entities))


def save_pipeline(folder: Path) -> Path:
    recognizer().to_disk(folder)
    return folder
