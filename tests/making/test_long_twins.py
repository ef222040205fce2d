"""Long twins from works: filters, draws, counts, and the files that works are read from."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.data import RowError, check_twins_row
from narrative_twins.making.long_twins import Filters, LongTwins
from narrative_twins.making.works import Candidate, Work

EVENTS = 40


def embed(sentences):
    """Sentences of the same event have the same vector, those of neighboring events similar
    ones."""
    events = np.array([int(re.search(r"\d+", sentence)[0]) for sentence in sentences])
    return np.exp(-((events[:, None] - np.arange(EVENTS)) ** 2) / 2)


def telling(events, words="happens"):
    return [f"Event {event} {words}." for event in events]


def work(name, story, *candidates):
    return Work(name, None, telling(story), list(candidates))


EVEN = Candidate(telling(range(20), "took place"))
FILTERS = Filters(min_sentences=10, max_difference=6, min_window=2)
MAKE = partial(LongTwins, embed, windows=3, filters=FILTERS)


def test_row():
    row = MAKE().row(work("w", range(12), Candidate(telling(range(10), "took place"), "de", 0.3)))
    check_twins_row(row, "row")
    assert [len(window) for window in row["story"]] == [4, 4, 4]
    assert row["twin"][0] == "Event 0 took place."
    for sentence, windows in zip(row["twin"], row["twin_windows"], strict=True):
        event = int(re.search(r"\d+", sentence)[0])
        # Its own window, and perhaps an adjacent one.
        own = event // 4
        assert own in windows and set(windows) <= {own - 1, own, own + 1}
    assert row["alignment"][0] == (0, 0) and row["alignment"][-1] == (11, 9)
    assert (row["id"], row["language"], row["similarity"]) == ("w", "de", 0.3)


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (Candidate(telling(range(14))), "length"),
        (Candidate(telling(range(20), "again"), "fr", 0.69), "similar"),
        (Candidate(telling(range(20), "again"), "fr", 0.68), None),
        (Candidate(telling(range(20), "again"), "de", 0.68), "similar"),
        (Candidate(telling(range(20), "again"), None, 0.61), "similar"),
        (Candidate(telling(range(20), "again")), None),
        # A copy, whatever its white space and case; below, whatever its sentence boundaries.
        (Candidate([line.upper().replace(" ", "  ") for line in telling(range(20))]), "similar"),
        (Candidate([*telling(range(1, 20)), *telling(range(1))]), None),
        (Candidate([" ".join(telling(range(20))).upper().replace(" ", " \n")]), "length"),
        # All but one sentence tell of the beginning.
        (Candidate(telling([*range(4)] * 4 + [39])), "windows"),
    ],
)
def test_filters(candidate, reason):
    made = MAKE(filters=Filters(10, 5, 3))
    row = made.row(work("w", range(20), candidate))
    assert (row is None) == (reason is not None)
    for name in ("length", "similar", "windows"):
        assert made.counts[name] == (name == reason), name
    assert made.counts["no_twin"] == (row is None)


@st.composite
def works(draw):
    """Works that are kept or dropped for any reason."""
    made = []
    for number in range(draw(st.integers(1, 5))):
        candidates = [
            Candidate(
                telling(
                    sorted(draw(st.lists(st.integers(0, 19), min_size=1, max_size=24))),
                    f"{index} times",
                ),
                draw(st.sampled_from(["de", "fr", None])),
                draw(st.sampled_from([None, 0.2, 0.9])),
            )
            for index in range(draw(st.integers(0, 4)))
        ]
        made.append(work(f"w{number}", range(draw(st.sampled_from([0, 5, 12, 20]))), *candidates))
    return made


@given(works(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_all_is_counted_in_any_order(found, seed, shuffler):
    first, other, again = (MAKE(seed=seed) for _ in range(3))
    rows = {each.id: row for each in found if (row := first.row(each))}
    counts = first.counts
    dropped = counts["no_story"] + counts["short"] + counts["no_twin"]
    assert counts["works"] == len(found) == dropped + counts["kept"]
    dropped = counts["length"] + counts["similar"] + counts["windows"] + counts["not_drawn"]
    assert counts["tellings"] == dropped + counts["kept"]
    assert counts["kept"] == len(rows)
    mixed = [
        each._replace(candidates=shuffler.sample(each.candidates, len(each.candidates)))
        for each in found
    ]
    shuffler.shuffle(mixed)
    assert {each.id: row for each in mixed if (row := other.row(each))} == rows
    assert other.counts == counts
    for each in found:
        earlier = [["Another."], *([rows[each.id]["twin"]] if each.id in rows else [])]
        assert again.row(each, earlier) is None and earlier == [["Another."]]
    assert again.counts == counts, "rows of an earlier run are counted the same"
    for row in rows.values():
        for w in range(3):
            assert sum(w in windows for windows in row["twin_windows"]) >= FILTERS.min_window


def test_draw_is_even_and_depends_on_seed_and_id():
    candidates = [Candidate(telling(range(20), f"{n} times")) for n in range(4)]
    drawn = [MAKE(seed=7).row(work(f"w{n}", range(20), *candidates))["twin"] for n in range(100)]
    share = [drawn.count(candidate.sentences) / 100 for candidate in candidates]
    assert all(0.1 < value < 0.4 for value in share), share
    other = [MAKE(seed=8).row(work(f"w{n}", range(20), *candidates))["twin"] for n in range(100)]
    assert 0.6 < np.mean([a != b for a, b in zip(drawn, other, strict=True)]) < 0.9


def test_twin_that_is_no_longer_in_the_input():
    made, earlier = MAKE(), [["Another."]]
    assert made.row(work("w", range(20), EVEN), earlier)["twin"] == EVEN.sentences
    assert earlier == [["Another."]] and made.counts["kept"] == 1


def test_work_that_cannot_be_aligned_is_named_and_not_counted():
    made = LongTwins(
        lambda sentences: np.full((len(sentences), 2), np.nan), windows=3, filters=FILTERS
    )
    with pytest.raises(RowError, match="work 'w': can't be aligned"):
        made.row(work("w", range(20), EVEN))
    assert not made.counts


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: LongTwins(embed, windows=21), "21 windows for stories of 20"),
        (lambda: Filters(min_window=0), "1 or more"),
        (lambda: Filters(max_difference=float("nan")), "0 or more"),
        (lambda: Filters(max_similarity={"fr": 68.1}), r"68.1 \(fr\)"),
    ],
)
def test_invalid_settings(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()
