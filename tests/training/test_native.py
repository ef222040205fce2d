"""Our trainer takes what users of transformers and sentence-transformers know: stock code next to
ours, and data sets with losses of their own."""

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses

from narrative_twins import NarrativeTwinsLoss, SalienceLoss, StoryEncoder
from narrative_twins.training.losses import count_windows

from support.models import SENTENCES, trainable
from support.twins_batches import (
    JUDGED,
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
)

PAIRS = [
    {"sentence1": f"She swam {at} times.", "sentence2": "He ran.", "score": 0.0} for at in range(8)
]
"""Rows for a loss of sentence-transformers, which is high for any weights that are not trained."""


FLAGS = [
    {"gradient_checkpointing": True},
    {"torch_compile": True, "torch_compile_backend": "aot_eager"},
]


def without_dropout():
    """A model that two runs train alike, even if one of them recomputes or compiles it."""
    model = trainable()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def stock(folder, rows, model, loss, **options) -> SentenceTransformerTrainer:
    """The trainer of sentence-transformers, with the collator of our losses."""
    arguments = SentenceTransformerTrainingArguments(str(folder), **QUIET | options)
    collator = None
    if hasattr(loss, "collator"):
        collator = loss.collator(StoryEncoder.from_sentence_transformer(model).tokenizer)
    return SentenceTransformerTrainer(model, arguments, rows, loss=loss, data_collator=collator)


@pytest.mark.parametrize(("kind", "rows"), [(NarrativeTwinsLoss, TWINS), (SalienceLoss, JUDGED)])
@pytest.mark.parametrize("flags", [{}, *(pytest.param(x, marks=pytest.mark.slow) for x in FLAGS)])
def test_runs_as_in_the_trainer_of_sentence_transformers(kind, rows, flags, tmp_path):
    """Also with flags, which change how it is computed only."""
    options = {"max_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 1}
    options |= {"learning_rate": 1e-3, "weight_decay": 0.01}
    runs = []
    for make, changed in ((trainer_of, flags), (stock, {})):
        model = without_dropout()
        # New rows each time: sentence-transformers changes data sets in place.
        data = Dataset.from_list(rows)
        trainer = make(tmp_path, data, model, loss=kind(model), **options, **changed)
        trainer.train()
        runs.append(logged(trainer))
        assert not any("orig_mod" in name for name in model.state_dict())
    assert len(runs[0]) == 3 and runs[0] == pytest.approx(runs[1], abs=1e-4)
    trainer.save_model(str(tmp_path / "saved"))
    assert kind.__name__ in (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("texts", "size"), [(STORIES, None), (WINDOWS, 2)])
def test_matryoshka_loss_truncates_the_windows(texts, size, tmp_path):
    model, weights = model_of(), {32: 1.0, 8: 0.5, 3: 2.0}
    batch, plain = features(model, texts), NarrativeTwinsLoss(model)

    def of_truncated(texts, layout):
        vectors = plain.embed(texts, count_windows(texts))
        parts = ((weight, vectors[..., :size]) for size, weight in weights.items())
        return sum(weight * plain.loss_of_vectors(part, layout) for weight, part in parts)

    plain.loss_of_texts = of_truncated
    expected = trained(plain([batch]), model)
    inner = NarrativeTwinsLoss(model, mini_batch_size=size)
    loss = losses.MatryoshkaLoss(model, inner, list(weights), list(weights.values()))
    assert_same(trained(loss([batch], None), model), expected, 1e-5)
    trainer_of(tmp_path, Dataset.from_list(TWINS), model, loss=loss, max_steps=1).train()


@pytest.mark.parametrize("kind", [None, "module", "class"])
def test_loss_of_a_mixed_batch_is_the_loss_of_the_run_alone(kind, tmp_path):
    """For twins in our trainer, for pairs in the stock trainer, prompts included."""
    model = trainable().eval()
    loss = {"pairs": losses.CosineSimilarityLoss(model)}
    if kind is not None:
        loss["twins"] = NarrativeTwinsLoss(model) if kind == "module" else NarrativeTwinsLoss
    data = {"twins": Dataset.from_list(TWINS), "pairs": Dataset.from_list(PAIRS)}
    options = {"loss": loss, "eval_dataset": data, "per_device_train_batch_size": 4}
    options |= {"num_train_epochs": 6, "eval_strategy": "epoch", "learning_rate": 5e-4}
    mixed = trainer_of(tmp_path, data, model, prompts={"pairs": "Compare: "}, **options)
    alone = trainer_of(tmp_path, data["twins"], model)
    theirs = stock(tmp_path, Dataset.from_list(PAIRS), model, loss["pairs"], prompts="Compare: ")
    assert mixed.data_collator.valid_label_columns == theirs.data_collator.valid_label_columns
    for name, other, rows in (("twins", alone, TWINS[:4]), ("pairs", theirs, PAIRS[:4])):
        batch = mixed.data_collator([{**row, "dataset_name": name} for row in rows])
        expected = other.compute_loss(model, other.data_collator(rows))
        assert torch.equal(mixed.compute_loss(model, batch), expected)
    for refused in ("Story: ", {"twins": "Story: "}):
        with pytest.raises(ValueError, match="narrative twins have the prompt of the encoder"):
            trainer_of(tmp_path, data, model, loss=loss, prompts=refused)
    if kind is None:
        # Made last, since accelerate keeps the state of the last trainer only.
        mixed = trainer_of(tmp_path, data, model, **options)
        before = mixed.evaluate()
        mixed.train()
        # Twins and pairs may pull against each other, but not both can get worse.
        names = ("eval_twins_loss", "eval_pairs_loss")
        assert all(len(logged(mixed, name)) == 6 for name in names)
        assert any(logged(mixed, name)[-1] < before[name] for name in names)


def test_each_data_set_has_the_batches_that_its_loss_needs(tmp_path):
    """The same rows under several names; a loss may be a function of the model, or its class."""
    rows = [{"story": SENTENCES[:6], "windows": [[0, 3], [3, 6]], "labels": [0, 1, 0, 0, 0, 0]}] * 2
    loss = {
        "class": SalienceLoss,
        "one pass": lambda model: SalienceLoss(model, approximate="one-pass"),
        "stories": lambda model: SalienceLoss(model, "shifting", max_shifts=1, across_windows=True),
    }
    judged = Dataset.from_list(rows)
    data = {"twins": Dataset.from_list(TWINS[:2]), **dict.fromkeys(loss, judged)}
    trainer = trainer_of(tmp_path, data, loss=loss, per_device_train_batch_size=4)
    batches = {batch["dataset_name"]: batch for batch in trainer.get_train_dataloader()}
    assert len(batches) == 4 and "dataset_name" not in judged.column_names
    tokens = StoryEncoder.from_sentence_transformer(trainer.model).tokenizer
    for name, groups in (("class", [0, 1]), ("one pass", [0, 1]), ("stories", [0, 0, 1, 1])):
        assert [each.group for each in batches[name]["texts_judged"]] == groups
        expected = trainer.loss[name].collator(tokens)(rows)["texts_input_ids"]
        assert torch.equal(batches[name]["texts_input_ids"], expected)
        assert trainer.loss[name].model is trainer.model
    alone = trainer_of(tmp_path, judged, loss=SalienceLoss)
    assert isinstance(alone.loss, SalienceLoss) and alone.loss.model is alone.model
