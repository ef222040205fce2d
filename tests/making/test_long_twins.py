"""Long twins from works: filters, draws and counts."""

import re
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.data import check_twins_row
from narrative_twins.making.long_twins import Candidate, Filters, Work, long_twin

EVENTS = 40


def embed(sentences):
    """Sentences of the same event have the same vector, of neighboring events similar ones."""
    events = np.array([int(re.search(r"\d+", sentence)[0]) for sentence in sentences])
    return np.exp(-((events[:, None] - np.arange(EVENTS)) ** 2) / 2)


def version(events, words="happens"):
    return [f"Event {event} {words}." for event in events]


def work(name, story, *candidates):
    return Work(name, None, version(story), list(candidates))


FILTERS = Filters(windows=3, min_sentences=10, max_difference=6, min_window=2)
make = partial(long_twin, embed=embed, filters=FILTERS)


def test_row():
    candidate = Candidate(version(range(10), "took place"), "de", 0.3)
    row, _ = make(work("w", range(12), candidate))
    check_twins_row(row, "row")
    assert [len(window) for window in row["story"]] == [4, 4, 4]
    assert row["twin"][0] == "Event 0 took place."
    for sentence, windows in zip(row["twin"], row["twin_windows"], strict=True):
        # Its own window, and perhaps an adjacent one.
        of_event = int(re.search(r"\d+", sentence)[0]) // 4
        assert of_event in windows and set(windows) <= {of_event - 1, of_event, of_event + 1}
    assert row["alignment"][0] == (0, 0) and row["alignment"][-1] == (11, 9)
    assert (row["id"], row["language"], row["similarity"]) == ("w", "de", 0.3)


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (Candidate(version(range(14))), "length"),
        (Candidate(version(range(20), "again"), "fr", 0.69), "similar"),
        (Candidate(version(range(20), "again"), "fr", 0.68), None),
        (Candidate(version(range(20), "again"), "de", 0.68), "similar"),
        (Candidate(version(range(20), "again"), None, 0.61), "similar"),
        (Candidate(version(range(20), "again")), None),
        # A copy, whatever its white space and case; below, whatever its sentence boundaries.
        (Candidate([line.upper().replace(" ", "  ") for line in version(range(20))]), "similar"),
        (Candidate([*version(range(1, 20)), *version(range(1))]), None),
        (Candidate([" ".join(version(range(20))).upper().replace(" ", " \n")]), "length"),
        # All but one sentence tell of the beginning.
        (Candidate(version([*range(4)] * 4 + [39])), "window"),
    ],
)
def test_filters(candidate, reason):
    row, counts = make(work("w", range(20), candidate), filters=Filters(3, 10, 5, 3))
    assert (row is None) == (reason is not None) == bool(counts["works without a twin"])
    dropped = [words for words in counts if words.startswith("versions") and counts[words]]
    assert len(dropped) == (reason is not None) and all(reason in words for words in dropped)


@st.composite
def works(draw):
    """Works that are kept or dropped for any reason."""
    events = st.lists(st.integers(0, 19), min_size=1, max_size=24).map(sorted)
    languages, similarities = st.sampled_from(["de", "fr", None]), st.sampled_from([None, 0.2, 0.9])
    drawn = []
    for number in range(draw(st.integers(1, 5))):
        candidates = [
            Candidate(version(draw(events), f"{n} times"), draw(languages), draw(similarities))
            for n in range(draw(st.integers(0, 4)))
        ]
        drawn.append(work(f"w{number}", range(draw(st.sampled_from([0, 5, 12, 20]))), *candidates))
    return drawn


@given(works(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_all_is_counted_and_no_order_matters(drawn, seed, shuffler):
    for each in drawn:
        row, counts = make(each, seed=seed)
        shuffled = shuffler.sample(each.candidates, len(each.candidates))
        assert make(each._replace(candidates=shuffled), seed=seed) == (row, counts)
        assert counts["works read"] == 1
        assert sum(n for words, n in counts.items() if words.startswith("works")) == 2
        assert counts["works kept, with a twin"] == (row is not None)
        if row is not None:
            sizes = Counter(w for windows in row["twin_windows"] for w in windows)
            assert min(sizes[w] for w in range(3)) >= FILTERS.min_window


def test_draw_is_even_and_depends_on_seed_and_id():
    candidates = [Candidate(version(range(20), f"{n} times")) for n in range(4)]

    def drawn(seed):
        rows = (make(work(f"w{n}", range(20), *candidates), seed=seed)[0] for n in range(100))
        return [row["twin"] for row in rows]

    first, other = drawn(7), drawn(8)
    share = [first.count(candidate.sentences) / 100 for candidate in candidates]
    assert all(0.1 < value < 0.4 for value in share), share
    assert 0.6 < np.mean([a != b for a, b in zip(first, other, strict=True)]) < 0.9


RELEASED = Filters(2, 10, 4.5, 3, released=True)


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        (range(10), True),
        (range(9), False),  # too short, although the difference in length would do
        (range(17), True),  # at most 4.5 longer, rounded up
        (range(18), False),
        ([0, 1, 2, *[11] * 8], False),  # three sentences of a window are too few
    ],
)
def test_filters_of_the_released_code(events, kept):
    candidate = Candidate(version(events, "(who?) again"))
    row, _ = make(work("w", range(12), candidate), filters=RELEASED)
    assert (row is not None) is kept
    assert row is None or row["twin"] == version(events, "again")


def test_the_released_code_draws_once():
    """A version that lacks sentences in a window is not replaced by another one."""
    versions = version([*range(3), *[11] * 8]), version(range(11), "again")
    works = [work(f"w{n}", range(12), *map(Candidate, versions)) for n in range(40)]
    for filters, fewest, most in (RELEASED, 9, 31), (Filters(2, 10, 4.5, 4), 40, 40):
        kept = [make(each, filters=filters)[0] is not None for each in works]
        assert fewest <= sum(kept) <= most


@pytest.mark.parametrize(
    "settings",
    [{"windows": 21}, {"max_difference": float("nan")}, {"max_similarity": {"fr": 68.1}}],
)
def test_invalid_settings(settings):
    with pytest.raises(ValueError, match="windows for stories of 20 sentences"):
        Filters(**settings)
