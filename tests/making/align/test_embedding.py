"""Sentence vectors: truncated sentences are counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins.making.align.embedding import SentenceEmbedder


@pytest.fixture(scope="module")
def embed() -> SentenceEmbedder:
    return SentenceEmbedder(device="cpu")


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=4))
def test_only_truncated_sentences_are_counted(embed, lengths):
    """Each word is one token; two tokens are special."""
    before = embed.truncated
    vectors = embed(["dog " * length for length in lengths])
    assert vectors.shape == (len(lengths), 384)
    assert embed.truncated - before == sum(length > embed._model.max_seq_length - 2 for length in lengths)


def test_words_beyond_the_limit_have_no_effect(embed):
    limit = embed._model.max_seq_length - 2
    complete, truncated = embed(["dog " * limit, "dog " * limit + "cat " * 50])
    assert np.allclose(complete, truncated, atol=1e-5)
