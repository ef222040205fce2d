"""Sentences to vectors: which of them are cut is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins.making.align.embedding import SentenceEmbedder


@pytest.fixture(scope="module")
def embed() -> SentenceEmbedder:
    return SentenceEmbedder(device="cpu")


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=4))
def test_sentences_that_are_cut_are_counted_and_no_others(embed, lengths):
    """One word is one token; two are special."""
    before = embed.cut
    vectors = embed(["dog " * length for length in lengths])
    assert vectors.shape == (len(lengths), 384)
    assert embed.cut - before == sum(length > embed._model.max_seq_length - 2 for length in lengths)


def test_what_is_beyond_the_limit_does_not_count(embed):
    most = embed._model.max_seq_length - 2
    whole, cut = embed(["dog " * most, "dog " * most + "cat " * 50])
    assert np.allclose(whole, cut, atol=1e-5)
