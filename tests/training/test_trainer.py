"""Training: reproducible loss curves, killed and resumed runs, invalid data, saved models and their
cards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from datasets import Dataset
from packaging.version import Version
from safetensors.torch import load_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from transformers import AutoModel, AutoTokenizer, TrainerCallback

from narrative_twins import StoryEncoder
from narrative_twins.data import RowError
from narrative_twins.training.arguments import NarrativeTwinsTrainingArguments
from narrative_twins.training.collator import TwinsCollator
from narrative_twins.training.evaluators import SalienceEvaluator, TwinsEvaluator
from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.optimizer import MasterWeightsAdamW
from narrative_twins.training.trainer import NarrativeTwinsTrainer

from support import make_curves, train_tiny
from support.hostile_checkpoints import Code
from support.models import encoder_of, modules, trainable
from support.processes import started, wait_until

STORIES = [
    {
        "story": [f"Nadia found {at} coins.", "It rained."],
        "twin": ["Money was found.", f"{at} of it."],
        "negative": [f"Her brother laughed {at} times."],
        "negative_twin": [f"He laughed, {at} times."],
    }
    for at in range(12)
]
WINDOWS = [
    {
        "story": [[f"Nadia found {at} coins."], ["It rained."], ["They never told anyone."]],
        "twin": ["Money was found.", f"{at} of it.", "A flood.", "She was silent."],
        "twin_windows": [[0], [0, 1], [1], [2]],
        "negative": [
            ["Her brother laughed."],
            [f"The mill burned down {at} times."],
            ["I was there."],
        ],
    }
    for at in range(7)
]


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


RUNS = {
    "stories": ({"rows": {"stories": STORIES}}, 6),
    "stories and windows": ({"rows": {"stories": STORIES, "windows": WINDOWS}}, 13),
    "bfloat16": ({"rows": {"stories": STORIES}, "dtype": "bfloat16"}, 6),
}
"""Settings, and the number of steps per epoch."""


@pytest.mark.parametrize(
    "name",
    [
        "stories and windows",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("stories", "bfloat16")),
    ],
)
def test_killed_and_resumed_run_matches_an_uninterrupted_run(name, tmp_path):
    """Killed in the second of three epochs, with dropout and with other random twins in each
    epoch."""
    options, steps = RUNS[name]
    arguments = {
        "twins": "narrative" if name == "bfloat16" else "dropout",
        "num_train_epochs": 3,
        "per_device_train_batch_size": 2,
        "window_batch_size": 1,
        "learning_rate": 1e-3,
        "save_strategy": "steps",
        "save_steps": 2,
        "logging_steps": 1,
    }
    trainable().save(str(tmp_path / "model"), create_model_card=False)
    settings = options | {"model": str(tmp_path / "model"), "arguments": arguments}
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = sys.executable, train_tiny.__file__, file, tmp_path / "killed"
    with started(*command, env=environment, stdout=subprocess.DEVNULL) as killed:
        train_tiny.main(settings, tmp_path / "uninterrupted", resume=False)
        middle = tmp_path / "killed" / f"checkpoint-{steps + 4 - steps % 2}"
        wait_until((middle / "trainer_state.json").exists, killed)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "final").exists(), "killed before the end"
    train_tiny.main(settings, tmp_path / "killed", resume=True)

    found, expected = (
        load_file(tmp_path / run / "final" / "model.safetensors")
        for run in ("killed", "uninterrupted")
    )
    initial = load_file(tmp_path / "model" / "model.safetensors")
    assert found.keys() == expected.keys() == initial.keys()
    for weight in found:
        torch.testing.assert_close(found[weight], expected[weight], rtol=0, atol=1e-6, msg=weight)
    assert any((found[weight].float() - initial[weight]).abs().max() > 1e-3 for weight in found), (
        "weights have changed"
    )
    states = [
        json.loads((tmp_path / run / "trainer_state.json").read_text())
        for run in ("killed", "uninterrupted")
    ]
    losses, all_losses = (
        [entry["loss"] for entry in state["log_history"] if "loss" in entry] for state in states
    )
    assert losses == pytest.approx(all_losses, abs=1e-6)
    assert len(losses) == 3 * steps


def test_incomplete_checkpoint_is_skipped(tmp_path, caplog):
    """For example, of a run that was killed while saving."""
    arguments = {"max_steps": 4, "save_steps": 2, "per_device_train_batch_size": 2}
    trainable().save(str(tmp_path / "model"), create_model_card=False)
    settings = {
        "rows": {"stories": STORIES},
        "model": str(tmp_path / "model"),
        "arguments": arguments,
    }
    train_tiny.main(settings, tmp_path / "run", resume=False)
    state = tmp_path / "run" / "checkpoint-4" / "trainer_state.json"
    state.write_text(state.read_text()[:100])
    final = tmp_path / "run" / "final" / "model.safetensors"
    expected = load_file(final)
    final.unlink()
    train_tiny.main(settings, tmp_path / "run", resume=True)
    assert "checkpoint-4 is incomplete" in caplog.text
    for name, weight in load_file(final).items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6)
    for step in (2, 4):
        (tmp_path / "run" / f"checkpoint-{step}" / "trainer_state.json").unlink()
    with pytest.raises(ValueError, match="no checkpoint in .*run is complete; start over"):
        train_tiny.main(settings, tmp_path / "run", resume=True)


@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_checkpoint_without_its_state_is_refused(name, damage, tmp_path, checkpoint_folder):
    shutil.copytree(checkpoint_folder, tmp_path / "run")
    file = tmp_path / "run" / "checkpoint-2" / name
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-100])
    settings = json.loads((checkpoint_folder / "settings.json").read_text())
    problem = {"missing": "missing", "cut": "incomplete"}[damage]
    with pytest.raises(ValueError, match=f"checkpoint-2/{name} is {problem}"):
        train_tiny.main(settings, tmp_path / "run", resume=True)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_checkpoint_with_code_is_refused(name, tmp_path, checkpoint_folder):
    shutil.copytree(checkpoint_folder, tmp_path / "run")
    torch.save({"state": Code(tmp_path / "executed")}, tmp_path / "run" / "checkpoint-2" / name)
    settings = json.loads((checkpoint_folder / "settings.json").read_text())
    with pytest.raises(
        ValueError,
        match=rf"checkpoint-2/{name} names code to execute \(.*exec\), which no trainer saves",
    ):
        train_tiny.main(settings, tmp_path / "run", resume=True)
    assert not (tmp_path / "executed").exists()


def test_checkpoint_with_weights_in_a_pickle_is_refused(tmp_path, checkpoint_folder):
    shutil.copytree(checkpoint_folder, tmp_path / "run")
    (tmp_path / "run" / "checkpoint-2" / "model.safetensors").unlink()
    torch.save(Code(tmp_path / "executed"), tmp_path / "run" / "checkpoint-2" / "pytorch_model.bin")
    torch.save(Code(tmp_path / "executed"), tmp_path / "run" / "checkpoint-2" / "training_args.bin")
    settings = json.loads((checkpoint_folder / "settings.json").read_text())
    with pytest.raises(ValueError, match="checkpoint-2 has no weights in safetensors"):
        train_tiny.main(settings, tmp_path / "run", resume=True)
    assert not (tmp_path / "executed").exists()


@pytest.fixture(scope="module")
def checkpoint_folder(tmp_path_factory):
    """The output folder of a run of two steps, with a checkpoint."""
    folder = tmp_path_factory.mktemp("checkpoint") / "run"
    trainable().save(str(folder / "model"), create_model_card=False)
    options = {"max_steps": 2, "save_steps": 2, "per_device_train_batch_size": 2}
    settings = {"rows": {"stories": STORIES}, "model": str(folder / "model"), "arguments": options}
    train_tiny.main(settings, folder, resume=False)
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        ("float32", r"lower the learning rate \(0.001\) \(training is in float32\)"),
        ("bfloat16", r", or train in float32 \(training is in bfloat16\)"),
    ],
)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_loss_that_is_not_finite_stops_the_run(value, dtype, advice, tmp_path):
    model = trainable()
    model.to(getattr(torch, dtype))
    trainer = NarrativeTwinsTrainer(
        model,
        arguments(tmp_path, max_steps=5, save_steps=1, save_strategy="steps", learning_rate=1e-3),
        Dataset.from_list(STORIES),
    )
    found, step = trainer.loss.forward, iter(range(5))
    trainer.loss.forward = lambda *args, **options: (
        found(*args, **options) * (value if next(step) == 2 else 1)
    )
    with pytest.raises(FloatingPointError, match=f"the loss is {value} in step 3, .*{advice}"):
        trainer.train()
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == [
        "checkpoint-1",
        "checkpoint-2",
    ]


def test_training_without_rows_says_so(tmp_path):
    for empty in (
        Dataset.from_list(STORIES).select([]),
        {"stories": Dataset.from_list(STORIES).select([])},
        {},
    ):
        with pytest.raises(ValueError, match="there are no rows"):
            NarrativeTwinsTrainer(trainable(), arguments(tmp_path), empty)


def arguments(folder: Path, **options) -> NarrativeTwinsTrainingArguments:
    settings = {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        **options,
    }
    return NarrativeTwinsTrainingArguments(str(folder), **settings)


def test_defaults_are_the_settings_of_the_paper(tmp_path):
    args = NarrativeTwinsTrainingArguments(str(tmp_path))
    assert (args.num_train_epochs, args.learning_rate, args.weight_decay) == (5, 3e-5, 0.01)
    assert (args.lr_scheduler_type, args.warmup_steps) == ("linear", 0)
    assert (args.twins, args.distractors, args.in_story_negatives) == ("narrative", True, True)
    assert args.temperature == 0.05
    assert (args.in_batch_negatives, args.distractor_loss) == (True, "joint")
    assert not args.gather_across_devices
    assert args.mini_batch_size is args.window_batch_size is args.context_tokens is None
    trainer = NarrativeTwinsTrainer(trainable(), arguments(tmp_path), Dataset.from_list(STORIES))
    assert trainer.loss.get_config_dict() == {
        "temperature": 0.05,
        "distractors": True,
        "in_story_negatives": True,
        "in_batch_negatives": True,
        "distractor_loss": "joint",
        "gather_across_devices": False,
        "mini_batch_size": None,
        "pooling": "mean",
    }


def test_arguments_are_passed_to_collator_and_loss(tmp_path):
    settings = {
        "temperature": 0.1,
        "distractors": False,
        "in_story_negatives": False,
        "mini_batch_size": 3,
    }
    args = arguments(tmp_path, twins="dropout", context_tokens=20, seed=3, **settings)
    trainer = NarrativeTwinsTrainer(trainable(), args, Dataset.from_list(STORIES))
    assert settings.items() <= trainer.loss.get_config_dict().items()
    others = {"in_batch_negatives": False, "distractor_loss": "separate"}
    loss = NarrativeTwinsTrainer(
        trainable(), arguments(tmp_path, **others), Dataset.from_list(STORIES)
    ).loss
    assert others.items() <= loss.get_config_dict().items()
    collator = trainer.data_collator
    assert (collator.twins, collator.distractors, collator.seed) == ("dropout", False, 3)
    assert collator.tokens.context_tokens == 20


@pytest.mark.parametrize("where", ["train_dataset", "eval_dataset"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"twin": [["She ran."], ["It rained."]], "twin_windows": None},
            r"'twin' has 2 window\(s\) and 'story' 3",
        ),
        ({"story": []}, "'story' is empty"),
        ({"story": None}, "no column 'story'"),
        (
            {"twin_windows": [[0], [1], [3], [2]]},
            r"'twin_windows\[2\]' has 3; whole numbers from 0 to 2 are needed",
        ),
    ],
)
def test_invalid_row_is_named_before_training_starts(tmp_path, change, message, where):
    valid = WINDOWS[0]
    if "twin" in change:
        valid = {
            **valid,
            "twin": [["Money was found."], ["A flood."], ["She was silent."]],
            "twin_windows": None,
        }
    rows = Dataset.from_list([valid, valid, {**valid, **change}])
    data = {"train_dataset": Dataset.from_list([valid]), where: rows}
    with pytest.raises(RowError, match=f"^{where}, row 2: {message}"):
        NarrativeTwinsTrainer(trainable(), arguments(tmp_path), **data)
    with pytest.raises(RowError, match=rf"^{where}\['films'\], row 2: "):
        NarrativeTwinsTrainer(trainable(), arguments(tmp_path), **{**data, where: {"films": rows}})


def test_empty_data_set_is_refused(tmp_path):
    with pytest.raises(RowError, match="train_dataset: there are no rows"):
        NarrativeTwinsTrainer(
            trainable(), arguments(tmp_path), Dataset.from_list(STORIES).select([])
        )


def test_stream_is_checked_while_training(tmp_path):
    args = arguments(tmp_path, max_steps=3, per_device_train_batch_size=2)
    trainer = NarrativeTwinsTrainer(
        trainable(), args, Dataset.from_list(STORIES).to_iterable_dataset()
    )
    trainer.train()
    assert trainer.state.global_step == 3
    invalid = Dataset.from_list(
        [*STORIES[:4], STORIES[4] | {"twin": ["  "]}, *STORIES[5:]]
    ).to_iterable_dataset()
    trainer = NarrativeTwinsTrainer(trainable(), args, invalid)
    with pytest.raises(RowError, match="train_dataset, row 4: 'twin'"):
        trainer.train()


def without_dropout():
    """A ModernBERT as published: all its dropouts are 0."""
    model, tokenizer = encoder_of("modernbert")
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return SentenceTransformer(
            modules=[modules.Transformer(folder), modules.Pooling(32)], device="cpu"
        )


def test_dropout_twins_need_dropout(tmp_path):
    rows, mixed = (
        Dataset.from_list(STORIES),
        Dataset.from_list([STORIES[0], {**STORIES[1], "twin": None}]),
    )
    dropout = arguments(tmp_path, twins="dropout")
    with pytest.raises(
        ValueError, match="twins='dropout' needs an encoder with dropout.* modernbert"
    ):
        NarrativeTwinsTrainer(without_dropout(), dropout, rows)
    for data, where in (
        (mixed, "train_dataset, row 1"),
        ({"a": rows, "b": mixed}, r"train_dataset\['b'\], row 1"),
    ):
        with pytest.raises(
            ValueError, match=rf"a row without a twin \({where}\) needs an encoder with dropout"
        ):
            NarrativeTwinsTrainer(without_dropout(), arguments(tmp_path), data)
    NarrativeTwinsTrainer(without_dropout(), arguments(tmp_path), rows)
    NarrativeTwinsTrainer(trainable("modernbert"), dropout, rows)
    NarrativeTwinsTrainer(trainable("modernbert"), arguments(tmp_path), mixed)
    NarrativeTwinsTrainer(trainable("bert"), dropout, rows)


def test_trainable_encoder_has_dropout():
    def states(model):
        features = model.preprocess(["Nadia ran to the river."] * 2)
        return model(features)["token_embeddings"]

    model = trainable("modernbert")
    assert model[0].auto_model.config.attention_dropout == 0.1
    assert trainable("modernbert", dropout=0.3)[0].auto_model.config.attention_dropout == 0.3
    assert trainable("bert")[0].auto_model.config.attention_probs_dropout_prob == 0.1
    for encoder, differs in (
        (model, True),
        (model.eval(), False),
        (without_dropout().train(), False),
    ):
        encoder.train(encoder is not model or differs)
        first, second = states(encoder)
        assert torch.allclose(first, second, atol=1e-5) is not differs


SECRET = "The heliotrope marmoset of Zanzibar whistled {} times."
"""A sentence that could only get into the card from the rows."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A trainer after a run with evaluators, checkpoints and the best model loaded at the end."""
    folder = tmp_path_factory.mktemp("finished")
    rows = [
        {
            **row,
            "story": [*row["story"], SECRET.format(at)],
            "id": f"marmoset{at}",
            "title": f"Marmosets {at}",
        }
        for at, row in enumerate(STORIES)
    ]
    labelled = [{"story": row["story"], "counts": [0, 1, 3]} for row in rows]
    args = arguments(
        folder,
        num_train_epochs=3,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="eval_votes_summarization_spearman",
    )
    trainer = NarrativeTwinsTrainer(
        trainable(),
        args,
        Dataset.from_list(rows),
        Dataset.from_list(rows[:4]),
        evaluator=[SalienceEvaluator(labelled, name="votes"), TwinsEvaluator(rows, name="twins")],
    )
    trainer.train()
    trainer.save_model(str(folder / "final"))
    return trainer


def test_metrics_are_logged_and_select_the_best_model(finished):
    logs = [entry for entry in finished.state.log_history if "eval_loss" in entry]
    assert len(logs) == 3
    for entry in logs:
        assert 0 <= entry["eval_twins_accuracy"] <= 1
        for operation in ("deletion", "shifting", "disruption", "summarization"):
            assert -1 <= entry[f"eval_votes_{operation}_spearman"] <= 1
            assert 0 <= entry[f"eval_votes_{operation}_auc"] <= 1
    best = max(logs, key=lambda entry: entry["eval_votes_summarization_spearman"])
    assert finished.state.best_metric == best["eval_votes_summarization_spearman"]
    folder = Path(finished.args.output_dir)
    assert finished.state.best_model_checkpoint == str(folder / f"checkpoint-{best['step']}")
    saved = load_file(folder / f"checkpoint-{best['step']}" / "model.safetensors")
    for name, weight in load_file(folder / "final" / "model.safetensors").items():
        assert torch.equal(weight, saved[name])


def test_curves_are_written_and_plotted(finished):
    folder = Path(finished.args.output_dir)
    curves = json.loads((folder / "curves.json").read_text())
    logged = [
        (entry["step"], entry["loss"]) for entry in finished.state.log_history if "loss" in entry
    ]
    assert curves["loss"] == [list(point) for point in logged]
    assert [step for step, _ in curves["loss"]] == list(range(1, 10))
    assert [step for step, _ in curves["eval_twins_accuracy"]] == [3, 6, 9]
    assert not {"epoch", "step", "eval_runtime", "train_loss"} & curves.keys()
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_model_card_has_no_rows(finished):
    folder = Path(finished.args.output_dir)
    cards = sorted(folder.rglob("README.md"))
    assert len(cards) == 4, "three checkpoints and the last model"
    for card in cards:
        text = card.read_text()
        assert "NarrativeTwinsLoss" in text, "the card is of this run"
        assert "narrative-salience" in text
        texts = {
            "marmoset",
            "zanzibar",
            *(sentence.lower() for row in STORIES for side in row.values() for sentence in side),
        }
        assert not [part for part in texts - {"it rained."} if part in text.lower()]
        assert "It rained." not in text


def test_saved_model_has_the_same_vectors_in_all_libraries(finished):
    folder = str(Path(finished.args.output_dir) / "final")
    texts = ["Nadia found 3 coins. It rained.", "Why?"]
    expected = finished.model.eval().encode(texts)
    assert SentenceTransformer(folder, device="cpu").encode(texts) == pytest.approx(
        expected, abs=1e-5
    )
    encoder = StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32")
    chunks = [encoder.tokenize([text]).chunks((0,), None) for text in texts]
    assert encoder.encode(chunks) == pytest.approx(expected, abs=1e-5)
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    for text, vector in zip(texts, expected, strict=True):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        assert states.mean(0).numpy() == pytest.approx(vector, abs=1e-5)


def test_incomplete_batches_are_dropped_in_training_only(tmp_path):
    args = arguments(
        tmp_path,
        dataloader_drop_last=True,
        per_device_train_batch_size=5,
        per_device_eval_batch_size=5,
    )
    rows = Dataset.from_list(STORIES)
    trainer = NarrativeTwinsTrainer(trainable(), args, rows, rows)
    for loader, sizes in (
        (trainer.get_train_dataloader(), [5, 5]),
        (trainer.get_eval_dataloader(), [5, 5, 2]),
    ):
        assert [int(batch["texts_row"].max()) + 1 for batch in loader] == sizes
    assert args.dataloader_drop_last
    for few in (rows.select(range(4)), {"a": rows.select(range(4)), "b": rows.select(range(3))}):
        with pytest.raises(
            ValueError, match="the training rows do not fill a batch of 5, and dataloader_drop_last"
        ):
            NarrativeTwinsTrainer(trainable(), args, few).train()


@pytest.mark.parametrize("columns", [["anchor"], ["anchor", "positive"]])
def test_loss_names_the_collator_that_it_needs(columns, tmp_path):
    """In the trainer of sentence-transformers, with its own collator of columns of text."""
    model = trainable()
    args = SentenceTransformerTrainingArguments(
        str(tmp_path), use_cpu=True, report_to="none", save_strategy="no"
    )
    rows = Dataset.from_dict({column: ["Nadia ran.", "It rained."] for column in columns})
    trainer = SentenceTransformerTrainer(model, args, rows, loss=NarrativeTwinsLoss(model))
    with pytest.raises(
        ValueError, match="needs batches of TwinsCollator.* train with NarrativeTwinsTrainer"
    ):
        trainer.train()


def test_loss_and_collator_work_in_the_trainer_of_sentence_transformers(tmp_path):
    model = trainable()
    settings = {
        "max_steps": 1,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
    }
    args = SentenceTransformerTrainingArguments(str(tmp_path), **settings)
    collator = TwinsCollator(StoryEncoder.from_sentence_transformer(model).tokens)
    rows, loss = Dataset.from_list(STORIES), NarrativeTwinsLoss(model)
    SentenceTransformerTrainer(model, args, rows, loss=loss, data_collator=collator).train()


def test_low_precision_is_trained_with_float32_copies(tmp_path):
    for dtype, kind in (("float32", torch.optim.AdamW), ("bfloat16", MasterWeightsAdamW)):
        trainer = NarrativeTwinsTrainer(
            trainable(dtype=dtype), arguments(tmp_path), Dataset.from_list(STORIES)
        )
        assert type(trainer.create_optimizer()) is kind


@pytest.mark.parametrize(("dtype", "attention"), [("float32", "sdpa"), ("bfloat16", "eager")])
def test_low_precision_is_trained_with_eager_attention(dtype, attention, tmp_path):
    """On a CPU; saved configurations and the model afterwards are not affected."""
    seen = []

    class Attention(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            seen.append(model[0].auto_model.config._attn_implementation)

    args = arguments(tmp_path, max_steps=2, save_strategy="steps", save_steps=1)
    model = trainable(dtype=dtype)
    NarrativeTwinsTrainer(model, args, Dataset.from_list(STORIES), callbacks=[Attention()]).train()
    assert seen == [attention] * 2 and model[0].auto_model.config._attn_implementation == "sdpa"
    saved = list(tmp_path.rglob("config.json"))
    assert saved and not any("eager" in path.read_text() for path in saved)


def test_columns_may_be_none_in_any_row(tmp_path):
    rows = [
        {**row, "title": None if at % 2 else "x", "number": None if at % 2 else at}
        for at, row in enumerate(STORIES)
    ]
    for column in ("twin", "negative", "negative_twin"):
        rows[2] = {**rows[2], column: None}
    data = Dataset.from_list(rows)
    args = arguments(tmp_path, max_steps=4, per_device_train_batch_size=3)
    for rows in (data, data.select([2, 3, 4]), {"a": data, "b": data}):
        trainer = NarrativeTwinsTrainer(trainable(), args, rows, eval_dataset=rows)
        trainer.train()
        assert trainer.state.global_step == 4
        kept = trainer.train_dataset["a"] if isinstance(rows, dict) else trainer.train_dataset
        assert [row["twin"] for row in kept].count(None) == 1, "the rows are unchanged"
        trainer.save_model(str(tmp_path / "model"))


def test_persistent_workers_use_the_current_epoch(tmp_path):
    def drawn(**options):
        seen = []

        class Loss(NarrativeTwinsLoss):
            def forward(self, sentence_features, labels=None):
                seen.append(sentence_features[0]["window_ids"].tolist())
                return super().forward(sentence_features, labels)

        model = trainable()
        args = arguments(tmp_path, num_train_epochs=4, per_device_train_batch_size=7, **options)
        NarrativeTwinsTrainer(model, args, Dataset.from_list(WINDOWS), loss=Loss(model)).train()
        return seen

    without_workers = drawn()
    assert len({str(ids) for ids in without_workers}) > 1
    assert drawn(dataloader_num_workers=1, dataloader_persistent_workers=True) == without_workers


def test_rows_with_windows_have_their_own_batch_size(tmp_path):
    args = arguments(tmp_path, per_device_train_batch_size=4, window_batch_size=2)
    sets = {"stories": Dataset.from_list(STORIES), "windows": Dataset.from_list(WINDOWS)}
    batches = list(NarrativeTwinsTrainer(trainable(), args, sets).get_train_dataloader())
    sizes = [
        (int(batch["texts_window_ids"].max()) + 1, int(batch["texts_row"].max()) + 1)
        for batch in batches
    ]
    assert sorted(sizes) == [*[(1, 4)] * 3, (3, 1), *[(3, 2)] * 3]
