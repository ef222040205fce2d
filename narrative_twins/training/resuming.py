"""Checkpoints of several processes: whether a run can be resumed from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FSDP_CONFIG = "examples/configs/fsdp.yaml"

_WEIGHTS = {"SHARDED_STATE_DICT": "pytorch_model_fsdp_0", "FULL_STATE_DICT": "pytorch_model_fsdp.bin"}
"""The weights in a checkpoint, by the setting `fsdp_state_dict_type`."""

_LAST_FILES = {
    "SHARDED_STATE_DICT": ("pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata"),
    "FULL_STATE_DICT": ("pytorch_model_fsdp.bin", "optimizer.bin"),
}
"""The last files of weights and of optimizer states that are written, by the same setting."""


def saved_processes(checkpoint: Path) -> int:
    """How many processes have saved a checkpoint. Each saves its random state, with its number if there are several."""
    numbers = [file.stem.removeprefix("rng_state_") for file in checkpoint.glob("rng_state_*.pth")]
    return max([2, *(int(number) + 1 for number in numbers if number.isdecimal())]) if numbers else 1


def check_shards(checkpoint: Path, accelerator: Any | None) -> None:
    """Raise a ValueError if a checkpoint was saved in another form than a run can be resumed from.

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
