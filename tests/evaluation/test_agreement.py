"""Agreement with human labels, compared with naive loops."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.evaluation.agreement import agreement_with_turning_points, agreement_with_votes

from support.naive_metrics import naive_points, naive_votes, values


class Scores:
    """The attributes of a result that agreement is computed from."""

    def __init__(self, scores, windows=None):
        self.scores, self.windows = scores, windows


score = st.integers(-3, 3).map(lambda number: number / 4)


@given(st.data())
def test_agreement_with_votes_equals_a_naive_loop(data):
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    votes = [data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)) for n in lengths]
    scored = [
        {name: data.draw(st.lists(score, min_size=n, max_size=n)) for name in ("deletion", "mine")}
        for n in lengths
    ]
    found = agreement_with_votes([Scores(scores) for scores in scored], votes)
    assert values(found) == pytest.approx(naive_votes(scored, votes), nan_ok=True, abs=1e-9)
    for metric in found.values():
        assert metric.counted + metric.undefined == len(lengths)


@pytest.mark.parametrize("rule", ["numbered", "containing"])
@given(st.data())
def test_agreement_with_turning_points_equals_a_naive_loop(rule, data):
    count, stories = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    spans, points, scored, inside = [], [], [], 0
    for _ in range(stories):
        ends = [0]
        for size in data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)):
            ends.append(ends[-1] + size)
        spans.append(list(zip(ends, ends[1:], strict=False)))
        points.append([data.draw(st.integers(0, ends[-1] - 1)) for _ in range(count)])
        scored.append(
            {"deletion": data.draw(st.lists(score, min_size=ends[-1], max_size=ends[-1]))}
        )
        inside += sum(
            lo <= point < hi for point, (lo, hi) in zip(points[-1], spans[-1], strict=True)
        )
    found = agreement_with_turning_points(map(Scores, scored, spans), points, rule)
    assert values(found) == pytest.approx(
        naive_points(scored, spans, points, rule), nan_ok=True, abs=1e-9
    )
    overall = found["deletion_auc"]
    assert overall.counted + overall.undefined == count * stories
    assert overall.counted <= (inside if rule == "numbered" else count * stories)


def test_the_rule_of_the_paper_needs_a_window_for_each_turning_point():
    with pytest.raises(ValueError, match=r"1 window\(s\) and 2 turning point\(s\); .*windows=2"):
        agreement_with_turning_points([Scores({"deletion": [1.0, 2.0]}, [(0, 2)])], [[0, 1]])
    with pytest.raises(ValueError, match="rule='any': choose 'numbered' or 'containing'"):
        agreement_with_turning_points([Scores({"deletion": [1.0, 2.0]}, [(0, 2)])], [[0]], "any")
