"""AdamW with float32 copies, against AdamW on float32 copies made in the test."""

from __future__ import annotations

import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins.training.optimizer import MasterWeightsAdamW

SHAPES = [(5, 3), (7,), (1,)]
SETTINGS = {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.9)}


def drawn(seed: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]


def weights(dtype: torch.dtype, seed: int = 0) -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(tensor) for tensor in drawn(seed, dtype)]


def step(optimizer, parameters, seed: int) -> None:
    for p, gradient in zip(parameters, drawn(seed), strict=True):
        p.grad = gradient.to(p.dtype)
    optimizer.step()


def warm_up(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1.0, (at + 1) / 4))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@given(steps=st.integers(1, 8), seed=st.integers(0, 1000))
def test_steps_match_adamw_on_float32_copies(dtype, fused, steps, seed):
    ours = weights(dtype, seed)
    optimizer = MasterWeightsAdamW(ours, fused=fused, **SETTINGS)
    copies = [torch.nn.Parameter(p.detach().float()) for p in ours]
    reference = torch.optim.AdamW(copies, fused=fused, **SETTINGS)
    schedules = warm_up(optimizer), warm_up(reference)
    addresses = [p.data_ptr() for p in ours]
    for number in range(steps):
        gradients = drawn(seed + number + 1, dtype)
        for p, copy, gradient in zip(ours, copies, gradients, strict=True):
            p.grad, copy.grad = gradient, gradient.float()
        optimizer.step()
        reference.step()
        for schedule in schedules:
            schedule.step()
        for p, copy, gradient in zip(ours, copies, gradients, strict=True):
            assert p.dtype == dtype
            assert torch.equal(p, copy.to(dtype))
            assert p.grad is gradient
            assert optimizer.state[p]["exp_avg"].dtype == torch.float32
    assert [p.data_ptr() for p in ours] == addresses, "weights keep their memory"
    optimizer.restore()
    for p, copy in zip(ours, copies, strict=True):
        assert p.dtype == torch.float32
        assert torch.equal(p, copy)


def test_small_steps_add_up():
    """A single step is too small to change a 1 in bfloat16; a hundred are not."""
    p = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    optimizer = MasterWeightsAdamW([p], lr=1e-3, weight_decay=0)
    p.grad = torch.ones_like(p)
    optimizer.step()
    assert p.item() == 1
    for _ in range(99):
        optimizer.step()
    assert p.item() == pytest.approx(0.9, abs=0.004)


@pytest.mark.parametrize("fused", [False, True])
def test_float32_weights_are_trained_by_plain_adamw(fused):
    ours, theirs = weights(torch.float32), weights(torch.float32)
    optimizer = MasterWeightsAdamW(ours, fused=fused, **SETTINGS)
    reference = torch.optim.AdamW(theirs, fused=fused, **SETTINGS)
    for number in range(4):
        step(optimizer, ours, number)
        step(reference, theirs, number)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert not any("master" in state for state in optimizer.state.values())


def test_weights_without_gradient_do_not_change():
    ours = weights(torch.bfloat16)
    before = ours[1].detach().clone()
    optimizer = MasterWeightsAdamW(ours, **SETTINGS)
    for number in range(3):
        for p, gradient in zip(ours, drawn(number, torch.bfloat16), strict=True):
            p.grad = gradient
        ours[1].grad = None
        optimizer.step()
    assert torch.equal(ours[1], before)
    assert ours[1].grad is None
    assert not optimizer.state[ours[1]]
    optimizer.restore()
    assert ours[1].dtype == torch.bfloat16


def test_weights_may_lack_a_gradient_in_some_steps():
    ours = weights(torch.bfloat16)
    optimizer = MasterWeightsAdamW(ours, **SETTINGS)
    copies = [torch.nn.Parameter(p.detach().float()) for p in ours]
    reference = torch.optim.AdamW(copies, **SETTINGS)
    for number in range(6):
        for at, gradient in enumerate(drawn(number, torch.bfloat16)):
            present = (number + at) % 3 > 0
            ours[at].grad, copies[at].grad = (
                (gradient, gradient.float()) if present else (None, None)
            )
        optimizer.step()
        reference.step()
    assert all(torch.equal(p, copy.to(p.dtype)) for p, copy in zip(ours, copies, strict=True))


@pytest.mark.parametrize("fused", [False, True])
def test_loaded_state_continues_like_the_original(fused):
    ours = weights(torch.bfloat16)
    optimizer = MasterWeightsAdamW(ours, fused=fused, **SETTINGS)
    schedule = warm_up(optimizer)
    for number in range(3):
        step(optimizer, ours, number)
        schedule.step()
    file = io.BytesIO()
    torch.save((optimizer.state_dict(), schedule.state_dict()), file)
    file.seek(0)
    later = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    again = MasterWeightsAdamW(later, fused=fused, **SETTINGS)
    schedule_again = warm_up(again)
    state, schedule_state = torch.load(file)
    again.load_state_dict(state)
    schedule_again.load_state_dict(schedule_state)
    for p, q in zip(ours, later, strict=True):
        for key, value in optimizer.state[p].items():
            assert again.state[q][key].dtype == torch.float32
            assert torch.equal(again.state[q][key], value)
            assert again.state[q][key] is not value
    assert any(
        not torch.equal(state["master"], state["master"].bfloat16().float())
        for state in optimizer.state.values()
    ), "copies are more precise than weights"
    for number in range(3, 6):
        step(optimizer, ours, number)
        step(again, later, number)
        schedule.step()
        schedule_again.step()
        assert all(torch.equal(p, q) for p, q in zip(ours, later, strict=True))


def test_parameter_groups_have_their_own_settings():
    ours = weights(torch.bfloat16)
    groups = [{"params": ours[:1], "weight_decay": 0.5}, {"params": ours[1:], "lr": 0.0}]
    before = [p.detach().clone() for p in ours]
    optimizer = MasterWeightsAdamW(groups, lr=0.1)
    step(optimizer, ours, 1)
    assert not torch.equal(ours[0], before[0])
    assert all(torch.equal(p, old) for p, old in zip(ours[1:], before[1:], strict=True))


def test_closure_is_called_and_its_loss_returned():
    p = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = MasterWeightsAdamW([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert p.tolist() == pytest.approx([0.9, 0.9], abs=0.01)
