"""What each of two processes in tests/training/test_two_processes.py runs.

    python -m support.two_processes FOLDER

starts them with the environment that torchrun gives them, as copies of one process, so that their
imports are made once. They read `settings.pt` in the folder, and save their results as
`results-RANK.pt`."""

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

from support.examples import run
from support.processes import run_python
from support.twins_batches import Seen, trained, trainer_of


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
        if "stream" in rows:
            # More shards than processes, of different sizes.
            data = data["stream"].to_iterable_dataset(num_shards=3).shuffle(seed=1, buffer_size=3)
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
    """Run this script in two processes on this CPU; returns the results of each."""
    torch.save(settings, folder / "settings.pt")
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    environment |= {"GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    run_python("-m", "support.two_processes", folder, env={**os.environ, **environment})
    return [torch.load(folder / f"results-{rank}.pt") for rank in (0, 1)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # The copies are made before torch starts threads.
    arguments = (Path(sys.argv[1]), port)
    torch.multiprocessing.start_processes(work, arguments, nprocs=2, start_method="fork")
