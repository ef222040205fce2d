"""Sentence vectors: truncated sentences are counted; the pooler is that of the checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM

from narrative_twins.making.align.embedding import SentenceEmbedder

from support.hostile_checkpoints import weights
from support.models import SENTENCES, encoder_of, small


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
    assert embed.truncated - before == sum(
        length > embed._model.max_seq_length - 2 for length in lengths
    )


def test_words_beyond_the_limit_have_no_effect(embed):
    limit = embed._model.max_seq_length - 2
    complete, truncated = embed(["dog " * limit, "dog " * limit + "cat " * 50])
    assert np.allclose(complete, truncated, atol=1e-5)


def saved(kind, folder):
    for part in encoder_of(kind):
        part.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_pooler_output_is_that_of_transformers(kind, tmp_path):
    """One sentence at a time, without padding; another pooling gives other vectors."""
    folder = saved(kind, tmp_path)
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with torch.no_grad():
        expected = [
            model(**tokenizer(text, return_tensors="pt")).pooler_output[0].numpy()
            for text in SENTENCES
        ]
    found = SentenceEmbedder(folder, "cpu", 3, pooling="pooler")(SENTENCES)
    assert found.shape == (len(SENTENCES), 32)
    assert np.allclose(found, expected, atol=1e-5)
    assert not np.allclose(found, SentenceEmbedder(folder, "cpu", 3)(SENTENCES), atol=0.1)


def test_long_sentences_are_truncated_for_the_pooler_too(tmp_path):
    embed = SentenceEmbedder(saved("bert", tmp_path), "cpu", pooling="pooler")
    limit = embed._model.max_seq_length - 2
    assert embed._model.max_seq_length == 512
    whole, cut = embed(["map " * limit, "map " * limit + "mill " * 50])
    assert np.allclose(whole, cut, atol=1e-5) and embed.truncated == 1


def without_pooler(folder):
    """As a language model is saved."""
    model = AutoModel.from_pretrained(folder)
    language_model = BertForMaskedLM(model.config)
    language_model.bert.load_state_dict(model.state_dict(), strict=False)
    language_model.save_pretrained(folder)


def half_a_pooler(folder):
    weights(
        lambda found: {name: value for name, value in found.items() if name != "pooler.dense.bias"}
    )(folder)


def other_pooler(folder):
    weights(lambda found: found | {"pooler.dense.weight": torch.ones(16, 32)})(folder)


@pytest.mark.parametrize("change", [without_pooler, half_a_pooler, other_pooler])
def test_random_pooler_is_never_used(change, tmp_path):
    folder = saved("bert", tmp_path)
    change(folder)
    problem = (
        r"has no weights of the pooler \(.*pooler\.dense\.\w+\), which would be random; use a"
        r" checkpoint whose pooler"
    )
    with pytest.raises(OSError, match=problem):
        SentenceEmbedder(folder, "cpu", pooling="pooler")


def test_other_pooling_needs_no_pooler(tmp_path):
    folder = saved("bert", tmp_path)
    expected = SentenceEmbedder(folder, "cpu")(SENTENCES)
    without_pooler(folder)
    assert np.allclose(SentenceEmbedder(folder, "cpu")(SENTENCES), expected, atol=1e-6)


def test_pooler_of_a_checkpoint_with_other_pooling_is_refused(tmp_path):
    """Training with mean pooling saves a pooler that was not trained, and that may be random."""
    small("bert").save_pretrained(tmp_path)
    with pytest.raises(
        OSError, match="its settings name mean pooling, so its pooler is not trained; use that"
    ):
        SentenceEmbedder(tmp_path, "cpu", pooling="pooler")
    with pytest.raises(OSError, match="name mean pooling"):
        SentenceEmbedder(device="cpu", pooling="pooler")


def test_models_without_a_pooler_are_refused(tmp_path):
    with pytest.raises(
        OSError, match=r"models of this kind \(ModernBertModel\) have no pooler; use a checkpoint"
    ):
        SentenceEmbedder(saved("modernbert", tmp_path), "cpu", pooling="pooler")
