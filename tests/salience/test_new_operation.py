"""A new operation is one class: everything that scores finds it by its name."""

from __future__ import annotations

import numpy as np
import pytest

from narrative_twins import (
    OPERATIONS,
    Operation,
    cosine,
    register_operation,
    score_book,
    score_stories,
)
from narrative_twins.pipeline import SaliencePipeline

from support.tales import book_of

SENTENCES = ["Nadia found a map.", "It led to a mill.", "The mill was gone."]


@pytest.fixture
def opening():
    """Registers an operation for a test."""

    @register_operation
    class Opening(Operation):
        """sim(first sentence of the window, the sentence)."""

        name = "opening"
        meaning = "how much the sentence is like the first of its window"
        comparison = "Openings are compared with their rank."

        def orders(self, window):
            return [(i,) for i in range(window.lo, window.hi)]

        def scores(self, window, vectors):
            return cosine(vectors[0], vectors)

        def compared(self, scores, windows):
            return -scores

        def one_pass(self, sums, rest):
            return cosine(sums[0], sums)

    yield Opening
    del OPERATIONS["opening"]


def test_it_is_scored_everywhere(opening, encoder):
    (result,) = score_stories([SENTENCES], encoder)
    assert list(result.scores) == [*list(OPERATIONS)[:-1], "opening"]
    vectors = encoder.encode([encoder.tokenize(SENTENCES).chunks((i,), None) for i in range(3)])
    expected = cosine(vectors[0], np.asarray(vectors))
    assert result.scores["opening"] == pytest.approx(expected, abs=1e-5)
    assert result.rank("opening")[0] == 3, "ranked as the operation compares its scores"
    assert opening.comparison in result.notes_on(["opening"])

    (one_pass,) = score_stories([SENTENCES], encoder, approximate="one-pass")
    assert "opening" in one_pass.scores and "shifting" not in one_pass.scores
    assert one_pass.scores["opening"][0] == pytest.approx(1)

    pipe = SaliencePipeline(encoder.model, encoder.tokenizer.tokenizer, device="cpu")
    assert pipe(SENTENCES[0], operations="opening")["scores"] == {"opening": [pytest.approx(1)]}

    book = score_book(book_of(["One", *SENTENCES], ["Two", *SENTENCES]), encoder)
    for level in ("chapter", "scene", "sentence"):
        assert "opening" in book.operations(level)
