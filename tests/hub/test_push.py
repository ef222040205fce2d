"""Pushes to the Hub, with its real client and a local server: what is pushed loads elsewhere with
the same scores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict
from huggingface_hub import HfApi, ModelCard
from sentence_transformers import SentenceTransformer
from transformers import pipeline

from narrative_twins import (
    MaskedLanguageModelTrainer,
    MaskedLanguageModelTrainingArguments,
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    SalienceEvaluator,
    StoryEncoder,
    trainable_encoder,
)
from narrative_twins.commands.cli import main
from narrative_twins.hub.facts import DatasetFacts, EncoderFacts, Figure
from narrative_twins.hub.layout import encoder_layout
from narrative_twins.hub.push import HTTP_ERRORS, HubError, push_dataset, push_encoder, push_metric

from support.hub import Hub, commit_of, running
from support.models import modules
from support.processes import COMMAND, run_command

TEXT = "Omar cleaned a window. A man cried. Omar wrote a word."
NAME = "somebody/encoder"
LOAD = f"""
import json
import narrative_twins
from transformers import pipeline

salience = pipeline("narrative-salience", model={NAME!r}, device="cpu", dtype="float32")
print(json.dumps([salience.encoder.pooling, salience({TEXT!r})["scores"]["deletion"]]))
"""
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
        absent = name.partition(".")[0] in ("narrative_twins", *sys.argv[1:])
        return None if absent else self.finder.find_spec(name, *arguments)

sys.meta_path[:] = map(Without, sys.meta_path)
from transformers import pipeline

salience = pipeline(
    "narrative-salience", model={NAME!r}, revision="with-code", trust_remote_code=True, device="cpu", dtype="float32"
)
print(json.dumps([salience.encoder.pooling, salience({TEXT!r})["scores"]["deletion"]]))
"""
FACTS = EncoderFacts(
    name="An encoder of one's own",
    base_model="a random BERT",
    training_data="none at all (CC0)",
    figures=[
        Figure("Spearman of summarization", 0.25, "Stories", "somebody/stories", "validation")
    ],
    license="apache-2.0",
)


def fresh(
    code: str, home: Path, *command: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code or a command in a new process with its own cache."""
    settings = {"HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    return run_command(
        *(command or [sys.executable, "-c", code]), env=os.environ | settings | environment
    )


@pytest.fixture(scope="module")
def checkpoint(bert_folder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    parts = [modules.Transformer(bert_folder), modules.Pooling(32, pooling_mode="cls")]
    SentenceTransformer(modules=parts).save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.fixture(scope="module")
def expected(checkpoint) -> list:
    """Pooling and scores of the encoder."""
    local = pipeline("narrative-salience", model=str(checkpoint), device="cpu", dtype="float32")
    return ["first", pytest.approx(local(TEXT)["scores"]["deletion"], abs=1e-5)]


def output_of(done: subprocess.CompletedProcess[str]):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_private_encoder_from_the_hub_and_then_offline(checkpoint, expected, tmp_path):
    """All files come from the Hub with the user's token; after one load, no network is needed."""
    hub = Hub("secret")
    hub.put("models", NAME, checkpoint)
    with running(hub):
        refused = fresh(LOAD, tmp_path, HF_ENDPOINT=hub.address, HF_TOKEN="wrong")
        assert refused.returncode != 0
        assert hub.given == []
        assert (
            output_of(fresh(LOAD, tmp_path, HF_ENDPOINT=hub.address, HF_TOKEN="secret")) == expected
        )
        assert {
            "model.safetensors",
            "tokenizer.json",
            "modules.json",
            "1_Pooling/config.json",
        } <= set(hub.given)
    assert output_of(fresh(LOAD, tmp_path, HF_HUB_OFFLINE="1")) == expected


def test_encoder_round_trip(checkpoint, expected, tmp_path):
    """Pushed by the command, loaded elsewhere: with the package and, from a branch, without it."""
    hub, before = Hub("secret"), contents(checkpoint)
    with running(hub):
        environment = {"HF_ENDPOINT": hub.address, "HF_TOKEN": "secret"}
        command = [COMMAND, "push", str(checkpoint), "--to", NAME, "--private", "--with-code"]
        done = fresh("", tmp_path / "home", *command, **environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{hub.address}/{NAME}\n"
        assert NAME in hub.private
        assert contents(checkpoint) == before
        assert output_of(fresh(LOAD, tmp_path / "one", **environment)) == expected
        assert output_of(fresh(WITHOUT_THE_PACKAGE, tmp_path / "other", **environment)) == expected
    files = hub.files("models", NAME)
    assert not any(name.endswith(".py") for name in files)
    assert "custom_pipelines" not in json.loads(files["config.json"])
    assert f'model="{NAME}"' in files["README.md"].decode()


def test_self_contained_form_names_the_libraries_it_needs(checkpoint, expected, hub, tmp_path):
    """Before it is loaded, not in the first call; what only some functions need may be missing."""
    push_encoder(checkpoint, NAME, with_code=True)
    environment = {"HF_ENDPOINT": hub.address, "HF_TOKEN": "secret"}

    def without(*libraries: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT_THE_PACKAGE, *libraries]
        return fresh("", tmp_path / libraries[0], *command, **environment)

    refused = without("syntok")
    assert refused.returncode != 0
    assert "not found in your environment: syntok. Run `pip install syntok`" in refused.stderr
    assert (
        output_of(without("pandas", "matplotlib", "peft", "sentence_transformers", "datasets"))
        == expected
    )


def test_card_of_the_self_contained_form_says_how_to_load_it(checkpoint, hub, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "own")
    (tmp_path / "own" / "README.md").write_text("---\nlicense: mit\n---\n# My own card\n")
    for number, (folder, facts) in enumerate(((checkpoint, FACTS), (tmp_path / "own", None))):
        name = f"somebody/encoder-{number}"
        push_encoder(folder, name, facts=facts, with_code=True)
        plain, card = (
            hub.files("models", name, branch)["README.md"].decode()
            for branch in ("main", "with-code")
        )
        for words in (
            "pip install transformers torch syntok",
            (
                f'pipeline("narrative-salience", model="{name}", revision="with-code",'
                " trust_remote_code=True)"
            ),
        ):
            assert words in card and words not in plain
        assert ModelCard(card).data.to_dict() == ModelCard(plain).data.to_dict()
        assert card.endswith(plain.partition("\n---\n")[2].lstrip("\n"))


def test_only_files_of_the_encoder_are_pushed(checkpoint, hub, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "run")
    for name in (
        "checkpoint-5/optimizer.pt",
        "training_args.bin",
        "pytorch_model.bin",
        ".env",
        "rows.jsonl",
        "eval.csv",
        "9_private/keys.json",
        "1_Pooling/keys.json",
        "1_Pooling/sub/config.json",
        "vocab.env",
        "vocab.json.bak",
        "secret.safetensors",
        "model-00001-of-00002.safetensors",
        "secret.model",
        "sentence_secret_config.json",
        "LICENSE.key",
    ):
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text("secret")
    push_encoder(tmp_path / "run", NAME)
    pushed = hub.files("models", NAME)
    assert {
        path.relative_to(checkpoint).as_posix() for path in checkpoint.rglob("*") if path.is_file()
    } | {"README.md", ".gitattributes"} == set(pushed)
    assert all(b"secret" not in content for content in pushed.values())


@pytest.mark.parametrize("name", ["tokenizer.json", "1_Pooling/config.json", "LICENSE"])
def test_links_out_of_the_folder_are_refused(checkpoint, hub, tmp_path, name):
    shutil.copytree(checkpoint, tmp_path / "run")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    (tmp_path / "run" / name).symlink_to(tmp_path / "secret")
    with pytest.raises((OSError, ValueError)):
        push_encoder(tmp_path / "run", NAME)
    with pytest.raises(ValueError, match=f"{name} is a link to .*secret, outside of the folder"):
        encoder_layout(tmp_path / "run")
    assert not hub.repositories


def test_linked_module_folder_and_card_are_not_followed(checkpoint, hub, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "run")
    shutil.move(tmp_path / "run" / "1_Pooling", tmp_path / "other")
    (tmp_path / "run" / "1_Pooling").symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match="outside of the folder"):
        encoder_layout(tmp_path / "run")
    shutil.copytree(checkpoint, tmp_path / "second")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "second" / "README.md").symlink_to(tmp_path / "secret")
    push_encoder(tmp_path / "second", NAME)
    assert b"secret" not in hub.files("models", NAME)["README.md"]


@pytest.mark.parametrize(
    "index", [{}, [], {"weight_map": {"a": "../../secret"}}, {"weight_map": {"a": "optimizer.pt"}}]
)
def test_index_of_weights_names_only_weights(checkpoint, tmp_path, index):
    shutil.copytree(checkpoint, tmp_path / "run")
    (tmp_path / "run" / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="does not list weights like"):
        encoder_layout(tmp_path / "run")


def test_weights_in_several_files_are_pushed(bert_folder, hub, tmp_path):
    encoder = StoryEncoder.from_pretrained(bert_folder, device="cpu")
    encoder.save_pretrained(tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    encoder.model.save_pretrained(tmp_path / "run", max_shard_size="20KB")
    push_encoder(tmp_path / "run", NAME, facts=FACTS)
    shards = [name for name in hub.files("models", NAME) if name.startswith("model-")]
    assert len(shards) > 1 and "model.safetensors.index.json" in hub.files("models", NAME)


def test_second_commit_that_fails_says_what_is_there(checkpoint, hub, monkeypatch):
    commit = HfApi.create_commit

    def fail_second(self, *args, revision=None, **options):
        if revision == "with-code":
            raise HTTP_ERRORS[0]("the connection broke")
        return commit(self, *args, revision=revision, **options)

    monkeypatch.setattr(HfApi, "create_commit", fail_second)
    with pytest.raises(
        HubError,
        match="has the encoder, but the branch 'with-code' could not be pushed: .*--update",
    ):
        push_encoder(checkpoint, NAME, with_code=True)
    assert "model.safetensors" in hub.files("models", NAME)


def test_encoders_of_all_kinds_are_pushed_in_the_plain_layout(bert_folder, hub, tmp_path):
    """A plain `AutoModel` folder and a loaded encoder get the files that sentence-transformers
    needs."""
    push_encoder(bert_folder, "somebody/bare", facts=FACTS)
    push_encoder(
        StoryEncoder.from_pretrained(bert_folder, device="cpu"), "somebody/loaded", facts=FACTS
    )
    for name in ("somebody/bare", "somebody/loaded"):
        files = hub.files("models", name)
        assert {
            "modules.json",
            "1_Pooling/config.json",
            "model.safetensors",
            "tokenizer.json",
        } <= set(files)
        for path, content in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(content)
        assert SentenceTransformer(str(tmp_path / name), device="cpu").encode(
            "Omar ran."
        ).shape == (32,)


def test_card_of_an_encoder(checkpoint, hub):
    push_encoder(checkpoint, NAME, facts=FACTS)
    text = hub.files("models", NAME)["README.md"].decode()
    card = ModelCard(text)
    (result,) = card.data.eval_results
    assert (result.dataset_type, result.dataset_split, result.metric_value) == (
        "somebody/stories",
        "validation",
        0.25,
    )
    assert card.data.license == "apache-2.0"
    assert all(
        words in text
        for words in ("a random BERT", "none at all (CC0)", "| 0.250 |", f'model="{NAME}"')
    )


def test_card_in_the_folder_is_kept(checkpoint, hub, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "own")
    (tmp_path / "own" / "README.md").write_text('---\nlicense: mit\n---\nMine: model="user/name"\n')
    push_encoder(tmp_path / "own", NAME)
    assert hub.files("models", NAME)["README.md"].decode().endswith(f'Mine: model="{NAME}"\n')


def test_repository_with_files_is_not_overwritten(checkpoint, hub):
    push_encoder(checkpoint, NAME)
    before = hub.repositories["models", NAME]["main"].copy()
    with pytest.raises(HubError, match=r"already on the Hub, with \d+ files; .*--update"):
        push_encoder(checkpoint, NAME, facts=FACTS)
    assert hub.repositories["models", NAME]["main"] == before
    push_encoder(checkpoint, NAME, facts=FACTS, update=True)
    assert "a random BERT" in hub.files("models", NAME)["README.md"].decode()


@pytest.mark.parametrize("failing", ["/lfs/", "/commit/", "/preupload/"])
def test_connection_errors(failing, checkpoint, hub, monkeypatch):
    """No file is changed on the Hub or locally, and the same call succeeds later."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    before = contents(checkpoint)
    hub.fault = lambda method, path: "drop" if failing in path else None
    with pytest.raises(HubError, match="the connection to the Hub failed .* run it again"):
        push_encoder(checkpoint, NAME)
    assert set(hub.files("models", NAME)) == {".gitattributes"}
    assert contents(checkpoint) == before
    hub.fault = lambda method, path: None
    push_encoder(checkpoint, NAME)
    assert "model.safetensors" in hub.files("models", NAME)


@pytest.mark.parametrize(
    ("status", "fix"),
    [(401, "hf auth login"), (403, "no write access"), (409, "run it again"), (500, "later")],
)
def test_refused_pushes(status, fix, checkpoint, hub, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    before = contents(checkpoint)
    hub.fault = lambda method, path: status if "/commit/" in path else None
    with pytest.raises(HubError, match=rf"{NAME} can't be pushed: .*{fix}.*HTTP {status}"):
        push_encoder(checkpoint, NAME)
    assert contents(checkpoint) == before
    hub.fault = lambda method, path: None
    push_encoder(checkpoint, NAME)


def test_wrong_token(checkpoint, hub, monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", "wrong-token")
    assert main(["push", str(checkpoint), "--to", NAME]) == 1
    message = capsys.readouterr().err
    assert (
        message.startswith(f"narrative-twins: {NAME} can't be pushed")
        and "hf auth login" in message
    )
    assert "wrong-token" not in message
    assert hub.repositories == {}


def test_invalid_encoders_are_refused_before_the_push(checkpoint, hub, tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a local folder"):
        push_encoder(tmp_path / "nothing", NAME)
    shutil.copytree(checkpoint, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").unlink()
    with pytest.raises(OSError, match="can't be loaded"):
        push_encoder(tmp_path / "broken", NAME)
    with pytest.raises(ValueError, match="is not a Hub id"):
        push_encoder(checkpoint, "no/hub/id")
    assert hub.asked == []


def test_offline(checkpoint):
    with pytest.raises(HubError, match="HF_HUB_OFFLINE"):
        push_encoder(checkpoint, NAME)


def test_dry_run_sends_no_request(checkpoint, hub, tmp_path, capsys):
    (tmp_path / "facts.yaml").write_text(
        "name: Mine\nfigures:\n- {metric: AUC, value: 0.5, dataset: Stories}\n"
    )
    assert (
        main(
            [
                "push",
                str(checkpoint),
                "--to",
                NAME,
                "--dry-run",
                "--facts",
                str(tmp_path / "facts.yaml"),
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "model.safetensors" in shown and "# Mine" in shown and f'model="{NAME}"' in shown
    assert hub.asked == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("nme: x", "unknown key 'nme'"),
        ("- a", "is not a mapping"),
        ("a: [", "not valid YAML"),
        ("figures: [{x: 1}]", "metric"),
    ],
)
def test_invalid_facts(content, problem, checkpoint, tmp_path, capsys):
    (tmp_path / "facts.yaml").write_text(content)
    assert (
        main(
            [
                "push",
                str(checkpoint),
                "--to",
                NAME,
                "--dry-run",
                "--facts",
                str(tmp_path / "facts.yaml"),
            ]
        )
        == 1
    )
    assert problem in capsys.readouterr().err


LOAD_DATA = """
import json
from datasets import load_dataset

twins, labeled = (load_dataset("somebody/stories", name) for name in ("twins", "labeled"))
print(json.dumps([{split: rows.to_list() for split, rows in one.items()} for one in (twins, labeled)]))
"""


def test_round_trip_of_a_data_set_with_two_configurations(hub, tmp_path):
    twins = DatasetDict(
        train=Dataset.from_list(
            [
                {"id": "1", "story": ["Omar-7 ran."], "twin": None},
                {"id": "2", "story": ["He fell."]},
            ]
        ),
        validation=Dataset.from_list([{"id": "3", "story": ["Nadia ran."], "twin": None}]),
    )
    labeled = Dataset.from_list([{"story": ["Omar ran.", "He fell."], "counts": [1, 4]}])
    facts = DatasetFacts(
        name="Stories", description="Two kinds: {{ 7 * 7 }}", source="Made up.", license="cc0-1.0"
    )
    push_dataset({"twins": twins, "labeled": labeled}, "somebody/stories", facts=facts)
    found = output_of(fresh(LOAD_DATA, tmp_path, HF_ENDPOINT=hub.address, HF_TOKEN="secret"))
    assert found == [
        {split: rows.to_list() for split, rows in twins.items()},
        {"train": labeled.to_list()},
    ]
    card = hub.files("datasets", "somebody/stories")["README.md"].decode()
    assert "Omar-7" not in card and "{{ 7 * 7 }}" in card
    for line in (
        "| train | 2 |",
        "| validation | 1 |",
        "| `counts` | list of int64 |",
        'load_dataset("somebody/stories", "labeled")',
    ):
        assert line in card


def test_data_set_without_rows(hub):
    with pytest.raises(ValueError, match="no rows"):
        push_dataset({"twins": Dataset.from_list([])}, "somebody/stories")
    assert hub.asked == []


LOAD_METRIC = """
import json
import evaluate

metric = evaluate.load("somebody/salience_agreement")
found = metric.compute(predictions=[[0.3, 0.9, 0.1], [0.2, 0.4], [1.0]], references=[[0, 3, 1], [1, 0], [1]])
print(json.dumps(found))
"""


def test_metric_round_trip(hub, tmp_path):
    pytest.importorskip("evaluate")
    push_metric("somebody/salience_agreement")
    found = output_of(
        fresh(
            LOAD_METRIC,
            tmp_path,
            HF_ENDPOINT=hub.address,
            HF_TOKEN="secret",
            HF_EVALUATE_OFFLINE="0",
        )
    )
    # By hand: ranks 2 3 1 against 1 3 2, and 1 2 against 2 1; the metrics of a story of one
    # sentence are undefined.
    assert found == {
        "spearman": pytest.approx((0.5 - 1) / 2),
        "spearman_stories": 2,
        "auc": pytest.approx(0.25),
        "auc_stories": 2,
    }


SECRET = "The heliotrope marmoset of Zanzibar whistled."


def test_trainer_pushes_its_encoder_with_a_card_of_the_run(bert_folder, hub, tmp_path):
    """Only the encoder, in the plain layout; the card describes training and results, without any
    row."""
    rows = [
        {"story": ["Omar ran.", SECRET], "twin": ["He went fast.", "An animal cried."]}
        for _ in range(4)
    ]
    labeled = [{"story": ["Omar ran.", "He fell.", "He slept."], "counts": [0, 3, 1]}]
    arguments = NarrativeTwinsTrainingArguments(
        str(tmp_path / "run"), max_steps=2, eval_strategy="steps", eval_steps=2, report_to="none", use_cpu=True,
        hub_model_id=NAME, seed=7,
    )  # fmt: skip
    trainer = NarrativeTwinsTrainer(
        trainable_encoder(bert_folder, pooling="first"),
        arguments,
        Dataset.from_list(rows),
        Dataset.from_list(rows[:2]),
        evaluator=SalienceEvaluator(labeled, name="salience"),
    )
    trainer.train()
    trainer.facts = {"training_data": "four rows (CC0)", "evaluation_set": "One story"}
    assert trainer.push_to_hub(license="cc0-1.0") == f"{hub.address}/{NAME}"
    files = hub.files("models", NAME)
    assert {
        "modules.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "README.md",
    } <= set(files)
    assert not [
        name
        for name in files
        if name.startswith(("checkpoint", "curves", "eval", "training", "runs"))
    ]
    text = files["README.md"].decode()
    card = ModelCard(text)
    assert card.data.license == "cc0-1.0"
    found = {result.metric_name: result.metric_value for result in card.data.eval_results}
    logged = next(
        entry for entry in trainer.state.log_history if "eval_salience_deletion_auc" in entry
    )
    assert found["AUC of deletion"] == logged["eval_salience_deletion_auc"]
    assert {result.dataset_name for result in card.data.eval_results} == {"One story"}
    for words in (
        "four rows (CC0)",
        "temperature 0.05",
        "2 steps",
        "Seeds: 7",
        "one window per story",
        f'model="{NAME}"',
    ):
        assert words in text
    assert "marmoset" not in text and str(tmp_path) not in text and bert_folder not in text
    trainer.push_to_hub()
    assert len(hub.repositories["models", NAME]["main"]) == 3, (
        "a later push replaces the earlier one"
    )
    arguments.hub_model_id = None
    assert trainer.push_to_hub() == f"{hub.address}/me/run", "the user of the token"


ROWS = [{"story": ["Omar ran.", "He fell."], "twin": ["He went fast.", "He fell down."]}] * 4
TRAINERS = {
    "twins": (NarrativeTwinsTrainer, NarrativeTwinsTrainingArguments, trainable_encoder),
    "masked": (MaskedLanguageModelTrainer, MaskedLanguageModelTrainingArguments, str),
}


@pytest.mark.parametrize("kind", TRAINERS)
@pytest.mark.parametrize(("strategy", "commits"), [("every_save", 2), ("end", 0)])
def test_pushes_in_training_are_of_the_encoder_only(
    kind, strategy, commits, bert_folder, checkpoint, hub, tmp_path
):
    """Each of them complete: no arguments, optimizer states and logs, and a card of the run in
    place of a draft."""
    trainer_class, arguments_class, load = TRAINERS[kind]
    arguments = arguments_class(
        str(tmp_path / "run"), max_steps=4, save_steps=2, report_to="none", use_cpu=True, push_to_hub=True,
        hub_model_id=NAME, hub_strategy=strategy, hub_always_push=True, hub_private_repo=True,
    )  # fmt: skip
    trainer = trainer_class(load(bert_folder), arguments, Dataset.from_list(ROWS))
    trainer.train()
    pushed = [files for files in hub.repositories["models", NAME]["main"] if len(files) > 1]
    assert len(pushed) == commits
    trainer.save_model()
    pushed = [files for files in hub.repositories["models", NAME]["main"] if len(files) > 1]
    assert len(pushed) == commits + 1
    allowed = {
        path.relative_to(checkpoint).as_posix() for path in checkpoint.rglob("*") if path.is_file()
    }
    for files in pushed:
        assert set(files) <= allowed | {"README.md", ".gitattributes"}
        assert {"config.json", "model.safetensors", "modules.json", "1_Pooling/config.json"} <= set(
            files
        )
        assert f'model="{NAME}"' in files["README.md"].decode()
    assert NAME in hub.private


@pytest.mark.parametrize("kind", TRAINERS)
@pytest.mark.parametrize("strategy", ["checkpoint", "all_checkpoints"])
def test_strategies_that_push_the_state_of_training_are_refused(
    kind, strategy, bert_folder, hub, tmp_path
):
    trainer_class, arguments_class, load = TRAINERS[kind]
    settings = {"report_to": "none", "use_cpu": True, "hub_strategy": strategy}
    model = load(bert_folder)
    with pytest.raises(ValueError, match=f"hub_strategy={strategy!r}.*'every_save'"):
        trainer_class(
            model,
            arguments_class(str(tmp_path / "run"), push_to_hub=True, **settings),
            Dataset.from_list(ROWS),
        )
    assert hub.asked == []
    trainer_class(
        model, arguments_class(str(tmp_path / "run"), **settings), Dataset.from_list(ROWS)
    )


def test_failed_push_in_training_does_not_end_it(bert_folder, hub, tmp_path, caplog):
    arguments = NarrativeTwinsTrainingArguments(
        str(tmp_path / "run"), max_steps=4, save_steps=2, report_to="none", use_cpu=True, push_to_hub=True,
        hub_model_id=NAME,
    )  # fmt: skip
    trainer = NarrativeTwinsTrainer(
        trainable_encoder(bert_folder), arguments, Dataset.from_list(ROWS)
    )
    hub.fault = lambda method, path: 403 if "/commit/" in path else None
    trainer.train()
    assert trainer.state.global_step == 4
    assert any("no write access" in record.getMessage() for record in caplog.records)
    with pytest.raises(HubError, match="no write access"):
        trainer.push_to_hub()


def test_pipeline_is_pushed_in_the_plain_layout_with_a_card(checkpoint, expected, hub):
    salience = pipeline("narrative-salience", model=str(checkpoint), device="cpu", dtype="float32")
    assert salience.push_to_hub(NAME, facts=FACTS, private=True) == f"{hub.address}/{NAME}"
    files = hub.files("models", NAME)
    assert {"modules.json", "1_Pooling/config.json", "model.safetensors"} <= set(files)
    assert "custom_pipelines" not in json.loads(files["config.json"]) and NAME in hub.private
    assert ModelCard(files["README.md"].decode()).data.license == "apache-2.0"
    with pytest.raises(HubError, match="already on the Hub"):
        salience.push_to_hub(NAME)
    encoder = StoryEncoder.from_pretrained(checkpoint, device="cpu")
    assert encoder.push_to_hub("somebody/other", facts=FACTS) == f"{hub.address}/somebody/other"
    pushed = hub.files("models", "somebody/other")
    assert (
        pushed.keys() == files.keys() and pushed["model.safetensors"] == files["model.safetensors"]
    )


def test_pipeline_without_the_package_names_it_in_a_push(checkpoint, monkeypatch):
    """As in the self-contained form, which has no code for pushes."""
    salience = pipeline("narrative-salience", model=str(checkpoint), device="cpu")
    monkeypatch.setitem(sys.modules, "narrative_twins.hub.push", None)
    with pytest.raises(ImportError, match="pushing needs pip install"):
        salience.push_to_hub(NAME)


LOAD_REVISIONS = f"""
import json
import sys
from narrative_twins import StoryEncoder

found = {{}}
for revision in sys.argv[1:]:
    try:
        found[revision] = StoryEncoder.from_pretrained({NAME!r}, revision=revision, device="cpu").pooling
    except OSError as error:
        found[revision] = str(error)
print(json.dumps(found))
"""


def test_revisions_are_distinct(checkpoint, bert_folder, hub, tmp_path):
    """A commit, a branch and `main` may have different files."""
    push_encoder(checkpoint, NAME)
    pinned = commit_of(NAME, hub.files("models", NAME))
    push_encoder(bert_folder, NAME, update=True, revision="plain")
    push_encoder(bert_folder, NAME, update=True, facts=FACTS)
    command = [sys.executable, "-c", LOAD_REVISIONS, pinned, "plain", "main", "nothing"]
    found = output_of(fresh("", tmp_path, *command, HF_ENDPOINT=hub.address, HF_TOKEN="secret"))
    assert f"encoder '{NAME}' can't be loaded" in found.pop("nothing")
    assert found == {pinned: "first", "plain": "mean", "main": "mean"}
