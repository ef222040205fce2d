"""The operations where they are more than the naive oracle of test_engine.py compares."""

import numpy as np
import pytest
import torch

from narrative_twins import OPERATIONS
from narrative_twins.salience.operations import cosine
from narrative_twins.salience.options import ScoringOptions

from support.oracle import moved_by_place


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


def test_cosine_of_zero_vector_is_zero():
    assert cosine(np.zeros(3, np.float32), np.ones(3, np.float32)) == 0
    assert cosine(torch.zeros(3), torch.ones(3)) == 0


def test_settings_of_saved_scores_are_what_scores_depend_on():
    options = ScoringOptions(operations="deletion", batch_size=5, on_error="skip", progress=True)
    assert options.settings() == {
        "operations": ["deletion"],
        "approximate": None,
        "similarity": "cosine",
        "splitter": None,
        "windows": "auto",
    }
