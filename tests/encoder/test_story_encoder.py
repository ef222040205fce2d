"""The encoder: each text encoded once, batches, refused models, lowercase. That vectors are those of
sentence-transformers, also after saving, is in test_decoders.py."""

import numpy as np
import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder

from support.hostile_checkpoints import edited
from support.models import encoder_of
from support.strategies import stories

TEXTS = ["Nadia ran.", "The old mill burned down. Nadia ran.", "I was there, didn't you know?"]
SIZE = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2}


def tiny(kind, **size):
    _, tokenizer = encoder_of("bert")
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer), **size)
    return getattr(transformers, f"{kind}Model")(config), tokenizer


def test_other_models_are_refused():
    t5 = {"d_model": 16, "d_ff": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8}
    vit = {"image_size": 32, "patch_size": 16, **SIZE, **HEADS}
    for kind, size, problem in (
        ("T5", t5, "T5Model is an encoder-decoder"),
        ("ViT", vit, "ViTModel did not return token states for a text"),
    ):
        model, tokenizer = tiny(kind, **size)
        with pytest.raises(ValueError, match=problem):
            StoryEncoder(model, tokenizer)


def batches_of(encoder) -> list[list[np.ndarray]]:
    """The texts of each batch that an encoder reads from now on."""
    batches, states = [], encoder.passes.states
    encoder.passes.states = lambda rows: batches.append(rows) or states(rows)
    return batches


def test_each_text_passes_through_the_model_once():
    encoder = StoryEncoder(*encoder_of("bert"))
    batches, story = batches_of(encoder), ["Nadia ran.", "It rained."]
    first, second = encoder.tokenize(story), encoder.tokenize(story[::-1])
    windows = [first.chunks((0, 1), span) for span in (None, (0, 1), (1, 2))]
    encoder.encode([*windows, second.chunks((1, 0), None), first.chunks((0,), None), *windows])
    seen = [row.tobytes() for rows in batches for row in rows]
    assert len(seen) == len(set(seen)) == 2


@pytest.mark.parametrize("attention", ["packed", "padded"])
@given(several=st.lists(stories(), min_size=1, max_size=5), budget=st.integers(1, 200))
def test_batches_respect_the_token_budget(attention, several, budget):
    encoder = StoryEncoder(*encoder_of("bert"), batch_tokens=budget, attention=attention)
    batches, shares = batches_of(encoder), []
    variants = [encoder.tokenize(story).chunks(tuple(range(len(story))), None) for story in several]
    encoder.encode(variants, shares.append)
    shapes = [[len(row) for row in rows] for rows in batches]
    for lengths in shapes:
        tokens = sum(lengths) if attention == "packed" else len(lengths) * max(lengths)
        assert len(lengths) == 1 or tokens <= budget
    texts = {chunk.ids.tobytes(): len(chunk.ids) for chunks in variants for chunk in chunks}
    assert sum(shapes, []) == sorted(texts.values(), reverse=True)
    assert sum(shares) == pytest.approx(1)


def test_vector_of_several_chunks_is_their_mean():
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=12)
    text = "The old mill burned down and Nadia ran to the river."
    chunks = encoder.tokenize([text]).chunks((0,), None)
    assert len(chunks) > 1
    for pooling, weights in (("mean", [len(chunk.ids) for chunk in chunks]), ("first", None)):
        encoder.pooling = pooling
        mean = np.average(encoder.encode([[chunk] for chunk in chunks]), axis=0, weights=weights)
        assert encoder.encode([text])[0] == pytest.approx(mean, abs=1e-6)


def test_model_whose_states_change_with_padding_reads_each_text_alone():
    """FNet mixes all positions, including padding."""
    encoder = StoryEncoder(*tiny("FNet", tpu_short_seq_length=512, **SIZE))
    batches = batches_of(encoder)
    assert len(encoder.encode(TEXTS)) == 3 and list(map(len, batches)) == [1, 1, 1]


def test_bidirectional_model_with_another_script_is_not_taken_for_a_decoder():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"東京雨"]
    tokenizer = transformers.BertTokenizer(vocab={token: at for at, token in enumerate(tokens)})
    model = transformers.BertModel(transformers.BertConfig(vocab_size=8, **SIZE, **HEADS))
    assert StoryEncoder(model, tokenizer).context_tokens == 512


def test_lowercase_of_the_checkpoint(tmp_path):
    for part in encoder_of("bert-cased"):
        part.save_pretrained(tmp_path)
    SentenceTransformer(str(tmp_path), device="cpu").save_pretrained(str(tmp_path))
    edited("sentence_bert_config.json", do_lower_case=True)(tmp_path)
    encoder = StoryEncoder.from_pretrained(tmp_path, device="cpu", dtype="float32")
    expected = SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS)
    assert encoder.encode(TEXTS) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(TypeError, match=r"encode\(\[text\]\)"):
        encoder.encode(TEXTS[0])
