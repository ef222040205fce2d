"""Training on streams, and the batches of each epoch."""

import pytest
import torch
from datasets import Dataset

from narrative_twins.data import RowError

from support.models import trainable
from support.twins_batches import FILMS, TWINS, Seen, trainer_of


def stream(rows=FILMS, shards: int = 1, shuffled: bool = True):
    data = Dataset.from_list(rows).to_iterable_dataset(num_shards=shards)
    return data.shuffle(seed=3, buffer_size=4) if shuffled else data


OPTIONS = {"max_steps": 3, "per_device_train_batch_size": len(FILMS), "learning_rate": 1e-3}


def train(folder, data, resume=None, **options):
    """The batches of a run, and its trainer."""
    model = trainable()
    loss = Seen(model)
    trainer = trainer_of(folder, data, model, loss=loss, **OPTIONS | options)
    trainer.train(resume)
    return loss.batches, trainer


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resumed_run_continues_at_the_right_row(workers, tmp_path):
    """In the third pass over a shuffled stream of windows: 7 rows, in batches of 2, two of them in
    a step."""
    options = {"save_strategy": "steps", "save_steps": 4, "max_steps": 6}
    options |= {"dataloader_num_workers": workers, "gradient_accumulation_steps": 2}
    options |= {"per_device_train_batch_size": 2}
    whole, trainer = train(tmp_path, stream(shards=2), **options)
    assert trainer.state.global_step == 6 and len(whole) == 12
    expected = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    resumed, trainer = train(tmp_path, stream(shards=2), str(tmp_path / "checkpoint-4"), **options)
    assert resumed == whole[8:]
    for name, weight in trainer.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("shuffled", [True, False])
def test_each_pass_has_an_order_and_random_choices_of_its_own(shuffled, tmp_path):
    passes, _ = train(tmp_path, stream(shuffled=shuffled))
    assert len({ids for ids, _ in passes}) == (3 if shuffled else 1)
    assert len({windows for _, windows in passes}) > 1


@pytest.mark.slow
def test_persistent_workers_use_the_current_epoch(tmp_path):
    """Of a data set that is no stream."""
    rows = Dataset.from_list(FILMS)
    expected, _ = train(tmp_path, rows)
    workers = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    assert len({windows for _, windows in expected}) > 1
    assert train(tmp_path, rows, **workers)[0] == expected


def test_rows_with_windows_have_their_own_batch_size(tmp_path):
    def sizes(loader, count):
        batches = (batch for batch, _ in zip(loader, range(count), strict=False))
        return [int(batch["texts_row"].max()) + 1 for batch in batches]

    options = {"per_device_train_batch_size": 4, "window_batch_size": 3, "max_steps": 4}
    trainer = trainer_of(tmp_path, stream(), eval_dataset=stream(), **options)
    assert sizes(trainer.get_train_dataloader(), 3) == [3, 3, 3]
    assert sizes(trainer.get_eval_dataloader(), 9) == [3, 3, 1]
    assert trainer.evaluate()["eval_loss"] > 0
    data = {"stories": Dataset.from_list(TWINS[:8]), "films": Dataset.from_list(FILMS)}
    trainer = trainer_of(tmp_path, data, **options)
    assert sorted(sizes(trainer.get_train_dataloader(), 9)) == [1, 3, 3, 4, 4]


def test_rows_are_checked_as_they_are_read(tmp_path):
    rows = [*TWINS[:4], TWINS[4] | {"twin": ["  "]}, *TWINS[5:]]
    options = OPTIONS | {"per_device_train_batch_size": 2}
    trainer = trainer_of(tmp_path, stream(rows, shuffled=False), **options)
    with pytest.raises(RowError, match="train_dataset, row 4: 'twin'"):
        trainer.train()
    assert 0 < trainer.state.global_step < 3
