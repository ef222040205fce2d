"""Small spaCy pipelines with listed entities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

ENTITIES = {
    "PERSON": [
        "Anna Karenina",
        "Anna",
        "Karenina",
        "Vronsky",
        "Tom Brown",
        "Mary Brown",
        "Brown",
        "William",
        "Bill",
        "Alex",
    ],
    "GPE": ["Moscow", "New York"],
    "ORG": ["Acme", "the United Nations"],
    "DATE": ["June"],
}


@cache
def _listed(entities: str):
    spacy = pytest.importorskip(
        "spacy", reason="spaCy is not installed: pip install narrative_twins[entities]"
    )
    pipeline = spacy.blank("en")
    patterns = [
        {"label": label, "pattern": name}
        for label, names in json.loads(entities).items()
        for name in names
    ]
    pipeline.add_pipe("entity_ruler").add_patterns(patterns)
    return pipeline


def recognizer(entities: Mapping[str, Sequence[str]] = ENTITIES):
    """A blank English pipeline that finds the listed entities, by label; cached for each list."""
    return _listed(json.dumps(entities))


def save_pipeline(folder: Path) -> Path:
    """Save the pipeline to a folder."""
    recognizer().to_disk(folder)
    return folder
