"""The masked-language-model baseline: texts, masking, and the trained encoder."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer

from narrative_twins import StoryEncoder
from narrative_twins.data import RowError
from narrative_twins.training.evaluators import TwinsEvaluator
from narrative_twins.training.mlm import MaskedLanguageModelTrainer, masked_language_model
from narrative_twins.training.trainer import MaskedLanguageModelTrainingArguments

from support.twins_batches import QUIET, assert_same, gradients, logged, trained, without_dropout

STORY = ["Nadia found a map.", "It led to the mill."]
TWIN = ["A map was found by Nadia.", "The mill was where it led."]
NEGATIVE = ["Nadia found a coin.", "It led to the river."]
NEGATIVE_TWIN = ["A coin was found by Nadia.", "The river was where it led."]
ROW = {"story": STORY, "twin": TWIN, "negative": NEGATIVE, "negative_twin": NEGATIVE_TWIN}
WINDOWS = {
    "story": [[STORY[0]], [STORY[1]]],
    "twin": TWIN,
    "twin_windows": [[0], [0, 1]],
    "negative": [[NEGATIVE[0]], [NEGATIVE[1]]],
}


def rows(*content) -> Dataset:
    return Dataset.from_list(list(content))


def trainer_of(model, out, data, **options) -> MaskedLanguageModelTrainer:
    own = ("pooling", "evaluator", "eval_dataset")
    given = {name: options.pop(name) for name in own if name in options}
    arguments = MaskedLanguageModelTrainingArguments(str(out), **QUIET | options)
    return MaskedLanguageModelTrainer(model, arguments, data, **given)


def test_all_texts_of_all_data_sets_are_used(bert_folder, tmp_path):
    """Each an example of its row, cut at the context; streams are read to the end."""
    data = {
        "stories": rows(ROW).to_iterable_dataset(),
        "windows": rows(WINDOWS),
        "long": rows({"story": STORY * 50}),
    }
    trainer = trainer_of(bert_folder, tmp_path, data, context_tokens=30)
    found = trainer.train_dataset["input_ids"][:]
    assert [len(texts) for texts in found] == [4, 3, 1]
    known = [STORY, TWIN, NEGATIVE, NEGATIVE_TWIN, STORY, TWIN, NEGATIVE, STORY * 50]
    tokenizer = trainer.encoder.tokenizer.tokenizer
    plain = [tokenizer(" ".join(text))["input_ids"] for text in known]
    expected = [ids if len(ids) <= 30 else [*ids[:29], ids[-1]] for ids in plain]
    assert [ids for row in found for ids in row] == expected


def test_without_distractors(bert_folder, tmp_path):
    """Of training and validation rows, the stories and twins alone; the model card says so."""
    data = {"stories": rows(ROW), "windows": rows(WINDOWS), "alone": rows({"story": STORY})}
    options = {"distractors": False, "eval_dataset": rows(ROW)}
    trainer = trainer_of(bert_folder, tmp_path, data, **options)
    tokenizer = trainer.encoder.tokenizer.tokenizer
    story, twin = (tokenizer(" ".join(text))["input_ids"] for text in (STORY, TWIN))
    assert trainer.train_dataset["input_ids"][:] == [[story, twin], [story, twin], [story]]
    assert trainer.eval_dataset["input_ids"][:] == [[story, twin]]
    assert "without distractors" in trainer.objective_for_card


def test_fifteen_percent_of_tokens_are_masked(bert_folder, tmp_path):
    trainer = trainer_of(bert_folder, tmp_path, rows(*[{"story": STORY * 20}] * 64))
    labels = trainer.data_collator(list(trainer.train_dataset))["labels"]
    special = trainer.encoder.tokenizer.tokenizer.all_special_ids
    assert not torch.isin(labels, torch.tensor(special)).any()
    assert (labels != -100).float().mean() == pytest.approx(0.15, abs=0.02)


def naive_loss(model, batches):
    """The mean loss of the masked tokens of all batches, one text at a time, without padding."""
    losses = []
    for batch in batches:
        for ids, mask, labels in zip(
            *(batch[key] for key in ("input_ids", "attention_mask", "labels")), strict=True
        ):
            length = int(mask.sum())
            logits = model(input_ids=ids[None, :length]).logits[0]
            for at in range(length):
                if labels[at] != -100:
                    losses.append(torch.logsumexp(logits[at], 0) - logits[at, labels[at]])
    return sum(losses) / len(losses)


@pytest.fixture(scope="module")
def plain_model(bert_folder):
    """A model without dropout in float64."""
    return without_dropout(masked_language_model(bert_folder)).double()


MIXED = [
    ROW,
    {"story": STORY * 3},
    {key: ROW[key] for key in ("story", "twin")},
    ROW,
    ROW,
    {"story": STORY[:1]},
]
"""Rows of 4, 1, 2, 4, 4 and 1 texts."""


@pytest.mark.parametrize(("size", "accumulated"), [(None, 1), (None, 3), (3, 1), (1, 3)])
def test_loss_and_gradients_are_those_of_the_mean_over_masked_tokens(
    plain_model, tmp_path, size, accumulated
):
    """Of all texts of the rows of a step, in mini-batches, and in batches that are accumulated."""
    options = {"gradient_accumulation_steps": accumulated, "mini_batch_size": size}
    trainer = trainer_of(plain_model, tmp_path, rows(*MIXED), mlm_probability=0.4, **options)
    data = list(trainer.train_dataset)
    share = len(data) // accumulated
    batches = [
        trainer.data_collator(data[start : start + share]) for start in range(0, len(data), share)
    ]
    assert sum(len(batch["input_ids"]) for batch in batches) == 16
    batches, count = trainer.get_batch_samples(iter(batches), accumulated, torch.device("cpu"))
    plain_model.zero_grad()
    losses = [trainer.training_step(plain_model, batch, count) for batch in batches]
    found = float(sum(losses)), gradients(plain_model)
    assert_same(found, trained(naive_loss(plain_model, batches), plain_model), 1e-5)
    with torch.no_grad():
        assert trainer.compute_loss(plain_model, batches[0]).item() == pytest.approx(
            naive_loss(plain_model, batches[:1]).item(), abs=1e-5
        )


def test_evaluation_loss_is_that_of_all_texts(plain_model, tmp_path):
    options = {"per_device_eval_batch_size": 7, "dataloader_drop_last": True}
    trainer = trainer_of(plain_model, tmp_path, None, eval_dataset=rows(*MIXED), **options)
    collator, seen = trainer.data_collator, []
    trainer.data_collator = lambda rows: seen.append(collator(rows)) or seen[-1]
    found = trainer.evaluate()["eval_loss"]
    assert [len(batch["input_ids"]) for batch in seen] == [16]
    assert found == pytest.approx(naive_loss(plain_model, seen).item(), abs=1e-5)


def test_resumed_run_matches_an_uninterrupted_run(bert_folder, tmp_path):
    settings = {"max_steps": 5, "save_strategy": "steps", "save_steps": 3, "logging_steps": 1}
    settings |= {"per_device_train_batch_size": 2, "mini_batch_size": 3, "learning_rate": 1e-3}
    runs = [trainer_of(bert_folder, tmp_path, rows(*MIXED), **settings) for _ in range(2)]
    runs[0].train()
    shutil.rmtree(tmp_path / "checkpoint-5")
    runs[1].train(resume_from_checkpoint=True)
    losses = list(map(logged, runs))
    assert losses[0] == pytest.approx(losses[1], abs=1e-6) and len(losses[0]) == 5
    for first, second in zip(*(run.encoder.model.parameters() for run in runs), strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=1e-6)


def test_training_saves_an_encoder(bert_folder, tmp_path):
    trainer = trainer_of(
        bert_folder,
        tmp_path / "run",
        rows(*[ROW] * 4),
        eval_dataset=rows(ROW),
        evaluator=TwinsEvaluator([ROW], name="twins"),
        pooling="first",
        max_steps=4,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=2,
        learning_rate=1e-3,
        per_device_train_batch_size=4,
    )
    before = trainer.encoder.model.embeddings.word_embeddings.weight.detach().clone()
    trainer.train()
    weights = trainer.encoder.model.embeddings.word_embeddings.weight
    assert not torch.equal(before, weights), "the encoder is trained"
    curves = json.loads((tmp_path / "run" / "curves.json").read_text())
    assert [step for step, _ in curves["loss"]] == [1, 2, 3, 4]
    assert [step for step, _ in curves["eval_twins_accuracy"]] == [2, 4]
    assert "eval_loss" in curves and (tmp_path / "run" / "curves.png").exists()
    trainer.save_encoder(tmp_path / "encoder")
    saved = StoryEncoder.from_pretrained(tmp_path / "encoder", device="cpu", dtype="float32")
    assert saved.pooling == "first"
    assert torch.equal(saved.model.embeddings.word_embeddings.weight, weights)
    sentence_transformer = SentenceTransformer(str(tmp_path / "encoder"), device="cpu")
    assert trainer.evaluator(sentence_transformer) == trainer.evaluator(trainer.encoder)


def test_what_is_refused(bert_folder, tmp_path):
    with pytest.raises(RowError, match="train_dataset, row 1"):
        trainer_of(bert_folder, tmp_path, rows({"story": STORY}, {"story": []}))
    with pytest.raises(RowError, match=r"train_dataset\['b'\], row 0"):
        trainer_of(bert_folder, tmp_path, {"a": rows({"story": STORY}), "b": rows({"story": [""]})})
    model = masked_language_model(bert_folder, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="small updates are rounded away"):
        trainer_of(model, tmp_path, rows(ROW))
