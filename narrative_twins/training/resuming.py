"""Checkpoints of several processes: whether a run, perhaps on another number of processes, can be resumed from them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from narrative_twins.training.shards import METADATA, check_code

logger = logging.getLogger(__name__)

FSDP_CONFIG = "examples/configs/fsdp.yaml"

_WEIGHTS = {"SHARDED_STATE_DICT": "pytorch_model_fsdp_0", "FULL_STATE_DICT": "pytorch_model_fsdp.bin"}
"""The weights in a checkpoint, by the setting `fsdp_state_dict_type`."""

_LAST_FILES = {
    "SHARDED_STATE_DICT": (f"pytorch_model_fsdp_0/{METADATA}", f"optimizer_0/{METADATA}"),
    "FULL_STATE_DICT": ("pytorch_model_fsdp.bin", "optimizer.bin"),
}
"""The last files of weights and of optimizer states that are written, by the same setting."""


def saved_processes(checkpoint: Path) -> int:
    """How many processes have saved a checkpoint. Each saves its random state, with its number if there are several."""
    numbers = [file.stem.removeprefix("rng_state_") for file in checkpoint.glob("rng_state_*.pth")]
    return max([2, *(int(number) + 1 for number in numbers if number.isdecimal())]) if numbers else 1


def warn_of_process_count(checkpoint: Path, args: Any) -> bool:
    """Warn if a checkpoint was saved by another number of processes than those of a run, and return whether it was.

    Args:
        checkpoint: the folder.
        args: the arguments of the trainer.
    """
    before, now = saved_processes(checkpoint), args.world_size
    # With a disk for each node, a node has the files of its own processes only.
    if before == now or args.save_on_each_node:
        return False
    state = checkpoint / TRAINER_STATE_NAME
    saved: Any = TrainerState.load_from_json(str(state)).train_batch_size if state.is_file() else None
    rows = args.train_batch_size * now
    changed = saved is not None and saved * before != rows
    logger.warning(
        "%s was saved on %d process%s, and this run has %d: it goes on from its weights, but with other batches and "
        "random choices than if it had not been interrupted%s",
        checkpoint,
        before,
        "" if before == 1 else "es",
        now,
        f", and its batches have {rows} rows on all processes together, before {saved * before}; for as many rows as "
        "before, change per_device_train_batch_size"
        if changed
        else "",
    )
    return True


def check_shards(checkpoint: Path, accelerator: Any | None) -> None:
    """Raise a ValueError if a checkpoint was saved in another form than a run can be resumed from, or its shards are
    incomplete or name code.

    Args:
        checkpoint: the folder.
        accelerator: the accelerator of a run with FSDP; None for a run without.
    """
    form = next((form for form, name in _WEIGHTS.items() if (checkpoint / name).exists()), None)
    needed = None if accelerator is None else accelerator.state.fsdp_plugin.state_dict_type.name
    if form is not None and needed is None:
        raise ValueError(
            f"{checkpoint} was saved with FSDP by {saved_processes(checkpoint)} processes, and this run is without "
            f"FSDP; resume it on several processes with `accelerate launch --config_file {FSDP_CONFIG}`, or start a "
            "new run from the encoder in this folder"
        )
    if form != needed:
        before = "without FSDP" if form is None else f"with fsdp_state_dict_type: {form}"
        raise ValueError(
            f"{checkpoint} was saved {before}, and this run has fsdp_state_dict_type: {needed}; resume it {before}, or "
            "start a new run from the encoder in this folder"
        )
    for name in _LAST_FILES[form] if form else ():
        if not (checkpoint / name).is_file():
            raise ValueError(
                f"{checkpoint / name} is missing, so the shards are not complete; resume from another checkpoint, or "
                "start over"
            )
    if form == "SHARDED_STATE_DICT":
        for name in _LAST_FILES[form]:
            check_code((checkpoint / name).parent)
