"""Export of encoders for backends with which they run without torch, see `backends.py`."""

from __future__ import annotations

import copy
import json
import logging
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from narrative_twins.encoder.adapters import has_adapter, merged_copy
from narrative_twins.encoder.backends import BACKENDS, PortableModel, portable_backend
from narrative_twins.encoder.loading import os_errors
from narrative_twins.encoder.passes import using_attention
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.encoder.tokenizer import padded

_SAMPLES = ["The mill was gone.", "She looked at the map again, and laughed until dark.", "Why?"]


def export_encoder(encoder: StoryEncoder, folder: str | Path, backend: str = "onnx") -> Path:
    """Export an encoder for a backend, with its tokenizer and settings, in the layout of
    sentence-transformers.

    The folder may be that of the encoder's checkpoint, or have other exports of it. Files appear in
    it when they are complete and the exported model was compared with the encoder.

    Args:
        encoder: an encoder that runs by torch.
        folder: where to write.
        backend: the name of the backend, such as `"onnx"`.

    Returns:
        The path of the model.

    Raises:
        ImportError: a library of the extra is missing; the message says what to install.
        ValueError: the encoder does not run by torch, the backend is unknown, the folder has
            another encoder, or the exported model has other vectors than the encoder.
    """
    if not isinstance(encoder, StoryEncoder):
        raise TypeError(
            f"encoder is {type(encoder).__name__}, not a StoryEncoder; load it:"
            " StoryEncoder.from_pretrained(encoder)"
        )
    if isinstance(encoder.model, PortableModel):
        raise ValueError(
            f"the encoder runs by {encoder.model.backend}; export the encoder that it was made from"
        )
    kind = portable_backend(backend)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    is_new = not (folder / "config.json").exists()
    if not is_new and not _is_config_of(encoder.model, folder / "config.json"):
        raise ValueError(
            f"{folder} has another encoder (its config.json differs); export to another folder"
        )
    # Next to the files that it will become, so that it can be renamed.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
        # All files of the checkpoint but its weights.
        with os_errors(folder):
            encoder.model.config.save_pretrained(scratch)
            tokenizer = copy.deepcopy(encoder.tokenizer.tokenizer)
            # The positions of RoBERTa models, some of which are reserved, are not known without
            # the model.
            tokenizer.model_max_length = min(tokenizer.model_max_length, encoder.context_tokens)
            tokenizer.save_pretrained(scratch)
            encoder.save_settings(scratch)
        path = Path(scratch) / kind.files()[0]
        path.parent.mkdir()
        try:
            _write_model(encoder, kind, path)
        except ImportError as error:
            raise ImportError(f"this export needs pip install '{kind.extra}' ({error})") from error
        try:
            check_export(encoder, Path(scratch), backend)
        except ValueError as error:
            name = type(encoder.model).__name__
            raise ValueError(
                f"{error}, so it is not kept; these libraries can't export {name}"
            ) from error
        for file in sorted(path for path in Path(scratch).rglob("*") if path.is_file()):
            target = folder / file.relative_to(scratch)
            # A checkpoint that is there keeps its own settings.
            if is_new or target.parent.name == backend:
                target.parent.mkdir(exist_ok=True)
                os.replace(file, target)
    return folder / kind.files()[0]


def check_export(encoder: StoryEncoder, folder: Path, backend: str) -> None:
    """Raise a ValueError if the exported model in a folder has other vectors than the encoder."""
    model = portable_backend(backend)(folder)
    exported = StoryEncoder(
        model, model.tokenizer(), pooling=encoder.pooling, context_tokens=encoder.context_tokens
    )
    vectors = [each.encode(_SAMPLES) for each in (exported, encoder)]
    theirs, ours = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors)
    least = (theirs * ours).sum(1).min()
    # An encoder in bfloat16 is itself not exact.
    if not least >= (0.99999 if encoder.dtype == torch.float32 else 0.999):
        raise ValueError(
            f"the model exported to {backend} has other vectors than the encoder (cosine"
            f" {least:.5f})"
        )


def check_exports(encoder: StoryEncoder, folder: Path) -> None:
    """Raise a ValueError if an exported model in the folder of an encoder has other vectors than
    it, as after training; an ImportError if its library is missing."""
    for backend, kind in BACKENDS.items():
        if not (folder / kind.files()[0]).is_file():
            continue
        try:
            check_export(encoder, folder, backend)
        except ImportError:
            raise
        except Exception as error:  # of any kind, since the file may contain anything
            export = f"narrative-twins export {folder} --backend {backend} --to {folder}"
            fix = f"export it again (`{export}`), or remove {folder / backend}"
            raise ValueError(f"{error}; {fix}") from error


def _is_config_of(model: Any, path: Path) -> bool:
    """Whether a `config.json` has the values of a model that tell encoders apart."""
    try:
        theirs = json.loads(path.read_text(encoding="utf-8"))
        names = ("model_type", "hidden_size", "num_hidden_layers", "vocab_size")
        return all(theirs.get(name) == getattr(model.config, name, None) for name in names)
    except (OSError, ValueError, AttributeError):
        return False


class _TokenStates(torch.nn.Module):
    """A model with two inputs and one output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def _write_model(encoder: StoryEncoder, kind: type[PortableModel], path: Path) -> None:
    # A copy, since it is cast and moved.
    model = (merged_copy if has_adapter(encoder.model) else copy.deepcopy)(encoder.model)
    model = model.float().cpu()
    ids, is_token = padded(encoder.tokenizer.ids(_SAMPLES[:2], special=True), 0)
    inputs = torch.from_numpy(ids), torch.from_numpy(is_token.astype(np.int64))
    # Without warnings on what only developers of torch's exporter can change.
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            torch.inference_mode(False),
            torch.no_grad(),
            using_attention(model, "sdpa"),
        ):
            kind.write(_TokenStates(model).eval(), inputs, path)
    finally:
        logger.setLevel(level)
