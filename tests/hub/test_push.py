"""Pushes of encoders to the Hub, with its real client and a local server: what is pushed loads
elsewhere with the same scores."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, pipeline
from transformers.dynamic_module_utils import get_imports

from narrative_twins import StoryEncoder, push_encoder, score_stories, trainable_encoder
from narrative_twins.commands.cli import main
from narrative_twins.encoder.adapters import has_adapter
from narrative_twins.encoder.loading import CheckpointSettings
from narrative_twins.hub.facts import EncoderFacts, Figure
from narrative_twins.hub.push import HubError, encoder_files
from narrative_twins.hub.self_contained import self_contained_files

from support.hub import Hub
from support.models import modules, small
from support.processes import run_python

pytestmark = pytest.mark.usefixtures("any_release_of_peft")

TEXT = "Omar cleaned a window. A man cried. Omar wrote a word."
NAME = "somebody/encoder"
"""The name where nothing is loaded: libraries keep what they found under a name in this process."""
FACTS = EncoderFacts(
    name="An encoder of one's own",
    base_model="a random BERT",
    training_data="none at all (CC0)",
    figures=[
        Figure("Spearman of summarization", 0.25, "Stories", "somebody/stories", "validation")
    ],
    license="apache-2.0",
)


@pytest.fixture(scope="module")
def checkpoint(bert_folder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    parts = [modules.Transformer(bert_folder), modules.Pooling(32, pooling_mode="cls")]
    SentenceTransformer(modules=parts).save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.fixture
def own(checkpoint, tmp_path) -> Path:
    """A copy of the checkpoint."""
    return shutil.copytree(checkpoint, tmp_path / "own")


def load(name: str, **options):
    return pipeline("narrative-salience", model=name, device="cpu", dtype="float32", **options)


def scores(encoder: StoryEncoder) -> np.ndarray:
    (result,) = score_stories([TEXT], encoder)
    return np.array([list(values) for values in result.scores.values()])


@pytest.fixture(scope="module")
def expected(checkpoint) -> np.ndarray:
    return scores(load(str(checkpoint)).encoder)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def pushed(hub: Hub, folder: Path) -> Path:
    """The files that were pushed, in a folder."""
    for name, content in hub.files("models", NAME).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.slow
def test_encoder_round_trip(checkpoint, expected, hub, capsys):
    """Pushed by the command, loaded from the Hub: its files, or from a branch with their code."""
    before = contents(checkpoint)
    options = ["--to", "somebody/round-trip", "--private", "--with-code"]
    assert main(["push", str(checkpoint), *options]) == 0
    assert capsys.readouterr().out == f"{hub.address}/somebody/round-trip\n"
    assert "somebody/round-trip" in hub.private and contents(checkpoint) == before
    files = hub.files("models", "somebody/round-trip")
    assert set(files) == {*before, "README.md", ".gitattributes"}
    assert "custom_pipelines" not in json.loads(files["config.json"])
    for salience in (
        load("somebody/round-trip"),
        load("somebody/round-trip", revision="with-code", trust_remote_code=True),
    ):
        assert salience.encoder.pooling == "first"
        found = [list(values) for values in salience(TEXT)["scores"].values()]
        assert np.allclose(found, expected, atol=1e-5)
    assert not isinstance(salience.encoder, StoryEncoder), "it is the code of the repository"
    with pytest.raises(ValueError, match="loaded by the code of a repository; to push it, import"):
        salience.push_to_hub("somebody/round-trip")


WITHOUT_THE_PACKAGE = f"""
import json
import sys

class Without:
    "A finder of modules that does not find some."

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, *arguments):
        absent = name.partition(".")[0] in sys.argv
        return None if absent else self.finder.find_spec(name, *arguments)

sys.meta_path[:] = map(Without, sys.meta_path)
from transformers import pipeline

salience = pipeline(
    "narrative-salience", model={NAME!r}, revision="with-code", trust_remote_code=True,
    device="cpu", dtype="float32",
)
print(json.dumps(list(salience({TEXT!r})["scores"].values())))
"""


@pytest.mark.slow
def test_self_contained_form_needs_few_libraries(checkpoint, expected, hub, tmp_path):
    """What only some functions need may be missing."""
    push_encoder(checkpoint, NAME, with_code=True)
    environment = {"HF_ENDPOINT": hub.address, "HF_TOKEN": "secret", "HF_HUB_OFFLINE": "0"}
    environment |= {"HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home")}
    absent = "narrative_twins pandas matplotlib peft sentence_transformers datasets".split()
    printed = run_python("-c", WITHOUT_THE_PACKAGE, *absent, env=os.environ | environment)
    assert np.allclose(json.loads(printed), expected, atol=1e-5)


def test_libraries_that_the_self_contained_form_needs_are_named_before_it_is_loaded(own):
    """By transformers, which finds them in the imports of its modules."""
    content = self_contained_files(encoder_files(own, NAME), CheckpointSettings("mean"), NAME)
    found = set()
    for name in content:
        if name.endswith(".py"):
            (own / name).write_bytes(content[name])
            found |= {library for library in get_imports(own / name) if "." not in library}
    known = {"numpy", "torch", "transformers", "huggingface_hub", "safetensors", "syntok"}
    assert known <= found
    assert not found & {"peft", "matplotlib", "pandas", "datasets"}


def test_card_of_the_self_contained_form_says_how_to_load_it(own, hub):
    (own / "README.md").write_text("---\nlicense: mit\n---\n# My own card\n")
    push_encoder(own, NAME, with_code=True)
    plain, card = (
        hub.files("models", NAME, branch)["README.md"].decode() for branch in ("main", "with-code")
    )
    words = f'model="{NAME}", revision="with-code", trust_remote_code=True'
    assert words in card and words not in plain
    assert ModelCard(card).data.to_dict() == ModelCard(plain).data.to_dict()
    assert card.endswith("# My own card\n")


def test_only_files_of_the_encoder_are_pushed(own, checkpoint, hub):
    secrets = (
        "checkpoint-5/optimizer.pt training_args.bin pytorch_model.bin .env rows.jsonl eval.csv"
        " 9_private/keys.json 1_Pooling/keys.json 1_Pooling/sub/config.json vocab.env"
        " vocab.json.bak secret.safetensors model-00001-of-00002.safetensors secret.model"
        " sentence_secret_config.json LICENSE.key onnx/notes.txt"
    )
    for name in secrets.split():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text("secret")
    push_encoder(own, NAME)
    assert set(hub.files("models", NAME)) == {*contents(checkpoint), "README.md", ".gitattributes"}
    assert all(b"secret" not in content for content in hub.files("models", NAME).values())


@pytest.mark.parametrize("name", ["tokenizer.json", "1_Pooling", "README.md"])
def test_links_out_of_the_folder_are_refused(own, tmp_path, name):
    secret = tmp_path / "secret"
    (own / "README.md").write_text("secret")
    shutil.move(own / name, secret)
    (own / name).symlink_to(secret)
    if name == "README.md":
        assert b"secret" not in encoder_files(own, NAME)["README.md"]
        return
    with pytest.raises(ValueError, match=f"{name}.* is a link to .*secret.*, outside of the fol"):
        encoder_files(own, NAME)


def test_weights_in_several_files_are_pushed(hub, tmp_path):
    encoder = small()
    encoder.save_pretrained(tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    encoder.model.save_pretrained(tmp_path / "run", max_shard_size="20KB")
    push_encoder(tmp_path / "run", "somebody/sharded", facts=FACTS)
    assert np.allclose(scores(load("somebody/sharded").encoder), scores(encoder), atol=1e-5)


def test_folder_of_a_plain_model_is_pushed_in_the_layout_of_others(bert_folder, hub, tmp_path):
    push_encoder(bert_folder, NAME, facts=FACTS)
    found = SentenceTransformer(str(pushed(hub, tmp_path / "pushed")), device="cpu")
    assert found.encode("Omar ran.").shape == (32,)
    text = hub.files("models", NAME)["README.md"].decode()
    for words in ("a random BERT", "none at all (CC0)", "| 0.250 |", f'model="{NAME}"'):
        assert words in text
    (result,) = ModelCard(text).data.eval_results
    found = (result.dataset_type, result.dataset_split, result.metric_value)
    assert found == ("somebody/stories", "validation", 0.25)


def test_repository_with_files_is_not_overwritten(checkpoint, hub):
    encoder = StoryEncoder.from_pretrained(checkpoint, device="cpu")
    assert push_encoder(encoder, NAME, commit_message="First") == f"{hub.address}/{NAME}"
    before = hub.repositories["models", NAME]["main"].copy()
    salience = load(str(checkpoint))
    with pytest.raises(HubError, match=r"already on the Hub, with \d+ files; .*--update"):
        salience.push_to_hub(NAME, facts=FACTS)
    assert hub.repositories["models", NAME]["main"] == before
    salience.push_to_hub(NAME, commit_message="Facts", facts=FACTS, update=True, private=True)
    assert hub.messages == ["First", "Facts"]
    assert "a random BERT" in hub.files("models", NAME)["README.md"].decode()


FAULTS = {
    "drop": "the connection failed.* run it again",
    401: "hf auth login.*401",
    403: "no write access.*403",
    409: "run it again.*409",
    500: "run it again.*500",
}


def test_refused_pushes(checkpoint, hub, monkeypatch):
    """No file is changed on the Hub or locally, and the same call succeeds later."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    before = contents(checkpoint)
    encoder = StoryEncoder.from_pretrained(checkpoint, device="cpu")
    for fault, fix in FAULTS.items():
        for failing in ("/lfs/", "/preupload/", "/commit/") if fault == "drop" else ("/commit/",):
            hub.fault = lambda method, path, part=failing, fault=fault: (
                fault if part in path else None
            )
            with pytest.raises(HubError, match=f"{NAME} can't be pushed: .*{fix}"):
                push_encoder(encoder, NAME)
            assert set(hub.files("models", NAME)) == {".gitattributes"}
    hub.fault = lambda method, path: None
    push_encoder(checkpoint, NAME)
    assert "model.safetensors" in hub.files("models", NAME)
    assert contents(checkpoint) == before


def test_pushes_that_can_not_start(own, checkpoint, hub, tmp_path, monkeypatch, capsys):
    with pytest.raises(FileNotFoundError, match="is not a local folder"):
        push_encoder(tmp_path / "nothing", NAME)
    with pytest.raises(ValueError, match="is not a Hub id"):
        push_encoder(checkpoint, "no/hub/id")
    (own / "model.safetensors").unlink()
    with pytest.raises(OSError, match="can't be loaded"):
        push_encoder(own, NAME)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE"):
        push_encoder(checkpoint, NAME)
    assert hub.asked == []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "wrong-token")
    assert main(["push", str(checkpoint), "--to", NAME]) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"narrative-twins: {NAME} can't be pushed")
    assert "hf auth login" in message and "wrong-token" not in message
    assert hub.repositories == {}


def test_dry_run_sends_no_request(checkpoint, hub, tmp_path, capsys):
    facts = tmp_path / "facts.yaml"
    facts.write_text("name: Mine\nfigures:\n- {metric: AUC, value: 0.5, dataset: Stories}\n")
    options = ["--to", NAME, "--dry-run", "--facts", str(facts)]
    assert main(["push", str(checkpoint), *options]) == 0
    shown = capsys.readouterr().out
    assert "model.safetensors" in shown and "# Mine" in shown and f'model="{NAME}"' in shown
    assert hub.asked == []


def test_private_encoder_and_then_offline(checkpoint, expected, hub, monkeypatch):
    """All files come from the Hub with the user's token; after one load, no network is needed."""
    hub.put("models", "somebody/private", checkpoint)
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(OSError):
        load("somebody/private")
    assert hub.given == []
    monkeypatch.setenv("HF_TOKEN", "secret")
    for _ in range(2):
        assert np.allclose(scores(load("somebody/private").encoder), expected, atol=1e-5)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


# Adapters: what is pushed is one plain checkpoint, which needs no adapter library.


def adapted(folder: str) -> SentenceTransformer:
    """An encoder with an adapter of random weights."""
    peft = pytest.importorskip("peft")
    model = trainable_encoder(folder, pooling="first").cpu()
    targets = ["query", "value"]
    model.add_adapter(peft.LoraConfig(r=2, target_modules=targets, init_lora_weights=False))
    return model.eval()


def wrapped(model: SentenceTransformer, folder: Path) -> Path:
    """A folder of the adapter alone, as `transformers` writes it: no settings, no tokenizer."""
    model[0].auto_model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("form", ["wrapped", "loaded"])
def test_adapters_are_merged_into_a_plain_encoder(form, bert_folder, hub, tmp_path, monkeypatch):
    model = adapted(bert_folder)
    # The folder of the adapter alone has the pooling of its base.
    pooling = "mean" if form == "wrapped" else "first"
    expected = scores(StoryEncoder.from_sentence_transformer(model, pooling=pooling))
    base = "a local bert model"
    if form == "wrapped":
        push_encoder(wrapped(model, tmp_path / "given"), NAME, facts=EncoderFacts(name="Mine"))
    else:
        model[0].auto_model.config._name_or_path = base = "somebody/base"
        push_encoder(model, NAME)
    assert has_adapter(model[0].auto_model), "the encoder of the user keeps its adapter"
    folder = pushed(hub, tmp_path / "pushed")
    assert not list(folder.glob("adapter*"))
    card = ModelCard.load(folder / "README.md")
    assert base in card.text and ", with an adapter (LORA) merged into it" in card.text
    assert card.data.base_model == (None if form == "wrapped" else base)
    assert str(tmp_path) not in card.content
    monkeypatch.setitem(sys.modules, "peft", None)
    assert np.allclose(scores(load(str(folder)).encoder), expected, atol=1e-6)


def test_adapter_on_the_hub_is_loaded_with_its_base_on_the_hub(bert_folder, hub, tmp_path):
    model = adapted(bert_folder)
    expected = scores(StoryEncoder.from_sentence_transformer(model, pooling="mean"))
    folder = wrapped(model, tmp_path / "given")
    settings = (folder / "adapter_config.json").read_text()
    (folder / "adapter_config.json").write_text(settings.replace(bert_folder, "somebody/base"))
    hub.put("models", "somebody/base", Path(bert_folder))
    hub.put("models", "somebody/adapter", folder)
    trained = trainable_encoder("somebody/adapter").cpu()
    loaded = load("somebody/adapter").encoder
    for encoder in (loaded, StoryEncoder.from_sentence_transformer(trained)):
        assert np.allclose(scores(encoder), expected, atol=1e-6)


def test_adapters_that_can_not_be_merged_are_refused_before_the_push(bert_folder, hub):
    peft = pytest.importorskip("peft")
    config = peft.PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    prefixed = peft.get_peft_model(AutoModel.from_pretrained(bert_folder), config)
    with pytest.raises(ValueError, match=r"PREFIX_TUNING\) can't be merged"):
        push_encoder(StoryEncoder(prefixed, AutoTokenizer.from_pretrained(bert_folder)), NAME)
    assert hub.asked == []
