"""Checkpoints of several processes: whether a run, perhaps on another number of processes, can be
resumed from them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from narrative_twins.training.shards import METADATA, check_code

logger = logging.getLogger(__name__)

FSDP_CONFIG = "examples/configs/fsdp.yaml"

_SHARDS = "pytorch_model_fsdp_0", "optimizer_0"
"""The folders of the shards of weights and of optimizer states in a checkpoint."""


def saved_processes(checkpoint: Path) -> int:
    """How many processes have saved a checkpoint. Each saves its random state, with its number if
    there are several."""
    numbers = [file.stem.removeprefix("rng_state_") for file in checkpoint.glob("rng_state_*.pth")]
    return (
        max([2, *(int(number) + 1 for number in numbers if number.isdecimal())]) if numbers else 1
    )


def warn_of_process_count(checkpoint: Path, args: Any) -> bool:
    """Warn if a checkpoint was saved by another number of processes than those of a run, and return
    whether it was.

    Args:
        checkpoint: the folder.
        args: the arguments of the trainer.
    """
    before, now = saved_processes(checkpoint), args.world_size
    # With a disk for each node, a node has the files of its own processes only.
    if before == now or args.save_on_each_node:
        return False
    state = checkpoint / TRAINER_STATE_NAME
    saved: Any = (
        TrainerState.load_from_json(str(state)).train_batch_size if state.is_file() else None
    )
    rows = args.train_batch_size * now
    changed = saved is not None and saved * before != rows
    logger.warning(
        "%s was saved on %d process%s, and this run has %d: it goes on from its weights, but with"
        " other batches and random choices than if it had not been interrupted%s",
        checkpoint,
        before,
        "" if before == 1 else "es",
        now,
        (
            f", and its batches have {rows} rows on all processes together, before"
            f" {saved * before}; for as many rows as before, change per_device_train_batch_size"
            if changed
            else ""
        ),
    )
    return True


def check_shards(checkpoint: Path, sharded: bool) -> None:
    """Raise a ValueError if a checkpoint was saved with FSDP and a run is without, or the other way
    round, or if its shards are incomplete or name code.

    Args:
        checkpoint: the folder.
        sharded: whether the run is with FSDP.
    """
    has_shards = (checkpoint / _SHARDS[0]).exists()
    if has_shards and not sharded:
        raise ValueError(
            f"{checkpoint} was saved with FSDP by {saved_processes(checkpoint)} processes, and this"
            " run is without FSDP; resume it on several processes with `accelerate launch"
            f" --config_file {FSDP_CONFIG}`, or start a new run from the encoder in this folder"
        )
    if sharded and not has_shards:
        raise ValueError(
            f"{checkpoint} has no shards, and this run is with FSDP; resume it without FSDP, or"
            " start a new run from the encoder in this folder"
        )
    for name in _SHARDS if sharded else ():
        if not (checkpoint / name / METADATA).is_file():
            raise ValueError(
                f"{checkpoint / name / METADATA} is missing, so the shards are not complete; resume"
                " from another checkpoint, or start over"
            )
        check_code(checkpoint / name)
