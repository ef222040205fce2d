"""Encoders in ONNX or OpenVINO format, which run on a CPU without torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast
from transformers.utils import cached_file

from narrative_twins.encoder.batches import padded, text_batches
from narrative_twins.encoder.checkpoint import ModelFacts, default_encoder, read_checkpoint_settings
from narrative_twins.encoder.loading import hub_options, one_line
from narrative_twins.encoder.pooling import Pooling, pool_arrays
from narrative_twins.encoder.tokens import Ids

Backend: TypeAlias = Literal["torch", "onnx", "openvino"]
BACKENDS: tuple[Backend, ...] = ("torch", "onnx", "openvino")

FILES = {"onnx": "onnx/model.onnx", "openvino": "openvino/openvino_model.xml"}
"""The models in a folder or on the Hub, by backend, as sentence-transformers names them."""
INT8_FILE = "openvino/openvino_model_qint8_quantized.xml"
EXPORTS = {
    **{(backend, "float32"): name for backend, name in FILES.items()},
    ("openvino", "int8"): INT8_FILE,
}
"""The models by backend and the precision of their weights."""
_DTYPES = {"onnx": ("float32",), "openvino": ("float32", "bfloat16", "int8")}
_BATCH_TOKENS = 2_048

_Run: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]]
"""Token states of shape (texts, tokens, dimensions) from ids and mask of shape (texts, tokens)."""


@dataclass(frozen=True)
class Device:
    """The device of a portable model, with the attributes of torch's."""

    type: str = "cpu"
    index: int | None = None

    def __str__(self) -> str:
        return self.type


class PortableModel:
    """A model in ONNX or OpenVINO format, loaded from its folder or from the Hub. A copy or pickle
    loads it again.

    Args:
        name: folder or Hub id, with the model in `onnx/` or `openvino/`; None for the default
            encoder.
        backend: `"onnx"` or `"openvino"`, which also reads ONNX where there is no OpenVINO.
        dtype: `"float32"`, or with OpenVINO `"bfloat16"` and, if it was exported, `"int8"`;
            `"auto"` is float32.
        options: which files of the Hub, such as `revision` or `token`.

    Attributes:
        name_or_path, backend, dtype, device: what it was loaded from, and where it runs.
        config: the values of `config.json`.
        checkpoint_settings: the settings of its checkpoint.
        run: token states from ids and mask.

    Raises:
        ImportError: the library of the backend is missing; the message says what to install.
        OSError: the model is missing or can't be loaded; the message says how to export it.
        ValueError: the backend or the dtype is unknown.
    """

    def __init__(
        self, name: str | Path | None, backend: str, dtype: str = "auto", **options: Any
    ) -> None:
        if backend not in FILES:
            raise ValueError(f"backend={backend!r}: choose {', '.join(map(repr, BACKENDS))}")
        self.name_or_path = str(name) if name is not None else default_encoder()
        self.backend, self.device = backend, Device()
        self.dtype = "float32" if dtype == "auto" else str(dtype).removeprefix("torch.")
        if self.dtype not in _DTYPES[backend]:
            raise ValueError(
                f"dtype {self.dtype!r} is not supported by {backend}; choose"
                f" {', '.join(_DTYPES[backend])}"
            )
        self._options = hub_options(options)
        self.checkpoint_settings = read_checkpoint_settings(self.name_or_path, **self._options)
        self.config = self._read_config()
        path = self._find()
        try:
            self.run = (_onnx if backend == "onnx" else _openvino)(path, self.dtype)
        except ImportError as error:
            raise ImportError(
                f"backend={backend!r} needs pip install 'narrative_twins[{backend}]' ({error})"
            ) from error
        except Exception as error:  # of any kind, since the file may contain anything
            raise OSError(one_line(f"{path} can't be loaded by {backend}: {error}")) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.name_or_path, self.backend, self.dtype, self._options)

    def tokenizer(self) -> Any:
        """Its tokenizer; raises OSError if it has none that is fast."""
        try:
            return PreTrainedTokenizerFast.from_pretrained(self.name_or_path, **self._options)
        except Exception as error:  # of any kind, since the files may contain anything
            raise OSError(
                one_line(f"the tokenizer of encoder {self.name_or_path!r} can't be loaded: {error}")
            ) from error

    def facts(self, tokenizer: Any) -> ModelFacts:
        """What the model says of itself; it reads 512 tokens at once if it does not say how
        many."""
        known = getattr(self.config, "max_position_embeddings", None), tokenizer.model_max_length
        # A tokenizer without a limit has a huge number.
        limit = min(
            (limit for limit in known if isinstance(limit, int) and 0 < limit < 10**9), default=512
        )
        return ModelFacts(self.checkpoint_settings, limit, getattr(self.config, "vocab_size", None))

    def _file(self, name: str) -> str | None:
        try:
            path: str | None = cached_file(
                self.name_or_path,
                name,
                _raise_exceptions_for_missing_entries=False,
                **self._options,
            )
        except Exception as error:
            raise OSError(
                one_line(f"encoder {self.name_or_path!r} can't be loaded: {error}")
            ) from error
        return path

    def _read_config(self) -> SimpleNamespace:
        path = self._file("config.json")
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8")) if path else None
        except (OSError, ValueError, RecursionError) as error:
            raise OSError(
                f"config.json of encoder {self.name_or_path!r} is invalid ({error})"
            ) from error
        if not isinstance(values, dict) or not isinstance(values.get("hidden_size"), int):
            raise OSError(f"encoder {self.name_or_path!r} has no config.json with a hidden_size")
        parts = Path(str(path)).parts
        commit = parts[parts.index("snapshots") + 1] if "snapshots" in parts else None
        return SimpleNamespace(**values | {"_commit_hash": commit})

    def _find(self) -> str:
        """The file of the model."""
        names = [FILES[self.backend], *([FILES["onnx"]] if self.backend == "openvino" else [])]
        if self.dtype == "int8":
            names = [INT8_FILE]
        for name in names:
            path = self._file(name)
            if path is not None:
                for weights in weights_beside(name):
                    self._file(weights)
                return path
        dtype = " --dtype int8" if self.dtype == "int8" else ""
        raise OSError(
            f"encoder {self.name_or_path!r} has no {' or '.join(names)}; make it with"
            f" `narrative-twins export {self.name_or_path} --backend {self.backend}{dtype} --to"
            " FOLDER`, and load FOLDER"
        )


def weights_beside(name: str) -> list[str]:
    """The names of files beside a model that may have its weights, or those that are too large for
    one file."""
    return (
        [name.replace(".xml", ".bin")]
        if name.endswith(".xml")
        else [f"{name}.data", f"{name}_data"]
    )


def _load(name: str, backend: str, dtype: str, options: Mapping[str, Any]) -> PortableModel:
    return PortableModel(name, backend, dtype, **options)


def _threads() -> int:
    """How many threads a model uses; 0 for as many as its library chooses."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() else 0


def _onnx(path: str, dtype: str) -> _Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {given.name for given in session.get_inputs()}
    output = session.get_outputs()[0].name

    def run(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states: NDArray[np.float32] = session.run(
            [output], {name: inputs[name] for name in inputs if name in names}
        )[0]
        return states

    return run


def _openvino(path: str, dtype: str) -> _Run:
    import openvino

    core = openvino.Core()
    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
    settings["INFERENCE_PRECISION_HINT"] = "bf16" if dtype == "bfloat16" else "f32"
    if _threads():
        settings["INFERENCE_NUM_THREADS"] = _threads()
    model = core.compile_model(core.read_model(path), "CPU", settings)
    names = {given.get_any_name() for given in model.inputs}

    def run(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states: NDArray[np.float32] = model(
            {name: inputs[name] for name in inputs if name in names}
        )[0]
        return states

    return run


class PortablePasses:
    """Runs a portable model over texts, padded to the longest of a batch; the counterpart of
    `ForwardPasses`.

    Args:
        model: the model.
        probes: two short texts of equal length, to test the model with.
        max_tokens, pad_id: how many tokens a text may have, and the token id to pad with.
        batch_tokens: tokens per forward pass, padding included; default 2,048.

    Raises:
        ValueError: the model does not return token states.
    """

    attention = "padded"

    def __init__(
        self,
        model: PortableModel,
        probes: tuple[Ids, Ids],
        max_tokens: int,
        pad_id: int,
        batch_tokens: int | None = None,
    ) -> None:
        self.model, self.pad_id, self.batch_tokens = model, pad_id, batch_tokens or _BATCH_TOKENS
        self.dtype = model.dtype
        text = probes[0]
        longer = np.tile(text, 3)[:max_tokens]
        alone = self.states([text])
        if alone.shape != (len(text), model.config.hidden_size):
            raise ValueError(
                f"{model.name_or_path} in {model.backend} did not return token states for a text"
                f" but an array of shape {alone.shape}; export the encoder with `narrative-twins"
                " export`"
            )
        # Texts of different lengths may share a batch if padding does not change the states of the
        # shorter one.
        together = self.states([text, longer])[: len(text)]
        tolerance = 1e-3 if self.dtype == "float32" else 0.1
        self.mixes_lengths = bool(np.abs(alone - together).max() <= tolerance * np.abs(alone).max())

    def batches(self, lengths: Sequence[int]) -> Iterator[slice]:
        """Batches of texts, given the lengths of all texts in descending order."""
        return text_batches(lengths, self.batch_tokens, mixed=self.mixes_lengths)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Nothing has to be prepared for `states`."""
        yield

    def states(self, rows: Sequence[Ids]) -> NDArray[np.float32]:
        """Token states of texts, in their order, shape (tokens of all texts, dimensions)."""
        ids, is_token = padded(rows, self.pad_id)
        states = self.model.run(ids, is_token.astype(np.int64))
        return np.asarray(states[is_token], np.float32) if states.ndim == 3 else states

    def pooled(
        self, states: NDArray[np.float32], tokens: Sequence[NDArray[np.int64]], pooling: Pooling
    ) -> NDArray[np.float32]:
        """Vectors from the token states of texts, see `pool_arrays`."""
        return pool_arrays(states, tokens, pooling)

    def array(self, vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """The vectors of several passes as one array."""
        return np.concatenate(vectors)
