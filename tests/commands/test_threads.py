"""One thread on a busy machine, and only there."""

from __future__ import annotations

import os

import pytest
import torch

from narrative_twins.commands import threads
from narrative_twins.commands.cli import main

STORY = "Nadia found a bag of money. It rained. She never told anyone."


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of four cores, on which this many other threads want to run."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    before = torch.get_num_threads()
    torch.set_num_threads(2)

    def running(others: int | None) -> None:
        file = tmp_path / "stat"
        if others is not None:
            file.write_text(f"cpu  1 2 3\nprocs_running {others + 1}\nprocs_blocked 0\n")
        monkeypatch.setattr(threads, "STATISTICS", file)

    yield running
    os.environ.pop("OMP_NUM_THREADS", None)
    torch.set_num_threads(before)


def score(tmp_path, bert_folder) -> int:
    story = tmp_path / "story.txt"
    story.write_text(STORY)
    return main(
        ["score", str(story), "--model", bert_folder, "--out", str(tmp_path / "scores.json")]
    )


def test_a_busy_machine(machine, tmp_path, bert_folder, capsys):
    machine(12)
    assert score(tmp_path, bert_folder) == 0
    assert torch.get_num_threads() == 1 and os.environ["OMP_NUM_THREADS"] == "1"
    told = (
        "this machine is busy (12 other threads want its 4 cores), so one thread is used; set"
        " OMP_NUM_THREADS"
    )
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("others", [0, 11, None], ids=["idle", "less busy", "no statistics"])
def test_other_machines(machine, others, tmp_path, bert_folder, capsys):
    machine(others)
    assert score(tmp_path, bert_folder) == 0
    assert torch.get_num_threads() == 2 and "OMP_NUM_THREADS" not in os.environ
    assert "busy" not in capsys.readouterr().err


def test_the_number_of_the_user(machine, monkeypatch, tmp_path, bert_folder, capsys):
    machine(100)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert score(tmp_path, bert_folder) == 0
    assert torch.get_num_threads() == 2 and "busy" not in capsys.readouterr().err


def test_this_machine_tells(monkeypatch):
    """A number, whatever it is."""
    assert threads.other_threads() >= 0
