"""Training with FSDP, whose weights are shared out over processes, is training without it: on two
CPU processes, with the config for GPUs in examples/configs."""

from __future__ import annotations

import io
import json
import logging
import pickle
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.fsdp import StateDictType
from transformers import Trainer

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.training.arguments import (
    MaskedLanguageModelTrainingArguments,
    NarrativeTwinsTrainingArguments,
)
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.mlm import MaskedLanguageModelTrainer
from narrative_twins.training.resuming import check_shards, warn_of_process_count
from narrative_twins.training.salience_loss import SalienceLoss
from narrative_twins.training.sharding import set_sharding
from narrative_twins.training.trainer import NarrativeTwinsTrainer

from support import two_processes
from support.launching import run_accelerate, run_two
from support.models import SENTENCES, trainable
from support.twins_batches import FILMS, MIXED, model_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("two processes")]

CONFIG = Path(__file__).parents[2] / "examples" / "configs" / "fsdp.yaml"
JUDGED = [
    {"story": SENTENCES[at : at + 2 + at % 3], "counts": [1, 3, 0, 2][: 2 + at % 3]}
    for at in range(5)
]
LONG = [
    {"story": ["It rained. " * 300, f"Nadia found {at} coins."], "counts": [1, 0]}
    for at in range(6)
]
"""Judged rows that exceed the context, so that their batches have no text."""
CASES = {
    "twins": {"rows": {"mixed": MIXED}, "kind": "bert"},
    "several": {
        "rows": {"mixed": MIXED, "films": FILMS, "judged": JUDGED},
        "kind": "modernbert",
        "arguments": {"mini_batch_size": 2, "eval_strategy": "no", "gather_across_devices": False},
    },
    "without texts": {
        "rows": {"mixed": MIXED[:6], "judged": LONG},
        "kind": "modernbert",
        "arguments": {
            "eval_strategy": "no",
            "gather_across_devices": False,
            "max_steps": 2,
            "num_train_epochs": 1,
        },
    },
}
"""Batches of the two processes differ in the number of their texts and mini-batches, and may be of
different data sets."""

SETTINGS = {
    "use_cpu": True,
    "report_to": "none",
    "disable_tqdm": True,
    "logging_steps": 1,
    "max_steps": 4,
}
SETTINGS |= {
    "save_strategy": "steps",
    "save_steps": 2,
    "learning_rate": 1e-3,
    "gather_across_devices": True,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The results of one process, of two by DDP and by FSDP, and of two and three resumed by FSDP,
    each in a folder."""
    folder = tmp_path_factory.mktemp("sharding")
    for kind in ("bert", "modernbert"):
        model = trainable(kind, dropout=0.0)
        # Dropout differs between processes and so between numbers of them.
        model[0].auto_model.config.update(
            {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        )
        model.save(str(folder / kind), create_model_card=False)
    run(folder, "one", two_processes.steps, cases("twins"), per_device_train_batch_size=6)
    run(folder, "ddp", partial(run_two, "steps"), cases(*CASES))
    run(folder, "fsdp", partial(run_accelerate, CONFIG, 2, "steps"), cases(*CASES))
    resumed = cases("twins", resumed=str(folder / "fsdp" / "twins" / "checkpoint-2"))
    run(folder, "resumed", partial(run_accelerate, CONFIG, 2, "steps"), resumed)
    run(
        folder,
        "three",
        partial(run_accelerate, CONFIG, 3, "steps"),
        resumed,
        per_device_train_batch_size=2,
    )
    return folder


def cases(*names: str, **changes):
    return {name: CASES[name] | changes for name in names}


def run(folder, name: str, start, cases, **changes) -> None:
    """Run cases of two_processes.py, started by a function, with a folder of this name for the
    results."""
    (folder / name).mkdir()
    arguments = (
        SETTINGS
        | {"per_device_train_batch_size": 3, "eval_strategy": "steps", "eval_steps": 2}
        | changes
    )
    found = {key: case | {"model": str(folder / case["kind"])} for key, case in cases.items()}
    settings = {
        "arguments": arguments,
        "cases": found,
        "validation": [row for row in MIXED if row["negative"]],
    }
    (folder / name / "settings.json").write_text(json.dumps(settings))
    start(folder / name / "settings.json", folder / name)


def read(folder, name: str, case: str = "twins"):
    return json.loads((folder / name / "steps.json").read_text())[case]


def assert_equal_steps(found, expected) -> None:
    assert [entry.keys() for entry in found] == [entry.keys() for entry in expected]
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_fsdp_trains_as_ddp(folder, case):
    """Loss and norm of the gradient of each step, and evaluations."""
    found, expected = read(folder, "fsdp", case), read(folder, "ddp", case)
    layer = "FSDPBertLayer" if case == "twins" else "FSDPModernBertEncoderLayer"
    assert found["processes"] == 2 and layer in found["sharded"] and not expected["sharded"]
    assert len(found["steps"]) >= 2
    assert_equal_steps(found["steps"], expected["steps"])


def test_fsdp_trains_as_one_process(folder):
    found, expected = read(folder, "fsdp"), read(folder, "one")
    # Processes with gathered negatives have the loss of all rows in training; in the evaluation
    # each has other rows.
    kept = [[entry for entry in result["steps"] if "loss" in entry] for result in (found, expected)]
    assert expected["processes"] == 1 and len(kept[0]) == 4
    assert_equal_steps(*kept)


@pytest.mark.parametrize("case", ["twins", "several"])
def test_the_encoder_is_saved_whole(folder, case):
    """With the weights and the scores of the encoder by DDP; also in checkpoints, which have shards
    beside it."""
    saved, expected = (folder / name / f"encoder of {case}" for name in ("fsdp", "ddp"))
    weights, others = (load_file(path / "model.safetensors") for path in (saved, expected))
    assert weights.keys() == others.keys()
    for name, weight in others.items():
        if name.endswith("key.bias"):
            continue  # has no effect and so no gradient, but Adam turns the rounding errors of it into full updates
        torch.testing.assert_close(weights[name], weight, rtol=1e-3, atol=1e-4)
    scores = [
        [
            result.scores
            for result in score_stories(
                [SENTENCES[:5]], StoryEncoder.from_pretrained(path, dtype="float32")
            )
        ]
        for path in (saved, expected, folder / "fsdp" / case / "checkpoint-4")
    ]
    for operation, values in scores[1][0].items():
        assert scores[0][0][operation] == pytest.approx(values, abs=1e-3)
        assert scores[2][0][operation] == pytest.approx(scores[0][0][operation], abs=1e-6)
    assert json.loads((saved / "config.json").read_text()) == json.loads(
        (expected / "config.json").read_text()
    )


@pytest.mark.parametrize(("name", "processes"), [("resumed", 2), ("three", 3)])
def test_shards_are_resumed(folder, name, processes):
    """By as many processes or more, with as many rows per step."""
    found, expected = read(folder, name), read(folder, "fsdp")
    assert (
        folder / "fsdp" / "twins" / "checkpoint-2" / "pytorch_model_fsdp_0" / ".metadata"
    ).is_file()
    assert found["processes"] == processes and found["sharded"]
    kept = [[entry for entry in result["steps"] if "loss" in entry] for result in (found, expected)]
    assert [entry["step"] for entry in kept[0]] == [1, 2, 3, 4]
    assert_equal_steps(*kept)


def test_plain_checkpoints_are_resumed_by_another_number(folder, caplog):
    """With as many rows per step, which have the same loss; a warning says what differs."""
    checkpoint = folder / "ddp" / "twins" / "checkpoint-2"
    resumed = {"twins": CASES["twins"] | {"resumed": str(checkpoint)}}
    with caplog.at_level(logging.WARNING):
        run(folder, "one resumed", two_processes.steps, resumed, per_device_train_batch_size=6)
    (message,) = [
        text
        for text in caplog.messages
        if "checkpoint-2 was saved on 2 processes, and this run has 1" in text
    ]
    assert "rows" not in message
    kept = [
        [e for e in read(folder, name)["steps"] if "loss" in e] for name in ("one resumed", "ddp")
    ]
    assert_equal_steps(*kept)


def test_other_rows_per_step_are_warned_of(folder, caplog):
    checkpoint = folder / "ddp" / "twins" / "checkpoint-2"
    warn_of_process_count(
        checkpoint, SimpleNamespace(world_size=4, train_batch_size=3, save_on_each_node=False)
    )
    (message,) = caplog.messages
    assert "saved on 2 processes, and this run has 4" in message
    assert "its batches have 12 rows on all processes together, before 6" in message


def trainer_of(folder, **changes) -> NarrativeTwinsTrainer:
    settings = SETTINGS | {"save_strategy": "no", "per_device_train_batch_size": 6} | changes
    args = NarrativeTwinsTrainingArguments(str(folder / "output"), **settings)
    return NarrativeTwinsTrainer(trainable(), args, Dataset.from_list(MIXED))


def test_shards_are_refused_without_fsdp(folder, tmp_path):
    checkpoint = folder / "fsdp" / "twins" / "checkpoint-2"
    with pytest.raises(
        ValueError,
        match=r"checkpoint-2 was saved with FSDP by 2 processes.* --config_file examples/co",
    ):
        trainer_of(tmp_path).train(str(checkpoint))


def test_checkpoints_without_complete_shards_are_refused(folder, tmp_path):
    with pytest.raises(
        ValueError,
        match="has no shards, and this run is with FSDP; resume it without FSDP, or start",
    ):
        check_shards(folder / "ddp" / "twins" / "checkpoint-2", True)
    incomplete = shutil.copytree(
        folder / "fsdp" / "twins" / "checkpoint-2", tmp_path / "checkpoint-2"
    )
    (incomplete / "optimizer_0" / ".metadata").unlink()
    with pytest.raises(ValueError, match="metadata is missing, so the shards are not complete"):
        check_shards(incomplete, True)


class Code:
    """What writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


@pytest.mark.parametrize("place", ["metadata", "value", "other folder"])
def test_shards_that_name_code_are_refused(folder, tmp_path, place):
    checkpoint = shutil.copytree(
        folder / "fsdp" / "twins" / "checkpoint-2", tmp_path / "checkpoint-2"
    )
    check_shards(checkpoint, True)
    shards, bad = checkpoint / "optimizer_0", Code(tmp_path / "written")
    metadata = FileSystemReader(shards).read_metadata()
    index = next(
        index for index in metadata.storage_data if index.fqn == "optimizer.param_groups.0.lr"
    )
    found = metadata.storage_data[index]
    value = io.BytesIO()
    torch.save(bad, value)
    if place == "value":
        file = shards / found.relative_path
        found.offset, found.length = file.stat().st_size, len(value.getvalue())
        file.write_bytes(file.read_bytes() + value.getvalue())
    elif place == "other folder":
        found.relative_path = f"../{found.relative_path}"
    else:
        metadata = bad
    (shards / ".metadata").write_bytes(pickle.dumps(metadata))
    message = (
        "another kind"
        if place == "other folder"
        else "names code to execute .*touch|names code to execute .*getattr"
    )
    with pytest.raises(ValueError, match=f"optimizer_0.* is not read: it .*({message})"):
        check_shards(checkpoint, True)
    assert not bad.file.exists()


def accelerator(**changes) -> SimpleNamespace:
    settings = {"fsdp_version": 2, "transformer_cls_names_to_wrap": None}
    plugin = SimpleNamespace(
        **settings | {"state_dict_type": StateDictType.SHARDED_STATE_DICT} | changes
    )
    return SimpleNamespace(mixed_precision="no", state=SimpleNamespace(fsdp_plugin=plugin))


def refuse(message: str, model=None, losses=None, **changes) -> None:
    model = model or model_of()
    trainer = SimpleNamespace(is_fsdp_enabled=True, accelerator=accelerator(**changes))
    with pytest.raises(ValueError, match=message):
        set_sharding(trainer, model[0].auto_model, losses or [NarrativeTwinsLoss(model)])


def test_settings_that_do_not_work_with_fsdp_are_refused():
    model = model_of()
    twins = NarrativeTwinsLoss(model)
    refuse(
        "FSDP of version 1 is set; set fsdp_version: 2, as in examples/configs/fsdp.yaml",
        fsdp_version=1,
    )
    refuse(
        "FULL_STATE_DICT is set, .* set SHARDED_STATE_DICT",
        state_dict_type=StateDictType.FULL_STATE_DICT,
    )
    refuse(
        "weights in bfloat16; load the encoder with dtype='float32', and set bf16=True",
        trainable().bfloat16(),
    )
    refuse("the same mini_batch_size", losses=[twins, SalienceLoss(model, mini_batch_size=2)])
    refuse(
        "and CosineSimilarityLoss makes another number", losses=[twins, CosineSimilarityLoss(model)]
    )


def test_adapters_are_refused_with_fsdp():
    peft = pytest.importorskip("peft")
    model = trainable()
    model.add_adapter(peft.LoraConfig(target_modules=["query"]))
    refuse("FSDP does not work with an adapter", model)


def test_masked_language_modeling_is_refused_with_fsdp(bert_folder, tmp_path, monkeypatch):
    original = Trainer.__init__

    def sharding(self, *args, **options):
        original(self, *args, **options)
        self.is_fsdp_enabled = True

    monkeypatch.setattr(Trainer, "__init__", sharding)
    args = MaskedLanguageModelTrainingArguments(
        str(tmp_path), use_cpu=True, report_to="none", disable_tqdm=True
    )
    with pytest.raises(ValueError, match="masked language modeling does not work with FSDP"):
        MaskedLanguageModelTrainer(str(bert_folder), args, Dataset.from_list(MIXED))


def test_fsdp_that_is_not_used_is_warned_of(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    trainer_of(tmp_path)
    assert any("FSDP is set but not used" in message for message in caplog.messages)
