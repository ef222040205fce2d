"""Whether the shards of a checkpoint of FSDP, which torch reads as pickles, name code to
execute."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch

METADATA = ".metadata"

_CLASSES = {
    "pathlib": {"PosixPath", "WindowsPath"},
    "pathlib._local": {"PosixPath", "WindowsPath"},
    "torch": {
        "Size",
        *(name for name, value in vars(torch).items() if isinstance(value, torch.dtype)),
    },
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
}
"""What the metadata of shards name, by module."""


class _MetadataReader(pickle.Unpickler):
    """Reads metadata of shards, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """The class of a name. Raises UnpicklingError if metadata have no such class."""
        if name not in _CLASSES.get(module, ()):
            raise pickle.UnpicklingError(f"it names code to execute ({module}.{name})")
        return super().find_class(module, name)


def check_code(folder: Path) -> None:
    """Raise a ValueError if shards can't be read, or name code that torch would execute while it
    reads them. Tensors can't, but other values can, such as the learning rate.

    Args:
        folder: the folder of the shards of the weights, or of those of the optimizer's state.
    """
    from torch.distributed.checkpoint.metadata import BytesStorageMetadata

    file = folder / METADATA
    try:
        with file.open("rb") as stream:
            metadata = _MetadataReader(stream).load()
        values = {
            name
            for name, kind in metadata.state_dict_metadata.items()
            if isinstance(kind, BytesStorageMetadata)
        }
        for index, place in metadata.storage_data.items():
            file = folder / METADATA
            if Path(place.relative_path).name != place.relative_path or getattr(
                place, "transform_descriptors", None
            ):
                raise ValueError(f"it names a file of another kind ({place.relative_path})")
            if index.fqn not in values:
                continue
            file = folder / place.relative_path
            with file.open("rb") as stream:
                stream.seek(place.offset)
                value = io.BytesIO(stream.read(place.length))
            code = torch.serialization.get_unsafe_globals_in_checkpoint(value)
            if code:
                raise ValueError(f"it names code to execute ({sorted(code)[0]})")
    # Whatever is raised by reading what is no checkpoint.
    except Exception as error:
        raise ValueError(
            f"{file} is not as torch saves it, so it is not read: {error}; resume from a checkpoint"
            " of your own, or start over"
        ) from error
