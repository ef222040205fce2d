"""The salience loss: equal to a naive account of it, and trained alone and next to the twins
loss."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from tokenizers.processors import TemplateProcessing

from narrative_twins import JudgedStoriesCollator, SalienceLoss, StoryEncoder, score_stories
from narrative_twins.data import RowError, load_story_salience, load_window_twins
from narrative_twins.training.losses import count_windows
from narrative_twins.training.salience_loss import ONE_PASS_TEMPERATURES, TEMPERATURES

from support.models import SENTENCES, trainable
from support.oracle import Oracle
from support.twins_batches import QUIET, TWINS, assert_same, logged, model_of, trained, trainer_of

OPERATIONS = ("deletion", "shifting", "disruption", "summarization")
ONE_PASS = {"approximate": "one-pass"}
S = SENTENCES
STORIES = [
    {"id": "votes", "story": [S[0], S[2], "It rained.", S[5]], "counts": [0, 3, 1, 1]},
    {"story": S[:6], "windows": [[0, 2], [2, 6]], "labels": [0.5, 1.0, 0.0, 0.2, 0.0, 0.6]},
    # A window without votes.
    {"story": S[1:5], "windows": [[0, 2], [2, 4]], "labels": [0.0, 0.0, 0.0, 1.0]},
    # Windows of one sentence.
    {"story": S[:3], "windows": [[0, 1], [1, 2], [2, 3]], "labels": [1.0, 0.0, 1.0]},
]


def double_model(pooling="mean"):
    """A model in float64, which tests may change."""
    return copy.deepcopy(model_of(pooling)).double()


def batch_of(model, rows, operations=None, context_tokens=None, **options):
    encoder = StoryEncoder.from_sentence_transformer(model, context_tokens=context_tokens)
    batch = JudgedStoriesCollator(encoder.tokenizer, operations, **options)(rows)
    model.train(model.training)
    return {key.removeprefix("texts_"): value for key, value in batch.items()}


def naive_loss(
    model, rows, weights, temperatures, pooling="mean", across_windows=False, approximate=None
) -> float:
    """The mean over windows, or over stories across their windows, of the weighted mean over
    operations of the divergence, from scores of single texts."""
    oracle, losses = Oracle(model[0].auto_model, model.tokenizer, pooling), []
    for row in rows:
        n, labels = len(row["story"]), row.get("counts") or row["labels"]
        spans = row.get("windows") or [[0, n]]
        score = oracle.score if approximate is None else oracle.score_one_pass
        scores = score(row["story"], spans)
        parts = [list(range(lo, hi)) for lo, hi in spans if hi - lo > 1]
        for part in [[at for places in parts for at in places]] if across_windows else parts:
            total = sum(labels[at] for at in part)
            if total == 0:
                continue
            found = 0.0
            for name, weight in weights.items():
                powers = [math.exp(scores[name][at] / temperatures[name]) for at in part]
                for label, power in zip([labels[at] for at in part], powers, strict=True):
                    share = label / total
                    if share:
                        found += weight * share * math.log(share / (power / sum(powers)))
            losses.append(found / sum(weights.values()))
    return sum(losses) / len(losses)


@pytest.mark.parametrize(
    ("weights", "temperatures", "pooling", "options"),
    [
        *(({name: 1.0}, {}, "mean", {}) for name in OPERATIONS),
        (dict.fromkeys(OPERATIONS, 1.0), {}, "first", {"across_windows": True}),
        ({"summarization": 1.0, "deletion": 0.5, "disruption": 0.0}, {"deletion": 0.5}, "mean", {}),
        *(({name: 1.0}, {}, "mean", ONE_PASS) for name in OPERATIONS),
        (
            dict.fromkeys(OPERATIONS, 1.0),
            {"deletion": 0.5},
            "mean",
            ONE_PASS | {"across_windows": True},
        ),
    ],
)
def test_equal_to_a_naive_account(weights, temperatures, pooling, options):
    model = double_model(pooling)
    loss = SalienceLoss(model, weights, temperatures, **options)
    batch = batch_of(model, STORIES, list(weights), **options)
    temperatures = (ONE_PASS_TEMPERATURES if options.get("approximate") else TEMPERATURES) | (
        temperatures
    )
    expected = naive_loss(model, STORIES, weights, temperatures, pooling, **options)
    with torch.no_grad():
        found = loss([batch]).item()
    assert found == pytest.approx(expected, rel=1e-4) and found > 0.001
    assert loss.get_config_dict()["operations"] == weights
    assert set(SalienceLoss(model, weights, 0.3).temperatures.values()) == {0.3}


@pytest.mark.parametrize(
    ("operations", "temperatures", "options"),
    [(OPERATIONS, TEMPERATURES, {}), (OPERATIONS, ONE_PASS_TEMPERATURES, ONE_PASS)],
)
def test_the_gradient_is_that_of_the_naive_account(operations, temperatures, options):
    """Along the gradient, the naive loss changes as fast as the gradient says."""
    model, rows = double_model(), STORIES[:2]
    batch = batch_of(model, rows, **options)
    _, gradient = trained(SalienceLoss(model, **options)([batch]), model)
    norm = math.sqrt(sum(float(part.square().sum()) for part in gradient.values()))
    found, step = [], 1e-4
    weights = dict.fromkeys(operations, 1.0)
    # To one side, and from there to the other.
    for change in (step, -2 * step):
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name in gradient:
                    weight += change * gradient[name] / norm
        found.append(naive_loss(model, rows, weights, temperatures, **options))
    assert (found[0] - found[1]) / (2 * step) == pytest.approx(norm, rel=1e-3)


@pytest.mark.parametrize(
    ("training", "size", "options"), [(False, 3, {}), (True, 1000, {}), (False, 1, ONE_PASS)]
)
def test_cached_gradients_are_the_same(training, size, options):
    """With dropout, which differs between mini-batches, in a single one."""
    model, found = double_model().train(training), []
    for mini_batch_size in (None, size):
        torch.manual_seed(0)
        # A low temperature makes large gradients.
        loss = SalienceLoss(model, None, 0.01, mini_batch_size=mini_batch_size, **options)
        found.append(trained(loss([batch_of(model, STORIES, **options)]), model))
    assert_same(found[1], found[0])


def test_equal_texts_are_encoded_once():
    model = model_of()
    texts = batch_of(model, [STORIES[0], STORIES[0]], "deletion")["input_ids"]
    assert len(texts) == 1 + 4
    # Both windows of a story that fits the context are read in its whole text.
    batch = batch_of(model, STORIES[1:2], "summarization")
    assert len(batch["input_ids"]) == 1 + 6 and batch["window_ids"][0].max() == 1


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("context_tokens", [None, 60, 12])
def test_one_pass_scores_are_those_of_scoring(context_tokens, special):
    """Of stories, of stories in windows, and of those that exceed the context; also with a
    tokenizer without special tokens."""
    model = trainable()
    if not special:
        model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing("$A")
    sentences = S + [f"{text} Again." for text in S]
    count = len(sentences)
    rows = [
        {"story": sentences, "windows": windows, "counts": [1] * count}
        for windows in (
            [[0, count]],
            [[0, 2], [2, 9], [9, count]],
            [[2 * i, 2 * i + 2] for i in range(count // 2)],
        )
    ]
    loss = SalienceLoss(model, **ONE_PASS)
    batch = batch_of(model, rows, context_tokens=context_tokens, **ONE_PASS)
    encoder = StoryEncoder.from_sentence_transformer(model, context_tokens=context_tokens)
    if context_tokens is None:
        assert len(batch["input_ids"]) == 1, "all windows of a story are read at once"
    assert max(batch["attention_mask"].sum(dim=1)) <= encoder.context_tokens
    with torch.no_grad():
        vectors = loss.embed(batch, count_windows(batch))
    stories = [{"sentences": row["story"], "windows": row["windows"]} for row in rows]
    results = score_stories(stories, encoder, on_truncation="ignore", **ONE_PASS)
    judged = iter(batch["judged"])
    for result in results:
        for lo, hi in result.windows:
            window = next(judged)
            assert (window.window.lo, window.window.hi) == (lo, hi)
            for operation in loss.operations:
                found = window.scores(operation, vectors)
                assert found.dtype == torch.float32
                expected = result.scores[operation.name][lo:hi]
                assert found.tolist() == pytest.approx(expected, abs=1e-5)
    assert next(judged, None) is None


def test_what_is_left_out(caplog):
    """Windows of one sentence, those without a vote, and those beyond the context."""
    model = model_of()
    batch = batch_of(model, STORIES[3:])
    assert batch["judged"] == []
    loss, gradients = trained(SalienceLoss(model)([batch]), model)
    assert loss == 0.0 and gradients and not any(part.any() for part in gradients.values())
    assert [judged.window.lo for judged in batch_of(model, STORIES[2:3])["judged"]] == [2]
    tokens = StoryEncoder.from_sentence_transformer(model, context_tokens=30).tokenizer
    collator = JudgedStoriesCollator(tokens)
    row = {"story": [" ".join([S[3]] * 3), "It rained."], "counts": [1, 1]}
    assert collator([row, row])["texts_judged"] == []
    assert caplog.text.count("windows exceed the context of 30 tokens, and are not trained on") == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"operations": "erasure"}, "unknown operation 'erasure'"),
        ({"operations": {"deletion": -1}}, "weights must be finite numbers of at least 0"),
        ({"operations": {"deletion": math.nan}}, "weights must be finite numbers"),
        ({"operations": {"deletion": math.inf}}, "weights must be finite numbers"),
        ({"operations": {"deletion": 0}}, "and one of them above"),
        ({"temperature": 0}, "must be above 0"),
        ({"operations": "deletion", "temperature": {"shifting": 1}}, "name only deletion"),
        ({"max_shifts": 0}, "max_shifts=0"),
        ({"approximate": "two-pass"}, "choose 'one-pass' or None"),
        (ONE_PASS | {"max_shifts": 2}, "max_shifts=2 has no effect"),
        (ONE_PASS | {"model": model_of("first")}, "approximate='one-pass' needs mean pooling"),
    ],
)
def test_invalid_settings(options, problem):
    with pytest.raises(ValueError, match=problem):
        SalienceLoss(**{"model": model_of()} | options)


def test_batches_of_others_are_refused():
    model = model_of()
    one_pass = SalienceLoss(model, **ONE_PASS)
    batch = {"input_ids": torch.ones(1, 2)}
    for loss in (SalienceLoss(model), one_pass):
        with pytest.raises(ValueError, match="SalienceLoss needs batches of its collator"):
            loss([batch])
    with pytest.raises(ValueError, match="the batch is not for approximate='one-pass'"):
        one_pass([batch_of(model, STORIES)])
    with pytest.raises(ValueError, match="the batch is not for approximate=None"):
        SalienceLoss(model)([batch_of(model, STORIES, **ONE_PASS)])


@pytest.mark.parametrize("scale", [5e-324, 1e-50, 1e300])
def test_only_shares_of_votes_count(scale):
    """Also if the votes are beyond the range of float32."""
    model = model_of()
    story = {"story": ["A.", "B.", "C."], "labels": list(np.array([1, 0, 3], np.float32))}
    scaled = story | {"labels": [float(label) * scale for label in story["labels"]]}
    expected, found = (
        SalienceLoss(model)([batch_of(model, [row])]).item() for row in (story, scaled)
    )
    assert found == pytest.approx(expected, abs=1e-6) and expected > 0


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"story": ["A.", "B."]}, "a finite number of at least 0 for each of its 2 sentences"),
        ({"story": ["A.", "B."], "labels": [1.0]}, "for each of its 2 sentences"),
        ({"story": ["A.", "B."], "labels": [1.0, -1.0]}, "a finite number of at least 0"),
        ({"story": ["A.", "B."], "labels": ["1", "0"]}, "a finite number of at least 0"),
        ({"story": ["A.", "B."], "labels": [1e308, 1e308]}, "a finite number of at least 0"),
        ({"story": [], "labels": []}, "'story' must be a list of sentences"),
    ],
)
def test_invalid_rows(row, problem, tmp_path):
    model = model_of()
    with pytest.raises(RowError, match=f"row x: .*{problem}"):
        batch_of(model, [{"id": "x", **row}])
    with pytest.raises(RowError, match=f"train_dataset, row 0: .*{problem}"):
        rows = Dataset.from_list([row, *JUDGED])
        trainer_of(tmp_path, rows, model, loss=SalienceLoss(model))


# Training

JUDGED = Dataset.from_list(
    [
        {"story": [S[at % 5], "It rained.", f"He found {at} coins."], "counts": [0, 0, 1 + at]}
        for at in range(8)
    ]
)
OPTIONS = {"logging_steps": 1, "per_device_train_batch_size": 4, "num_train_epochs": 4}


def test_rows_under_two_names_train_both_losses(tmp_path):
    model = trainable()
    loss = {"exact": SalienceLoss(model, "shifting"), "one pass": SalienceLoss(model, **ONE_PASS)}
    data = {"twins": Dataset.from_list(TWINS[:4]), **dict.fromkeys(loss, JUDGED)}
    trainer = trainer_of(tmp_path, data, model, loss=loss, **OPTIONS)
    forms = [
        (batch["dataset_name"], any(judged.parts for judged in batch.get("texts_judged", ())))
        for batch in trainer.get_train_dataloader()
    ]
    assert sorted(forms) == [("exact", False)] * 2 + [("one pass", True)] * 2 + [("twins", False)]
    assert "dataset_name" not in JUDGED[0]


def test_the_trainer_makes_the_batches_that_the_loss_needs(tmp_path):
    """Stories across their windows, on the texts of the loss's own operations."""
    model = trainable()
    labels = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    rows = [{"story": S[:6], "windows": [[0, 3], [3, 6]], "labels": labels}] * 2
    tokens = StoryEncoder.from_sentence_transformer(model).tokenizer
    for across_windows, groups in ((False, [0, 1]), (True, [0, 0, 1, 1])):
        loss = SalienceLoss(model, "shifting", max_shifts=1, across_windows=across_windows)
        trainer = trainer_of(tmp_path, Dataset.from_list(rows), model, loss=loss, **OPTIONS)
        (batch,) = trainer.get_train_dataloader()
        assert [judged.group for judged in batch["texts_judged"]] == groups
        expected = loss.collator(tokens)(rows)
        assert batch["texts_input_ids"].tolist() == expected["texts_input_ids"].tolist()


def summarization_loss(model):
    return SalienceLoss(model, "summarization")


def test_a_loss_may_be_its_class(tmp_path):
    """Or a function, as for the trainer of sentence-transformers."""
    losses = {"a": summarization_loss, "b": SalienceLoss}
    for data, loss in ((JUDGED, SalienceLoss), (dict.fromkeys(losses, JUDGED), losses)):
        trainer = trainer_of(tmp_path, data, loss=loss)
        for each in trainer.loss.values() if loss is losses else [trainer.loss]:
            assert isinstance(each, SalienceLoss) and each.model is trainer.model


def test_rows_of_the_package_in_the_trainer_of_sentence_transformers(tmp_path):
    rows = load_story_salience(split="train[:4]", cache_dir=str(tmp_path / "cache"))
    model = trainable()
    loss = summarization_loss(model)
    collator = loss.collator(StoryEncoder.from_sentence_transformer(model).tokenizer)
    arguments = SentenceTransformerTrainingArguments(str(tmp_path), **QUIET, max_steps=1)
    trainer = SentenceTransformerTrainer(model, arguments, rows, loss=loss, data_collator=collator)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    assert "SalienceLoss" in (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_training_next_to_twins_and_resuming(tmp_path):
    def run(folder, **options):
        model = trainable()
        data = {"twins": Dataset.from_list(TWINS[:8]), "judged": JUDGED}
        loss = {"judged": SalienceLoss(model, "summarization")}
        return trainer_of(folder, data, model, loss=loss, **OPTIONS, **options)

    whole = run(tmp_path / "whole", save_strategy="steps", save_steps=8)
    whole.train()
    assert len(logged(whole)) == 4 * (2 + 2)
    resumed = run(tmp_path / "resumed")
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-8"))
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], weight), name


def test_turning_points_are_judgments(tmp_path):
    (row,) = load_window_twins(split="validation[:1]", cache_dir=str(tmp_path))
    row = {**row, "story": [window[:3] for window in row["story"]], "turning_points": [1, 5]}
    batch = batch_of(trainable(), [row], "summarization")
    assert [judged.labels for judged in batch["judged"]] == [[0, 1, 0], [0, 0, 1]]
    assert [judged.window.lo for judged in batch["judged"]] == [0, 3]
