"""Decoders, prompts and their poolings: whole texts as in sentence-transformers. Stories and windows
are compared with the naive oracle in tests/salience."""

import json
from functools import cache
from itertools import product

import numpy as np
import pytest
import transformers
from sentence_transformers import SentenceTransformer
from transformers import pipeline

from narrative_twins import StoryEncoder, split_sentences
from narrative_twins.commands.cli import main
from narrative_twins.encoder.loading import POOLINGS
from narrative_twins.training.trainer import trainable_encoder

from support.models import DECODERS, encoder_of, modules
from support.scoring import TALE, assert_close, oracle_of, score_story

TEXTS = ["Nadia ran.", "The old mill burned down; nobody was there, they said. Nadia ran.", "Über"]
TASK = "Instruct: Find the story, its map and mill\nQuery:"
PROMPTS = {"query": "query: ", "task": TASK, "passage": ""}
OPTIONS = {"device": "cpu", "dtype": "float32"}
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
        parts = [modules.Transformer(str(folder / "plain"))]
        parts += [modules.Pooling(32, mode, include_prompt), modules.Normalize()]
        options = {"prompts": PROMPTS, "default_prompt_name": default}
        model = SentenceTransformer(modules=parts, **options)
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
        encoder = StoryEncoder.from_pretrained(folder, **OPTIONS, attention=attention, **prompt)
        assert encoder.pooling == pooling
        expected = theirs.encode(TEXTS, **prompt)
        assert unit(encoder.encode(TEXTS)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["qwen3", "mistral", "bert"])
@pytest.mark.parametrize("include", [True, False])
def test_one_pass_pools_the_prompt_as_exact_scores_do(kind, include, saved):
    folder = saved(kind, "mean", include)
    encoder = StoryEncoder.from_pretrained(folder, **OPTIONS, prompt_name="task")
    sentences, oracle = split_sentences(TALE)[1:8], oracle_of(encoder)
    for windows in (1, [3, 1, 3]):
        exact = score_story(sentences, encoder, windows=windows)
        assert_close(exact.scores, oracle.score(exact.sentences, exact.windows))
        result = score_story(sentences, encoder, windows=windows, approximate="one-pass")
        if include or windows != 1:
            assert_close(result.scores, oracle.score_one_pass(result.sentences, result.windows))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("default", [None, "task"])
def test_saving_keeps_pooling_and_prompts(pooling, default, saved, tmp_path):
    kind = "bert" if pooling == "first" else "qwen3"
    folder = saved(kind, pooling, include_prompt=False, default=default)
    encoder = StoryEncoder.from_pretrained(folder, **OPTIONS)
    assert encoder.prompt == PROMPTS.get(default, "")
    encoder.save_pretrained(tmp_path / "same")
    again = StoryEncoder.from_pretrained(tmp_path / "same", **OPTIONS)
    assert (again.pooling, again.prompt) == (pooling, encoder.prompt)
    assert again.encode(TEXTS) == pytest.approx(encoder.encode(TEXTS), abs=1e-6)
    plain = transformers.AutoModel.from_pretrained(tmp_path / "same")
    assert StoryEncoder(plain, encoder.tokenizer.tokenizer).pooling == pooling
    assert unit(of_theirs(tmp_path / "same")) == pytest.approx(of_theirs(folder), abs=1e-5)
    # A prompt of one's own is saved as the default.
    for prompt in ({"prompt": "Story: "}, {"prompt_name": "query"}, {"prompt": ""}):
        other = StoryEncoder.from_pretrained(folder, **OPTIONS, **prompt)
        other.save_pretrained(tmp_path / "other")
        loaded = StoryEncoder.from_pretrained(tmp_path / "other", **OPTIONS)
        assert loaded.prompt == other.prompt == prompt.get("prompt", "query: ")
        expected = of_theirs(folder, **prompt)
        assert unit(of_theirs(tmp_path / "other")) == pytest.approx(expected, abs=1e-5)


def test_prompts_reach_the_pipeline_and_the_commands(saved, tmp_path, capsys):
    folder = saved("mistral", "lasttoken", default="query")
    options, story = OPTIONS | {"model": str(folder)}, " ".join(split_sentences(TALE)[1:6])
    assert pipeline("narrative-salience", **options).encoder.prompt == "query: "
    (source := tmp_path / "story.txt").write_text(story, encoding="utf-8")
    flags = ["--model", str(folder), "--device", "cpu", "--dtype", "float32", "--exact"]
    for name, prompt in (("prompt_name", "task"), ("prompt", "Story: "), ("prompt", "")):
        salience = pipeline("narrative-salience", **options, **{name: prompt})
        assert salience.encoder.prompt == (TASK if name == "prompt_name" else prompt)
        flag = f"--{name.replace('_', '-')}"
        assert main(["score", str(source), *flags, flag, prompt, "--format", "json"]) == 0
        scores = json.loads(capsys.readouterr().out)[0]["scores"]["summarization"]
        assert scores == pytest.approx(salience(story)["scores"]["summarization"], abs=1e-5)
    with pytest.raises(ValueError, match="prompt_name='no': the prompts of the checkpoint are "):
        pipeline("narrative-salience", **options, prompt_name="no")


def test_a_language_model_without_settings_is_pooled_by_its_last_token(tmp_path):
    """As in sentence-transformers."""
    model, tokenizer = encoder_of("qwen3")
    tokenizer.save_pretrained(tmp_path)
    transformers.Qwen3ForCausalLM(model.config).save_pretrained(tmp_path)
    encoder = StoryEncoder.from_pretrained(tmp_path, **OPTIONS)
    assert encoder.pooling == "lasttoken"
    assert encoder.encode(TEXTS) == pytest.approx(of_theirs(tmp_path), abs=1e-5)
    assert trainable_encoder(tmp_path)[1].pooling_mode == "lasttoken"
    model.save_pretrained(tmp_path)
    assert StoryEncoder.from_pretrained(tmp_path, device="cpu").pooling == "mean"
    with pytest.raises(ValueError, match="reads from left to right, so its 'first' token"):
        StoryEncoder.from_pretrained(tmp_path, device="cpu", pooling="first")


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
    result = score_story(split_sentences(TALE)[1:6], encoder, windows=[3, 2])
    assert_close(result.scores, oracle_of(encoder).score(result.sentences, result.windows))
