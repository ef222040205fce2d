"""The four operations compared with orders and scores worked out by hand."""

import math

import numpy as np
import pytest
import torch

from narrative_twins import OPERATIONS, Window
from narrative_twins.salience.operations import cosine

from support.oracle import moved_by_place

MIDDLE, PAIR = Window(start=1, lo=2, hi=5, stop=6), Window(start=1, lo=1, hi=3, stop=3)

ORDERS = {
    "deletion": ("12345 1345 1245 1235", "12 2 1"),
    "shifting": ("12345 13245 13425 13245 12435 14235 12435", "12 21 21"),
    "disruption": ("12 123 1234", "1 12"),
    "summarization": ("12345 2 3 4", "12 1 2"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders_by_hand(name):
    for window, expected in zip((MIDDLE, PAIR), ORDERS[name], strict=True):
        orders = ["".join(map(str, order)) for order in OPERATIONS[name].orders(window)]
        assert orders == expected.split()


def test_scores_by_hand():
    east, north, both = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]
    half = 1 / np.sqrt(2)
    for name, window, vectors, expected in (
        ("deletion", MIDDLE, [east, both, north, east], [1 - half, 1, 0]),
        ("deletion", PAIR, [east, both, north], [1 - half, 1]),
        ("shifting", MIDDLE, [east, both, both, east, north, north, north], [1 - half, 0.5, 1]),
        ("shifting", PAIR, [east, both, north], [1 - half, 1]),
        ("disruption", MIDDLE, [east, north, both], [0, 1, 1 - half]),
        ("disruption", PAIR, [east, both], [0, 1 - half]),
        ("summarization", MIDDLE, [east, both, north, east], [half, 0, 1]),
        ("summarization", PAIR, [east, both, north], [half, 0]),
    ):
        found = OPERATIONS[name].scores(window, np.array(vectors, np.float32))
        assert found == pytest.approx(expected), name


@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_shifting_in_one_pass_is_the_change_by_all_near_places(count):
    """At most 50 places away."""
    rng = np.random.default_rng(count)
    sums, rest = rng.normal(size=(count, 4)), rng.normal(size=4)
    found = OPERATIONS["shifting"].one_pass(sums, rest)
    story = sums.sum(axis=0) + rest
    for i in {0, count // 7, count // 2, count - 1}:
        expected = moved_by_place(list(sums), story, i) if count > 1 else 0.0
        assert found[i] == pytest.approx(expected)
    assert found.shape == (count,)


def test_disruption_is_compared_by_hand():
    """The first sentence of the second window counts as the median of those that have a score."""
    found = OPERATIONS["disruption"].compared(np.array([0, 0.5, 0.1, 0, 0.3]), [(0, 3), (3, 5)])
    assert found == pytest.approx([0, 0.5, 0.1 * 2**1.25, 0.3, 0.3])


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_one_pass_by_hand(make):
    sums, rest = make([[2.0, 0.0], [0.0, 1.0]]), make([0.0, 1.0])
    half, near = 1 / np.sqrt(2), 3 / np.sqrt(10)
    expected = {"deletion": [1 - half, 1 - near], "disruption": [0, 1 - near]}
    for name, scores in (expected | {"summarization": [half, half]}).items():
        found = OPERATIONS[name].one_pass(sums, rest)
        assert type(found) is type(sums) and found.tolist() == pytest.approx(scores)


def test_window_of_one_sentence_scores_zero():
    lone = Window(0, 1, 2, 3)
    for name in ("deletion", "shifting", "disruption"):
        assert list(OPERATIONS[name].orders(lone)) == []
        assert OPERATIONS[name].scores(lone, np.empty((0, 4), np.float32)).tolist() == [0.0]
    assert list(OPERATIONS["summarization"].orders(lone)) == [(0, 1, 2), (1,)]


def test_cosine_of_zero_vector_is_zero():
    assert cosine(np.zeros(3, np.float32), np.ones(3, np.float32)) == 0
    assert cosine(torch.zeros(3), torch.ones(3)) == 0


def test_cosines_of_short_vectors_with_leading_axes():
    """Of arrays and of tensors, through which gradients flow."""
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 1, 3, 4)) / 1000, random.normal(size=(5, 3, 4))
    expected = np.empty((2, 5, 3))
    for i, j, k in np.ndindex(expected.shape):
        x, y = a[i, 0, k], b[j, k]
        expected[i, j, k] = sum(x * y) / math.sqrt(sum(x * x) * sum(y * y))
    assert cosine(a, b) == pytest.approx(expected)
    tensors = torch.tensor(a, requires_grad=True)
    found = cosine(tensors, torch.tensor(b))
    assert found.detach().numpy() == pytest.approx(expected)
    found.sum().backward()
    assert tensors.grad.abs().min() > 0
