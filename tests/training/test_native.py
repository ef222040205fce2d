"""Our trainers take what users of transformers and sentence-transformers know: stock code beside
ours."""

from __future__ import annotations

import copy
import pickle
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from datasets.fingerprint import Hasher
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses
from transformers import BertForMaskedLM, TrainingArguments, integrations, pipeline, trainer_utils
from transformers import trainer as transformers_trainer

from narrative_twins import (
    MaskedLanguageModelTrainer,
    MaskedLanguageModelTrainingArguments,
    NarrativeTwinsLoss,
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
    StoryEncoder,
    TwinsCollator,
    TwinsEvaluator,
    score_stories,
)
from narrative_twins.data import RowError
from narrative_twins.encoder import passes
from narrative_twins.encoder.precision import FastLinear

from support.models import encoder_of, trainable
from support.processes import run_python
from support.twins_batches import STORIES as TEXTS
from support.twins_batches import WINDOWS, assert_same, features, model_of, trained

STORIES = [
    {
        "story": [f"Nadia found {at} coins.", "It rained."],
        "twin": ["Money was found.", f"{at} of it."],
        "negative": [f"Her brother laughed {at} times."],
    }
    for at in range(12)
]
PAIRS = [
    {"sentence1": f"She swam {at} times.", "sentence2": "He ran.", "score": 1.0} for at in range(8)
]
STORY = (
    "Nadia found a map under the floor of the old mill. It rained. She ran to the river, and swam"
    " across."
)


def settings(**options):
    return {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        **options,
    }


def arguments(folder, **options) -> NarrativeTwinsTrainingArguments:
    return NarrativeTwinsTrainingArguments(str(folder), **settings(**options))


def logged(trainer, name: str = "loss") -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def linear_layers(model) -> set[type]:
    return {type(layer) for layer in model.modules() if isinstance(layer, torch.nn.Linear)}


def without_dropout():
    """A model that two runs train alike, even if one of them recomputes or compiles it."""
    model = trainable()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


@pytest.mark.parametrize(
    "flag", ["gradient_checkpointing", pytest.param("torch_compile", marks=pytest.mark.slow)]
)
def test_flags_train_as_without_them_and_as_in_the_stock_trainer(flag, tmp_path):
    options = {
        "max_steps": 3,
        "per_device_train_batch_size": 4,
        "logging_steps": 1,
        "learning_rate": 1e-3,
    }
    if flag == "torch_compile":
        options |= {"torch_compile_backend": "inductor"}
    found = []
    for flags in ({}, {flag: True}):
        model = without_dropout()
        trainer = NarrativeTwinsTrainer(
            model, arguments(tmp_path, **options, **flags), Dataset.from_list(STORIES)
        )
        trainer.train()
        found.append(logged(trainer))
        assert linear_layers(model) == {torch.nn.Linear}, "training changes them for its time only"
        assert not any("orig_mod" in name or "Fast" in name for name in model.state_dict())
    model = without_dropout()
    stock = SentenceTransformerTrainer(
        model,
        SentenceTransformerTrainingArguments(
            str(tmp_path), **settings(**options, weight_decay=0.01, **{flag: True})
        ),
        Dataset.from_list(STORIES),
        loss=NarrativeTwinsLoss(model),
        data_collator=TwinsCollator(StoryEncoder.from_sentence_transformer(model).tokens),
    )
    stock.train()
    assert found[1] == pytest.approx(found[0], abs=1e-4) and found[1] == pytest.approx(
        logged(stock), abs=1e-4
    )
    assert len(found[1]) == 3


def test_linear_layers_are_fast_while_training(tmp_path):
    seen = []

    class Loss(NarrativeTwinsLoss):
        def forward(self, sentence_features, labels=None):
            seen.append(linear_layers(self.model))
            return super().forward(sentence_features, labels)

    model = trainable()
    NarrativeTwinsTrainer(
        model, arguments(tmp_path, max_steps=1), Dataset.from_list(STORIES), loss=Loss(model)
    ).train()
    assert seen == [{FastLinear}]


@pytest.fixture
def fast(monkeypatch):
    """A machine with native bfloat16."""
    monkeypatch.setattr(passes, "fast_dtype", lambda device: torch.bfloat16)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "modernbert"])
def test_copies_score_alike(kind, fast, tmp_path):
    for part in encoder_of(kind):
        part.save_pretrained(tmp_path)
    encoder = StoryEncoder.from_pretrained(tmp_path, device="cpu")
    assert encoder.dtype == torch.bfloat16
    pipe = pipeline("narrative-salience", model=str(tmp_path), device="cpu")
    expected = [list(score_stories([STORY], encoder))[0].scores, pipe(STORY)]
    for copied in (copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))):
        copies = copied(encoder), copied(pipe)
        # The weights of the copies are their own; those of the originals may be gone.
        assert copies[0].model is not encoder.model
        assert [list(score_stories([STORY], copies[0]))[0].scores, copies[1](STORY)] == expected
        exact = copies[0].passes.products.exact
        assert exact and {id(weight) for weight in copies[0].model.parameters()} >= set(exact)


FINGERPRINT = """
from datasets.fingerprint import Hasher
from transformers import pipeline
import narrative_twins
held = [object() for _ in range({count})]
pipe = pipeline("narrative-salience", device="cpu", operations=["deletion", "summarization"])
print(Hasher.hash(pipe))
"""


def test_fingerprints_are_equal_from_process_to_process_and_call_to_call():
    """So `datasets.map` finds its cache."""
    found = {run_python("-c", FINGERPRINT.format(count=count)) for count in (1, 10_000)}
    pipe = pipeline("narrative-salience", device="cpu", operations=["deletion", "summarization"])
    found.add(Hasher.hash(pipe) + "\n")
    pipe(STORY)
    found.add(Hasher.hash(pipe) + "\n")
    assert len(found) == 1


def test_map_over_a_data_set_in_two_processes(fast, tmp_path):
    for part in encoder_of("bert"):
        part.save_pretrained(tmp_path)
    pipe = pipeline(
        "narrative-salience", model=str(tmp_path), device="cpu", operations="summarization"
    )
    rows = Dataset.from_list(
        [{"sentences": ["Nadia ran.", f"It rained {at} times.", "Why?"]} for at in range(4)]
    )
    alone, shared = rows.map(pipe), rows.map(pipe, num_proc=2)
    assert [row["scores"] for row in alone] == [row["scores"] for row in shared]
    assert alone["scores"][:] == [pipe(row)["scores"] for row in rows]
    assert rows.map(pipe)._fingerprint == alone._fingerprint


@contextmanager
def backend(*trials):
    """A backend of `hyperparameter_search`, in place of Optuna, that runs these trials."""
    optuna = trainer_utils.HPSearchBackend.OPTUNA

    class Backend:
        def ensure_available(self):
            pass

        def run(self, trainer, n_trials, direction):
            runs = []
            for number, trial in enumerate(trials):
                trainer.train(
                    resume_from_checkpoint=None, trial=SimpleNamespace(number=number, params=trial)
                )
                runs.append(trainer_utils.BestRun(str(number), logged(trainer)[0], trial))
            return runs

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(transformers_trainer.ALL_HYPERPARAMETER_SEARCH_BACKENDS, optuna, Backend)
        patch.setattr(integrations, "hp_params", lambda trial: trial.params)
        yield


def search(trainer):
    return trainer.hyperparameter_search(
        hp_space=lambda trial: trial.params, backend="optuna", n_trials=3
    )


def test_hyperparameter_search_sets_the_objective_of_each_trial(tmp_path):
    # All rows are in a batch, so their order does not matter.
    options = {"max_steps": 2, "per_device_train_batch_size": 12, "logging_steps": 1}
    trials = (
        {"temperature": 0.05},
        {"temperature": 0.5},
        {"temperature": 0.05, "distractors": False},
    )
    made = []

    def model_init():
        made.append(without_dropout())
        return made[-1]

    args = arguments(tmp_path, **options)
    trainer = NarrativeTwinsTrainer(None, args, Dataset.from_list(STORIES), model_init=model_init)
    seen, forward = [], NarrativeTwinsLoss.forward

    def watched(loss, *args):
        seen.append((loss.temperature, loss.distractors, loss.model))
        return forward(loss, *args)

    with backend(*trials), pytest.MonkeyPatch.context() as patch:
        patch.setattr(NarrativeTwinsLoss, "forward", watched)
        runs = search(trainer)
    assert [loss[:2] for loss in seen[::2]] == [(0.05, True), (0.5, True), (0.05, False)]
    assert len({id(model) for *_, model in seen}) == 3 and seen[-1][2] is trainer.model is made[-1]
    assert not trainer.data_collator.distractors
    for run, trial in zip(runs, trials, strict=True):
        args = arguments(tmp_path, **options, **trial)
        alone = NarrativeTwinsTrainer(without_dropout(), args, Dataset.from_list(STORIES))
        alone.train()
        assert run.objective == pytest.approx(logged(alone)[0], abs=1e-4)
    assert all(linear_layers(model) == {torch.nn.Linear} for model in made)


def test_losses_of_users_are_kept_or_made_anew(tmp_path):
    options = {"max_steps": 1, "per_device_train_batch_size": 4, "logging_steps": 1}
    model = trainable()
    args = arguments(tmp_path, **options)
    data = Dataset.from_list(STORIES)
    fixed = NarrativeTwinsTrainer(
        None,
        args,
        data,
        model_init=lambda: trainable(),
        loss=NarrativeTwinsLoss(model, temperature=0.3),
    )
    with backend({"temperature": 0.5}):
        search(fixed)
    assert fixed.loss.temperature == 0.3 and fixed.loss.model is fixed.model
    made = NarrativeTwinsTrainer(
        None,
        args,
        data,
        model_init=lambda: trainable(),
        loss=lambda model: NarrativeTwinsLoss(model, 2 * args.temperature),
    )
    with backend({"temperature": 0.4}):
        search(made)
    assert made.loss.temperature == 0.8 and made.loss.model is made.model


def test_dropout_is_checked_in_models_of_model_init(tmp_path):
    with pytest.raises(ValueError, match="twins='dropout' needs an encoder with dropout"):
        NarrativeTwinsTrainer(
            None,
            arguments(tmp_path, twins="dropout"),
            Dataset.from_list(STORIES),
            model_init=lambda: trainable("modernbert", dropout=0.0),
        )


def masked_model():
    model, _ = encoder_of("bert")
    torch.manual_seed(3)
    return BertForMaskedLM(model.config)


def test_masked_language_modeling_starts_each_trial_anew(tmp_path):
    options = settings(max_steps=1, logging_steps=1)
    args = MaskedLanguageModelTrainingArguments(str(tmp_path), **options)
    evaluator = TwinsEvaluator(STORIES, name="twins")
    trainer = MaskedLanguageModelTrainer(
        args=args,
        train_dataset=Dataset.from_list(STORIES),
        eval_dataset=Dataset.from_list(STORIES[:2]),
        model_init=masked_model,
        processing_class=encoder_of("bert")[1],
        evaluator=evaluator,
    )
    with backend({"mlm_probability": 0.15}, {"mlm_probability": 0.6}):
        first, second = search(trainer)
    assert first.objective != second.objective
    assert trainer.data_collator.mask.mlm_probability == 0.6
    assert trainer.encoder.model is trainer.model.base_model
    assert "eval_twins_accuracy" in trainer.evaluate()
    with pytest.raises(ValueError, match="either model or model_init"):
        MaskedLanguageModelTrainer(masked_model(), args, model_init=masked_model)


@pytest.mark.parametrize("kind", [SentenceTransformerTrainingArguments, TrainingArguments])
def test_arguments_of_another_class_are_refused(kind, tmp_path):
    args = kind(str(tmp_path), **settings())
    with pytest.raises(
        ValueError, match=f"class {kind.__name__}, .* use NarrativeTwinsTrainingArguments, "
    ):
        NarrativeTwinsTrainer(trainable(), args, Dataset.from_list(STORIES))
    with pytest.raises(ValueError, match="use MaskedLanguageModelTrainingArguments, "):
        MaskedLanguageModelTrainer(masked_model(), args, Dataset.from_list(STORIES))


class Truncated(torch.nn.Module):
    """A model with vectors and states of fewer dimensions."""

    def __init__(self, model, size):
        super().__init__()
        self.model, self.size = model, size

    def __iter__(self):
        return iter(self.model)

    def forward(self, features):
        return {
            name: value[..., : self.size]
            for name, value in self.model(features).items()
            if "embedding" in name
        }


@pytest.mark.parametrize("texts", [TEXTS, WINDOWS], ids=["stories", "windows"])
@pytest.mark.parametrize("mini_batch_size", [None, 2])
def test_matryoshka_loss_truncates_the_windows(texts, mini_batch_size):
    model = model_of()
    batch = features(model, texts)
    sizes = {32: 1.0, 8: 0.5, 3: 2.0}
    expected = trained(
        sum(
            weight * NarrativeTwinsLoss(Truncated(model, size))([batch])
            for size, weight in sizes.items()
        ),
        model,
    )
    inner = NarrativeTwinsLoss(model, mini_batch_size=mini_batch_size)
    loss = losses.MatryoshkaLoss(model, inner, list(sizes), list(sizes.values()))
    assert_same(trained(loss([batch], None), model), expected, 1e-5)


def test_wrapped_losses(tmp_path):
    model = trainable()
    data = Dataset.from_list(STORIES)
    matryoshka = losses.MatryoshkaLoss(model, NarrativeTwinsLoss(model), [32, 8])
    trainer = NarrativeTwinsTrainer(
        model, arguments(tmp_path, max_steps=1, logging_steps=1), data, loss=matryoshka
    )
    trainer.train()
    assert len(logged(trainer)) == 1
    for wrapper in (
        losses.AdaptiveLayerLoss(model, NarrativeTwinsLoss(model)),
        losses.Matryoshka2dLoss(model, NarrativeTwinsLoss(model), [32, 8]),
    ):
        for loss, rows in ((wrapper, data), ({"twins": wrapper}, {"twins": data})):
            with pytest.raises(
                ValueError,
                match=f"{type(wrapper).__name__} does not work around NarrativeTwinsLoss",
            ):
                NarrativeTwinsTrainer(model, arguments(tmp_path), rows, loss=loss)


def test_prompts_are_refused_for_twins(tmp_path):
    model, data = trainable(), Dataset.from_list(STORIES)
    for prompts in ("Story: ", {"story": "Story: "}, {"twins": "Story: "}):
        with pytest.raises(
            ValueError, match="prompts=.*: narrative twins are encoded without prompts"
        ):
            NarrativeTwinsTrainer(model, arguments(tmp_path, prompts=prompts), {"twins": data})


def both(model, folder, loss=None, **options):
    """A trainer on twins and on pairs of sentences."""
    data = {"twins": Dataset.from_list(STORIES), "pairs": Dataset.from_list(PAIRS)}
    loss = loss or {"pairs": losses.CosineSimilarityLoss(model)}
    return NarrativeTwinsTrainer(model, arguments(folder, **options), data, data, loss=loss)


def test_twins_beside_another_data_set_and_loss(tmp_path):
    model = trainable()
    options = {
        "per_device_train_batch_size": 4,
        "logging_steps": 1,
        "learning_rate": 2e-4,
        "num_train_epochs": 6,
    }
    trainer = both(model, tmp_path, eval_strategy="epoch", **options)
    trainer.train()
    for name in ("eval_twins_loss", "eval_pairs_loss"):
        values = logged(trainer, name)
        assert len(values) == 6 and values[-1] < values[0], name
    assert len(logged(trainer)) == 6 * (3 + 2)


@pytest.mark.parametrize("twins", ["default", "module", "function"])
def test_loss_of_a_mixed_batch_is_that_of_the_run_alone(twins, tmp_path):
    """For twins that of our trainer, for pairs that of the stock trainer, prompts included."""
    model = trainable().eval()
    options = {"per_device_train_batch_size": 4, "prompts": {"pairs": "Compare: "}}
    given = {"module": NarrativeTwinsLoss(model), "function": NarrativeTwinsLoss}
    loss = {"pairs": losses.CosineSimilarityLoss(model)} | (
        {"twins": given[twins]} if twins in given else {}
    )
    mixed = both(model, tmp_path, loss, **options)
    alone = NarrativeTwinsTrainer(model, arguments(tmp_path), Dataset.from_list(STORIES))
    stock = SentenceTransformerTrainer(
        model,
        SentenceTransformerTrainingArguments(str(tmp_path), **settings(prompts="Compare: ")),
        Dataset.from_list(PAIRS),
        loss=losses.CosineSimilarityLoss(model),
    )
    assert mixed.data_collator.valid_label_columns == stock.data_collator.valid_label_columns
    for name, rows, other in (("twins", STORIES, alone), ("pairs", PAIRS, stock)):
        batch = mixed.data_collator([{**row, "dataset_name": name} for row in rows[:4]])
        found = mixed.compute_loss(model, batch)
        assert torch.equal(found, other.compute_loss(model, other.data_collator(rows[:4])))


def test_rows_of_twins_are_checked_beside_others(tmp_path):
    model = trainable()
    data = {
        "twins": Dataset.from_list([*STORIES, {"story": []}]),
        "pairs": Dataset.from_list(PAIRS),
    }
    with pytest.raises(RowError, match=r"^train_dataset\['twins'\], row 12: 'story' is empty"):
        NarrativeTwinsTrainer(
            model, arguments(tmp_path), data, loss={"pairs": losses.CosineSimilarityLoss(model)}
        )
    with pytest.raises(RowError, match=r"^train_dataset\['pairs'\], row 0: no column 'story'"):
        NarrativeTwinsTrainer(
            model, arguments(tmp_path), {**data, "twins": Dataset.from_list(STORIES)}
        )
