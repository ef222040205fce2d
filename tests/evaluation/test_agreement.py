"""Agreement with turning points, compared with naive loops; agreement with votes is compared in
tests/training/test_evaluators.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.evaluation.agreement import agreement_with_turning_points

from support.naive_metrics import naive_points, values


class Scores:
    """The attributes of a result that agreement is computed from."""

    def __init__(self, scores, windows):
        self.scores, self.windows = scores, windows


score = st.integers(-3, 3).map(lambda number: number / 4)


@pytest.mark.parametrize("rule", ["numbered", "containing"])
@given(st.data())
def test_agreement_with_turning_points_equals_a_naive_loop(rule, data):
    count, stories = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    spans, points, scored = [], [], []
    for _ in range(stories):
        ends = [0]
        for size in data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)):
            ends.append(ends[-1] + size)
        spans.append(list(zip(ends, ends[1:], strict=False)))
        points.append([data.draw(st.integers(0, ends[-1] - 1)) for _ in range(count)])
        drawn = data.draw(st.lists(score, min_size=ends[-1], max_size=ends[-1]))
        scored.append({"deletion": drawn})
    found = agreement_with_turning_points(map(Scores, scored, spans), points, rule)
    expected = naive_points(scored, spans, points, rule)
    assert values(found) == pytest.approx(expected, nan_ok=True, abs=1e-9)
    overall = found["deletion_auc"]
    assert overall.counted + overall.undefined == count * stories


def test_the_rule_of_the_paper_needs_a_window_for_each_turning_point():
    with pytest.raises(ValueError, match=r"1 window\(s\) and 2 turning point\(s\); .*windows=2"):
        agreement_with_turning_points([Scores({"deletion": [1.0, 2.0]}, [(0, 2)])], [[0, 1]])
    with pytest.raises(ValueError, match="rule='any': choose 'numbered' or 'containing'"):
        agreement_with_turning_points([Scores({"deletion": [1.0, 2.0]}, [(0, 2)])], [[0]], "any")
