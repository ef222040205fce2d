"""Forward passes with packed texts, or other attentions: the states stay those of the model."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from transformers import AttentionInterface, AttentionMaskInterface

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.encoder.passes import PACKED, ForwardPasses

from support.models import DECODERS, encoder_of, small
from support.processes import run_python
from support.scoring import THREE

PACKING = ("bert", "roberta", "xlm-roberta", "modernbert", *DECODERS)


def states_of(encoder: StoryEncoder, lengths: list[int]) -> torch.Tensor:
    """The states of random texts of these lengths, which are those of each text alone. The tolerance
    is for rounding errors, which the large random weights of these models amplify."""
    random, size = np.random.default_rng(0), encoder.model.config.vocab_size
    rows = [random.integers(10, size, length).astype(np.int32) for length in lengths]
    with encoder.passes.running():
        states = encoder.passes.states(rows)
    with torch.no_grad():
        texts = (torch.from_numpy(row.astype(np.int64))[None] for row in rows)
        alone = [encoder.model(input_ids=ids).last_hidden_state[0] for ids in texts]
    assert torch.allclose(states, torch.cat(alone), atol=1e-4)
    return states


@pytest.mark.parametrize("attention", ["packed", "padded"])
@pytest.mark.parametrize("kind", PACKING)
@given(lengths=st.lists(st.integers(1, 90), min_size=1, max_size=8))
def test_states_are_those_of_each_text_alone(kind, attention, lengths):
    """Also for texts longer than sliding windows, of 32 tokens in ModernBERT and 24 in Mistral, and
    with fewer heads of keys than of queries, as decoders have."""
    encoder = small(kind, attention=attention)
    assert encoder.passes.attention == attention
    states_of(encoder, lengths)


@given(lengths=st.lists(st.integers(1, 90), min_size=1, max_size=8))
def test_passes_on_a_cpu_have_few_shapes(lengths):
    """oneDNN caches kernels for each of them, and memory would grow."""
    encoder, shapes = small("bert"), []
    embeddings = encoder.model.embeddings
    with embeddings.register_forward_hook(lambda _, __, states: shapes.append(states.shape[1])):
        assert len(states_of(encoder, lengths)) == sum(lengths)
    tokens = shapes[0]
    assert tokens % 32 == 0 and 0 <= tokens - sum(lengths) < 32


def test_model_that_cannot_pack_is_padded_and_logged(caplog):
    model, tokenizer = encoder_of("mpnet")
    with caplog.at_level(logging.INFO, "narrative_twins"):
        assert StoryEncoder(model, tokenizer).passes.attention == "padded"
    assert "MPNetModel can't process packed texts, so they are padded" in caplog.text
    with pytest.raises(ValueError, match="can't process packed texts; use attention='auto'"):
        StoryEncoder(model, tokenizer, attention="packed")
    with pytest.raises(ValueError, match="attention='flash': choose 'auto', 'packed', 'padded'"):
        StoryEncoder(model, tokenizer, attention="flash")


def test_attention_of_the_model_is_restored():
    encoder = small("bert")
    before = encoder.model.config._attn_implementation
    assert before != PACKED
    with pytest.raises(IndexError), encoder.passes.running():
        assert encoder.model.config._attn_implementation == PACKED
        encoder.passes.states([np.array([10**6], np.int32)])
    assert encoder.model.config._attn_implementation == before


def test_threads_share_an_encoder():
    """Threads with the same encoder, as in the web app, get the scores that each would get
    alone."""
    encoder = small("bert")

    def scores(count):
        (result,) = score_stories([THREE * count], encoder)
        return np.array(list(result.scores.values()))

    counts = [1, 2, 3] * 3
    with ThreadPoolExecutor(4) as pool:
        for count, found in zip(counts, pool.map(scores, counts), strict=True):
            assert np.allclose(found, scores(count), atol=1e-5)


def test_flash_attention_gets_the_boundaries_of_texts(monkeypatch):
    """Replaces flash attention by one that also keeps texts apart by `cu_seq_lens_q` alone, as GPU
    kernels do."""

    def by_ends(
        module, query, key, value, attention_mask, *, cu_seq_lens_q, max_length_q, scaling=None, **_
    ):
        assert attention_mask is None and cu_seq_lens_q.dtype == torch.int32
        ends = cu_seq_lens_q.tolist()
        assert max_length_q == max(np.diff(ends))
        parts = [
            F.scaled_dot_product_attention(
                *(states[:, :, a:b] for states in (query, key, value)), scale=scaling
            )
            for a, b in zip(ends, ends[1:], strict=False)
        ]
        return torch.cat(parts, dim=2).transpose(1, 2), None

    AttentionInterface.register("test_by_ends", by_ends)
    AttentionMaskInterface.register("test_by_ends", lambda *_, **__: None)
    names = ["not_installed", "test_by_ends"]
    monkeypatch.setattr(ForwardPasses, "_attentions", lambda self: names)
    encoder = StoryEncoder(*encoder_of("roberta"))
    assert encoder.passes._attention == "test_by_ends"
    states_of(encoder, [5, 9, 2])


FORKED = """
import multiprocessing, sys
import narrative_twins
from transformers import pipeline

salience = pipeline("narrative-salience", model=sys.argv[1], device="cpu", dtype="float32")
texts = ["Nadia found a map. It rained. The mill was gone.", "It rained. She ran."]
expected = [salience(text) for text in texts]
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map_async(salience, texts).get(120)
print([result.rank() for result in found] == [result.rank() for result in expected])
"""


@pytest.mark.slow
def test_forked_processes_score_after_their_parent_has(bert_folder):
    """It has used threads of torch, which they do not have."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    assert run_python("-c", FORKED, bert_folder, env=environment) == "True\n"


def test_a_lack_of_memory_names_the_setting_to_lower(monkeypatch):
    encoder, problem = small(), torch.OutOfMemoryError("CUDA out of memory. Tried")
    monkeypatch.setattr(encoder.passes, "states", Mock(side_effect=problem))
    with pytest.raises(MemoryError, match="set a lower batch_tokens .*CUDA out of memory"):
        list(score_stories(["It rained. She ran."], encoder))
