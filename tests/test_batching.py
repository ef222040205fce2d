"""Scores do not depend on what shares the batch, with the kernels of several kinds of processors."""

import os

import numpy as np
import pytest
import torch

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.data.sources import corpus_rows

from support.models import encoder_of
from support.oracle import Oracle
from support.processes import run_python

BOUNDS = {"float32": (1e-5, 1e-5), "bfloat16": (0.005, 0.01)}
"""By precision: how far scores may be from the scores of the story alone, and from the scores of the
oracle, which pads. The scores of a story of this encoder are spread over 0.02 to 0.36."""
STORIES = [row["story"] for row in corpus_rows("stories")["validation"]][:20]
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


def assert_near(results, expected, bound):
    for scores, others in zip(results, expected, strict=True):
        for name, values in others.items():
            assert scores[name] == pytest.approx(values, abs=bound)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", BOUNDS)
def test_scores_by_the_kernels_of_this_processor(dtype, tmp_path):
    if "ATEN_CPU_CAPABILITY" in os.environ:
        assert torch.backends.cpu.get_cpu_capability() == "AVX2"
    model, tokenizer = encoder_of("bert")
    model.to(getattr(torch, dtype)).save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    encoder = StoryEncoder.from_pretrained(tmp_path / "encoder", device="cpu", dtype=dtype)
    stories, (bound, oracle_bound) = STORIES[:3], BOUNDS[dtype]
    results = [next(score_stories([story], encoder)) for story in stories]
    alone = [result.scores for result in results]
    assert_near([each.scores for each in score_stories(stories, encoder)], alone, bound)
    turned = score_stories(stories[::-1], encoder, batch_size=4)
    assert_near([each.scores for each in turned], alone[::-1], bound)
    oracle = Oracle(encoder.model, encoder.tokenizer.tokenizer)
    naive = [oracle.score(result.sentences, result.windows) for result in results]
    assert_near(alone, naive, oracle_bound)


@pytest.mark.slow
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512", reason="no processor with more than AVX2"
)
def test_scores_by_kernels_for_avx2():
    """Torch and oneDNN are limited to AVX2 where there is more; bfloat16 is emulated."""
    run_python("-m", "pytest", "-q", __file__, "-k", "of_this_processor", env=os.environ | AVX2)


def test_ranks_and_decimals_do_not_change_with_neighbours(default):
    """What people see: stars, ranks, four decimals."""
    options = {"approximate": "one-pass"}
    together = list(score_stories(STORIES, default, **options))
    for story, among in zip(STORIES, together, strict=True):
        (alone,) = score_stories([story], default, **options)
        for name, scores in alone.scores.items():
            assert np.array_equal(np.round(scores, 4), np.round(among.scores[name], 4))
            assert alone.rank(name) == among.rank(name)
            assert alone.extract(operation=name) == among.extract(operation=name)
