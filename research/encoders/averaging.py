"""Means of the weights of encoders, and saving them small."""

import json
from pathlib import Path

from narrative_twins import StoryEncoder

LOADING_OPTIONS = {"is_local": None, "local_files_only": None}
"""Entries of tokenizer_config.json to remove; they say how the tokenizer was loaded."""


def mean_of_weights(folders: list[Path], parts: list[float]) -> StoryEncoder:
    """The mean of the weights of encoders, weighted by `parts` (Wortsman et al., 2022, "Model
    soups: averaging weights of multiple fine-tuned models improves accuracy without increasing
    inference time")."""
    encoders = [
        StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32") for folder in folders
    ]
    states = [encoder.model.state_dict() for encoder in encoders]
    mean = {
        key: sum(part * state[key] for part, state in zip(parts, states, strict=True)) / sum(parts)
        for key, value in states[0].items()
        if value.is_floating_point()
    }
    encoders[0].model.load_state_dict(mean, strict=False)
    return encoders[0]


def save_small(encoder: StoryEncoder, folder: Path) -> None:
    """Save an encoder in float16, with a configuration that loads it in float32 by default."""
    encoder.model.half()
    encoder.save_pretrained(folder)
    for name, changes in {
        "config.json": {"dtype": "float32"},
        "tokenizer_config.json": LOADING_OPTIONS,
    }.items():
        settings = json.loads((folder / name).read_text(encoding="utf-8")) | changes
        kept = {
            key: value for key, value in settings.items() if value is not None or key not in changes
        }
        (folder / name).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
