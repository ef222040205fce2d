"""Backends: libraries that run exported encoders on a CPU without torch, and the base class by
which others are added. Needs no torch."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from packaging.version import Version
from transformers import PreTrainedTokenizerFast

from narrative_twins.encoder.loading import (
    Pooling,
    find_file,
    hub_options,
    loading_errors,
    one_line,
    read_checkpoint_settings,
    read_json,
)
from narrative_twins.encoder.tokenizer import Ids, StoryTokenizer, padded

if TYPE_CHECKING:
    import torch

BACKENDS: dict[str, type[PortableModel]] = {}
"""The backends by name, besides `"torch"`."""


class PortableModel(ABC):
    """A model that runs on a CPU without torch, in float32, loaded from its folder or from the Hub.
    A copy or pickle loads it again.

    A backend is a subclass, which is known by its name once it is defined: in `from_pretrained`,
    in the pipeline, on the command line, for exports and for pushes.

    Args:
        name: folder or Hub id.
        options: which files of the Hub, such as `revision` or `token`.

    Attributes:
        backend: the name of the backend, which is that of the folder of its files.
        file: the file of the model in that folder, as sentence-transformers names it.
        parts: files next to it that large models may have.
        extra: what to install to load or export such a model.
        name_or_path, device: what it was loaded from, and where it runs.
        config: the values of `config.json`.
        checkpoint_settings: the settings of its checkpoint.

    Raises:
        ImportError: the library of the backend is missing; the message says what to install.
        OSError: the model is missing or can't be loaded; the message says how to export it.
    """

    backend: ClassVar[str]
    file: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str]

    device = SimpleNamespace(type="cpu", index=None)

    def __init_subclass__(cls) -> None:
        BACKENDS[cls.backend] = cls

    @abstractmethod
    def start(self, path: str) -> None:
        """Load the model from its file."""

    @abstractmethod
    def run(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """Token states of shape (texts, tokens, dimensions).

        Args:
            ids: token ids, shape (texts, tokens).
            mask: 1 for tokens and 0 for padding, shape (texts, tokens).
        """

    @classmethod
    @abstractmethod
    def write(cls, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
        """Export a model in torch to a file.

        Args:
            model: a module that returns token states for ids and mask, see `run`.
            inputs: ids and mask of two texts of different lengths, to trace the model with.
            path: the file.
        """

    def __init__(self, name: str | Path, *, pooling: str | None = None, **options: Any) -> None:
        self.name_or_path = name = str(name)
        self._hub = hub = hub_options(options)
        self._pooling = pooling
        self.checkpoint_settings = read_checkpoint_settings(name, pooling, **hub)
        with loading_errors(name):
            values = read_json(name, "config.json", hub)
            if not isinstance(values, dict) or not isinstance(values.get("hidden_size"), int):
                raise ValueError("it has no config.json with a hidden_size")
            parts = Path(str(find_file(name, "config.json", hub))).parts
            commit = parts[parts.index("snapshots") + 1] if "snapshots" in parts else None
            self.config = SimpleNamespace(**values | {"_commit_hash": commit})
            path, *_ = [find_file(name, file, hub) for file in self.files()]
            if path is None:
                raise ValueError(
                    f"it has no {self.files()[0]}; make it with `narrative-twins export {name}"
                    f" --backend {self.backend} --to FOLDER`, and load FOLDER"
                )
        try:
            self.start(path)
        except ImportError as error:
            raise ImportError(
                f"backend={self.backend!r} needs pip install '{self.extra}' ({error})"
            ) from error
        except Exception as error:  # of any kind, since the file may contain anything
            raise OSError(one_line(f"{path} can't be loaded by {self.backend}: {error}")) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.name_or_path, pooling=self._pooling, **self._hub), ()

    def save_pretrained(self, folder: str | Path) -> None:
        """Copy its files to another folder, with the weights for torch, if there are any. Raises
        OSError."""
        for file in ("config.json", "model.safetensors", *self.files()):
            found = find_file(self.name_or_path, file, self._hub)
            if found is not None:
                target = Path(folder, file)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found, target)

    def tokenizer(self) -> Any:
        """Its tokenizer; raises OSError if it has no fast one."""
        with loading_errors(self.name_or_path, "the tokenizer of encoder"):
            return PreTrainedTokenizerFast.from_pretrained(self.name_or_path, **self._hub)

    @classmethod
    def files(cls) -> list[str]:
        """The files that an export may have, each with the folder, that of the model first."""
        return [f"{cls.backend}/{name}" for name in (cls.file, *cls.parts)]


def portable_backend(name: str) -> type[PortableModel]:
    """The backend of this name; raises ValueError if there is none."""
    if name not in BACKENDS:
        raise ValueError(f"backend={name!r}: choose {', '.join(map(repr, backend_names()))}")
    return BACKENDS[name]


def backend_names() -> tuple[str, ...]:
    """The names of all backends, `"torch"` first."""
    return ("torch", *BACKENDS)


class OnnxModel(PortableModel):
    """A model in ONNX format, run by onnxruntime."""

    backend = "onnx"
    file = "model.onnx"
    parts = ("model.onnx.data", "model.onnx_data")
    extra = "narrative_twins[onnx]"

    def start(self, path: str) -> None:
        """Load the model from its file."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        threads = os.environ.get("OMP_NUM_THREADS", "")
        # 0: onnxruntime chooses the number.
        options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [given.name for given in self._session.get_inputs()]
        self._outputs = [self._session.get_outputs()[0].name]

    def run(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """Token states from ids and mask. Raises ValueError if the model can't be run."""
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            states: NDArray[np.float32] = self._session.run(
                self._outputs, {name: given[name] for name in self._inputs}
            )[0]
        except Exception as error:  # of any kind, since the graph may contain anything
            problem = f"{self.name_or_path} can't be run by {self.backend}: {error}"
            raise ValueError(one_line(problem)) from error
        return states

    @classmethod
    def write(cls, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
        """Export a model in torch to a file."""
        import onnxscript  # noqa: F401  # torch would name it only in the middle of its work
        import torch

        dynamic: dict[int, Any] = {0: "batch", 1: "sequence"}
        if Version(torch.__version__) < Version("2.7"):  # which is the first that takes names
            dynamic = dict.fromkeys(dynamic, torch.export.Dim.DYNAMIC)
        torch.onnx.export(
            model,
            inputs,
            str(path),
            input_names=["input_ids", "attention_mask"],
            output_names=["last_hidden_state"],
            dynamic_shapes=(dynamic, dynamic),
            # In one file, if it has less than two gigabytes.
            external_data=sum(weight.nbytes for weight in model.parameters()) >= 2**31 - 2**20,
            dynamo=True,
            verbose=False,
        )


class PortablePasses:
    """Runs a portable model over texts, padded to the longest of a batch, of 2,048 tokens by
    default; the counterpart of `ForwardPasses`. Raises ValueError if the model does not return
    token states."""

    attention = "padded"
    dtype = "float32"

    def __init__(
        self, model: PortableModel, tokenizer: StoryTokenizer, batch_tokens: int | None = None
    ) -> None:
        self.model = model
        self.batch_tokens = batch_tokens or 2_048
        self._pad_id = tokenizer.pad_id
        text, _ = tokenizer.probes()
        alone = self.states([text])
        if alone.shape != (len(text), model.config.hidden_size):
            raise ValueError(
                f"{model.name_or_path} in {model.backend} did not return token states for a text"
                f" but an array of shape {alone.shape}; export the encoder with `narrative-twins"
                " export`"
            )
        longer = np.tile(text, 3)[: tokenizer.context_tokens]
        together = self.states([text, longer])[: len(text)]
        if np.abs(alone - together).max() > 1e-3 * np.abs(alone).max():
            # Padding changes the states, so each text is a batch.
            self.batch_tokens = 1

    def running(self) -> AbstractContextManager[None]:
        """Nothing has to be prepared for `states`."""
        return nullcontext()

    def states(self, rows: Sequence[Ids]) -> NDArray[np.float32]:
        """Token states of texts, in their order, shape (tokens of all texts, dimensions)."""
        ids, is_token = padded(rows, self._pad_id)
        states = self.model.run(ids, is_token.astype(np.int64))
        return np.asarray(states[is_token], np.float32) if states.ndim == 3 else states

    def pooled(
        self, states: NDArray[np.float32], tokens: Sequence[NDArray[np.int64]], pooling: Pooling
    ) -> NDArray[np.float32]:
        """Vectors from the token states of texts, see `ForwardPasses.pooled`."""
        if pooling == "first":
            return states[[int(indices[0]) for indices in tokens]]
        lengths = [len(indices) for indices in tokens]
        sums: NDArray[np.float32] = np.add.reduceat(
            states[np.concatenate(tokens)], np.cumsum([0, *lengths[:-1]])
        )
        return sums / np.array(lengths, np.float32)[:, None]

    def array(self, vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """The vectors of several passes as one array."""
        return np.concatenate(vectors)
