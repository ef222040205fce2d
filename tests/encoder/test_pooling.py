"""Pooling, compared with vectors calculated by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from narrative_twins.encoder.pooling import pool


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_pooling_by_hand(pooling):
    states = torch.tensor(
        [[1.0, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]], dtype=torch.bfloat16
    )
    expected = [[4, 5], [7, 8]] if pooling == "mean" else [[3, 4], [7, 8]]
    vectors = pool(states, [np.array([1, 2]), np.array([3])], pooling)
    assert vectors.dtype == torch.float32
    assert vectors.tolist() == expected
