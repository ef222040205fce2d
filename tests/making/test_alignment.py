"""Alignment paths, compared with all possible paths; and sentence vectors."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM

from narrative_twins.data.rows import twin_windows
from narrative_twins.making.long_twins import STEPS, SentenceEmbedder, best_path
from narrative_twins.stories.story import even_windows

from support.hostile_checkpoints import weights
from support.models import SENTENCES, encoder_of, small

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6))
# Integers add up exactly, so ties do not depend on the order of the sum.
TIED = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=st.integers(-1, 2)))
LARGER = st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**32 - 1))


@cache
def paths(n: int, m: int) -> list[tuple[tuple[int, int], ...]]:
    """All monotone paths through an n by m matrix."""
    if (n, m) == (1, 1):
        return [((0, 0),)]
    return [
        (*path, (n - 1, m - 1))
        for before in ((n - 1, m - 1), (n - 1, m), (n, m - 1))
        if min(before) > 0
        for path in paths(*before)
    ]


def total(path, similarities) -> float:
    return sum(similarities[cell] for cell in path)


@given(TIED)
def test_path_is_the_best_of_all(similarities):
    """Ties are broken from the end, by the first step of `STEPS` that leads back to a best path."""
    all_paths = paths(*similarities.shape)
    best = max(total(path, similarities) for path in all_paths)
    tied = [path for path in all_paths if total(path, similarities) == best]

    def choices(path):
        steps = zip(path, path[1:], strict=False)
        return [STEPS.index((b[0] - a[0], b[1] - a[1])) for a, b in steps][::-1]

    assert best_path(similarities) == list(min(tied, key=choices))


@given(LARGER, st.integers(1, 5))
def test_windows_of_a_twin_cover_it_in_order(drawn, count):
    n, m, seed = max(drawn[0], count), drawn[1], drawn[2]
    path = best_path(np.random.default_rng(seed).uniform(-1, 1, (n, m)))
    windows = even_windows(n, count)
    windows_of = twin_windows(path, [["."] * (hi - lo) for lo, hi in windows], m)
    aligned = [{i for i, at in path if at == j} for j in range(m)]
    expected = [
        [w for w, (lo, hi) in enumerate(windows) if each & set(range(lo, hi))] for each in aligned
    ]
    assert windows_of == expected and all(expected), "every sentence is in a window"
    assert {w for each in expected for w in each} == set(range(count))


@pytest.mark.parametrize("bad", [np.empty((0, 3)), np.ones(3), np.array([[0.1, np.nan]])])
def test_invalid_matrices_are_refused(bad):
    with pytest.raises(ValueError, match="a non-empty matrix of finite numbers is needed"):
        best_path(bad)


def saved(kind, folder):
    for part in encoder_of(kind):
        part.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_pooler_output_is_that_of_transformers(kind, tmp_path):
    """One sentence at a time, without padding; another pooling gives other vectors."""
    folder = saved(kind, tmp_path)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        inputs = [tokenizer(text, return_tensors="pt") for text in SENTENCES]
        expected = [model(**each).pooler_output[0].numpy() for each in inputs]
    vectors = SentenceEmbedder(folder, "cpu", pooling="pooler")(SENTENCES)
    assert vectors.shape == (len(SENTENCES), 32)
    assert np.allclose(vectors, expected, atol=1e-5)
    assert not np.allclose(vectors, SentenceEmbedder(folder, "cpu")(SENTENCES), atol=0.1)


def without_pooler(folder):
    """As a language model is saved."""
    BertForMaskedLM(AutoModel.from_pretrained(folder).config).save_pretrained(folder)


def other_pooler(folder):
    weights(lambda tensors: tensors | {"pooler.dense.weight": torch.ones(16, 32)})(folder)


def trained_with_mean_pooling(folder):
    """Saves a pooler that was not trained, and that may be random."""
    small("bert").save_pretrained(folder)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("bert", without_pooler),
        ("bert", other_pooler),
        ("bert", trained_with_mean_pooling),
        ("modernbert", lambda folder: None),
    ],
)
def test_random_pooler_is_never_used(kind, change, tmp_path):
    folder = saved(kind, tmp_path / "encoder")
    change(folder)
    with pytest.raises(OSError, match="no weights of a pooler|trained with mean pooling, not with"):
        SentenceEmbedder(folder, "cpu", pooling="pooler")
