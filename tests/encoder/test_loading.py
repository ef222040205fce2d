"""Loading of encoders: names, settings of checkpoints, and damaged and hostile checkpoints, of
which each is refused in one line by the package, the pipeline and the command."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import constants
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, pipeline

from narrative_twins import StoryEncoder
from narrative_twins.commands.cli import main
from narrative_twins.encoder import loading
from narrative_twins.encoder.loading import (
    CheckpointError,
    CheckpointSettings,
    load_model,
    read_checkpoint_settings,
    resolve_name,
)
from narrative_twins.making.alignment import SentenceEmbedder
from narrative_twins.training.mlm import masked_language_model
from narrative_twins.training.trainer import trainable_encoder

from support.hostile_checkpoints import (
    INDEX,
    MODEL,
    SETTINGS,
    TOKENIZER,
    WEIGHTS,
    edited,
    evil,
    evil_index,
    file,
    outside,
    pickled,
    weights,
    with_module,
)
from support.models import FAMILIES, encoder_of, modules, small

STORY = "Nadia found a map. It led to a mill. The mill was gone."
LOADERS = [StoryEncoder.from_pretrained, trainable_encoder, masked_language_model, SentenceEmbedder]
CASES = WEIGHTS | SETTINGS | TOKENIZER


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    small("bert").save_pretrained(folder)
    return folder


@pytest.fixture
def folder(base, tmp_path, monkeypatch):
    """A copy of the encoder, with whose weights no pickle is read and no code executed."""
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    folder = Path(shutil.copytree(base, tmp_path / "encoder"))
    yield folder
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("case", CASES)
def test_checkpoint_is_refused_in_one_line(case, folder, tmp_path, capsys, caplog):
    damage, problem = CASES[case]
    damage(folder)
    with pytest.raises((OSError, ValueError), match=problem) as refused:
        StoryEncoder.from_pretrained(folder, device="cpu")
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 800
    assert "LOAD REPORT" not in caplog.text
    if case in WEIGHTS and case != "code" and "configuration" not in case:
        # `transformers.pipeline` does not load it in another way.
        with pytest.raises(CheckpointError, match=problem):
            pipeline("narrative-salience", model=str(folder), device="cpu")


def test_command_refuses_a_checkpoint_in_one_line(folder, tmp_path, capsys):
    pickled(folder)
    (story := tmp_path / "story.txt").write_text(STORY)
    capsys.readouterr()
    assert main(["score", str(story), "--model", str(folder), "--device", "cpu"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("narrative-twins: encoder") and err.count("\n") == 1


@pytest.mark.parametrize("load", LOADERS[1:])
@pytest.mark.parametrize("case", ["no layer 1", "other sizes", "pickle", "zero", "evil index"])
def test_training_and_alignment_refuse_it_too(case, load, folder):
    damage, problem = WEIGHTS[case]
    damage(folder)
    with pytest.raises(OSError, match=problem):
        load(folder)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (with_module("sentence_transformers.models.Dense"), "no 2_Module/model.safetensors; save"),
        (with_module("sentence_transformers.models.LSTM"), "'LSTM' in '2_Module', which is not"),
        (with_module("evil.Module"), "'evil.Module' in '2_Module', which is not supported"),
        (with_module("evil.Pooling"), "'evil.Pooling' in '2_Module', which is not supported"),
        (outside, "outside of the folder"),
    ],
)
def test_alignment_reads_no_pickles_and_no_code_of_modules(damage, problem, folder):
    damage(folder)
    with pytest.raises(OSError, match=problem):
        SentenceEmbedder(folder)


@pytest.mark.parametrize(
    "load", [StoryEncoder.from_pretrained, trainable_encoder, SentenceEmbedder]
)
@pytest.mark.parametrize("kind", ["pad_token", "mask_token", "unk_token"])
def test_special_tokens_without_an_embedding_are_refused(kind, load, folder):
    """They may not be in the first story that is scored, but in a later one."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({kind: "[NEW]"})
    tokenizer.save_pretrained(folder)
    problem = r"the tokenizer of .*encoder' has the id \d+ \('\[NEW\]'\), and the model"
    with pytest.raises(ValueError, match=problem):
        load(folder)


@pytest.mark.parametrize(
    "options",
    [{"weights_only": False}, {"variant": "fp16"}, {"use_safetensors": False}, {"subfolder": "."}],
)
def test_no_option_lets_pickles_in(options, folder):
    pickled(folder)
    shutil.copy(folder / "pytorch_model.bin", folder / "pytorch_model.fp16.bin")
    with pytest.raises(OSError, match="can't be loaded"):
        StoryEncoder.from_pretrained(folder, device="cpu", **options)


@pytest.mark.parametrize("index", ["model.safetensors.index.fp16.json", f"part/{INDEX}"])
def test_indexes_of_other_names_are_checked(index, folder):
    evil_index(folder)
    (folder / "part").mkdir()
    (folder / INDEX).rename(folder / index)
    shutil.copy(folder / "config.json", folder / "part")
    options = {"variant": "fp16"} if "fp16" in index else {"subfolder": "part"}
    with pytest.raises(OSError, match="names 'evil.bin', not safetensors in its folder"):
        StoryEncoder.from_pretrained(folder, device="cpu", **options)


def test_weights_in_several_files_are_read(folder):
    load_model(AutoModel, folder).save_pretrained(folder, max_shard_size=10_000)
    assert (folder / INDEX).exists()
    (folder / MODEL).unlink(missing_ok=True)
    assert StoryEncoder.from_pretrained(folder, device="cpu").pooling == "mean"


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_attention_of_a_checkpoint_is_ignored(key, load, folder):
    """It could be a kernel of the Hub, whose code would run; that of a user is taken."""
    edited("config.json", **{key: "somebody/kernel"})(folder)
    load(folder)
    if load == StoryEncoder.from_pretrained:
        encoder = load(folder, device="cpu", attn_implementation="eager")
        assert encoder.model.config._attn_implementation == "eager"
        with pytest.raises((OSError, ValueError), match="kernel"):
            load(folder, attn_implementation="somebody/kernel")
        found = pipeline("narrative-salience", model=str(folder)).model.config
        assert found._attn_implementation == "sdpa"


def test_settings_of_the_configuration_are_options(folder):
    """But an option that is none of them is kept, even if the file of the configuration names
    it."""
    edited("config.json", output_loading_info=False, use_safetensors=False)(folder)
    encoder = StoryEncoder.from_pretrained(folder, device="cpu", hidden_dropout_prob=0.25)
    assert encoder.model.config.hidden_dropout_prob == 0.25


def test_files_that_a_tokenizer_names_are_not_read(folder):
    """A vocabulary of its own folder is read in their place."""
    evil(folder.parent / "secret")
    names = dict.fromkeys(["tokenizer_file", "vocab_file", "merges_file"], "../secret")
    edited("tokenizer_config.json", **names)(folder)
    encoder = StoryEncoder.from_pretrained(folder, device="cpu")
    assert encoder.tokenizer.tokenizer.get_vocab() == encoder_of("bert")[1].get_vocab()


@pytest.mark.parametrize("stored", [5, [], {"unknown": 1}])
def test_invalid_settings_in_the_configuration(stored, folder):
    """As plain `AutoModel` and a pipeline with its own code load them."""
    model = AutoModel.from_pretrained(folder)
    model.config.narrative_twins = stored
    with pytest.raises(ValueError, match="in config.json is invalid"):
        StoryEncoder(model, AutoTokenizer.from_pretrained(folder))


def test_language_models_fit_as_encoders(folder, caplog):
    """They have a head that an encoder does not need, and no pooler."""
    transformers.BertForMaskedLM(transformers.BertConfig.from_pretrained(folder)).save_pretrained(
        folder
    )
    with caplog.at_level(logging.WARNING):
        assert StoryEncoder.from_pretrained(folder, device="cpu").pooling == "mean"
        load_model(AutoModelForMaskedLM, folder)
    assert "LOAD REPORT" not in caplog.text
    AutoModel.from_pretrained(folder).save_pretrained(folder)
    assert masked_language_model(folder).base_model.checkpoint_settings.pooling == "mean"


def test_buffers_of_earlier_releases_fit(folder):
    weights(lambda found: found | {"embeddings.position_ids": torch.arange(5)[None]})(folder)
    assert StoryEncoder.from_pretrained(folder, device="cpu").pooling == "mean"


@pytest.mark.parametrize(
    "options",
    [{"dtype": "int8"}, {"dtype": "complex64"}, {"device": "nonsense"}, {"device": "cuda:99"}],
)
def test_unsupported_precisions_and_devices(options, base):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} '{value}' (is not supported|can't be used)") as e:
        StoryEncoder.from_pretrained(base, **options)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("mode", ["cls_token", "mean_tokens", "max_tokens"])
def test_pooling_in_the_layout_of_old_checkpoints(mode, tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    kinds = ["Transformer", "Pooling", "Normalize"]
    types = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{i}_{kind}"}
        for i, kind in enumerate(kinds)
    ]
    file("modules.json", types)(tmp_path)
    flags = {"pooling_mode_lasttoken": False, f"pooling_mode_{mode}": True}
    file("1_Pooling/config.json", {"word_embedding_dimension": 3, **flags})(tmp_path)
    known = {"cls_token": "first", "mean_tokens": "mean"}
    assert read_checkpoint_settings(tmp_path).pooling == known.get(mode, mode)


def test_unsupported_pooling_is_refused(bert_folder, tmp_path):
    parts = [modules.Transformer(bert_folder), modules.Pooling(32), modules.Dense(32, 8)]
    SentenceTransformer(modules=parts).save_pretrained(str(tmp_path), create_model_card=False)
    with pytest.raises(ValueError, match="pooling 'Dense' is not supported; set pooling= to"):
        StoryEncoder.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="pooling 'max' is not supported"):
        StoryEncoder(*encoder_of("bert"), pooling="max")
    assert SentenceEmbedder(tmp_path)([STORY]).shape == (1, 8)


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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("user/model", "user/model"),
        ("bert-base-uncased", "bert-base-uncased"),
    ],
)
def test_short_names_are_of_sentence_transformers(name, expected, tmp_path, monkeypatch):
    assert resolve_name(name, {"local_files_only": True}) == (expected, {"local_files_only": True})
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir(parents=True)
    assert resolve_name(name, {"token": "t"}) == (name, {"token": "t"}), "folders come first"


def test_offline_the_error_says_that_the_encoder_is_not_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OSError, match="couldn't find them in the cached files"):
        StoryEncoder.from_pretrained("user/absent", cache_dir=tmp_path)


def test_without_a_connection_the_error_comes_after_a_single_request(monkeypatch, tmp_path):
    requests = []

    def fail(url, **options):
        requests.append(url)
        raise ConnectionError("name or service not known")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(loading, "get_hf_file_metadata", fail)
    for name in ("all-MiniLM-L6-v2", "user/model"):
        problem = f"encoder '{name}' can't be loaded: it is not a folder, the Hub can't be reached"
        with pytest.raises(OSError, match=problem):
            StoryEncoder.from_pretrained(name, cache_dir=tmp_path)
    assert len(requests) == 2 and "sentence-transformers/all-MiniLM-L6-v2" in requests[0]
    # A copy in the cache is used as it is.
    cached = str(tmp_path / "config.json")
    monkeypatch.setattr(loading, "try_to_load_from_cache", lambda *_, **__: cached)
    options = {"token": "t", "local_files_only": True}
    assert resolve_name("user/model", {"token": "t"}) == ("user/model", options)
