"""Forward passes of a model over texts: batches, attention and precision."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from narrative_twins.encoder.attention import (
    FLASH,
    PACKED,
    packed_states,
    to_device,
    using_attention,
)
from narrative_twins.encoder.batches import padded, text_batches
from narrative_twins.encoder.models import first_position
from narrative_twins.encoder.pooling import Pooling, pool
from narrative_twins.encoder.precision import MatrixProducts, fast_dtype, sensitive_weights
from narrative_twins.encoder.tokens import Ids

logger = logging.getLogger(__name__)

Attention: TypeAlias = Literal["auto", "packed", "padded"]

ATTENTIONS: tuple[Attention, ...] = ("auto", "packed", "padded")

BATCH_TOKENS = {"cpu": 2_048, "cuda": 131_072}
"""Tokens per forward pass, by device; other accelerators use the CUDA figure."""

ROUNDED_TOKENS = 32
"""On a CPU the tokens of packed texts are filled up to a multiple of it. oneDNN caches kernels for
each number of tokens, which fragment the memory: without it, a process grew by 579 MB over 100,000
stories."""

_LOCK = RLock()
_FIX = (
    "use a bidirectional text encoder, such as a BERT, RoBERTa, MPNet, ModernBERT or"
    " sentence-transformer"
)


class ForwardPasses:
    """Runs an encoder over texts; ValueError if it is not a bidirectional encoder, or does not
    support the attention.

    Args:
        model: the encoder. If it was loaded with `dtype="auto"` (see `AutoStoryModel`), matrix
            products are in the fastest precision that keeps ranks, see `fast_dtype`; else in that
            of its weights.
        probes: two short texts of equal length that differ in the last token, to test the model
            with.
        max_tokens, pad_id: how many tokens a text may have, and the token id to pad with.
        attention: `"packed"` concatenates texts without padding, `"padded"` pads them, `"auto"`
            packs if the model can.
        batch_tokens: tokens per forward pass, padding included; default `BATCH_TOKENS` of the
            device.

    Attributes:
        products: a context in which matrix products are computed as this class does.
    """

    def __init__(
        self,
        model: Any,
        probes: tuple[Ids, Ids],
        max_tokens: int,
        pad_id: int,
        attention: Attention = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        if attention not in ATTENTIONS:
            raise ValueError(f"attention={attention!r}: choose {', '.join(map(repr, ATTENTIONS))}")
        self.model, self.pad_id = model, pad_id
        self.device: torch.device = model.device
        self.batch_tokens = (
            batch_tokens or BATCH_TOKENS["cpu" if self.device.type == "cpu" else "cuda"]
        )
        self.mixes_lengths = True
        self._first_position = first_position(model)
        self._attention: str | None = None
        self.products = MatrixProducts(self._choose_dtype(), sensitive_weights(model))
        self._probe(probes, max_tokens, attention)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of matrix products."""
        dtype: torch.dtype = self.products.dtype or self.model.dtype
        return dtype

    @property
    def attention(self) -> Attention:
        """The attention in use, `"packed"` or `"padded"`."""
        return "padded" if self._attention is None else "packed"

    def batches(self, lengths: Sequence[int]) -> Iterator[slice]:
        """Batches of texts, given the lengths of all texts in descending order."""
        packed = self._attention is not None
        return text_batches(lengths, self.batch_tokens, padded=not packed, mixed=self.mixes_lengths)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Prepare the model for `states`: disable gradients, set attention and precision, restore
        them on exit."""
        # The lock keeps other threads from restoring the attention during a pass: texts would
        # attend to each other.
        with (
            _LOCK,
            torch.inference_mode(),
            using_attention(self.model, self._attention),
            self.products,
        ):
            yield

    def states(self, rows: Sequence[Ids]) -> torch.Tensor:
        """Token states of texts, in their order, shape (tokens of all texts, dimensions); call it
        while `running`."""
        if self._attention:
            total = sum(map(len, rows))
            if self.device.type == "cpu":
                # Filled up by texts of one token, which are within any context.
                rows = [*rows, *[rows[0][:1]] * (-total % ROUNDED_TOKENS)]
            return packed_states(self.model, rows, self._first_position)[:total]
        ids, is_token = padded(rows, self.pad_id)
        mask = to_device(is_token, self.device)
        states: torch.Tensor = self.model(
            input_ids=to_device(ids, self.device), attention_mask=mask
        ).last_hidden_state
        return states[mask.bool()] if not is_token.all() else states.flatten(0, 1)

    def pooled(
        self, states: torch.Tensor, tokens: Sequence[NDArray[np.int64]], pooling: Pooling
    ) -> torch.Tensor:
        """Vectors from the token states of texts, see `pool`."""
        return pool(states, tokens, pooling)

    def array(self, vectors: Sequence[torch.Tensor]) -> NDArray[np.float32]:
        """The vectors of several passes as one array."""
        array: NDArray[np.float32] = torch.cat(list(vectors)).cpu().numpy()
        return array

    def _choose_dtype(self) -> torch.dtype | None:
        """The precision of matrix products; None for that of the weights."""
        if getattr(self.model, "precision", None) != "auto":
            return None
        if self.device.type == "cpu" and self.model.dtype in (torch.float16, torch.bfloat16):
            # On a CPU keeping weights in float32 costs little, and the cast changes no value.
            self.model.float()
        dtype = fast_dtype(self.device)
        return dtype if self.model.dtype == torch.float32 and dtype != torch.float32 else None

    def _probe(self, probes: tuple[Ids, Ids], max_tokens: int, attention: Attention) -> None:
        """Find out by trial passes what the model supports, and refuse models that are not
        bidirectional encoders."""
        name = type(self.model).__name__
        if getattr(self.model.config, "is_encoder_decoder", False):
            raise ValueError(f"{name} is an encoder-decoder, not an encoder; {_FIX}")
        text, other = probes
        longer = np.tile(text, 3)[:max_tokens]
        try:
            alone = self._run_in_best_precision(text)
            other_alone = self._run([other])
        except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            raise ValueError(
                f"{name} did not return token states for a text ({error}); {_FIX}"
            ) from error
        # The texts differ in the last token only: if their first states are equal, attention is
        # causal.
        if torch.equal(alone[0], other_alone[0]):
            raise ValueError(
                f"{name} reads from left to right only, so its states miss what follows; {_FIX}"
            )
        if attention != "padded" and self._packs(
            [longer, text, other], [self._run([longer]), alone, other_alone]
        ):
            return
        if attention == "packed":
            raise ValueError(
                f"{name} can't process packed texts; use attention='auto' or attention='padded'"
            )
        if attention == "auto":
            logger.info("%s can't process packed texts, so they are padded", name)
        # Texts of different lengths may share a batch if padding does not change the states of the
        # shorter one.
        self.mixes_lengths = self._same(alone, self._run([text, longer])[: len(text)])
        if not self.mixes_lengths:
            logger.info(
                "padding changes the states of %s, so only texts of equal length share a batch",
                name,
            )

    def _run_in_best_precision(self, row: Ids) -> torch.Tensor:
        """States of a text; falls back to the precision of the weights if the model fails with
        mixed precisions."""
        try:
            return self._run([row])
        except RuntimeError as error:
            if self.products.dtype is None:
                raise
            logger.info(
                "%s is run in the precision of its weights (%s)", type(self.model).__name__, error
            )
            self.products = MatrixProducts()
            return self._run([row])

    def _packs(self, rows: list[Ids], alone: list[torch.Tensor]) -> bool:
        """Choose the first attention that gives packed texts the same states as each text alone, if
        any does."""
        for name in self._attentions():
            self._attention = name
            try:
                if self._same(torch.cat(alone), self._run(rows)):
                    return True
                reason = "packed texts have different states"
            except (
                Exception
            ) as error:  # Whatever a model or kernel fails with, padding still works.
                reason = str(error)
            logger.debug("%s is not used with %s: %s", name, type(self.model).__name__, reason)
        self._attention = None
        return False

    def _attentions(self) -> list[str]:
        """The attentions that keep packed texts apart, the fastest first."""
        flash = self.device.type == "cuda" and self.dtype in (torch.float16, torch.bfloat16)
        return [FLASH, PACKED] if flash else [PACKED]

    def _run(self, rows: list[Ids]) -> torch.Tensor:
        with self.running():
            return self.states(rows)

    def _same(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Whether states are equal except for rounding."""
        tolerance = 1e-3 if self.dtype == torch.float32 else 0.1
        return a.shape == b.shape and bool((a - b).abs().max() <= tolerance * a.abs().max())
