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
    """In the third pass over a shuffled stream of windows: 7 rows, 4 batches a pass."""
    options = {"save_strategy": "steps", "save_steps": 9, "max_steps": 11}
    options["dataloader_num_workers"] = workers
    whole, trainer = train(tmp_path, stream(shards=2), **options)
    assert trainer.state.global_step == len(whole) == 11
    assert whole[8:] not in (whole[:3], whole[4:7]) and whole[:4] != whole[4:8], (
        "each pass has an order of its own"
    )
    expected = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    resumed, trainer = train(tmp_path, stream(shards=2), str(tmp_path / "checkpoint-9"), **options)
    assert resumed == whole[9:]
    for name, weight in trainer.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6)


def test_a_resume_near_the_end_of_a_pass(tmp_path):
    """4 batches a pass, two of them in a step: at and after the end of the second pass."""
    options = {"gradient_accumulation_steps": 2, "max_steps": 6, "save_steps": 1}
    whole, _ = train(tmp_path, stream(), save_strategy="steps", **options)
    for steps in (4, 5):
        resumed, _ = train(tmp_path, stream(), str(tmp_path / f"checkpoint-{steps}"), **options)
        assert resumed == whole[2 * steps :]


def test_each_pass_has_random_choices_of_its_own(tmp_path):
    batches, _ = train(tmp_path, stream(shuffled=False), max_steps=12)
    passes = [batches[at : at + 4] for at in range(0, 12, 4)]
    assert len({str([ids for ids, _ in each]) for each in passes}) == 1, "it is not shuffled"
    assert len({str([windows for _, windows in each]) for each in passes}) > 1


def test_rows_with_windows_have_their_own_batch_size(tmp_path):
    trainer = trainer_of(tmp_path, stream(), eval_dataset=stream(), window_batch_size=3, **OPTIONS)
    for loader in (trainer.get_train_dataloader(), trainer.get_eval_dataloader()):
        assert [int(batch["texts_row"].max()) + 1 for batch in loader] == [3, 3, 1]
    assert trainer.evaluate()["eval_loss"] > 0


def test_rows_are_checked_as_they_are_read(tmp_path):
    rows = [*TWINS[:4], TWINS[4] | {"twin": ["  "]}, *TWINS[5:]]
    trainer = trainer_of(tmp_path, stream(rows, shuffled=False), **OPTIONS)
    with pytest.raises(RowError, match="train_dataset, row 4: 'twin'"):
        trainer.train()
    assert 0 < trainer.state.global_step < 3
