"""Settings of checkpoints: pooling and limits."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import transformers
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder
from narrative_twins.encoder.checkpoint import CheckpointSettings, read_checkpoint_settings

from support.models import FAMILIES, encoder_of, modules, small


def test_pooling_in_the_layout_of_old_checkpoints(tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    kinds = ["Transformer", "Pooling", "Normalize"]
    types = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{i}_{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (tmp_path / "modules.json").write_text(json.dumps(types))
    for key, mode in {
        "cls_token": "first",
        "mean_tokens": "mean",
        "max_tokens": "max_tokens",
    }.items():
        (tmp_path / "1_Pooling" / "config.json").write_text(
            json.dumps(
                {
                    "word_embedding_dimension": 3,
                    "pooling_mode_lasttoken": False,
                    f"pooling_mode_{key}": True,
                }
            )
        )
        assert read_checkpoint_settings(tmp_path).pooling == mode


def test_unsupported_pooling_is_refused(bert_folder, tmp_path):
    transformer = modules.Transformer(bert_folder)
    parts = [transformer, modules.Pooling(32), modules.Dense(32, 8)]
    SentenceTransformer(modules=parts).save_pretrained(str(tmp_path), create_model_card=False)
    with pytest.raises(
        ValueError, match="pooling 'Dense' is not supported; set pooling= to 'mean'"
    ):
        StoryEncoder.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="pooling 'max' is not supported"):
        StoryEncoder(*encoder_of("bert"), pooling="max")


def test_plain_checkpoint_is_mean_pooled(bert_folder):
    assert read_checkpoint_settings(bert_folder) == CheckpointSettings()
    assert StoryEncoder.from_pretrained(bert_folder).pooling == "mean"


@pytest.mark.parametrize("kind", FAMILIES)
def test_limit_of_the_model(kind):
    encoder = small(kind, positions=40)
    assert encoder.context_tokens == 40
    # The model can process texts of exactly this many tokens, and chunks never have more.
    story = encoder.tokenize(["Nadia ran to the river. " * 30])
    chunks = story.chunks((0,), None)
    assert max(len(chunk.ids) for chunk in chunks) == 40
    assert np.isfinite(encoder.encode([chunks])).all()


def test_context_tokens_and_limit_of_the_tokenizer():
    model, tokenizer = encoder_of("bert")
    assert StoryEncoder(model, tokenizer, context_tokens=100).context_tokens == 100
    assert StoryEncoder(model, tokenizer, context_tokens=10_000).context_tokens == 512
    short = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, model_max_length=64, pad_token="[PAD]"
    )
    assert StoryEncoder(model, short).context_tokens == 64


def test_unreadable_settings_are_an_error(bert_folder, tmp_path):
    shutil.copytree(bert_folder, tmp_path / "model")
    (tmp_path / "model" / "modules.json").write_text("{not json")
    for load in (
        lambda: StoryEncoder.from_pretrained(tmp_path / "model"),
        lambda: transformers.pipeline(
            "narrative-salience", model=str(tmp_path / "model"), device="cpu"
        ),
    ):
        with pytest.raises(ValueError, match="modules.json of .* is invalid"):
            load()
