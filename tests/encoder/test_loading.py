"""Loading of encoders: names, settings of checkpoints, and damaged and hostile checkpoints, of
which each is refused in one line."""

import json
import logging
import shutil
import sys
from contextlib import suppress
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import constants
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from narrative_twins import StoryEncoder
from narrative_twins.encoder import loading
from narrative_twins.encoder.loading import (
    CheckpointError,
    load_model,
    read_checkpoint_settings,
    resolve_name,
)
from narrative_twins.pipeline import TASK
from narrative_twins.training.trainer import trainable_encoder

from support.hostile_checkpoints import MODEL, edited, evil, file, weights
from support.models import FAMILIES, encoder_of, small

STORY = "Nadia found a map. It led to a mill. The mill was gone."
LOADERS = [StoryEncoder.from_pretrained, trainable_encoder]
INDEX = "model.safetensors.index.json"


# Damages of a folder: by name, what is done to it and a pattern of the error


def without(pattern):
    """Files removed."""
    return lambda folder: [path.unlink() for path in folder.glob(pattern)]


def both(*changes):
    return lambda folder: [change(folder) for change in changes]


def index_of(part, index=INDEX):
    """An index in place of the weights that names one file, or has other content; the file is an
    evil pickle."""

    def apply(folder):
        (folder / MODEL).rename(folder.parent / "secret.safetensors")
        named = {"metadata": {}, "weight_map": {"x": part}}
        file(index, part if isinstance(part, bytes) else named)(folder)
        if part == "evil.bin":
            evil(folder / part)

    return apply


def pickled(folder):
    """Harmless weights in a pickle."""
    torch.save(load_file(folder / MODEL), folder / "pytorch_model.bin")
    (folder / MODEL).unlink()


evil_parts = index_of("evil.bin", "pytorch_model.bin.index.json")
evil_index = index_of("evil.bin")


def with_module(kind):
    """A module of a class after the pooling, with its code."""
    pooling = {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
    return both(
        file("modules.json", [pooling, {"path": "2_Module", "type": kind}]),
        lambda folder: (folder / "evil.py").write_text(f"open({str(folder / 'executed')!r}, 'w')"),
    )


def _bert(name, value):
    return weights(lambda tensors: tensors | {name: value})


_CODE = {"auto_map": {"AutoConfig": "evil.C", "AutoModel": "evil.M"}, "model_type": "evil"}
_PICKLE = "no weights in safetensors, and pickles are not read; save the model as safetensors"
_NAMED = "not safetensors in its folder; save the model as safetensors"
_MODULES = "the settings of encoder .* can't be loaded"
_EMBEDDINGS = "embeddings.word_embeddings.weight"
_TRANSFORMER = [{"path": "0_T", "type": "sentence_transformers.models.Transformer"}]
_PROMPTS = "config_sentence_transformers.json"
# fmt: off
WEIGHTS = {
    "no layer 1": (weights(lambda found: {name: x for name, x in found.items() if "layer.1." not in name}),
                   r"16 of its weights are missing \(encoder.layer.1.attention"),
    "another layer": (_bert("encoder.layer.2.output.dense.bias", torch.ones(3)),
                      r"1 of its weights are not part of the model \(encoder.layer.2.output.dense.bias"),
    "other sizes": (edited("config.json", intermediate_size=40), "have other sizes than config.json says"),
    "truncated": (lambda folder: file(MODEL, (folder / MODEL).read_bytes()[:-100])(folder),
                  "model.safetensors is damaged .*; copy or download it again"),
    "pickle": (pickled, _PICKLE),
    "evil parts": (evil_parts, _PICKLE),
    "evil index": (evil_index, f"model.safetensors.index.json names 'evil.bin', {_NAMED}"),
    "evil setting": (both(edited("config.json", transformers_weights="evil.bin"), lambda x: evil(x / "evil.bin")),
                     "config.json names 'evil.bin'; rename the weights to model.safetensors"),
    "index outside": (index_of("../secret.safetensors"), f"names '../secret.safetensors', {_NAMED}"),
    "index of a missing file": (index_of("gone.safetensors"), "gone.safetensors"),
    "index is deep": (index_of(b"[" * 100_000), f"{INDEX} is invalid"),
    "nan": (_bert("embeddings.LayerNorm.bias", torch.full((32,), torch.nan)), "LayerNorm.bias has values that are not"),
    "integers": (weights(lambda found: {name: x.to(torch.int8) for name, x in found.items()}), r"has integers \(I8\)"),
    "many layers": (edited("config.json", num_hidden_layers=10**7), "config.json has num_hidden_layers 10,000,000"),
    "a huge vocabulary": (edited("config.json", vocab_size=10**12), "config.json has vocab_size 1,000,000,000,000"),
    "no configuration": (without("config.json"), "config.json"),
    "configuration of other types": (edited("config.json", hidden_size="x"), "hidden_size"),
    "code": (both(edited("config.json", **_CODE), file("evil.py", b"1/0")), "custom code"),
}
SETTINGS = {
    "pooling is a number": (file("1_Pooling/config.json", {"pooling_mode": 5}), _MODULES),
    "pooling is missing": (lambda folder: shutil.rmtree(folder / "1_Pooling"),
                           "1_Pooling/config.json is missing; get it, or set pooling= to 'mean', 'first', 'lasttoken' or"),
    "transformer is elsewhere": (file("modules.json", _TRANSFORMER), "the transformer is in 0_T; load that folder"),
    "pooling is unknown": (edited("1_Pooling/config.json", pooling_mode="max"), "pooling 'max' is not supported; set pooling= "),
    "poolings are two": (edited("1_Pooling/config.json", pooling_mode=["mean", "max"]), r"pooling 'mean\+max' is not supported"),
    "modules are no JSON": (file("modules.json", b"{no"), _MODULES),
    "module after the pooling": (with_module("sentence_transformers.models.Dense"), "'Dense' is not supported, only Normalize"),
    "module of other code": (with_module("evil.Module"), "'evil.Module' is not supported"),
    "prompts are no texts": (both(file("modules.json", _TRANSFORMER[:0]), file(_PROMPTS, {"prompts": {"a": 5}})),
                             "can only concatenate str"),
    "prompt is unknown": (both(file("modules.json", _TRANSFORMER[:0]), file(_PROMPTS, {"default_prompt_name": "a"})),
                          "KeyError: 'a'"),
    "no tokenizer": (without("tokenizer*"), "tokenizer"),
    "tokenizer of another model": (both(_bert(_EMBEDDINGS, torch.ones(50, 32)), edited("config.json", vocab_size=50)),
                                   "the tokenizer .*has the id .*, and the model 50 ids; .* of another"),
}
# fmt: on
CASES = WEIGHTS | SETTINGS


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
def test_checkpoint_is_refused_in_one_line(case, folder, caplog):
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


def test_special_tokens_without_an_embedding_are_refused(folder):
    """They may not be in the first story that is scored, but in a later one."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"mask_token": "[NEW]"})
    tokenizer.save_pretrained(folder)
    problem = r"the tokenizer of .*encoder' has the id \d+ \('\[NEW\]'\), and the model"
    for load in LOADERS:
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


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_kernels_are_loaded_only_if_the_user_names_them(key, folder, monkeypatch):
    """The attention of a checkpoint could be a kernel of the Hub, whose code would run."""
    loaded = []
    kernels = "transformers.modeling_utils.lazy_import_flash_attention"
    monkeypatch.setattr(kernels, lambda name, **_: loaded.append(name))
    edited("config.json", **{key: "somebody/kernel"})(folder)
    for load in LOADERS:
        load(folder)
    model = pipeline("narrative-salience", model=str(folder)).model
    assert model.config._attn_implementation == "sdpa"
    assert loaded == []
    with suppress(OSError, ValueError, KeyError):
        StoryEncoder.from_pretrained(folder, attn_implementation="user/kernel")
    assert set(loaded) == {"user/kernel"}


def test_settings_of_the_configuration_are_options(folder):
    """But an option that is none of them is kept, even if the file of the configuration names
    it."""
    edited("config.json", output_loading_info=False, use_safetensors=False)(folder)
    encoder = StoryEncoder.from_pretrained(folder, device="cpu", hidden_dropout_prob=0.25)
    assert encoder.model.config.hidden_dropout_prob == 0.25


def test_language_models_fit_as_encoders(folder, caplog):
    """They have a head that an encoder does not need, and no pooler."""
    config = transformers.BertConfig.from_pretrained(folder)
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    with caplog.at_level(logging.WARNING):
        assert StoryEncoder.from_pretrained(folder, device="cpu").pooling == "mean"
        load_model(AutoModelForMaskedLM, folder)
    assert "LOAD REPORT" not in caplog.text


def test_buffers_of_earlier_releases_fit(folder):
    weights(lambda found: found | {"embeddings.position_ids": torch.arange(5)[None]})(folder)
    assert StoryEncoder.from_pretrained(folder, device="cpu").pooling == "mean"


def test_unsupported_precisions_and_devices(base):
    for name, value in (("dtype", "int8"), ("device", "nonsense"), ("device", "cuda:99")):
        problem = f"^{name} '{value}' (is not supported|can't be used).*$"
        with pytest.raises(ValueError, match=problem):
            StoryEncoder.from_pretrained(base, **{name: value})


def test_pooling_in_the_layout_of_old_checkpoints(folder):
    known = {"cls_token": "first", "mean_tokens": "mean", "max_tokens": "max_tokens"}
    known |= {"lasttoken": "lasttoken", "weightedmean_tokens": "weightedmean"}
    for mode, pooling in known.items():
        flags = {"pooling_mode_mean_sqrt_len_tokens": False, f"pooling_mode_{mode}": True}
        file("1_Pooling/config.json", {"word_embedding_dimension": 3, **flags})(folder)
        assert read_checkpoint_settings(folder).pooling == pooling


@pytest.mark.parametrize("name", ["pooling is missing", "pooling is a number"])
def test_pooling_of_the_user_replaces_that_which_cant_be_read(name, folder):
    SETTINGS[name][0](folder)
    assert StoryEncoder.from_pretrained(folder, device="cpu", pooling="first").pooling == "first"
    assert trainable_encoder(folder, pooling="first")[1].get_config_dict()["pooling_mode"] == "cls"


@pytest.mark.parametrize("kind", FAMILIES)
def test_limit_of_the_model(kind):
    encoder = small(kind, positions=40)
    assert encoder.context_tokens == 40
    # The model can process texts of exactly this many tokens, and chunks never have more.
    chunks = encoder.tokenize(["Nadia ran to the river. " * 30]).chunks((0,), None)
    assert max(len(chunk.ids) for chunk in chunks) == 40
    assert np.isfinite(encoder.encode([chunks])).all()


def test_context_tokens_and_limit_of_the_tokenizer():
    model, tokenizer = encoder_of("bert")
    assert StoryEncoder(model, tokenizer, context_tokens=100).context_tokens == 100
    assert StoryEncoder(model, tokenizer, context_tokens=10_000).context_tokens == 512
    short = copy(tokenizer)
    short.model_max_length = 64
    assert StoryEncoder(model, short).context_tokens == 64


def test_short_names_are_of_sentence_transformers(tmp_path, monkeypatch):
    offline = {"local_files_only": True}
    short = "all-MiniLM-L6-v2"
    assert resolve_name(short, offline) == (f"sentence-transformers/{short}", offline)
    for name in ("user/model", "bert-base-uncased"):
        assert resolve_name(name, offline) == (name, offline)
    monkeypatch.chdir(tmp_path)
    (tmp_path / short).mkdir()
    assert resolve_name(short, {"token": "t"}) == (short, {"token": "t"}), "folders come first"


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
    assert resolve_name("user/model", {}) == ("user/model", {"local_files_only": True})


@pytest.mark.parametrize("damage", [evil_parts, evil_index, pickled])
def test_pickles_are_never_downloaded(damage, hub, tmp_path):
    """Repositories on the Hub whose weights are in pickles are refused before."""
    small("bert").save_pretrained(tmp_path / "model")
    damage(tmp_path / "model")
    hub.put("models", "somebody/encoder", tmp_path / "model")
    for load in LOADERS:
        with pytest.raises(OSError, match="save the model as safetensors with save_pretrained"):
            load("somebody/encoder")
    assert hub.asked and not [path for path in hub.downloaded if path.endswith(".bin")]
    assert not list(tmp_path.rglob("executed"))


CODE = """
from transformers import BertConfig, BertModel

class TinyConfig(BertConfig):
    model_type = "tiny-story"

class TinyModel(BertModel):
    config_class = TinyConfig
"""


@pytest.mark.parametrize(
    "load",
    [
        StoryEncoder.from_pretrained,
        lambda folder, **options: pipeline(TASK, folder, **options),
        lambda folder, device, **options: StoryEncoder.from_sentence_transformer(
            trainable_encoder(folder, **options).to(device).eval()
        ),
    ],
)
def test_code_of_a_checkpoint_runs_only_with_trust_remote_code(
    load, bert_folder, tmp_path, monkeypatch
):
    modules = str(tmp_path / "modules")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
    monkeypatch.setattr("sys.path", sys.path.copy())
    folder = Path(shutil.copytree(bert_folder, tmp_path / "with_code"))
    (folder / "tiny.py").write_text(CODE, encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    classes = {"AutoConfig": "tiny.TinyConfig", "AutoModel": "tiny.TinyModel"}
    config |= {"model_type": "tiny-story", "architectures": ["TinyModel"], "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for options in ({}, {"trust_remote_code": False}):
        with pytest.raises(Exception, match="trust_remote_code=True"):
            load(str(folder), device="cpu", **options)
    assert not (tmp_path / "modules").exists(), "no code is copied to be run"
    loaded = load(str(folder), device="cpu", trust_remote_code=True)
    encoder = getattr(loaded, "encoder", loaded)
    assert type(encoder.model).__name__ == "TinyModel"
    plain = StoryEncoder.from_pretrained(bert_folder, device="cpu")
    assert np.allclose(encoder.encode([STORY]), plain.encode([STORY]), atol=1e-6)


def test_a_cache_of_ones_own(hub, bert_folder, tmp_path):
    """That of a pipeline is in tests/test_pipeline.py."""
    hub.put("models", "somebody/encoder", Path(bert_folder))
    encoder = StoryEncoder.from_pretrained("somebody/encoder", cache_dir=tmp_path / "mine")
    assert encoder.encode([STORY]).shape == (1, 32)
    assert list((tmp_path / "mine").rglob("model.safetensors"))
    assert not list((tmp_path / "hub-cache").rglob("model.safetensors"))
