"""Training on streams: which rows are read, also after a resume, and what is refused."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset

from narrative_twins.data import RowError

from support.models import trainable
from support.twins_batches import FILMS, TWINS, Seen, trainer_of


def stream(rows=FILMS, shards: int = 1, shuffled: bool = True):
    found = Dataset.from_list(rows).to_iterable_dataset(num_shards=shards)
    return found.shuffle(seed=3, buffer_size=4) if shuffled else found


OPTIONS = {"max_steps": 10, "per_device_train_batch_size": 2, "learning_rate": 1e-3}


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
    whole, trainer = train(tmp_path, stream(shards=2), **options)
    assert trainer.state.global_step == 6 and len(whole) == 12
    expected = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    resumed, trainer = train(tmp_path, stream(shards=2), str(tmp_path / "checkpoint-4"), **options)
    assert resumed == whole[8:]
    for name, weight in trainer.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6)


def test_each_pass_has_an_order_and_random_choices_of_its_own(tmp_path):
    for shuffled in (True, False):
        options = {"max_steps": 3, "per_device_train_batch_size": len(FILMS)}
        passes, _ = train(tmp_path, stream(shuffled=shuffled), **options)
        assert len({ids for ids, _ in passes}) == (3 if shuffled else 1)
        assert len({windows for _, windows in passes}) > 1


def test_rows_with_windows_have_their_own_batch_size(tmp_path):
    trainer = trainer_of(tmp_path, stream(), eval_dataset=stream(), window_batch_size=3, **OPTIONS)
    for loader, sizes in (
        (trainer.get_train_dataloader(), [3, 3, 3]),
        (trainer.get_eval_dataloader(), [3, 3, 1]),
    ):
        assert [
            int(batch["texts_row"].max()) + 1 for batch, _ in zip(loader, range(3), strict=False)
        ] == sizes
    assert trainer.evaluate()["eval_loss"] > 0


def test_rows_are_checked_as_they_are_read(tmp_path):
    rows = [*TWINS[:4], TWINS[4] | {"twin": ["  "]}, *TWINS[5:]]
    trainer = trainer_of(tmp_path, stream(rows, shuffled=False), **OPTIONS)
    with pytest.raises(RowError, match="train_dataset, row 4: 'twin'"):
        trainer.train()
    assert 0 < trainer.state.global_step < 3
