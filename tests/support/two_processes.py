"""The script of each of two processes in test_two_processes.py, run by torchrun.

two_processes.py loss BATCH FOLDER     loss and gradients of this process's share of a batch
two_processes.py mlm SETTINGS FOLDER   a step of masked language modeling
two_processes.py runs SETTINGS FOLDER  batches and weights of runs, and of the same runs resumed
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence

from narrative_twins.training.losses import NarrativeTwinsLoss
from narrative_twins.training.mlm import (
    MaskedLanguageModelTrainer,
    MaskedTextsCollator,
    masked_language_model,
)
from narrative_twins.training.trainer import (
    MaskedLanguageModelTrainingArguments,
    NarrativeTwinsTrainer,
    NarrativeTwinsTrainingArguments,
)

from support.processes import run_python
from support.twins_batches import Seen, without_dropout


def loss(file: Path, folder: Path) -> None:
    """Save losses and gradients for several settings."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for name, case in torch.load(file).items():
        model = SentenceTransformer(case["model"], device="cpu").double().eval()
        # As in the trainer, because not all parameters of a model are used.
        wrapped = DistributedDataParallel(model, find_unused_parameters=True)
        loss_module = NarrativeTwinsLoss(model, gather_across_devices=True, **case["settings"])
        loss_module.model = wrapped
        # Twice, because processes that are out of sync fail in the second step.
        for _ in range(2):
            model.zero_grad()
            value = loss_module([dict(case["batches"][rank])])
            value.backward()
        found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        torch.save((value.item(), found), folder / f"{name}-{rank}.pt")


def mask_every_third(texts: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """Collate texts like `DataCollatorForLanguageModeling`, but with the same tokens masked in each
    run."""
    ids = pad_sequence([torch.tensor(text["input_ids"]) for text in texts], batch_first=True)
    kept = pad_sequence(
        [torch.ones(len(text["input_ids"]), dtype=torch.long) for text in texts], batch_first=True
    )
    masked = (torch.arange(ids.shape[1]) % 3 == 1) & kept.bool()
    return {"input_ids": ids, "attention_mask": kept, "labels": ids.masked_fill(~masked, -100)}


def mlm(file: Path, folder: Path) -> None:
    """Save the logged losses and gradient norms of a run, from the first process."""
    settings = json.loads(file.read_text())
    world = int(os.environ.get("WORLD_SIZE", 1))
    # Processes share the rows of a step.
    settings["arguments"]["per_device_train_batch_size"] = len(settings["rows"]) // world
    args = MaskedLanguageModelTrainingArguments(str(folder / "output"), **settings["arguments"])
    model = without_dropout(masked_language_model(settings["model"]))
    collator = MaskedTextsCollator(mask_every_third)  # type: ignore[arg-type]
    rows = Dataset.from_list(settings["rows"])
    trainer = MaskedLanguageModelTrainer(model, args, rows, data_collator=collator)
    trainer.train()
    if trainer.is_world_process_zero():
        logged = [
            [entry["loss"], entry["grad_norm"]]
            for entry in trainer.state.log_history
            if "loss" in entry
        ]
        (folder / f"mlm-{world}.json").write_text(json.dumps(logged))


def runs(file: Path, folder: Path) -> None:
    """Save which batches each of several runs has in this process, from the start and resumed after
    `save_steps`, and the weights at the end."""
    settings = json.loads(file.read_text())
    found = {}
    for name, case in settings["runs"].items():
        output = str(folder / f"output of {name}")
        args = NarrativeTwinsTrainingArguments(output, **settings["arguments"], **case["arguments"])
        sets: Any = {key: Dataset.from_list(rows) for key, rows in case["rows"].items()}
        if case["shards"]:
            # More shards than processes, of different sizes.
            (sets,) = sets.values()
            sets = sets.to_iterable_dataset(num_shards=case["shards"])
            sets = sets.shuffle(seed=1, buffer_size=3)
        batches = []
        for checkpoint in (None, f"{output}/checkpoint-{args.save_steps}"):
            model = SentenceTransformer(settings["model"], device="cpu")
            loss = Seen(model, gather_across_devices=True, mini_batch_size=3)
            trainer = NarrativeTwinsTrainer(model, args, sets, loss=loss)
            trainer.train(checkpoint)
            batches.append(loss.batches)
        found[name] = batches, args.world_size, trainer.model.state_dict()
    torch.save(found, folder / f"runs-{dist.get_rank()}.pt")


def run_two(*arguments: object) -> None:
    """Run this script in two processes on this CPU."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "",
    }
    launch = "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"
    run_python(*launch, __file__, *arguments, env=environment)


if __name__ == "__main__":
    torch.set_num_threads(1)
    modes = {"loss": loss, "mlm": mlm, "runs": runs}
    modes[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
    # Otherwise the threads of the group may abort the process when it ends.
    dist.destroy_process_group()
