"""The path through two tellings: held against all paths there are, and against a library of dynamic time warping."""

from __future__ import annotations

import sys
from functools import cache

import dtw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from narrative_twins.data.shapes import twin_windows
from narrative_twins.making.align.time_warping import STEPS, best_path, similarity_matrix
from narrative_twins.salience.operations import cosine
from narrative_twins.stories.windows import even_windows

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6))
SIMILARITIES = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=st.floats(-1, 1)))
# Whole numbers add up exactly, so equally good paths are equally good in any order of adding.
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


def worth(path, similarities) -> float:
    return sum(similarities[cell] for cell in path)


def assert_monotone(path, shape):
    assert path[0] == (0, 0) and path[-1] == (shape[0] - 1, shape[1] - 1)
    assert all((b[0] - a[0], b[1] - a[1]) in STEPS for a, b in zip(path, path[1:], strict=False))


def test_there_are_as_many_paths_as_delannoy_says():
    assert [len(paths(n, n)) for n in range(1, 7)] == [1, 3, 13, 63, 321, 1683]


@given(SIMILARITIES)
def test_no_path_is_better(similarities):
    path = best_path(similarities)
    assert_monotone(path, similarities.shape)
    best = max(worth(other, similarities) for other in paths(*similarities.shape))
    assert worth(path, similarities) == pytest.approx(best, abs=1e-12)


@given(TIED)
def test_of_equally_good_paths_it_is_the_one_that_is_promised(similarities):
    """Read from the end, the first step of `STEPS` that leads back to a best path."""
    every = paths(*similarities.shape)
    best = max(worth(path, similarities) for path in every)
    tied = [path for path in every if worth(path, similarities) == best]

    def choices(path):
        return [STEPS.index((b[0] - a[0], b[1] - a[1])) for a, b in zip(path, path[1:], strict=False)][::-1]

    assert best_path(similarities) == list(min(tied, key=choices))


@given(LARGER)
def test_it_is_worth_what_a_library_finds(drawn):
    n, m, seed = drawn
    similarities = np.random.default_rng(seed).uniform(-1, 1, (n, m))
    path = best_path(similarities)
    assert_monotone(path, (n, m))
    # The library looks for the least costly path; in the pattern symmetric1 every step costs the cell it leads to.
    found = dtw.dtw(-similarities, step_pattern="symmetric1")
    assert worth(path, similarities) == pytest.approx(-found.distance, abs=1e-9)


def test_a_story_aligned_to_itself_stays_with_itself():
    """Where nothing else is alike, and a step aside costs."""
    likeness = np.eye(7) - 0.1 * (1 - np.eye(7))
    assert best_path(likeness) == [(i, i) for i in range(7)]
    # Where the rest is a little alike, two steps are worth more than one.
    assert len(best_path(np.full((7, 7), 0.1))) == 13


@given(st.integers(1, 5).flatmap(lambda k: st.tuples(st.just(k), st.integers(k, 40), st.integers(1, 40))), st.data())
def test_the_windows_of_a_twin_cover_it_in_order(sizes, data):
    count, n, m = sizes
    seed = data.draw(st.integers(0, 2**32 - 1))
    path = best_path(np.random.default_rng(seed).uniform(-1, 1, (n, m)))
    story = [["."] * (hi - lo) for lo, hi in even_windows(n, count)]
    homes = twin_windows(path, story, m)
    assert len(homes) == m and all(homes), "every sentence is in a window"
    assert homes[0][0] == 0 and homes[-1][-1] == count - 1
    assert {w for one in homes for w in one} == set(range(count)), "every window has a sentence"
    for one, following in zip(homes, homes[1:], strict=False):
        assert one == list(range(one[0], one[-1] + 1)), "no window is left out"
        assert following[0] - one[-1] in (0, 1), "and none is gone back to"
    expected = [
        sorted({w for w, (lo, hi) in enumerate(even_windows(n, count)) for i, at in path if at == j and lo <= i < hi})
        for j in range(m)
    ]
    assert homes == expected


@pytest.mark.parametrize("bad", [np.empty((0, 3)), np.empty((3, 0)), np.ones(3), np.array([[0.1, np.nan]])])
def test_what_is_no_matrix_of_numbers(bad):
    with pytest.raises(ValueError, match="a matrix of numbers is needed"):
        best_path(bad)


def test_similarities_are_cosines():
    random = np.random.default_rng(0)
    story, twin = random.normal(size=(4, 8)).astype(np.float32), random.normal(size=(5, 8)).astype(np.float32)
    story[2] = 0
    expected = cosine(story[:, None], twin[None])
    assert similarity_matrix(story, twin) == pytest.approx(expected, abs=1e-12)
    assert not similarity_matrix(story, twin)[2].any()


def test_no_step_of_python_a_cell():
    """Of twice as many sentences, twice as many lines are run: cells are computed by numpy, a whole anti-diagonal at
    once."""

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
