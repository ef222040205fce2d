"""Batches that are limited by tokens: none exceeds the limit, and they depend on the seed and the
epoch alone."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.data.rows import TWINS_COLUMNS
from narrative_twins.training.arguments import NarrativeTwinsTrainingArguments
from narrative_twins.training.collator import TwinsCollator
from narrative_twins.training.token_batches import RowSize, TokenBatchSampler
from narrative_twins.training.trainer import NarrativeTwinsTrainer

from support.models import SENTENCES, small, trainable
from support.twins_batches import MIXED, Seen

FILMS = [
    {
        "story": [SENTENCES[: 1 + at], ["It rained."]],
        "twin": [["It rained."], ["A flood.", "She was silent."]],
    }
    for at in range(5)
]
"""Some with long windows."""


def sizes():
    return st.lists(
        st.builds(RowSize, st.integers(3, 300), st.integers(2, 4)), min_size=1, max_size=60
    )


@given(sizes(), st.integers(1, 2000), st.integers(1, 20), st.integers(0, 3))
def test_no_batch_exceeds_the_limits(rows, tokens, most, epoch):
    sampler = TokenBatchSampler(rows, tokens, most, seed=1)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert Counter(row for batch in batches for row in batch) == Counter(range(len(rows))), (
        "each row once"
    )
    assert len(batches) == len(sampler) and all(len(batch) <= most for batch in batches)
    for batch in batches:
        padded = max(rows[row].longest for row in batch) * sum(rows[row].texts for row in batch)
        assert padded <= tokens or len(batch) == 1


@given(sizes(), st.integers(100, 2000))
def test_epochs_have_other_batches_of_the_same_sizes(rows, tokens):
    def batches(epoch, seed=1):
        sampler = TokenBatchSampler(rows, tokens, 8, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert batches(2) == batches(2)
    for other in (batches(3), batches(2, seed=7)):
        assert sorted(map(len, other)) == sorted(map(len, batches(2)))


def test_batches_are_drawn_anew_and_are_full():
    rows = [RowSize(10 + at % 4, 2) for at in range(200)]
    sampler = TokenBatchSampler(rows, 260, 1000)
    seen = set()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        seen |= {tuple(sorted(batch)) for batch in sampler}
    assert len(seen) == 3 * len(sampler), "no batch comes twice"
    assert len(sampler) <= 1.15 * sum(row.tokens for row in rows) / 260


def test_last_rows_are_shared_out():
    assert sorted(map(len, TokenBatchSampler([RowSize(10, 2)] * 9, 80, 100))) == [2, 3, 4]
    assert [len(batch) for batch in TokenBatchSampler([RowSize(10, 2)], 80, 100)] == [1]


def test_rows_above_the_limit_are_told_once(caplog):
    sampler = TokenBatchSampler(
        [RowSize(10, 2), RowSize(200, 4), RowSize(300, 2), RowSize(10, 2)], 100, 8
    )
    assert {1: True, 2: True} == {
        batch[0]: len(batch) == 1 for batch in sampler if batch[0] in (1, 2)
    }
    list(sampler)
    (message,) = caplog.messages
    assert (
        "2 of 4 rows have more than tokens_per_batch=100 tokens by themselves, up to 800" in message
    )


@pytest.mark.parametrize("tokens", [0, -5])
def test_limit_must_be_a_count(tokens):
    with pytest.raises(ValueError, match=f"tokens_per_batch={tokens} is not a count of 1 or more"):
        TokenBatchSampler([RowSize(3, 2)], tokens, 8)


@given(sizes(), st.integers(2, 4))
def test_processes_have_equally_many_batches(rows, processes):
    """As accelerate shares them out for training."""
    sampler = TokenBatchSampler(rows, 500, 8, drop_last=True)
    sampler.batch_size = None
    shards = [
        BatchSamplerShard(sampler, processes, rank, even_batches=False) for rank in range(processes)
    ]
    parts = [list(shard) for shard in shards]
    assert (
        {len(part) for part in parts}
        == {len(sampler) // processes}
        == {len(shard) for shard in shards}
    )
    rows_of_all = [row for part in parts for batch in part for row in batch]
    assert len(set(rows_of_all)) == len(rows_of_all)


@pytest.mark.parametrize("twins", ["narrative", "dropout"])
@pytest.mark.parametrize("distractors", [True, False])
@pytest.mark.parametrize("context", [12, 200])
def test_sizes_are_those_of_batches(twins, distractors, context):
    tokens = small().tokens.__class__(small().tokens.tokenizer, context)
    collator = TwinsCollator(tokens, twins, distractors)
    for row in [*MIXED, *FILMS]:
        size = collator.size_of(row)
        found = []
        for epoch in range(4):
            collator.epoch = epoch
            found.append(RowSize(*reversed(collator([row])["texts_input_ids"].shape)))
        assert {each.texts for each in found} == {size.texts}
        assert max(each.longest for each in found) <= size.longest <= context
        assert found == [size] * 4 or twins == "dropout"


def arguments(folder, **options) -> NarrativeTwinsTrainingArguments:
    settings = {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "max_grad_norm": 0,
    }
    settings |= {
        "per_device_train_batch_size": 6,
        "per_device_eval_batch_size": 5,
        "tokens_per_batch": 250,
    }
    return NarrativeTwinsTrainingArguments(str(folder), **settings | options)


def shapes(loader) -> list[tuple[int, tuple[int, ...]]]:
    return [
        (int(batch["texts_row"].max()) + 1, tuple(batch["texts_input_ids"].shape))
        for batch in loader
    ]


def test_trainer_limits_training_batches(tmp_path):
    rows = Dataset.from_list(MIXED)
    trainer = NarrativeTwinsTrainer(trainable(), arguments(tmp_path), rows, rows)
    found = shapes(trainer.get_train_dataloader())
    assert sum(count for count, _ in found) == 24 and max(count for count, _ in found) <= 6
    assert all(texts * longest <= 250 for _, (texts, longest) in found)
    assert [count for count, _ in shapes(trainer.get_eval_dataloader())] == [5, 5, 5, 5, 4], (
        "rows, as without"
    )
    sets = {"stories": rows, "films": Dataset.from_list(FILMS)}
    trainer = NarrativeTwinsTrainer(trainable(), arguments(tmp_path, window_batch_size=2), sets)
    found = shapes(trainer.get_train_dataloader())
    assert sum(count for count, _ in found) == 29
    assert all(texts * longest <= 250 or count == 1 for count, (texts, longest) in found)


@pytest.mark.parametrize("rows", [MIXED, FILMS], ids=["stories", "windows"])
def test_one_data_set_by_rows_has_a_length(rows, tmp_path):
    settings = arguments(tmp_path, tokens_per_batch=None, window_batch_size=2)
    loader = NarrativeTwinsTrainer(
        trainable(), settings, Dataset.from_list(rows)
    ).get_train_dataloader()
    assert len(loader) == len(list(loader)) == {24: 4, 5: 3}[len(rows)]


def test_a_resumed_run_has_the_same_batches(tmp_path):
    def train(resume=None):
        model = trainable()
        loss = Seen(model)
        args = arguments(
            tmp_path,
            num_train_epochs=3,
            save_strategy="steps",
            save_steps=steps,
            learning_rate=1e-3,
        )
        trainer = NarrativeTwinsTrainer(model, args, Dataset.from_list(MIXED), loss=loss)
        trainer.train(resume)
        return loss.batches, trainer.state.global_step

    rows = Dataset.from_list(MIXED)
    per_epoch = len(
        NarrativeTwinsTrainer(trainable(), arguments(tmp_path), rows).get_train_dataloader()
    )
    steps = per_epoch + 2
    whole, last = train()
    assert last == len(whole) == 3 * per_epoch
    assert train(str(tmp_path / f"checkpoint-{steps}"))[0] == whole[steps:]


@pytest.mark.parametrize("row", [0, 1], ids=["with a distractor", "without"])
def test_a_batch_of_one_story_trains_on_what_it_has(row, tmp_path):
    """Its distractor; without one, the loss is 0, and nothing is learned from it."""
    row = {column: MIXED[row][column] for column in TWINS_COLUMNS}
    trainer = NarrativeTwinsTrainer(
        trainable(), arguments(tmp_path, tokens_per_batch=1), Dataset.from_list([row] * 2)
    )
    first, _ = trainer.get_train_dataloader()
    loss = trainer.compute_loss(trainer.model, first)
    loss.backward()
    gradient = max(
        p.grad.abs().max().item() for p in trainer.model.parameters() if p.grad is not None
    )
    assert torch.isfinite(loss) and (loss.item() > 0) == (gradient > 0) == (
        row["negative"] is not None
    )
