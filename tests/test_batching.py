"""Scores do not depend on what shares the batch, with the kernels of several kinds of processors."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch

from narrative_twins import score_stories
from narrative_twins.data.sources import corpus_rows

from support.processes import run_python

BOUNDS = {"float32": (1e-5, 1e-5), "bfloat16": (0.005, 0.01)}
"""By precision: how far scores may be from those of the story alone, and from those of the oracle,
which pads. The scores of a story of this encoder are spread over 0.02 to 0.36."""


@pytest.mark.slow
@pytest.mark.parametrize("instructions", ["avx2", "avx512"])
def test_scores_by_kernels(instructions, tmp_path):
    """Torch and oneDNN are limited to AVX2 even where there is more; bfloat16 is emulated."""
    if instructions == "avx512" and torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("this processor has no AVX-512")
    one_dnn = {"avx2": "AVX2", "avx512": "ALL"}[instructions]
    kernels = {"ATEN_CPU_CAPABILITY": instructions, "ONEDNN_MAX_CPU_ISA": one_dnn}
    environment = {**os.environ, **kernels, "PYTHONPATH": "tests"}
    output = run_python("-m", "support.batching", tmp_path, *BOUNDS, env=environment)
    capability, found = json.loads(output)
    assert capability == instructions.upper()
    assert found.keys() == BOUNDS.keys()
    for dtype, (batch, oracle) in BOUNDS.items():
        assert found[dtype].pop("by the oracle") <= oracle
        assert max(found[dtype].values()) <= batch, found


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
