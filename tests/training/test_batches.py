"""The batches of each epoch: their rows, sizes and random choices."""

import pytest
import torch
from datasets import Dataset

from support.models import trainable
from support.twins_batches import FILMS, TWINS, Seen, trainer_of

ROWS = Dataset.from_list(FILMS)


def train(folder, resume=None, **options):
    """The batches of a run, and its trainer."""
    model = trainable()
    loss = Seen(model)
    settings = {"max_steps": 3, "per_device_train_batch_size": len(FILMS), "learning_rate": 1e-3}
    trainer = trainer_of(folder, ROWS, model, loss=loss, **settings | options)
    trainer.train(resume)
    return loss.batches, trainer


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resumed_run_continues_at_the_right_row(workers, tmp_path):
    """In the third epoch of windows: 7 rows, in batches of 2, two of them in a step."""
    options = {"save_strategy": "steps", "save_steps": 4, "max_steps": 6}
    options |= {"dataloader_num_workers": workers, "gradient_accumulation_steps": 2}
    options |= {"per_device_train_batch_size": 2}
    whole, trainer = train(tmp_path, **options)
    assert trainer.state.global_step == 6 and len(whole) == 12
    expected = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    resumed, trainer = train(tmp_path, str(tmp_path / "checkpoint-4"), **options)
    assert resumed == whole[8:]
    for name, weight in trainer.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6)


def test_each_epoch_has_an_order_and_random_choices_of_its_own(tmp_path):
    epochs, _ = train(tmp_path)
    assert len({ids for ids, _ in epochs}) == 3
    assert len({windows for _, windows in epochs}) > 1


@pytest.mark.slow
def test_persistent_workers_use_the_current_epoch(tmp_path):
    expected, _ = train(tmp_path)
    workers = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    assert train(tmp_path, **workers)[0] == expected


def test_rows_with_windows_have_their_own_batch_size(tmp_path):
    def sizes(loader):
        return [int(batch["texts_row"].max()) + 1 for batch in loader]

    options = {"per_device_train_batch_size": 4, "window_batch_size": 3}
    trainer = trainer_of(tmp_path, ROWS, eval_dataset=ROWS, **options)
    assert sizes(trainer.get_eval_dataloader()) == [3, 3, 1]
    data = {"stories": Dataset.from_list(TWINS[:8]), "films": ROWS}
    trainer = trainer_of(tmp_path, data, **options)
    assert sorted(sizes(trainer.get_train_dataloader())) == [1, 3, 3, 4, 4]


def test_streams_are_refused(tmp_path):
    with pytest.raises(TypeError, match="train_dataset is a stream; load its rows without"):
        trainer_of(tmp_path, ROWS.to_iterable_dataset())
