"""What each of two processes in test_two_processes.py runs. It reads `settings.pt` in a folder, and
saves what it finds as `found-RANK.pt`.

    python -m support.two_processes FOLDER

starts them with the environment that torchrun gives them, as copies of one process, so that their
imports are made once."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch.nn.parallel import DistributedDataParallel

from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.trainer import NarrativeTwinsTrainer, NarrativeTwinsTrainingArguments

from support.examples import run
from support.processes import run_python
from support.twins_batches import QUIET, Seen, trained


def loss_of_share(case: dict[str, Any]) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of this process's share of a batch."""
    model = SentenceTransformer(case["model"], device="cpu").double().eval()
    loss = NarrativeTwinsLoss(model, gather_across_devices=True, **case["settings"])
    # As in the trainer, because not all parameters of a model are used.
    loss.model = DistributedDataParallel(model, find_unused_parameters=True)
    # Twice, because processes that are out of sync fail in the second step.
    for _ in range(2):
        found = trained(loss([dict(case["batches"][dist.get_rank()])]), model)
    return found


def run_and_resume(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The batches of a run in this process, those of the same run resumed after `save_steps`, and
    the weights at the end."""
    args = NarrativeTwinsTrainingArguments(str(folder), **QUIET | case["arguments"])
    sets: Any = {key: Dataset.from_list(rows) for key, rows in case["rows"].items()}
    if case["shards"]:
        # More shards than processes, of different sizes.
        (sets,) = sets.values()
        sets = sets.to_iterable_dataset(num_shards=case["shards"]).shuffle(seed=1, buffer_size=3)
    batches = []
    for checkpoint in (None, f"{folder}/checkpoint-{args.save_steps:g}"):
        model = SentenceTransformer(case["model"], device="cpu")
        loss = Seen(model, gather_across_devices=True, mini_batch_size=3)
        trainer = NarrativeTwinsTrainer(model, args, sets, loss=loss)
        trainer.train(checkpoint)
        batches.append(loss.batches)
    return {"batches": batches, "weights": trainer.model.state_dict()}


def work(rank: int, folder: Path, port: int) -> None:
    """What one process does."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    settings = torch.load(folder / "settings.pt")
    dist.init_process_group("gloo")
    found = {
        "losses": {name: loss_of_share(case) for name, case in settings["losses"].items()},
        "runs": {
            name: run_and_resume(case, folder / name) for name, case in settings["runs"].items()
        },
        "printed": run(*settings["script"]),
    }
    torch.save(found, folder / f"found-{dist.get_rank()}.pt")
    # Otherwise the threads of the group may abort the process when it ends.
    dist.destroy_process_group()


def run_two(folder: Path) -> list[dict[str, Any]]:
    """Run this script in two processes on this CPU; returns what each has found."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "",
    }
    run_python("-m", "support.two_processes", folder, env=environment)
    return [torch.load(folder / f"found-{rank}.pt") for rank in (0, 1)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # The copies are made before torch starts threads.
    torch.multiprocessing.start_processes(
        work, args=(Path(sys.argv[1]), port), nprocs=2, start_method="fork"
    )
