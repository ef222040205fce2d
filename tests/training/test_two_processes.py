"""Two processes that train together match one process with the batches of both.

This file, run with a folder as argument, starts the processes with the environment that torchrun
gives them, as copies of one process, so that their imports are made once. They read `settings.pt`
in the folder, and save their results as `results-RANK.pt`."""

import json
import os
import shlex
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch.nn.parallel import DistributedDataParallel

from narrative_twins.training.losses import NarrativeTwinsLoss

from support.examples import EXAMPLES, run
from support.models import trainable
from support.processes import run_command, run_python
from support.twins_batches import (
    FILMS,
    STORIES,
    TWINS,
    WINDOWS,
    Seen,
    assert_same,
    features,
    text,
    texts,
    trained,
    trainer_of,
)

SHORT = texts(text("Nadia ran.", "Rain.", at="01"), text("She ran.", "It rained.", at="01"))
LOSSES = [
    # The texts, how many rows of them are in the first process, and settings. The processes have
    # different numbers of rows and windows, and distractors with and without twins.
    (STORIES, 1, {}),
    (STORIES, 1, {"in_batch_negatives": False}),
    (STORIES, 1, {"distractor_loss": "separate"}),
    (WINDOWS, 2, {}),
    (WINDOWS, 2, {"in_story_negatives": False}),
    (WINDOWS, 2, {"in_batch_negatives": False}),
    ([SHORT, *WINDOWS], 1, {}),
]
OPTIONS = {"save_strategy": "steps", "per_device_train_batch_size": 2, "learning_rate": 1e-3}
RUNS = [
    # One data set in its third epoch, and two in their second.
    ({"windows": FILMS}, OPTIONS | {"max_steps": 5, "save_steps": 4}),
    (
        {"stories": TWINS[:9], "windows": FILMS},
        OPTIONS | {"num_train_epochs": 2, "save_steps": 5, "window_batch_size": 1},
    ),
]


def loss_of_share(model: str, batches: list[Any], settings: dict[str, Any]) -> Any:
    """Loss and gradients of this process's share of a batch."""
    encoder = SentenceTransformer(model, device="cpu").double().eval()
    loss = NarrativeTwinsLoss(encoder, gather_across_devices=True, **settings)
    # As in the trainer, because not all parameters of a model are used.
    loss.model = DistributedDataParallel(encoder, find_unused_parameters=True)
    # Twice, because processes that are out of sync fail in the second step.
    return [trained(loss([dict(batches[dist.get_rank()])]), encoder) for _ in range(2)][1]


def run_and_resume(model: str, rows: Any, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The batches of a run in this process, those of the same run resumed after `save_steps`, and
    the weights at the end."""
    batches = []
    for checkpoint in (None, f"{folder}/checkpoint-{options['save_steps']}"):
        data: Any = {name: Dataset.from_list(each) for name, each in rows.items()}
        if len(rows) == 1:
            (data,) = data.values()
        encoder = SentenceTransformer(model, device="cpu")
        loss = Seen(encoder, gather_across_devices=True, mini_batch_size=3)
        trainer = trainer_of(folder, data, encoder, loss=loss, **options)
        trainer.train(checkpoint)
        batches.append(loss.batches)
    return {"batches": batches, "weights": trainer.model.state_dict()}


def work(rank: int, folder: Path, port: int) -> None:
    """What one process does."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    model, losses, runs, script = torch.load(folder / "settings.pt")
    dist.init_process_group("gloo")
    results = {
        "losses": [loss_of_share(model, *case) for case in losses],
        "runs": [
            run_and_resume(model, *case, folder / f"run-{at}") for at, case in enumerate(runs)
        ],
        "printed": run(*script),
    }
    torch.save(results, folder / f"results-{rank}.pt")
    # Otherwise the threads of the group may abort the process when it ends.
    dist.destroy_process_group()


def run_two(folder: Path, *settings: Any) -> list[dict[str, Any]]:
    """Run this file in two processes on this CPU; returns the results of each."""
    torch.save(settings, folder / "settings.pt")
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    environment |= {"GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    run_python(__file__, folder, env={**os.environ, **environment})
    return [torch.load(folder / f"results-{rank}.pt") for rank in (0, 1)]


def share(batch: dict[str, torch.Tensor], rows: range) -> dict[str, torch.Tensor]:
    """Some rows of a batch as a separate batch: without surplus padding, with rows counted from
    0."""
    kept = torch.tensor([row in rows for row in batch["row"].tolist()])
    part = {key: value[kept] for key, value in batch.items()}
    longest = int(part["attention_mask"].sum(dim=1).max())
    part |= {key: value[:, :longest] for key, value in part.items() if value.ndim > 1}
    return part | {"row": part["row"] - rows.start}


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path, bert_folder):
    """In one test, since processes take long to start."""
    encoder, model = str(tmp_path / "encoder"), trainable().eval()
    model.save(encoder, create_model_card=False)
    start = {name: weight.clone() for name, weight in model.state_dict().items()}
    model.double()
    cases, expected = [], []
    for batch, first, changed in LOSSES:
        inputs, options = features(model, batch), {"temperature": 0.5, **changed}
        alone = trained(NarrativeTwinsLoss(model, **options)([inputs]), model)
        shares = [share(inputs, range(first)), share(inputs, range(first, len(batch)))]
        for size in (None, 2):
            cases.append((shares, options | {"mini_batch_size": size}))
            expected.append(alone)
    script = ["train_roc.py", "--smoke", "--use_cpu", "--encoder", bert_folder]
    script += ["--output_dir", str(tmp_path / "script")]
    both = run_two(tmp_path, encoder, cases, RUNS, script)

    # Losses and gradients, although numbers of rows, windows and mini-batches differ.
    for results in both:
        for measured, alone in zip(results["losses"], expected, strict=True):
            assert_same(measured, alone, 1e-5)
    # Runs, and the same runs resumed: equally many batches, other rows, and the same weights.
    for (_, options), *runs in zip(RUNS, *(results["runs"] for results in both), strict=True):
        for whole, resumed in (each["batches"] for each in runs):
            skipped = options["save_steps"]
            assert len(whole) > skipped and resumed == whole[skipped:]
        first, second = (each["batches"][0] for each in runs)
        assert all(a != b for a, b in zip(first, second, strict=True))
        weights, others = (each["weights"] for each in runs)
        assert all(torch.equal(weights[name], others[name]) for name in weights)
        assert any(not torch.equal(weights[name], start[name]) for name in weights)
    # A script prints once, for both: each has half of the rows of a batch, and an epoch as many
    # steps as on one process.
    first, second = (results["printed"] for results in both)
    assert "on 2 processes (cpu)" in first and "1.00 epochs" in first and not second
    assert "8 rows (4 on each of 2 processes), 32 texts" in first
    assert "up to 30 negatives each" in first
    assert "eval_loss" in json.loads((tmp_path / "script" / "eval_results.json").read_text())


@pytest.mark.slow
def test_commands_of_the_page_on_clusters_that_need_no_gpu(tmp_path):
    """Two processes, also with several data sets, of which only one has a loss that gathers; and a
    run of two processes that one continues."""
    page = (EXAMPLES.parent / "docs" / "cluster.md").read_text(encoding="utf-8")
    lines = [line[2:] for line in page.splitlines() if line.startswith("$ ")]
    commands = [shlex.split(line) for line in lines if "--use_cpu" in line]
    programs = {"torchrun": ["-m", "torch.distributed.run"], "python": []}
    kinds = ["torchrun", "torchrun", "torchrun", "python"]
    assert [command[0] for command in commands] == kinds
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    done = []
    for number, (program, *words) in enumerate(commands):
        done.append(run_command(sys.executable, *programs[program], *words, cwd=tmp_path))
        assert done[-1].returncode == 0, done[-1].stderr[-5000:]
        runs = next((tmp_path / "runs").iterdir())
        last = max(runs.glob("checkpoint-*")).name
        assert last == ("checkpoint-2" if "--max_steps" in words else "checkpoint-4")
        assert (runs / "final" / "model.safetensors").exists()
        if number < 2:  # the others are a run of their own
            shutil.rmtree(runs)
    assert "(4 on each of 2 processes)" in done[0].stdout


if __name__ == "__main__":
    torch.set_num_threads(1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # The copies are made before torch starts threads.
    arguments = (Path(sys.argv[1]), port)
    torch.multiprocessing.start_processes(work, arguments, nprocs=2, start_method="fork")
