"""Small spaCy pipelines with listed entities and clusters."""

from __future__ import annotations

import json
import re
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


class Clustered:
    """A pipeline with given clusters: lists of texts, each found at its first position that is in
    no cluster yet."""

    def __init__(
        self, *clusters: Sequence[str], entities: Mapping[str, Sequence[str]] = ENTITIES
    ) -> None:
        self.pipeline, self.clusters = recognizer(entities), clusters

    def pipe(self, texts):
        for document in self.pipeline.pipe(texts):
            used = set()
            for number, cluster in enumerate(self.clusters, start=1):
                document.spans[f"coref_clusters_{number}"] = []
                for words in cluster:
                    found = re.finditer(rf"\b{re.escape(words)}(?!\w)", document.text)
                    span = next(
                        (match.span() for match in found if used.isdisjoint(range(*match.span()))),
                        None,
                    )
                    if span is not None:
                        used.update(range(*span))
                        document.spans[f"coref_clusters_{number}"].append(document.char_span(*span))
            yield document


def save_pipeline(folder: Path) -> Path:
    """Save the pipeline to a folder."""
    recognizer().to_disk(folder)
    return folder
