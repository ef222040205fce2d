"""Curves of several runs beside each other."""

from __future__ import annotations

import pytest

from narrative_twins.training.curves import curves_of_runs


def test_mean_and_standard_deviation_over_the_seeds_at_their_common_steps():
    runs = {
        "twins": [
            {"eval_loss": [(1, 0.5), (2, 0.3), (3, 0.1)], "loss": [(1, 9.0)]},
            {"eval_loss": [(1, 0.7), (2, 0.3)]},
        ],
        "masked": [{"eval_auc": [(1, 0.5)]}],
        "not trained": [],
    }
    found = curves_of_runs(runs, ["eval_loss", "eval_auc", "eval_other"])
    assert list(found) == ["eval_loss", "eval_auc"] and list(found["eval_loss"]) == ["twins"]
    first, second = found["eval_loss"]["twins"]
    assert first == pytest.approx((1, 0.6, 0.02**0.5)) and second == pytest.approx((2, 0.3, 0))
    assert found["eval_auc"] == {"masked": [(1, 0.5, 0.0)]}
