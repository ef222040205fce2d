"""The four operations compared with orders and scores worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from narrative_twins import OPERATIONS, Window
from narrative_twins.salience.operations import cosine

MIDDLE = Window(start=1, lo=2, hi=5, stop=6)

ORDERS = {
    "deletion": "12345 1345 1245 1235",
    "shifting": "12345 13245 13425 13245 12435 14235 12435",
    "disruption": "12 123 1234",
    "summarization": "12345 2 3 4",
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders_by_hand(name):
    orders = ["".join(map(str, order)) for order in OPERATIONS[name].orders(MIDDLE)]
    assert orders == ORDERS[name].split()


def test_scores_by_hand():
    east, north, both = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]
    vectors = np.array([east, east, north, both], np.float32)
    half = 1 / np.sqrt(2)
    assert OPERATIONS["deletion"].scores(MIDDLE, vectors) == pytest.approx([0, 1, 1 - half])
    assert OPERATIONS["summarization"].scores(MIDDLE, vectors) == pytest.approx([1, 0, half])
    assert OPERATIONS["disruption"].scores(MIDDLE, vectors[1:]) == pytest.approx([0, 1, 1 - half])
    shifted = np.array([east, east, north, both, both, north, north], np.float32)
    assert OPERATIONS["shifting"].scores(MIDDLE, shifted) == pytest.approx([0.5, 1 - half, 1])


def test_window_of_one_sentence_scores_zero():
    lone = Window(0, 1, 2, 3)
    for name in ("deletion", "shifting", "disruption"):
        assert list(OPERATIONS[name].orders(lone)) == []
        assert OPERATIONS[name].scores(lone, np.empty((0, 4), np.float32)).tolist() == [0.0]
    assert list(OPERATIONS["summarization"].orders(lone)) == [(0, 1, 2), (1,)]


def test_cosine_of_zero_vector_is_zero():
    assert cosine(np.zeros(3, np.float32), np.ones(3, np.float32)) == 0
