"""The four operations compared with orders and scores worked out by hand, and the registry."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, Operation, Window, register_operation
from narrative_twins.salience.operations import cosine, resolve_operations

MIDDLE = Window(start=1, lo=2, hi=5, stop=6)

windows = st.builds(
    lambda before, out, size, after: Window(out, out + before, out + before + size, out + before + size + after),
    st.integers(0, 3), st.integers(0, 3), st.integers(1, 6), st.integers(0, 3),
)  # fmt: skip


def test_orders_by_hand():
    assert list(OPERATIONS["deletion"].orders(MIDDLE)) == [
        (1, 2, 3, 4, 5),
        (1, 3, 4, 5),
        (1, 2, 4, 5),
        (1, 2, 3, 5),
    ]
    assert list(OPERATIONS["shifting"].orders(MIDDLE)) == [
        (1, 2, 3, 4, 5),
        (1, 3, 2, 4, 5), (1, 3, 4, 2, 5),
        (1, 3, 2, 4, 5), (1, 2, 4, 3, 5),
        (1, 4, 2, 3, 5), (1, 2, 4, 3, 5),
    ]  # fmt: skip
    assert list(OPERATIONS["disruption"].orders(MIDDLE)) == [(1, 2), (1, 2, 3), (1, 2, 3, 4)]
    assert list(OPERATIONS["summarization"].orders(MIDDLE)) == [(1, 2, 3, 4, 5), (2,), (3,), (4,)]


def test_scores_by_hand():
    east, north, both = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]
    vectors = np.array([east, east, north, both], np.float32)
    half = 1 / np.sqrt(2)
    assert OPERATIONS["deletion"].scores(MIDDLE, vectors) == pytest.approx([0, 1, 1 - half])
    assert OPERATIONS["summarization"].scores(MIDDLE, vectors) == pytest.approx([1, 0, half])
    assert OPERATIONS["disruption"].scores(MIDDLE, vectors[1:]) == pytest.approx([0, 1, 1 - half])
    shifted = np.array([east, east, north, both, both, north, north], np.float32)
    assert OPERATIONS["shifting"].scores(MIDDLE, shifted) == pytest.approx([0.5, 1 - half, 1])


@given(windows)
def test_orders_are_subsets_and_permutations(window):
    base = window.base
    for name, operation in OPERATIONS.items():
        for order in operation.orders(window):
            assert len(set(order)) == len(order)
            assert set(order) <= set(base)
            assert any(window.lo <= i < window.hi for i in order)
            if name == "shifting":
                assert sorted(order) == list(base)
                assert order[: window.lo - window.start] == base[: window.lo - window.start]
    assert len(list(OPERATIONS["shifting"].orders(window))) == (
        1 + window.size * (window.size - 1)
    ) * (window.size > 1)


@given(windows, st.integers(0, 2**32))
def test_one_finite_score_per_sentence_from_any_vectors(window, seed):
    for operation in OPERATIONS.values():
        rows = len(list(operation.orders(window)))
        vectors = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
        scores = operation.scores(window, vectors)
        assert scores.shape == (window.size,)
        assert np.isfinite(scores).all()


def test_window_of_one_sentence_scores_zero():
    lone = Window(0, 1, 2, 3)
    for name in ("deletion", "shifting", "disruption"):
        assert list(OPERATIONS[name].orders(lone)) == []
        assert OPERATIONS[name].scores(lone, np.empty((0, 4), np.float32)).tolist() == [0.0]
    assert list(OPERATIONS["summarization"].orders(lone)) == [(0, 1, 2), (1,)]


def test_cosine_of_zero_vector_is_zero():
    assert cosine(np.zeros(3, np.float32), np.ones(3, np.float32)) == 0


def test_resolve_operations():
    assert [op.name for op in resolve_operations()] == [
        "deletion",
        "shifting",
        "disruption",
        "summarization",
    ]
    assert [op.name for op in resolve_operations("shifting")] == ["shifting"]
    assert [
        op.name for op in resolve_operations(["summarization", "deletion", "summarization"])
    ] == ["summarization", "deletion"]
    with pytest.raises(
        ValueError, match="unknown operation 'summarisation'.*did you mean 'summarization'"
    ):
        resolve_operations(["deletion", "summarisation"])
    with pytest.raises(ValueError, match="no operation given"):
        resolve_operations([])


def test_custom_operation_is_registered_by_a_decorator():
    with patch.dict(OPERATIONS):

        @register_operation
        class Opening(Operation):
            """sim(first sentence of the window, the sentence)."""

            name = "opening"
            meaning = "how much the sentence is like the first of its window"

            def orders(self, window):
                return [(i,) for i in range(window.lo, window.hi)]

            def scores(self, window, vectors):
                return cosine(vectors[0], vectors)

        with pytest.raises(
            ValueError, match=r"operation 'opening' exists already \(.*Opening\); use another name"
        ):
            register_operation(type("Closing", (Opening,), {}))
        with pytest.raises(TypeError, match="a name or an instance of Operation, not <class"):
            resolve_operations([Opening])
        assert resolve_operations("opening")[0].scores(
            MIDDLE, np.eye(3, dtype=np.float32)
        ).tolist() == [1, 0, 0]
