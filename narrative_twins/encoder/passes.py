"""Forward passes of a model over texts: which share a pass, with what attention, in which precision."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from narrative_twins.encoder.attention import FLASH, PACKED, packed_states, to_device, using_attention
from narrative_twins.encoder.checkpoint import first_position
from narrative_twins.encoder.precision import MatrixProducts, fast_dtype, sensitive_weights
from narrative_twins.encoder.tokens import Ids

logger = logging.getLogger(__name__)

Attention: TypeAlias = Literal["auto", "packed", "padded"]

ATTENTIONS: tuple[Attention, ...] = ("auto", "packed", "padded")

BATCH_TOKENS = {"cpu": 2_048, "cuda": 131_072}
"""Tokens in a forward pass, by device; other accelerators take the CUDA figure."""

_ONE_AT_A_TIME = RLock()
_CURE = "name a bidirectional text encoder, such as a BERT, RoBERTa, MPNet, ModernBERT or sentence-transformer"


class ForwardPasses:
    """Runs an encoder over texts.

    Args:
        model: the encoder. Where it was loaded with `dtype="auto"` (see `AutoStoryModel`), matrix products are in the
            fastest precision that keeps ranks, see `fast_dtype`; else in that of its weights.
        trial: two different short texts of equal length, to try the model on.
        longest: how many tokens a text may have.
        pad: token id to pad with.
        attention: `"packed"` puts texts in a row without padding, `"padded"` side by side, `"auto"` packs where the
            model can.
        batch_tokens: tokens in a forward pass, padding included; default by device.

    Raises:
        ValueError: the model is no bidirectional encoder of text; or can't pack where that is asked for.
    """

    def __init__(
        self,
        model: Any,
        trial: tuple[Ids, Ids],
        longest: int,
        pad: int,
        attention: Attention = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        if attention not in ATTENTIONS:
            raise ValueError(f"attention={attention!r}: choose {', '.join(map(repr, ATTENTIONS))}")
        self.model, self.pad = model, pad
        self.device: torch.device = model.device
        self.batch_tokens = batch_tokens or BATCH_TOKENS["cpu" if self.device.type == "cpu" else "cuda"]
        self.mixes_lengths = True
        self._first = first_position(model)
        self._attention: str | None = None
        self._products = MatrixProducts(self._choose_dtype(), sensitive_weights(model))
        self._probe(trial, longest, attention)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of matrix products."""
        dtype: torch.dtype = self._products.dtype or self.model.dtype
        return dtype

    @property
    def attention(self) -> Attention:
        """`"packed"` or `"padded"`."""
        return "padded" if self._attention is None else "packed"

    def batches(self, lengths: Sequence[int]) -> Iterator[slice]:
        """Which of some texts, longest first, share a pass."""
        start = total = 0
        for at, length in enumerate(lengths):
            longest = lengths[start]
            tokens = total + length if self._attention else (at - start + 1) * longest
            if at > start and (tokens > self.batch_tokens or not (self.mixes_lengths or length == longest)):
                yield slice(start, at)
                start, total = at, 0
            total += length
        if lengths:
            yield slice(start, len(lengths))

    @contextmanager
    def running(self) -> Iterator[None]:
        """The model made ready for `states`: no gradients, its attention and precision set, and set back after."""
        # Another thread that set the attention back meanwhile would make texts attend to each other.
        with _ONE_AT_A_TIME, torch.inference_mode(), using_attention(self.model, self._attention), self._products:
            yield

    def states(self, rows: Sequence[Ids]) -> torch.Tensor:
        """Token states of some texts, those of the first text first, shape (tokens, dimensions). While `running`."""
        if self._attention:
            return packed_states(self.model, rows, self._first)
        ids = np.full((len(rows), max(map(len, rows))), self.pad, np.int64)
        attended = np.arange(ids.shape[1]) < np.array([len(row) for row in rows])[:, None]
        ids[attended] = np.concatenate(rows)
        mask = to_device(attended, self.device)
        states: torch.Tensor = self.model(input_ids=to_device(ids, self.device), attention_mask=mask).last_hidden_state
        return states[mask.bool()] if not attended.all() else states.flatten(0, 1)

    def _choose_dtype(self) -> torch.dtype | None:
        """The precision of matrix products where it is not that of the weights."""
        if getattr(self.model, "precision", None) != "auto":
            return None
        if self.device.type == "cpu" and self.model.dtype in (torch.float16, torch.bfloat16):
            # What a CPU keeps in float32 costs little; weights that were stored in less stay what they are.
            self.model.float()
        dtype = fast_dtype(self.device)
        return dtype if self.model.dtype == torch.float32 and dtype != torch.float32 else None

    def _probe(self, trial: tuple[Ids, Ids], longest: int, attention: Attention) -> None:
        """Find out what the model can do, and refuse models that are no encoders of text, most of all those that only
        read backwards."""
        kind = type(self.model).__name__
        if getattr(self.model.config, "is_encoder_decoder", False):
            raise ValueError(f"{kind} is an encoder-decoder, not an encoder; {_CURE}")
        one, other = trial
        longer = np.tile(one, 3)[:longest]
        try:
            alone = self._try_precision(one)
            changed = self._try([other])
        except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            raise ValueError(f"{kind} gives no token states for a text ({error}); {_CURE}") from error
        if torch.equal(alone[0], changed[0]):
            raise ValueError(f"{kind} reads from left to right only, so its states miss what follows; {_CURE}")
        if attention != "padded" and self._packs([longer, one, other], [self._try([longer]), alone, changed]):
            return
        if attention == "packed":
            raise ValueError(f"{kind} can't read texts in a row; leave attention='packed' out")
        if attention == "auto":
            logger.info("%s can't read texts in a row, so they are padded", kind)
        self.mixes_lengths = self._same(alone, self._try([one, longer])[: len(one)])
        if not self.mixes_lengths:
            logger.info("%s is moved by padding, so only texts of one length share a batch", kind)

    def _try_precision(self, row: Ids) -> torch.Tensor:
        """States of a text; in the precision of the weights where the model does not stand another one between them."""
        try:
            return self._try([row])
        except RuntimeError as error:
            if self._products.dtype is None:
                raise
            logger.info("%s is run in the precision of its weights (%s)", type(self.model).__name__, error)
            self._products = MatrixProducts()
            return self._try([row])

    def _packs(self, rows: list[Ids], alone: list[torch.Tensor]) -> bool:
        """Find an attention that reads texts in a row as it reads each alone."""
        for name in self._attentions():
            self._attention = name
            try:
                if self._same(torch.cat(alone), self._try(rows)):
                    return True
                why = "its states are others then"
            except Exception as error:  # Whatever a model or kernel does not like about it, padding works.
                why = str(error)
            logger.debug("%s is not used with %s: %s", name, type(self.model).__name__, why)
        self._attention = None
        return False

    def _attentions(self) -> list[str]:
        """The attentions that keep texts in a row apart, the fastest first."""
        flash = self.device.type == "cuda" and self.dtype in (torch.float16, torch.bfloat16)
        return [FLASH, PACKED] if flash else [PACKED]

    def _try(self, rows: list[Ids]) -> torch.Tensor:
        with self.running():
            return self.states(rows)

    def _same(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Whether states are equal but for rounding."""
        tolerance = 1e-3 if self.dtype == torch.float32 else 0.1
        return a.shape == b.shape and bool((a - b).abs().max() <= tolerance * a.abs().max())
