"""Scores do not depend on what shares the batch, with the kernels of several kinds of processors."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch

from narrative_twins import score_stories
from narrative_twins.data.sources import corpus_rows

from support.batching import differences
from support.processes import run_python

BOUNDS = {"float32": (1e-5, 1e-5), "bfloat16": (0.005, 0.01)}
"""By precision: how far scores may be from those of the story alone, and from those of the oracle,
which pads. The scores of a story of this encoder are spread over 0.02 to 0.36."""


def assert_within_bounds(found):
    assert found.keys() == BOUNDS.keys()
    for dtype, (batch, oracle) in BOUNDS.items():
        assert found[dtype].pop("by the oracle") <= oracle
        assert max(found[dtype].values()) <= batch, found


@pytest.mark.slow
def test_scores_by_the_kernels_of_this_processor(tmp_path):
    assert_within_bounds({dtype: differences(dtype, tmp_path / dtype) for dtype in BOUNDS})


@pytest.mark.slow
def test_scores_by_kernels_for_avx2(tmp_path):
    """Torch and oneDNN are limited to AVX2 where there is more; bfloat16 is emulated."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("this processor has no more than AVX2")
    kernels = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    environment = {**os.environ, **kernels, "PYTHONPATH": "tests"}
    output = run_python("-m", "support.batching", tmp_path, *BOUNDS, env=environment)
    capability, found = json.loads(output)
    assert capability == "AVX2"
    assert_within_bounds(found)


def test_ranks_and_decimals_do_not_change_with_neighbours(default):
    """What people see: stars, ranks, four decimals."""
    stories = [row["story"] for row in corpus_rows("stories")["validation"]][:20]
    options = {"approximate": "one-pass"}
    together = list(score_stories(stories, default, **options))
    for story, among in zip(stories, together, strict=True):
        (alone,) = score_stories([story], default, **options)
        for name, scores in alone.scores.items():
            assert np.array_equal(np.round(scores, 4), np.round(among.scores[name], 4))
            assert alone.rank(name) == among.rank(name)
            assert alone.extract(operation=name) == among.extract(operation=name)
