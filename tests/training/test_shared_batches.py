"""Batches of several data sets for several processes are those of one process, in shares."""

from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, SequentialSampler

from narrative_twins.training.shared_batches import JoinedBatches, SharedBatches


def batches_of(rows, size, drop_last):
    return BatchSampler(SequentialSampler(range(rows)), size, drop_last)


@given(
    rows=st.lists(st.integers(0, 40), min_size=1, max_size=3),
    size=st.integers(1, 4),
    processes=st.integers(1, 4),
    drop_last=st.booleans(),
)
def test_shares_are_the_batches_of_one_process(rows, size, processes, drop_last):
    """Each step has one data set, and equal shares; at most a few rows of the last batch of each
    data set are left out."""
    joined = [JoinedBatches(batches_of(count, size, drop_last), processes) for count in rows]
    whole = [list(batches_of(count, size * processes, drop_last)) for count in rows]
    assert [list(each) for each in joined] == whole
    assert [len(each) for each in joined] == [len(each) for each in whole]

    class Mixed(list):
        drop_last = False

    mixed = Mixed([[(name, i) for i in batch] for name, each in enumerate(whole) for batch in each])
    shared = SharedBatches(mixed, processes)
    shares = list(shared)
    assert len(shares) % processes == 0 and len(shares) <= len(shared)
    steps = [shares[at : at + processes] for at in range(0, len(shares), processes)]
    kept = [batch for batch in mixed if len(batch) >= processes]
    for step, batch in zip(steps, kept, strict=True):
        assert len({len(share) for share in step}) == 1
        together = [row for share in step for row in share]
        assert together == batch[: len(together)] and len(batch) - len(together) < processes


def test_the_order_of_rows_is_that_of_the_epoch():
    class Sampler(list):
        batch_size, drop_last, epoch = 1, False, 0

        def set_epoch(self, epoch):
            self.epoch = epoch

    sampler = Sampler([[0]])
    SharedBatches(JoinedBatches(sampler, 2), 2).set_epoch(3)
    assert sampler.epoch == 3
