"""Training: reproducible loss curves, resumed runs, invalid data, saved models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from packaging.version import Version
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, TrainerCallback

from narrative_twins import StoryEncoder
from narrative_twins.data import RowError
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.trainer import NarrativeTwinsTrainer

from support import make_curves
from support.hostile_checkpoints import Code
from support.models import trainable
from support.twins_batches import FILMS, TWINS, Seen, logged, trainer_of

ROWS = Dataset.from_list(TWINS)


@pytest.mark.slow
@pytest.mark.parametrize("name", make_curves.RUNS)
def test_loss_curves_are_reproducible(name):
    """Fifty steps on the package's own data with dropout, against the curve in the repository.
    Rounding differs between machines: weights that differ by a millionth change the curve by less,
    a hundredth of the tolerance.
    """
    stored = json.loads(make_curves.FILE.read_text())[name]
    assert len(stored) == make_curves.STEPS
    # Without MKL, and in early releases, torch has other dropout masks: then compare two runs on
    # the same machine.
    comparable = torch.backends.mkl.is_available() and Version(torch.__version__) >= Version("2.13")
    expected = stored if comparable else make_curves.curve(name)
    assert make_curves.curve(name) == pytest.approx(expected, rel=1e-4)


class Interrupt(TrainerCallback):
    """Ends a run in its 17th step, as a signal does."""

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 16:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_interrupted_and_resumed_run_matches_an_uninterrupted_run(tmp_path):
    """Interrupted in the second of three epochs, with dropout and with other random twins in each
    epoch."""
    sets = {"stories": ROWS, "windows": Dataset.from_list(FILMS)}
    options = {"twins": "dropout", "num_train_epochs": 3, "per_device_train_batch_size": 2}
    options |= {"window_batch_size": 1, "learning_rate": 1e-3, "logging_steps": 1}
    options |= {"save_strategy": "steps", "save_steps": 5}
    initial = trainable()
    weights = {name: weight.clone() for name, weight in initial.state_dict().items()}
    whole = trainer_of(tmp_path / "whole", sets, initial, **options)
    whole.train()
    with pytest.raises(KeyboardInterrupt):
        trainer_of(tmp_path / "run", sets, callbacks=[Interrupt()], **options).train()
    resumed = trainer_of(tmp_path / "run", sets, **options)
    resumed.train(resume_from_checkpoint=True)
    assert (tmp_path / "run" / "checkpoint-15").exists()
    assert logged(resumed) == pytest.approx(logged(whole), abs=1e-6)
    assert len(logged(whole)) == 3 * 13
    found, expected = resumed.model.state_dict(), whole.model.state_dict()
    for name, weight in found.items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6, msg=name)
    assert any((found[name] - weights[name]).abs().max() > 1e-3 for name in found)


def short_run(folder: Path) -> NarrativeTwinsTrainer:
    options = {"max_steps": 4, "save_steps": 2, "save_strategy": "steps"}
    return trainer_of(folder, ROWS, per_device_train_batch_size=2, **options)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """The output folder of a run of four steps with two checkpoints, and its weights."""
    trainer = short_run(tmp_path_factory.mktemp("checkpoint") / "run")
    trainer.train()
    return Path(trainer.args.output_dir), trainer.model.state_dict()


@pytest.fixture
def run(finished_run, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(finished_run[0], tmp_path / "run")


def resume(run: Path) -> NarrativeTwinsTrainer:
    trainer = short_run(run)
    trainer.train(resume_from_checkpoint=True)
    return trainer


def test_incomplete_checkpoint_is_skipped(finished_run, run, caplog):
    """For example, of a run that was killed while saving."""
    state = run / "checkpoint-4" / "trainer_state.json"
    state.write_text(state.read_text()[:100])
    resumed = resume(run)
    assert "checkpoint-4 is incomplete" in caplog.text
    for name, weight in resumed.model.state_dict().items():
        torch.testing.assert_close(weight, finished_run[1][name], rtol=0, atol=1e-6)
    for step in (2, 4):
        (run / f"checkpoint-{step}" / "trainer_state.json").unlink()
    with pytest.raises(ValueError, match="no checkpoint in .*run is complete; start over"):
        resume(run)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "pytorch_model.bin"])
def test_checkpoint_runs_no_code_and_is_complete(name, run):
    file = run / "checkpoint-4" / name
    torch.save({"state": Code(run / "executed")}, file)
    if name == "pytorch_model.bin":
        (run / "checkpoint-4" / "model.safetensors").unlink()
    with pytest.raises(Exception, match="exec"):
        resume(run)
    assert not (run / "executed").exists()
    if name != "pytorch_model.bin":
        file.unlink()
        with pytest.raises(ValueError, match=f"checkpoint-4/{name} is missing"):
            resume(run)


def test_loss_that_is_not_finite_stops_the_run(tmp_path):
    options = {"max_steps": 3, "save_steps": 1, "save_strategy": "steps", "learning_rate": 1e-3}
    trainer = trainer_of(tmp_path, ROWS, **options)
    found, factors = trainer.loss.forward, iter((1, float("nan")))
    trainer.loss.forward = lambda *args, **options: found(*args, **options) * next(factors)
    advice = "the loss is nan in step 2; lower the learning rate .0.001."
    with pytest.raises(FloatingPointError, match=advice):
        trainer.train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"]


def test_arguments_are_passed_to_collator_and_loss(tmp_path):
    settings = {
        "temperature": 0.1,
        "distractors": False,
        "in_story_negatives": False,
        "in_batch_negatives": False,
        "distractor_loss": "separate",
        "mini_batch_size": 3,
    }
    trainer = trainer_of(tmp_path, ROWS, twins="dropout", context_tokens=20, seed=3, **settings)
    assert settings.items() <= trainer.loss.get_config_dict().items()
    collator = trainer.data_collator
    assert (collator.twins, collator.seed, collator.tokens.context_tokens) == ("dropout", 3, 20)
    assert not collator.distractors


@pytest.mark.parametrize("where", ["train_dataset", "eval_dataset"])
def test_invalid_row_is_named_before_training_starts(where):
    """What is invalid, tests/data tests."""
    rows = Dataset.from_list([FILMS[0], {**FILMS[0], "story": []}])
    model = trainable()
    for given, name in ((rows, where), ({"films": rows}, rf"{where}\['films'\]")):
        data = {"train_dataset": Dataset.from_list(FILMS[:1]), where: given}
        with pytest.raises(RowError, match=f"^{name}, row 1: 'story'.* is empty"):
            NarrativeTwinsTrainer(model, **data)
    with pytest.raises(RowError, match=f"{where}.*: there are no rows"):
        NarrativeTwinsTrainer(model, **{"train_dataset": ROWS, where: ROWS.select([])})


def test_models_that_are_refused(tmp_path):
    """Dropout twins need dropout, and weights their precision."""
    bare = trainable("modernbert", dropout=0.0)
    assert trainable("modernbert")[0].auto_model.config.attention_dropout == 0.1
    mixed = Dataset.from_list([TWINS[0], {**TWINS[1], "twin": None}])
    message = "train_dataset{}, row {} gets a dropout twin, which needs an encoder with dropout"
    for data, options, where in (
        (ROWS, {"twins": "dropout"}, ("", 0)),
        (mixed, {}, ("", 1)),
        ({"a": ROWS, "b": mixed}, {}, (r"\['b'\]", 1)),
    ):
        with pytest.raises(ValueError, match=message.format(*where)):
            trainer_of(tmp_path, data, bare, **options)
    trainer_of(tmp_path, ROWS, model=bare)
    trainer_of(tmp_path, mixed, model=trainable("modernbert"))
    for dtype in (torch.bfloat16, torch.float16):
        with pytest.raises(ValueError, match="small updates are rounded away.*bf16=True"):
            trainer_of(tmp_path, ROWS, model=trainable().to(dtype))


SECRET = "The heliotrope marmoset of Zanzibar whistled {} times."
"""A sentence that could only get into the card from the rows."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A trainer after a run with evaluators, checkpoints and the best model loaded at the end."""
    folder = tmp_path_factory.mktemp("finished")
    rows = [
        {**row, "story": [*row["story"], SECRET.format(at)], "title": f"Marmosets {at}"}
        for at, row in enumerate(TWINS)
    ]
    labelled = [{"story": row["story"], "counts": [0, 1, 3]} for row in rows]
    trainer = trainer_of(
        folder,
        Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:4]),
        evaluator=[SalienceEvaluator(labelled, name="votes"), TwinsEvaluator(rows, name="twins")],
        num_train_epochs=3,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=3,
        dataloader_drop_last=True,
        learning_rate=1e-3,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="eval_votes_summarization_spearman",
    )
    trainer.train()
    trainer.save_model(str(folder / "final"))
    # Here, since accelerate keeps the state of the last run only.
    trainer.sizes = [int(batch["texts_row"].max()) + 1 for batch in trainer.get_eval_dataloader()]
    return trainer


def test_finished_run(finished):
    """Metrics and curves by step, the best model, and cards without any row."""
    folder = Path(finished.args.output_dir)
    logs = [entry for entry in finished.state.log_history if "eval_loss" in entry]
    assert len(logs) == 3
    metric = "eval_votes_summarization_spearman"
    best = max(logs, key=lambda entry: entry[metric])
    saved = load_file(folder / f"checkpoint-{best['step']}" / "model.safetensors")
    for name, weight in load_file(folder / "final" / "model.safetensors").items():
        assert torch.equal(weight, saved[name])
    curves = json.loads((folder / "curves.json").read_text())
    assert curves[metric] == [[entry["step"], entry[metric]] for entry in logs]
    assert [value for _, value in curves["loss"]] == logged(finished)
    assert [step for step, _ in curves["loss"]] == list(range(1, 10))
    assert [step for step, _ in curves["eval_twins_accuracy"]] == [3, 6, 9]
    assert not {"epoch", "step", "eval_runtime", "train_loss"} & curves.keys()
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    cards = sorted(folder.rglob("README.md"))
    assert len(cards) == 4, "three checkpoints and the last model"
    texts = {"marmoset", "zanzibar"}
    texts |= {sentence.lower() for row in TWINS for side in row.values() for sentence in side}
    for card in cards:
        text = card.read_text().lower()
        assert "narrativetwinsloss" in text and "narrative-salience" in text
        assert not [part for part in texts if part in text]
    assert finished.sizes == [3, 1], "dataloader_drop_last is for training only"


def test_saved_model_has_the_same_vectors_in_all_libraries(finished):
    folder = str(Path(finished.args.output_dir) / "final")
    texts = ["Nadia found 3 coins. It rained.", "Why?"]
    expected = finished.model.eval().encode(texts)
    found = SentenceTransformer(folder, device="cpu").encode(texts)
    assert found == pytest.approx(expected, abs=1e-5)
    encoder = StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32")
    chunks = [encoder.tokenize([text]).chunks((0,), None) for text in texts]
    assert encoder.encode(chunks) == pytest.approx(expected, abs=1e-5)
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for text, vector in zip(texts, expected, strict=True):
        with torch.no_grad():
            states = model.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        assert states.mean(0).numpy() == pytest.approx(vector, abs=1e-5)


def test_columns_may_be_none_in_any_row(tmp_path):
    rows = [{**row, "title": None if at % 2 else "x"} for at, row in enumerate(TWINS)]
    rows[2] = {**rows[2], "twin": None, "negative": None, "negative_twin": None}
    data = Dataset.from_list(rows)
    for given in (data.select([2, 3, 4]), {"a": data, "b": data}):
        trainer = trainer_of(
            tmp_path, given, eval_dataset=given, max_steps=2, per_device_train_batch_size=3
        )
        trainer.train()
        trainer.save_model(str(tmp_path / "model"))


@pytest.mark.slow
def test_persistent_workers_use_the_current_epoch(tmp_path):
    def drawn(**options):
        model = trainable()
        loss = Seen(model)
        options |= {"num_train_epochs": 3, "per_device_train_batch_size": 7, "loss": loss}
        trainer_of(tmp_path, Dataset.from_list(FILMS), model, **options).train()
        return [windows for _, windows in loss.batches]

    without_workers = drawn()
    assert len(set(without_workers)) > 1
    assert drawn(dataloader_num_workers=1, dataloader_persistent_workers=True) == without_workers


def test_rows_with_windows_have_their_own_batch_size(tmp_path):
    sets = {"stories": ROWS, "windows": Dataset.from_list(FILMS)}
    trainer = trainer_of(tmp_path, sets, per_device_train_batch_size=4, window_batch_size=2)
    sizes = [
        (int(batch["texts_window_ids"].max()) + 1, int(batch["texts_row"].max()) + 1)
        for batch in trainer.get_train_dataloader()
    ]
    assert sorted(sizes) == [*[(1, 4)] * 3, (3, 1), *[(3, 2)] * 3]
