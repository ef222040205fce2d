"""Decoders, prompts and their poolings: whole texts as in sentence-transformers. Stories and windows
are compared with the naive oracle in tests/salience."""

import json
import shutil
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from transformers import pipeline

from narrative_twins import StoryEncoder, split_sentences
from narrative_twins.commands.cli import main
from narrative_twins.encoder.loading import POOLINGS
from narrative_twins.encoder.passes import pool_windows
from narrative_twins.training.trainer import trainable_encoder

from support.hostile_checkpoints import edited
from support.models import DECODERS, encoder_of, modules, small
from support.oracle import Oracle
from support.scoring import TALE, score_story
from support.strategies import stories

TEXTS = ["Nadia ran.", "The old mill burned down; nobody was there, they said. Nadia ran.", "Über"]
PROMPTS = {
    "query": "query: ",
    "task": "Instruct: Find the story, its map and mill\nQuery:",
    "passage": "",
}
CAUSAL = [pooling for pooling in POOLINGS if pooling != "first"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a model as sentence-transformers saves it."""

    @cache
    def save(kind, pooling, include_prompt=True, default=None):
        folder = tmp_path_factory.mktemp(kind)
        for part in encoder_of(kind):
            part.save_pretrained(folder / "plain")
        mode = "cls" if pooling == "first" else pooling
        parts = [
            modules.Transformer(str(folder / "plain")),
            modules.Pooling(32, mode, include_prompt),
        ]
        model = SentenceTransformer(
            modules=[*parts, modules.Normalize()], prompts=PROMPTS, default_prompt_name=default
        )
        model.save_pretrained(str(folder), create_model_card=False)
        return folder

    return save


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def of_theirs(folder, **prompt):
    return SentenceTransformer(str(folder), device="cpu").encode(TEXTS, **prompt)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize(
    ("kind", "pooling"),
    [*product(DECODERS, CAUSAL), *product(("bert", "roberta", "xlm-roberta"), POOLINGS)],
)
def test_texts_have_the_vectors_of_sentence_transformers(kind, pooling, include, saved):
    folder = saved(kind, pooling, include)
    theirs = SentenceTransformer(str(folder), device="cpu")
    for prompt in ({}, {"prompt_name": "query"}, {"prompt_name": "task"}, {"prompt": "Story:"}):
        attention = "padded" if "prompt" in prompt else "packed"
        options = {"device": "cpu", "dtype": "float32", "attention": attention}
        encoder = StoryEncoder.from_pretrained(folder, **options, **prompt)
        assert encoder.pooling == pooling
        expected = theirs.encode(TEXTS, **prompt)
        assert unit(encoder.encode(TEXTS)) == pytest.approx(expected, abs=1e-5)


def oracle_of(encoder):
    tokens = encoder.tokenizer
    prompts = {"prompt": encoder.prompt, "include_prompt": tokens.settings.include_prompt}
    return Oracle(encoder.model, tokens.tokenizer, encoder.pooling, **prompts)


def assert_scores(encoder, story, **options):
    result = score_story(story, encoder, **options)
    expected = oracle_of(encoder).score(result.sentences, result.windows)
    for name, scores in expected.items():
        assert result.scores[name] == pytest.approx(scores, abs=1e-5), name
    return result


@pytest.mark.parametrize("kind", ["qwen3", "mistral", "bert"])
@pytest.mark.parametrize("include", [True, False])
def test_one_pass_pools_the_prompt_as_exact_scores_do(kind, include, saved):
    encoder = StoryEncoder.from_pretrained(
        saved(kind, "mean", include), device="cpu", dtype="float32", prompt_name="task"
    )
    sentences = split_sentences(TALE)[1:8]
    oracle = oracle_of(encoder)
    for windows in (1, [3, 1, 3]):
        result = score_story(sentences, encoder, windows=windows, approximate="one-pass")
        expected = oracle.score_one_pass(result.sentences, result.windows)
        assert_scores(encoder, sentences, windows=windows)
        if include or windows != 1:
            for name, scores in expected.items():
                assert result.scores[name] == pytest.approx(scores, abs=1e-5), name


@pytest.mark.parametrize("pooling", ["lasttoken", "weightedmean"])
def test_one_pass_needs_mean_pooling(pooling):
    with pytest.raises(ValueError, match="needs mean pooling"):
        score_story(TALE, small("qwen3", pooling=pooling), approximate="one-pass")


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
@given(sentences=stories(1, 8), context=st.integers(20, 40))
@settings(max_examples=8)
def test_the_prompt_is_read_before_each_part_of_a_long_text(kind, sentences, context):
    encoder = StoryEncoder(*encoder_of(kind), prompt="query: ", context_tokens=context)
    tokens = encoder.tokenizer
    order = tuple(range(len(sentences)))
    chunks = encoder.tokenize(sentences).chunks(order, None)
    before = [*tokens.head, *tokens.prompt_ids]
    assert all(len(chunk.ids) <= context for chunk in chunks)
    assert all(chunk.ids[: len(before)].tolist() == before for chunk in chunks)
    ids = [chunk.ids[len(before) : len(chunk.ids) - len(tokens.tail)] for chunk in chunks]
    whole = tokens.tokenizer("query: " + " ".join(encoder.tokenize(sentences).texts))["input_ids"]
    assert np.concatenate(ids).tolist() == whole[len(before) : len(whole) - len(tokens.tail)]


def test_pooling_of_windows_by_hand():
    states = torch.arange(1.0, 13).reshape(1, 6, 2)
    windows = torch.tensor([[0, -1, 1, 1, 0, -1]])
    expected = {
        "mean": [[5, 6], [6, 7]],
        "first": [[1, 2], [5, 6]],
        "lasttoken": [[9, 10], [7, 8]],
        "weightedmean": [[(1 + 5 * 9) / 6, (2 + 5 * 10) / 6], [(3 * 5 + 4 * 7) / 7, 50 / 7]],
    }
    for pooling, vectors in expected.items():
        pooled, present = pool_windows(states, windows, 2, pooling)
        assert torch.allclose(pooled[0], torch.tensor(vectors, dtype=torch.float32))
        assert present.all()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("default", [None, "task"])
def test_saving_keeps_pooling_and_prompts(pooling, default, saved, tmp_path):
    kind = "bert" if pooling == "first" else "qwen3"
    folder = saved(kind, pooling, include_prompt=False, default=default)
    options = {"device": "cpu", "dtype": "float32"}
    encoder = StoryEncoder.from_pretrained(folder, **options)
    assert encoder.prompt == PROMPTS.get(default, "")
    encoder.save_pretrained(tmp_path / "same")
    again = StoryEncoder.from_pretrained(tmp_path / "same", **options)
    assert (again.pooling, again.prompt) == (pooling, encoder.prompt)
    assert again.encode(TEXTS) == pytest.approx(encoder.encode(TEXTS), abs=1e-6)
    plain = transformers.AutoModel.from_pretrained(tmp_path / "same")
    assert StoryEncoder(plain, encoder.tokenizer.tokenizer).pooling == pooling
    assert unit(of_theirs(tmp_path / "same")) == pytest.approx(of_theirs(folder), abs=1e-5)
    # A prompt of one's own is saved as the default.
    for prompt in ({"prompt": "Story: "}, {"prompt_name": "query"}, {"prompt": ""}):
        other = StoryEncoder.from_pretrained(folder, **options, **prompt)
        other.save_pretrained(tmp_path / "other")
        loaded = StoryEncoder.from_pretrained(tmp_path / "other", **options)
        assert loaded.prompt == other.prompt == PROMPTS.get(prompt.get("prompt_name")) or (
            loaded.prompt == prompt["prompt"]
        )
        expected = of_theirs(folder, **prompt)
        assert unit(of_theirs(tmp_path / "other")) == pytest.approx(expected, abs=1e-5)


def test_prompts_reach_the_pipeline_and_the_commands(saved, tmp_path, capsys):
    folder = saved("mistral", "lasttoken", default="query")
    options = {"model": str(folder), "device": "cpu", "dtype": "float32"}
    story = split_sentences(TALE)[1:6]
    salience = pipeline("narrative-salience", **options)
    assert salience.encoder.prompt == "query: "
    (source := tmp_path / "story.txt").write_text(" ".join(story), encoding="utf-8")
    for name, prompt in (("prompt_name", "task"), ("prompt", "Story: "), ("prompt", "")):
        salience = pipeline("narrative-salience", **options, **{name: prompt})
        encoder = salience.encoder
        assert encoder.prompt == (PROMPTS[prompt] if name == "prompt_name" else prompt)
        flags = ["--model", str(folder), "--device", "cpu", "--dtype", "float32", "--exact"]
        flag = f"--{name.replace('_', '-')}"
        assert main(["score", str(source), *flags, flag, prompt, "--format", "json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert found["scores"]["summarization"] == pytest.approx(
            salience(" ".join(story))["scores"]["summarization"], abs=1e-5
        )
    with pytest.raises(ValueError, match="prompt_name='no': the prompts of the checkpoint are "):
        pipeline("narrative-salience", **options, prompt_name="no")


def test_a_language_model_without_settings_is_pooled_by_its_last_token(tmp_path):
    """As in sentence-transformers."""
    model, tokenizer = encoder_of("qwen3")
    tokenizer.save_pretrained(tmp_path)
    transformers.Qwen3ForCausalLM(model.config).save_pretrained(tmp_path)
    encoder = StoryEncoder.from_pretrained(tmp_path, device="cpu", dtype="float32")
    assert encoder.pooling == "lasttoken"
    assert encoder.encode(TEXTS) == pytest.approx(of_theirs(tmp_path), abs=1e-5)
    assert trainable_encoder(tmp_path)[1].pooling_mode == "lasttoken"
    model.save_pretrained(tmp_path)
    assert StoryEncoder.from_pretrained(tmp_path, device="cpu").pooling == "mean"
    with pytest.raises(ValueError, match="reads from left to right, so its 'first' token"):
        StoryEncoder.from_pretrained(tmp_path, device="cpu", pooling="first")


@pytest.mark.parametrize("mode", ["max", "mean_sqrt_len_tokens", ["mean", "max"]])
def test_poolings_that_are_refused(mode, saved, tmp_path):
    folder = shutil.copytree(saved("bert", "mean"), tmp_path / "copy")
    edited("1_Pooling/config.json", pooling_mode=mode)(folder)
    names = "\\+".join([mode] if isinstance(mode, str) else mode)
    with pytest.raises(ValueError, match=f"pooling '{names}' is not supported; set pooling= "):
        StoryEncoder.from_pretrained(folder, device="cpu")


def test_prompts_of_a_loaded_sentence_transformer(saved):
    model = SentenceTransformer(str(saved("llama", "weightedmean", default="task")), device="cpu")
    encoder = StoryEncoder.from_sentence_transformer(model)
    assert encoder.prompt == PROMPTS["task"]
    assert unit(encoder.encode(TEXTS)) == pytest.approx(model.encode(TEXTS), abs=1e-5)
    encoder = StoryEncoder.from_sentence_transformer(model, prompt_name="passage")
    assert unit(encoder.encode(TEXTS)) == pytest.approx(model.encode(TEXTS, prompt=""), abs=1e-5)


def test_decoder_with_a_table_of_positions():
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2}
    tokenizer = encoder_of("llama")[1]
    model = transformers.GPT2Model(transformers.GPT2Config(vocab_size=len(tokenizer), **size))
    encoder = StoryEncoder(model, tokenizer, pooling="lasttoken")
    assert encoder.passes.attention == "packed" and encoder.passes.is_causal
    assert_scores(encoder, split_sentences(TALE)[1:6], windows=[3, 2])


def test_prompt_that_fills_the_context():
    with pytest.raises(ValueError, match="no room for text.*special tokens and tokens of the pro"):
        StoryEncoder(*encoder_of("qwen3"), prompt=PROMPTS["task"], context_tokens=10)
