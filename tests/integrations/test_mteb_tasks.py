"""The tasks for `mteb`: their figures are those of a plain comparison of embeddings."""

from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from narrative_twins.data import load_story_twins, load_window_twins

mteb = pytest.importorskip(
    "mteb", reason="mteb is not installed: pip install narrative_twins[mteb]"
)

from narrative_twins.integrations.mteb_tasks import narrative_twins_tasks  # noqa: E402


def text(sentences: list) -> str:
    return " ".join(map(text, sentences)) if isinstance(sentences, list) else sentences


def triplets() -> dict[str, list[tuple[str, str, str]]]:
    """Text, twin and distractor, by the loaders."""
    stories, synopses = load_story_twins(split="validation"), load_window_twins(split="validation")
    rows = [
        tuple(map(text, (row["story"], row["twin"], row["negative"], row["negative_twin"])))
        for row in stories
    ]
    return {
        "NarrativeTwinsStories": [
            triplet for a, a_twin, b, b_twin in rows for triplet in ((a, a_twin, b), (b, b_twin, a))
        ],
        "NarrativeTwinsSynopses": [
            tuple(text(row[c]) for c in ("story", "twin", "negative")) for row in synopses
        ],
    }


def test_accuracy_is_how_often_the_twin_is_nearer(bert_folder):
    encoder = SentenceTransformer(bert_folder, device="cpu")
    results = mteb.evaluate(encoder, narrative_twins_tasks(), cache=None, show_progress_bar=False)
    found = {result.task_name: result.scores["validation"][0] for result in results.task_results}
    expected = triplets()
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        vectors = (
            encoder.encode(list(texts), normalize_embeddings=True)
            for texts in zip(*rows, strict=True)
        )
        story, twin, distractor = vectors
        nearer = np.sum(story * twin, axis=1) > np.sum(story * distractor, axis=1)
        assert 0 < nearer.mean() < 1
        # A pair of equal similarities may be ranked either way.
        assert found[name]["main_score"] == pytest.approx(nearer.mean(), abs=1.5 / len(rows))
