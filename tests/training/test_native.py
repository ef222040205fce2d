"""Our trainers take what users of transformers and sentence-transformers know: stock code next to
ours."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses

from narrative_twins import NarrativeTwinsLoss, NarrativeTwinsTrainer, StoryEncoder, TwinsCollator
from narrative_twins.data import RowError

from support.models import trainable
from support.twins_batches import (
    QUIET,
    STORIES,
    TWINS,
    WINDOWS,
    assert_same,
    features,
    logged,
    model_of,
    trained,
    trainer_of,
    without_dropout,
)


def twins() -> Dataset:
    """Rows of twins, new ones each time: sentence-transformers changes data sets in place."""
    return Dataset.from_list(TWINS)


def pairs() -> Dataset:
    """Rows for a loss of sentence-transformers."""
    row = {"sentence2": "He ran.", "score": 1.0}
    return Dataset.from_list([{"sentence1": f"She swam {at} times.", **row} for at in range(8)])


def stock(folder, rows, model, loss=None, **options) -> SentenceTransformerTrainer:
    """The trainer of sentence-transformers, with our loss and collator unless a loss is given."""
    arguments = SentenceTransformerTrainingArguments(str(folder), **QUIET | options)
    collator = TwinsCollator(StoryEncoder.from_sentence_transformer(model).tokenizer)
    return SentenceTransformerTrainer(
        model,
        arguments,
        rows,
        loss=loss or NarrativeTwinsLoss(model),
        data_collator=None if loss else collator,
    )


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["gradient_checkpointing", "torch_compile"])
def test_flags_train_as_without_them_and_as_the_stock_trainer(flag, tmp_path):
    options = {"max_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 1}
    options |= {"learning_rate": 1e-3, "weight_decay": 0.01}
    if flag == "torch_compile":
        options["torch_compile_backend"] = "aot_eager"
    found = []
    for kind, flags in ((trainer_of, {}), (trainer_of, {flag: True}), (stock, {})):
        model = without_dropout(trainable())
        trainer = kind(tmp_path, twins(), model, **options, **flags)
        trainer.train()
        found.append(logged(trainer))
        assert not any("orig_mod" in name for name in model.state_dict())
    assert len(found[1]) == 3
    assert found[1] == pytest.approx(found[0], abs=1e-4)
    assert found[1] == pytest.approx(found[2], abs=1e-4)


def test_arguments_of_another_class_are_refused(tmp_path):
    args = SentenceTransformerTrainingArguments(str(tmp_path), **QUIET)
    with pytest.raises(ValueError, match="class SentenceTransformerTrainingArguments, .* use Narr"):
        NarrativeTwinsTrainer(trainable(), args, twins())


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


@pytest.mark.parametrize(("texts", "size"), [(STORIES, None), (WINDOWS, 2)])
def test_matryoshka_loss_truncates_the_windows(texts, size, tmp_path):
    model = model_of()
    batch = features(model, texts)
    sizes = {32: 1.0, 8: 0.5, 3: 2.0}
    expected = sum(
        weight * NarrativeTwinsLoss(Truncated(model, size))([batch])
        for size, weight in sizes.items()
    )
    inner = NarrativeTwinsLoss(model, mini_batch_size=size)
    loss = losses.MatryoshkaLoss(model, inner, list(sizes), list(sizes.values()))
    expected = trained(expected, model)
    assert_same(trained(loss([batch], None), model), expected, 1e-5)
    trainer_of(tmp_path, twins(), model, loss=loss, max_steps=1, learning_rate=0.0).train()


def test_twins_next_to_another_data_set_and_loss(tmp_path):
    model, data = trainable(), {"twins": twins(), "pairs": pairs()}
    trainer = trainer_of(
        tmp_path,
        data,
        model,
        eval_dataset=data,
        loss={"pairs": losses.CosineSimilarityLoss(model)},
        per_device_train_batch_size=4,
        logging_steps=1,
        learning_rate=5e-4,
        num_train_epochs=3,
        eval_strategy="epoch",
    )
    trainer.train()
    for name in ("eval_twins_loss", "eval_pairs_loss"):
        values = logged(trainer, name)
        assert len(values) == 3 and values[-1] < values[0], name
    assert len(logged(trainer)) == 3 * (3 + 2)


@pytest.mark.parametrize("given", [None, "module", "function"])
def test_loss_of_a_mixed_batch_is_that_of_the_run_alone(given, tmp_path):
    """For twins that of our trainer, for pairs that of the stock trainer, prompts included."""
    model = trainable().eval()
    loss = {"pairs": losses.CosineSimilarityLoss(model)}
    if given is not None:
        loss["twins"] = NarrativeTwinsLoss(model) if given == "module" else NarrativeTwinsLoss
    data, prompts = {"twins": twins(), "pairs": pairs()}, {"pairs": "Compare: "}
    mixed = trainer_of(tmp_path, data, model, loss=loss, prompts=prompts)
    alone = trainer_of(tmp_path, twins(), model)
    theirs = stock(tmp_path, pairs(), model, loss["pairs"], prompts="Compare: ")
    assert mixed.data_collator.valid_label_columns == theirs.data_collator.valid_label_columns
    for name, other in (("twins", alone), ("pairs", theirs)):
        rows = [dict(row) for row in data[name].select(range(4))]
        batch = mixed.data_collator([{**row, "dataset_name": name} for row in rows])
        found = mixed.compute_loss(model, batch)
        assert torch.equal(found, other.compute_loss(model, other.data_collator(rows)))
    for refused in ("Story: ", {"twins": "Story: "}):
        with pytest.raises(ValueError, match="narrative twins are encoded without prompts"):
            trainer_of(tmp_path, data, model, loss=loss, prompts=refused)


def test_rows_of_twins_are_checked_next_to_others(tmp_path):
    model = trainable()
    loss = {"pairs": losses.CosineSimilarityLoss(model)}
    invalid = {"twins": Dataset.from_list([*TWINS, {"story": []}]), "pairs": pairs()}
    with pytest.raises(RowError, match=r"^train_dataset\['twins'\], row 12: 'story'.* is empty"):
        trainer_of(tmp_path, invalid, model, loss=loss)
    with pytest.raises(RowError, match=r"^train_dataset\['pairs'\], row 0: no column 'story'"):
        trainer_of(tmp_path, {"twins": twins(), "pairs": pairs()}, model)
