"""Alignment paths: compared with all possible paths, and with a library of dynamic time warping."""

from __future__ import annotations

import sys
from functools import cache

import dtw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from narrative_twins.data.rows import twin_windows
from narrative_twins.making.align.time_warping import STEPS, best_path, similarity_matrix
from narrative_twins.salience.operations import cosine
from narrative_twins.stories.windows import even_windows

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6))
SIMILARITIES = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=st.floats(-1, 1)))
# Integers add up exactly, so ties do not depend on the order of the sum.
TIED = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=st.integers(-1, 2)))
LARGER = st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**32 - 1))


@cache
def paths(n: int, m: int) -> list[tuple[tuple[int, int], ...]]:
    """All monotone paths through an n by m matrix."""
    if (n, m) == (1, 1):
        return [((0, 0),)]
    return [
        (*path, (n - 1, m - 1))
        for before in ((n - 1, m - 1), (n - 1, m), (n, m - 1))
        if min(before) > 0
        for path in paths(*before)
    ]


def total(path, similarities) -> float:
    return sum(similarities[cell] for cell in path)


def assert_monotone(path, shape):
    assert path[0] == (0, 0) and path[-1] == (shape[0] - 1, shape[1] - 1)
    assert all((b[0] - a[0], b[1] - a[1]) in STEPS for a, b in zip(path, path[1:], strict=False))


def test_number_of_paths_is_the_delannoy_number():
    assert [len(paths(n, n)) for n in range(1, 7)] == [1, 3, 13, 63, 321, 1683]


@given(SIMILARITIES)
def test_path_has_the_largest_total(similarities):
    path = best_path(similarities)
    assert_monotone(path, similarities.shape)
    best = max(total(other, similarities) for other in paths(*similarities.shape))
    assert total(path, similarities) == pytest.approx(best, abs=1e-12)


@given(TIED)
def test_ties_are_broken_in_the_order_of_steps(similarities):
    """From the end, the first step of `STEPS` that leads back to a best path."""
    all_paths = paths(*similarities.shape)
    best = max(total(path, similarities) for path in all_paths)
    tied = [path for path in all_paths if total(path, similarities) == best]

    def choices(path):
        return [
            STEPS.index((b[0] - a[0], b[1] - a[1])) for a, b in zip(path, path[1:], strict=False)
        ][::-1]

    assert best_path(similarities) == list(min(tied, key=choices))


@given(LARGER)
def test_total_agrees_with_a_library(drawn):
    n, m, seed = drawn
    similarities = np.random.default_rng(seed).uniform(-1, 1, (n, m))
    path = best_path(similarities)
    assert_monotone(path, (n, m))
    # The library minimizes costs; in the pattern symmetric1 each step costs the cell it leads to.
    found = dtw.dtw(-similarities, step_pattern="symmetric1")
    assert total(path, similarities) == pytest.approx(-found.distance, abs=1e-9)


def test_story_aligned_to_itself_is_on_the_diagonal():
    """If all other similarities are negative."""
    similarities = np.eye(7) - 0.1 * (1 - np.eye(7))
    assert best_path(similarities) == [(i, i) for i in range(7)]
    # If the others are positive, two single steps add more than a diagonal one.
    assert len(best_path(np.full((7, 7), 0.1))) == 13


@given(
    st.integers(1, 5).flatmap(
        lambda k: st.tuples(st.just(k), st.integers(k, 40), st.integers(1, 40))
    ),
    st.data(),
)
def test_windows_of_a_twin_cover_it_in_order(sizes, data):
    count, n, m = sizes
    seed = data.draw(st.integers(0, 2**32 - 1))
    path = best_path(np.random.default_rng(seed).uniform(-1, 1, (n, m)))
    story = [["."] * (hi - lo) for lo, hi in even_windows(n, count)]
    windows_of = twin_windows(path, story, m)
    assert len(windows_of) == m and all(windows_of), "every sentence is in a window"
    assert windows_of[0][0] == 0 and windows_of[-1][-1] == count - 1
    assert {w for windows in windows_of for w in windows} == set(range(count)), (
        "every window has a sentence"
    )
    for windows, following in zip(windows_of, windows_of[1:], strict=False):
        assert windows == list(range(windows[0], windows[-1] + 1)), "no window is skipped"
        assert following[0] - windows[-1] in (0, 1), "windows are in order"
    expected = [
        sorted(
            {
                w
                for w, (lo, hi) in enumerate(even_windows(n, count))
                for i, at in path
                if at == j and lo <= i < hi
            }
        )
        for j in range(m)
    ]
    assert windows_of == expected


@pytest.mark.parametrize(
    "bad", [np.empty((0, 3)), np.empty((3, 0)), np.ones(3), np.array([[0.1, np.nan]])]
)
def test_invalid_matrices_are_refused(bad):
    with pytest.raises(ValueError, match="a non-empty matrix of finite numbers is needed"):
        best_path(bad)


def test_similarities_are_cosines():
    random = np.random.default_rng(0)
    story, twin = (
        random.normal(size=(4, 8)).astype(np.float32),
        random.normal(size=(5, 8)).astype(np.float32),
    )
    story[2] = 0
    expected = cosine(story[:, None], twin[None])
    assert similarity_matrix(story, twin) == pytest.approx(expected, abs=1e-12)
    assert not similarity_matrix(story, twin)[2].any()


def test_cells_are_computed_by_numpy():
    """The number of executed Python lines grows linearly in the number of sentences, not
    quadratically."""

    def lines(n):
        similarities = np.random.default_rng(n).uniform(-1, 1, (n, n))
        ran = 0

        def count(frame, event, argument):
            nonlocal ran
            ran += event == "line"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            best_path(similarities)
        finally:
            sys.settrace(before)
        return ran

    few, many = lines(60), lines(120)
    assert 60 < few < 60 * 60 and many < 2.2 * few
