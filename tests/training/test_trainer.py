"""Training: reproducible loss curves, resumed runs, what a run leaves, what is refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from datasets import Dataset, DatasetInfo
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from transformers import TrainerCallback

from narrative_twins import SalienceLoss
from narrative_twins.data import RowError
from narrative_twins.encoder.loading import DEFAULT_ENCODER
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.reports import last_metrics, training_facts
from narrative_twins.training.trainer import NarrativeTwinsTrainer

from support.models import trainable
from support.twins_batches import FILMS, JUDGED, TWINS, logged, trainer_of

ROWS = Dataset.from_list(TWINS)


class Interrupt(TrainerCallback):
    """Ends a run in its 17th step, as a signal does."""

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 16:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_interrupted_and_resumed_run_matches_an_uninterrupted_run(tmp_path):
    """Interrupted in the second of three epochs, with dropout, with other random twins in each
    epoch, and next to votes."""
    rows = {"stories": TWINS, "windows": FILMS, "judged": JUDGED}
    sets = {name: Dataset.from_list(each) for name, each in rows.items()}
    options = {"twins": "dropout", "num_train_epochs": 3, "per_device_train_batch_size": 4}
    options |= {"window_batch_size": 1, "learning_rate": 1e-3, "logging_steps": 1}
    options |= {"save_strategy": "steps", "save_steps": 5, "loss": {"judged": SalienceLoss}}
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
    assert len(logged(whole)) == 3 * (3 + 7 + 2)
    result, expected = resumed.model.state_dict(), whole.model.state_dict()
    for name, weight in result.items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6, msg=name)
    assert any((result[name] - weights[name]).abs().max() > 1e-3 for name in result)


def short_run(folder: Path) -> NarrativeTwinsTrainer:
    options = {"max_steps": 4, "save_steps": 2, "save_strategy": "steps"}
    return trainer_of(folder, ROWS, per_device_train_batch_size=2, **options)


def test_incomplete_checkpoints_are_skipped_or_refused(tmp_path, caplog):
    """For example, of a run that was killed while saving."""
    trainer = short_run(tmp_path)
    trainer.train()
    expected = trainer.model.state_dict()
    state = tmp_path / "checkpoint-4" / "trainer_state.json"
    state.write_text(state.read_text()[:100])
    resumed = short_run(tmp_path)
    resumed.train(resume_from_checkpoint=True)
    assert "checkpoint-4 is incomplete" in caplog.text
    for name, weight in resumed.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6)
    for name, problem in (
        ("optimizer.pt", "checkpoint-4/optimizer.pt is missing"),
        ("scheduler.pt", "checkpoint-4/scheduler.pt is missing"),
        ("trainer_state.json", "no checkpoint in .* is complete; start over"),
    ):
        shutil.move(tmp_path / "checkpoint-4" / name, tmp_path / name)
        (tmp_path / "checkpoint-2" / name).unlink()
        with pytest.raises(ValueError, match=problem):
            short_run(tmp_path).train(resume_from_checkpoint=True)
        shutil.move(tmp_path / name, tmp_path / "checkpoint-4" / name)


@pytest.mark.parametrize("several", [False, True])
def test_too_few_rows_for_a_step_are_an_error(several, tmp_path):
    rows = Dataset.from_list(ROWS)
    options = {"per_device_train_batch_size": len(rows) + 1, "dataloader_drop_last": True}
    trainer = trainer_of(tmp_path, {"mine": rows, "too": rows} if several else rows, **options)
    name = " 'mine'" if several else ""
    problem = f"data{name} has {len(rows)} rows, and a batch {len(rows) + 1}, .* lower per_device"
    with pytest.raises(ValueError, match=problem):
        trainer.train()


def test_loss_that_is_not_finite_stops_the_run(tmp_path):
    options = {"max_steps": 3, "save_steps": 1, "save_strategy": "steps", "learning_rate": 1e-3}
    trainer = trainer_of(tmp_path, ROWS, **options)
    forward, factors = trainer.loss.forward, iter((1, float("nan")))
    trainer.loss.forward = lambda *args, **options: forward(*args, **options) * next(factors)
    advice = "the loss is nan in step 2; lower the learning rate .0.001."
    with pytest.raises(FloatingPointError, match=advice):
        trainer.train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"]


def test_arguments_are_passed_to_collator_and_loss(tmp_path):
    settings = {"temperature": 0.1, "distractor_loss": "separate", "mini_batch_size": 3}
    settings |= dict.fromkeys(("distractors", "in_story_negatives", "in_batch_negatives"), False)
    trainer = trainer_of(tmp_path, ROWS, twins="dropout", context_tokens=20, seed=3, **settings)
    assert settings.items() <= trainer.loss.get_config_dict().items()
    collator = trainer.data_collator
    assert (collator.twins, collator.seed, collator.tokens.context_tokens) == ("dropout", 3, 20)
    assert not collator.distractors


@pytest.mark.parametrize("where", ["train_dataset", "eval_dataset"])
def test_invalid_rows_are_named_before_training_starts(where):
    """What is invalid, tests/data tests."""
    rows = Dataset.from_list([FILMS[0], {**FILMS[0], "story": []}])
    model = trainable()
    loss = {"pairs": CosineSimilarityLoss(model)}
    pairs = Dataset.from_list([{"sentence1": "Why?", "sentence2": "No.", "score": 1.0}])
    sets = {"films": rows, "pairs": pairs}
    for data, options, problem in (
        (rows, {}, ", row 1: 'story'.* is empty"),
        (sets, {"loss": loss}, r"\['films'\], row 1: 'story'.* is empty"),
        ({"films": ROWS, "pairs": pairs}, {}, r"\['pairs'\], row 0: no column 'story'"),
        (ROWS.select([]), {}, ": there are no rows"),
    ):
        with pytest.raises(RowError, match=f"^{where}{problem}"):
            NarrativeTwinsTrainer(model, **{"train_dataset": ROWS, where: data}, **options)


def test_models_and_arguments_that_are_refused(tmp_path):
    for dtype in (torch.bfloat16, torch.float16):
        with pytest.raises(ValueError, match="small updates are rounded away.*bf16=True"):
            trainer_of(tmp_path, ROWS, model=trainable().to(dtype))
    args = SentenceTransformerTrainingArguments(str(tmp_path), use_cpu=True)
    with pytest.raises(ValueError, match="class SentenceTransformerTrainingArguments, .* use Narr"):
        NarrativeTwinsTrainer(trainable(), args, ROWS)


METRIC = "eval_votes_summarization_spearman"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A trainer after a run with evaluators, checkpoints and the best model loaded at the end."""
    folder = tmp_path_factory.mktemp("finished") / "my run"
    rows = [{**row, "title": f"Marmosets {at}"} for at, row in enumerate(TWINS)]
    labelled = [{"story": [*row["story"], "Why?"], "counts": [0, 1, 3]} for row in rows]
    info = DatasetInfo(license="cc0-1.0")
    data = {"stories": Dataset.from_list(rows, info=info), "films": Dataset.from_list(FILMS)}
    evaluators = [SalienceEvaluator(labelled, name="votes"), TwinsEvaluator(rows, name="twins")]
    options = {"eval_dataset": Dataset.from_list(rows[:4]), "evaluator": evaluators}
    options |= {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 3}
    options |= {"num_train_epochs": 3, "learning_rate": 1e-3, "logging_steps": 1, "seed": 7}
    options |= {"eval_strategy": "epoch", "save_strategy": "epoch", "dataloader_drop_last": True}
    options |= {"load_best_model_at_end": True, "metric_for_best_model": METRIC}
    trainer = trainer_of(folder, data, **options)
    trainer.train()
    trainer.save_model(str(folder / "final"))
    # Here, since accelerate keeps the state of the last run only.
    trainer.sizes = [int(batch["texts_row"].max()) + 1 for batch in trainer.get_eval_dataloader()]
    return trainer


def best_entry(trainer):
    return max((e for e in trainer.state.log_history if METRIC in e), key=lambda e: e[METRIC])


def test_metrics_and_curves_by_step_and_the_best_model(finished):
    folder, best = Path(finished.args.output_dir), best_entry(finished)
    saved = load_file(folder / f"checkpoint-{best['step']}" / "model.safetensors")
    for name, weight in load_file(folder / "final" / "model.safetensors").items():
        assert torch.equal(weight, saved[name])
    curves = json.loads((folder / "curves.json").read_text())
    for name, steps in (("loss", range(1, 13)), (METRIC, (4, 8, 12))):
        assert curves[name] == [list(e) for e in zip(steps, logged(finished, name), strict=True)]
    assert [step for step, _ in curves["eval_twins_accuracy"]] == [4, 8, 12]
    assert not {"step", "eval_runtime", "train_loss"} & curves.keys()
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert finished.sizes == [3, 1], "dataloader_drop_last is for training only"
    results, took = (
        json.loads((folder / f"{name}_results.json").read_text()) for name in ("eval", "train")
    )
    assert (results["step"], results[METRIC]) == (best["step"], best[METRIC])
    weights = sum(weight.numel() for weight in finished.model.parameters())
    assert took["parameters"] == weights and took["train_runtime"] > 0 and "device" in took


def test_cards_have_the_facts_of_the_run_and_no_rows(finished, tmp_path):
    facts, best = training_facts(finished, "my readers"), best_entry(finished)
    assert (facts.name, facts.seeds) == ("Story encoder my run", "7")
    assert (facts.base_model, facts.base_model_id) == ("a local bert model", None)
    described = "stories, 12 rows, licence cc0-1.0; films, 7 rows, licence unknown"
    assert facts.training_data == described
    assert facts.windows == "one window per story, 3 windows per story"
    for part in ("NarrativeTwinsLoss (temperature 0.05", "twins narrative", "12 steps of 4 rows"):
        assert part in facts.objective
    assert last_metrics(finished.args, finished.state)["step"] == best["step"]
    figures = {figure.metric: figure.value for figure in facts.figures}
    assert figures["votes summarization spearman"] == best[METRIC]
    assert figures["twins accuracy"] == best["eval_twins_accuracy"]
    cards = sorted(Path(finished.args.output_dir).rglob("README.md"))
    assert len(cards) == 4, "three checkpoints and the last model"
    parts = {sentence.lower() for row in TWINS for side in row.values() for sentence in side}
    for card in cards:
        text = card.read_text().lower()
        assert "narrativetwinsloss" in text and "narrative-salience" in text
        assert not [part for part in ("marmoset", *parts) if part in text]
    finished.facts = {"training_data": "mine", "evaluation_set": "others", "license": "mit"}
    finished.save_encoder(tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.license == "mit" and "licence cc0-1.0" not in card.content
    assert {result.dataset_name for result in card.data.eval_results} == {"others"}


def test_facts_without_rows(tmp_path):
    trainer = trainer_of(tmp_path, None, max_steps=1)
    trainer.transformer.config._name_or_path = str(DEFAULT_ENCODER)
    facts = training_facts(trainer, "")
    assert (facts.training_data, facts.windows) == ("none", "none")
    assert facts.base_model == "the default encoder of narrative_twins"


def test_columns_may_be_none_in_any_row(tmp_path):
    rows = [{**row, "title": None if at % 2 else "x"} for at, row in enumerate(TWINS)]
    rows[2] |= dict.fromkeys(("twin", "negative", "negative_twin"))
    data = Dataset.from_list(rows)
    for sets in (data.select([2, 3, 4]), {"a": data, "b": data}):
        options = {"max_steps": 2, "per_device_train_batch_size": 3, "eval_dataset": sets}
        trainer = trainer_of(tmp_path, sets, **options)
        trainer.train()
        trainer.save_model(str(tmp_path / "model"))
