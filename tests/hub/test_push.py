"""Pushes of encoders to the Hub, with its real client and a local server: what is pushed loads
elsewhere with the same scores."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from transformers import pipeline

from narrative_twins import (
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    StoryEncoder,
    push_encoder,
    score_stories,
    trainable_encoder,
)
from narrative_twins.commands.cli import main
from narrative_twins.encoder.adapters import has_adapter
from narrative_twins.hub.cards import PLACEHOLDER_ID, encoder_card
from narrative_twins.hub.facts import EncoderFacts, Figure
from narrative_twins.hub.push import HubError

from support.hub import Hub
from support.models import modules, small

pytestmark = pytest.mark.usefixtures("any_release_of_peft")

TEXT = "Omar cleaned a window. A man cried. Omar wrote a word."
NAME = "somebody/encoder"
"""The name where nothing is loaded: libraries keep what they found under a name in this process."""
FIGURE = Figure("Spearman of summarization", 0.25, "Stories", "somebody/stories", "validation")
FACTS = EncoderFacts(base_model="a random BERT", figures=[FIGURE])


@pytest.fixture(scope="module")
def checkpoint(bert_folder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    parts = [modules.Transformer(bert_folder), modules.Pooling(32, pooling_mode="cls")]
    SentenceTransformer(modules=parts).save_pretrained(str(folder), create_model_card=False)
    return folder


def load(name: str, **options):
    return pipeline("narrative-salience", model=name, device="cpu", dtype="float32", **options)


def scores(encoder: StoryEncoder) -> np.ndarray:
    (result,) = score_stories([TEXT], encoder)
    return np.array([list(values) for values in result.scores.values()])


def names(folder: Path) -> set[str]:
    paths = folder.rglob("*")
    return {path.relative_to(folder).as_posix() for path in paths if path.is_file()}


def pushed(hub: Hub, folder: Path) -> Path:
    """The files that were pushed, in a folder."""
    for name, content in hub.files("models", NAME).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_encoder_round_trip(checkpoint, hub, tmp_path, capsys):
    """Pushed by the command, loaded from the Hub; of its folder nothing else is pushed."""
    own = shutil.copytree(checkpoint, tmp_path / "own")
    secrets = (
        "checkpoint-5/optimizer.pt training_args.bin pytorch_model.bin .env rows.jsonl eval.csv"
        " 9_private/keys.json 1_Pooling/keys.json 1_Pooling/sub/config.json vocab.env"
        " vocab.json.bak secret.safetensors secret.model LICENSE.key"
    )
    for name in secrets.split():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text("secret")
    assert main(["push", str(own), "--to", "somebody/round-trip", "--private"]) == 0
    assert capsys.readouterr().out == f"{hub.address}/somebody/round-trip\n"
    assert "somebody/round-trip" in hub.private
    files = hub.files("models", "somebody/round-trip")
    assert set(files) == {*names(checkpoint), "README.md", ".gitattributes"}
    assert all(b"secret" not in content for content in files.values())
    salience = load("somebody/round-trip")
    assert salience.encoder.pooling == "first"
    assert np.allclose(scores(salience.encoder), scores(load(str(checkpoint)).encoder), atol=1e-5)


def test_weights_in_several_files_are_pushed(hub, tmp_path):
    encoder = small()
    encoder.save_pretrained(tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    encoder.model.save_pretrained(tmp_path / "run", max_shard_size="20KB")
    push_encoder(tmp_path / "run", "somebody/sharded", facts=FACTS)
    assert np.allclose(scores(load("somebody/sharded").encoder), scores(encoder), atol=1e-5)


def test_folder_of_a_plain_model_is_pushed_in_the_layout_of_others(bert_folder, hub, tmp_path):
    push_encoder(bert_folder, NAME, facts=FACTS, revision="draft")
    assert set(hub.files("models", NAME)) == {".gitattributes"}
    files = hub.files("models", NAME, "draft")
    hub.repositories["models", NAME]["main"].append(files)
    found = SentenceTransformer(str(pushed(hub, tmp_path / "pushed")), device="cpu")
    assert found.encode("Omar ran.").shape == (32,)
    (result,) = ModelCard(files["README.md"].decode()).data.eval_results
    assert (result.dataset_type, result.metric_value) == ("somebody/stories", 0.25)


def test_repository_with_files_is_not_overwritten(checkpoint, hub):
    salience = load(str(checkpoint))
    url = f"{hub.address}/{NAME}"
    assert push_encoder(salience.encoder, NAME, commit_message="First") == url
    with pytest.raises(HubError, match=r"already on the Hub, with \d+ files; .*--update"):
        salience.push_to_hub(NAME, facts=FACTS)
    salience.push_to_hub(NAME, commit_message="Facts", facts=FACTS, update=True)
    assert hub.messages == ["First", "Facts"]
    assert "a random BERT" in hub.files("models", NAME)["README.md"].decode()


def test_pipeline_pushes_the_card_of_its_checkpoint_unless_the_weights_changed(
    checkpoint, hub, tmp_path
):
    folder = tmp_path / "run"
    shutil.copytree(checkpoint, folder)
    (folder / "README.md").write_text(f"---\nlicense: mit\n---\nMine, {NAME}.", encoding="utf-8")
    load(str(folder)).push_to_hub("somebody/same")
    push_encoder(folder, "somebody/folder")
    cards = [
        hub.files("models", name)["README.md"] for name in ("somebody/same", "somebody/folder")
    ]
    assert cards[0] == cards[1] and b"Mine" in cards[0]
    salience = load(str(folder))
    next(salience.model.parameters()).data += 1
    salience.push_to_hub("somebody/changed")
    assert b"Mine" not in hub.files("models", "somebody/changed")["README.md"]
    load("somebody/same").push_to_hub("somebody/again")
    assert b"Mine" in hub.files("models", "somebody/again")["README.md"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooling": "mean"}, 'pooling `"mean"` in place of `"first"`'),
        ({"prompt": "Story: "}, 'prompt `"Story: "` in place of `""`'),
    ],
)
def test_figures_are_those_of_the_settings_of_the_checkpoint(
    options, words, checkpoint, hub, tmp_path
):
    """A pipeline with another pooling or prompt has the same weights, but other vectors."""
    folder = shutil.copytree(checkpoint, tmp_path / "run")
    card = str(encoder_card(FACTS))
    (folder / "README.md").write_text(card, encoding="utf-8")
    load(str(folder), **options).push_to_hub(NAME)
    changed = ModelCard(hub.files("models", NAME)["README.md"].decode())
    assert words in changed.text and "0.25" not in changed.content
    assert changed.data.eval_results is None and "## Limitations" in changed.text
    load(str(folder), pooling="first").push_to_hub("somebody/same")
    same = hub.files("models", "somebody/same")["README.md"].decode()
    assert same == card.replace(PLACEHOLDER_ID, "somebody/same")
    (folder / "README.md").write_text("# Mine", encoding="utf-8")
    load(str(folder), **options).push_to_hub(NAME, update=True)
    plain = hub.files("models", NAME)["README.md"].decode()
    assert "# Mine" in plain and words in plain


FAULTS = {
    "drop": "the connection failed.* run it again",
    403: "write access.*403",
    500: "run it again.*500",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_refused_pushes(fault, checkpoint, hub, monkeypatch):
    """No file is changed on the Hub, and the same call succeeds later."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    hub.fault = lambda method, path: fault if "/commit/" in path else None
    with pytest.raises(HubError, match=f"{NAME} can't be pushed: .*{FAULTS[fault]}"):
        push_encoder(checkpoint, NAME)
    assert set(hub.files("models", NAME)) == {".gitattributes"}
    hub.fault = lambda method, path: None
    push_encoder(checkpoint, NAME)
    assert "model.safetensors" in hub.files("models", NAME)


def test_what_cant_be_pushed(checkpoint, hub, tmp_path, monkeypatch, capsys):
    with pytest.raises(OSError, match="nothing.*can't be loaded"):
        push_encoder(tmp_path / "nothing", NAME)
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
    (facts := tmp_path / "facts.yaml").write_text("name: Mine")
    options = ["--to", NAME, "--dry-run", "--facts", str(facts)]
    assert main(["push", str(checkpoint), *options]) == 0
    shown = capsys.readouterr().out
    assert "model.safetensors" in shown and "# Mine" in shown and f'model="{NAME}"' in shown
    assert hub.asked == []


# Adapters: what is pushed is one plain checkpoint, which needs no adapter library.


def adapted(folder: str) -> SentenceTransformer:
    """An encoder with an adapter of random weights, which are small, as is the rounding of the
    weights that they are merged into."""
    peft = pytest.importorskip("peft")
    model = trainable_encoder(folder, pooling="first").cpu()
    options = {"r": 2, "lora_alpha": 1, "init_lora_weights": False}
    model.add_adapter(peft.LoraConfig(target_modules=["query", "value"], **options))
    return model.eval()


@pytest.mark.parametrize("form", ["folder", "loaded"])
def test_adapters_are_merged_into_a_plain_encoder(form, bert_folder, hub, tmp_path, monkeypatch):
    model = adapted(bert_folder)
    # The folder of the adapter alone has the pooling of its base.
    pooling = "mean" if form == "folder" else "first"
    expected = scores(StoryEncoder.from_sentence_transformer(model, pooling=pooling))
    base = "a local bert model"
    if form == "folder":
        model[0].auto_model.save_pretrained(tmp_path / "adapter")
        push_encoder(tmp_path / "adapter", NAME, facts=EncoderFacts(name="Mine"))
    else:
        model[0].auto_model.config._name_or_path = base = "somebody/base"
        push_encoder(model, NAME)
    assert has_adapter(model[0].auto_model), "the encoder of the user keeps its adapter"
    folder = pushed(hub, tmp_path / "pushed")
    assert not list(folder.glob("adapter*"))
    card = ModelCard.load(folder / "README.md")
    assert base in card.text and ", with an adapter (LORA) merged into it" in card.text
    assert card.data.base_model == (None if form == "folder" else base)
    assert str(tmp_path) not in card.content
    monkeypatch.setitem(sys.modules, "peft", None)
    assert np.allclose(scores(load(str(folder)).encoder), expected, atol=1e-6)


def test_adapter_on_the_hub_is_loaded_with_its_base_on_the_hub(bert_folder, hub, tmp_path):
    model = adapted(bert_folder)
    expected = scores(StoryEncoder.from_sentence_transformer(model, pooling="mean"))
    model[0].auto_model.save_pretrained(tmp_path / "adapter")
    settings = tmp_path / "adapter" / "adapter_config.json"
    settings.write_text(settings.read_text().replace(bert_folder, "somebody/base"))
    hub.put("models", "somebody/base", Path(bert_folder))
    hub.put("models", "somebody/adapter", tmp_path / "adapter")
    trained = trainable_encoder("somebody/adapter").cpu()
    loaded = load("somebody/adapter").encoder
    for encoder in (loaded, StoryEncoder.from_sentence_transformer(trained)):
        assert np.allclose(scores(encoder), expected, atol=1e-6)


@pytest.mark.parametrize("has_card", [True, False])
def test_the_command_pushes_an_adapter_alone(has_card, bert_folder, hub, tmp_path, capsys):
    """As `save_pretrained` of peft writes it, with its own card or one that names the base."""
    model = adapted(bert_folder)
    expected = scores(StoryEncoder.from_sentence_transformer(model, pooling="mean"))
    folder = tmp_path / "adapter"
    model[0].auto_model.save_pretrained(folder)
    (folder / "optimizer.pt").write_text("secret")
    assert main(["push", str(folder), "--to", NAME]) == 1
    assert "is not on the Hub" in capsys.readouterr().err and hub.repositories == {}
    settings = folder / "adapter_config.json"
    settings.write_text(settings.read_text().replace(bert_folder, "somebody/base"))
    hub.put("models", "somebody/base", Path(bert_folder))
    if has_card:
        (folder / "README.md").write_text("---\nlicense: mit\n---\nMine.", encoding="utf-8")
    name = f"somebody/alone-{has_card}"
    assert main(["push", str(folder), "--to", name]) == 0
    files = hub.files("models", name)
    adapter = {"adapter_config.json", "adapter_model.safetensors"}
    assert files.keys() == {*adapter, "README.md", ".gitattributes"}
    card = files["README.md"].decode()
    assert ("Mine." in card) == has_card == ("base_model: somebody/base" not in card)
    assert np.allclose(scores(load(name).encoder), expected, atol=1e-6)
    assert main(["push", str(folder), "--to", name, "--merged", "--update"]) == 0
    files = hub.files("models", name)
    assert "model.safetensors" in files and not adapter & files.keys()


# By trainers: the encoder alone, with a card of the run


SECRET = "The heliotrope marmoset of Zanzibar whistled."
ROWS = [{"story": ["Omar ran.", SECRET], "twin": ["He went fast.", "He fell down."]}] * 4
FILES = {"modules.json", "config.json", "model.safetensors", "tokenizer.json", "README.md"}
STATE = ("checkpoint", "curves", "eval", "training", "runs", "optimizer", "rng_state")
SETTINGS = {"report_to": "none", "use_cpu": True, "hub_model_id": NAME}


def test_trainer_pushes_its_encoder_with_a_card_of_the_run(bert_folder, hub, tmp_path):
    """What the card says is in tests/training/test_trainer.py."""
    arguments = NarrativeTwinsTrainingArguments(str(tmp_path / "run"), max_steps=1, **SETTINGS)
    rows = Dataset.from_list(ROWS)
    trainer = NarrativeTwinsTrainer(trainable_encoder(bert_folder), arguments, rows)
    hub.fault = lambda method, path: 403 if "/commit/" in path else None
    trainer.train()
    with pytest.raises(HubError, match="write access"):
        trainer.push_to_hub()
    hub.fault = lambda method, path: None
    trainer.facts = {"training_data": "four rows (CC0)"}
    assert trainer.push_to_hub(license="cc0-1.0") == f"{hub.address}/{NAME}"
    files = hub.files("models", NAME)
    assert FILES <= set(files) and not [name for name in files if name.startswith(STATE)]
    text = files["README.md"].decode()
    assert "license: cc0-1.0" in text and "four rows (CC0)" in text and f'model="{NAME}"' in text
    assert SECRET not in text and str(tmp_path) not in text and bert_folder not in text
    arguments.hub_model_id = None
    assert trainer.push_to_hub() == f"{hub.address}/me/run", "the user of the token"


@pytest.mark.slow
def test_trained_adapter_is_saved_and_pushed_as_a_plain_encoder(bert_folder, hub, tmp_path):
    """Its checkpoints have the adapter alone, from which a run resumes."""
    peft = pytest.importorskip("peft")

    def trained(checkpoint=None):
        adapter = peft.LoraConfig(r=2, target_modules=["query", "value"])
        model = trainable_encoder(bert_folder, adapter=adapter).cpu()
        settings = {"max_steps": 2, "save_steps": 1, "learning_rate": 0.01, **SETTINGS}
        arguments = NarrativeTwinsTrainingArguments(str(tmp_path / "run"), **settings)
        trainer = NarrativeTwinsTrainer(model, arguments, Dataset.from_list(ROWS))
        trainer.train(checkpoint)
        return trainer

    def weights(name) -> np.ndarray:
        encoder = StoryEncoder.from_pretrained(str(name), device="cpu", dtype="float32")
        return encoder.model.encoder.layer[0].attention.self.query.weight.detach().numpy()

    trainer = trained()
    trainer.save_encoder(tmp_path / "final")
    trainer.push_to_hub()
    assert not [name for name in hub.files("models", NAME) if name.startswith("adapter")]
    final = weights(tmp_path / "final")
    assert np.allclose(final, weights(NAME))
    assert not np.allclose(final, weights(bert_folder), atol=1e-4)
    assert "with an adapter (LORA) merged" in hub.files("models", NAME)["README.md"].decode()
    assert has_adapter(trainer.model[0].auto_model)
    with pytest.raises(ValueError, match="is not on the Hub"):
        trainer.push_to_hub(merged=False)
    trainer.transformer.peft_config["default"].base_model_name_or_path = "somebody/base"
    hub.put("models", "somebody/base", Path(bert_folder))
    trainer.push_to_hub(merged=False)
    assert "model.safetensors" not in hub.files("models", NAME)
    assert np.allclose(final, weights(NAME), atol=1e-6)
    checkpoint = tmp_path / "run" / "checkpoint-1"
    assert (checkpoint / "adapter_model.safetensors").is_file()
    trainer.facts = {"training_data": "four rows (CC0)"}
    trainer.save_encoder(tmp_path / "alone", merged=False)
    push_encoder(tmp_path / "alone", NAME, update=True)
    card = hub.files("models", NAME)["README.md"].decode()
    assert "four rows (CC0)" in card and "with an adapter (LORA) merged into it" in card
    trained(str(checkpoint)).save_encoder(tmp_path / "resumed")
    assert np.allclose(weights(tmp_path / "resumed"), final, atol=1e-5)
