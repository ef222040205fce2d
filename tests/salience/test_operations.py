"""The four operations compared with orders and scores worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, Window
from narrative_twins.salience.operations import cosine, resolve_operations

MIDDLE = Window(start=1, lo=2, hi=5, stop=6)

windows = st.lists(st.integers(0, 3), min_size=3, max_size=3).flatmap(
    lambda n: st.integers(1, 6).map(
        lambda size: Window(n[0], n[0] + n[1], n[0] + n[1] + size, n[0] + n[1] + size + n[2])
    )
)


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


@given(windows, st.integers(0, 2**32))
def test_orders_and_scores_of_any_window(window, seed):
    """Orders are subsets or permutations of what is read; there is one finite score per sentence,
    whatever the vectors are."""
    for name, operation in OPERATIONS.items():
        orders = list(operation.orders(window))
        for order in orders:
            assert len(set(order)) == len(order) and set(order) <= set(window.base)
            assert any(window.lo <= i < window.hi for i in order)
            if name == "shifting":
                assert sorted(order) == list(window.base)
        vectors = np.random.default_rng(seed).normal(size=(len(orders), 3)).astype(np.float32)
        scores = operation.scores(window, vectors)
        assert scores.shape == (window.size,) and np.isfinite(scores).all()


def test_window_of_one_sentence_scores_zero():
    lone = Window(0, 1, 2, 3)
    for name in ("deletion", "shifting", "disruption"):
        assert list(OPERATIONS[name].orders(lone)) == []
        assert OPERATIONS[name].scores(lone, np.empty((0, 4), np.float32)).tolist() == [0.0]
    assert list(OPERATIONS["summarization"].orders(lone)) == [(0, 1, 2), (1,)]


def test_cosine_of_zero_vector_is_zero():
    assert cosine(np.zeros(3, np.float32), np.ones(3, np.float32)) == 0


def test_operations_are_found_by_name():
    assert [operation.name for operation in resolve_operations()] == list(ORDERS)
    assert [operation.name for operation in resolve_operations("shifting")] == ["shifting"]
    with pytest.raises(ValueError, match="'summarisation'.*did you mean 'summarization'"):
        resolve_operations(["deletion", "summarisation"])
