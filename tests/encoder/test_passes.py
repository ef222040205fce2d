"""Forward passes with packed texts, or other attentions: the states stay those of the model."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from transformers import AttentionInterface, AttentionMaskInterface

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.encoder.passes import PACKED, ForwardPasses, packed_attention, using_attention

from support.models import DECODERS, encoder_of, small
from support.processes import run_python
from support.scoring import THREE

PACKING = ("bert", "roberta", "xlm-roberta", "modernbert", *DECODERS)


def naive_attention(q, k, v, lengths, window, scale, causal):
    """Attention computed token by token; all arguments of shape (heads, tokens, size), k and v
    perhaps with fewer heads."""
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], dim=0) for x in (k, v))
    out, start = torch.zeros(q.shape[1], q.shape[0], q.shape[2], dtype=torch.float64), 0
    for length in lengths:
        for head in range(q.shape[0]):
            for i in range(start, start + length):
                attended = [
                    j
                    for j in range(start, i + 1 if causal else start + length)
                    if window is None or abs(i - j) < window
                ]
                weights = torch.softmax(
                    torch.stack([q[head, i] @ k[head, j] * scale for j in attended]).double(), 0
                )
                out[i, head] = sum(
                    weight * v[head, j].double()
                    for weight, j in zip(weights, attended, strict=True)
                )
        start += length
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("dtype", "window"), [(torch.float32, None), (torch.float32, 5), (torch.bfloat16, 5)]
)
def test_packed_attention_is_attention_within_each_text(dtype, window, causal):
    runs = [(3, 2), (1, 7), (2, 12)]
    lengths = [length for count, length in runs for _ in range(count)]
    torch.manual_seed(0)
    heads = (2, 1, 1) if causal else (2, 2, 2)
    q, k, v = (torch.randn(1, count, sum(lengths), 4).to(dtype) for count in heads)
    for scale in (None, 0.3):
        with torch.inference_mode():
            found, weights = packed_attention(
                torch.nn.Identity(),
                q,
                k,
                v,
                None,
                text_runs=runs,
                causal=causal,
                scaling=scale,
                sliding_window=window,
            )
        assert weights is None and found.dtype == dtype and found.shape == (1, sum(lengths), 2, 4)
        expected = naive_attention(
            q[0].float(), k[0].float(), v[0].float(), lengths, window, scale or 0.5, causal
        )
        assert torch.allclose(
            found[0].double(), expected, atol=1e-6 if dtype == torch.float32 else 0.03
        )


def test_pooling_by_hand():
    states = torch.arange(1.0, 13).reshape(6, 2).bfloat16()
    tokens = [np.array([1, 2]), np.array([3])]
    weights = [np.array([1, 3], np.float32), np.array([5], np.float32)]
    vectors = small().passes.pooled(states, tokens, weights)
    assert vectors.dtype == torch.float32
    assert vectors.tolist() == [[(3 + 3 * 5) / 4, (4 + 3 * 6) / 4], [7, 8]]


def rows_of(encoder: StoryEncoder, lengths: list[int]) -> list[np.ndarray]:
    """Random texts of these lengths, without special tokens."""
    random = np.random.default_rng(0)
    return [
        random.integers(10, encoder.model.config.vocab_size, length).astype(np.int32)
        for length in lengths
    ]


def states_alone(encoder: StoryEncoder, row: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        return encoder.model(
            input_ids=torch.from_numpy(row.astype(np.int64))[None]
        ).last_hidden_state[0]


@pytest.mark.parametrize("attention", ["packed", "padded"])
@pytest.mark.parametrize("kind", PACKING)
@given(lengths=st.lists(st.integers(1, 90), min_size=1, max_size=8))
def test_states_are_those_of_each_text_alone(kind, attention, lengths):
    """Also for texts longer than the sliding window of ModernBERT (32 tokens). The tolerance is for
    rounding errors, which the large random weights of these models amplify."""
    encoder = small(kind, attention=attention)
    assert encoder.passes.attention == attention
    rows = rows_of(encoder, lengths)
    with encoder.passes.running():
        states = encoder.passes.states(rows)
    assert torch.allclose(
        states, torch.cat([states_alone(encoder, row) for row in rows]), atol=1e-4
    )


@given(lengths=st.lists(st.integers(1, 90), min_size=1, max_size=8))
def test_passes_on_a_cpu_have_few_shapes(lengths):
    """oneDNN caches kernels for each of them, and memory would grow."""
    encoder, shapes = small("bert"), []
    rows = rows_of(encoder, lengths)
    with encoder.passes.running():
        hook = encoder.model.embeddings.register_forward_hook(
            lambda _, __, states: shapes.append(states.shape[1])
        )
        try:
            states = encoder.passes.states(rows)
        finally:
            hook.remove()
    (tokens,) = shapes
    assert tokens % 32 == 0 and 0 <= tokens - sum(lengths) < 32
    assert len(states) == sum(lengths)


def test_model_that_cannot_pack_is_padded_and_logged(caplog):
    model, tokenizer = encoder_of("mpnet")
    with caplog.at_level(logging.INFO, "narrative_twins"):
        assert StoryEncoder(model, tokenizer).passes.attention == "padded"
    assert "MPNetModel can't process packed texts, so they are padded" in caplog.text
    with pytest.raises(
        ValueError, match="MPNetModel can't process packed texts; use attention='auto'"
    ):
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
    with using_attention(encoder.model, None):
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
    monkeypatch.setattr(
        ForwardPasses, "_attentions", lambda self: ["not_installed", "test_by_ends"]
    )
    encoder = StoryEncoder(*encoder_of("roberta"))
    assert encoder.passes._attention == "test_by_ends"
    rows = rows_of(encoder, [5, 9, 2])
    with encoder.passes.running():
        states = encoder.passes.states(rows)
    assert torch.allclose(
        states, torch.cat([states_alone(encoder, row) for row in rows]), atol=1e-4
    )


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
    encoder = small()
    monkeypatch.setattr(
        encoder.passes,
        "states",
        lambda rows: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory. Tried")),
    )
    with pytest.raises(MemoryError, match="set a lower batch_tokens .*CUDA out of memory"):
        list(score_stories(["It rained. She ran."], encoder))
