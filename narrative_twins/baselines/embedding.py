"""Embeddings of plain texts, each text alone, for baselines."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.encoder.truncation import is_truncated
from narrative_twins.stories.story import StoryError

logger = logging.getLogger(__name__)


@runtime_checkable
class SentenceEncoder(Protocol):
    """Anything that embeds texts as a `SentenceTransformer` does."""

    def encode(self, sentences: list[str], /) -> Any:
        """One vector per text, an array of shape (texts, dimensions)."""


TextEncoder: TypeAlias = SentenceEncoder | StoryEncoder | str | Path | None
"""A `SentenceTransformer` or similar, a `StoryEncoder`, its folder or Hub id, or None for the
default encoder."""


class Embedder:
    """Embeds texts by an encoder, which is loaded when it is first used.

    A `StoryEncoder` reads a text that exceeds its context in several passes. Another encoder may
    not read all of it; that is warned of once if the encoder has `max_seq_length` and `tokenizer`,
    as a `SentenceTransformer` has.

    Args:
        encoder: see `TextEncoder`. Raises TypeError if it is something else.
    """

    def __init__(self, encoder: TextEncoder = None) -> None:
        if not isinstance(encoder, (StoryEncoder, str, Path, type(None), SentenceEncoder)):
            raise TypeError(
                "an encoder is a StoryEncoder, a folder, a Hub id or an object with the method"
                f" encode, such as a SentenceTransformer, not {type(encoder).__name__}"
            )
        self._encoder = encoder
        self._prepared: dict[str, NDArray[np.float32]] = {}
        self._warned = False

    def prepare(self, texts: Iterable[str]) -> None:
        """Embed texts together, each distinct text once, and keep their vectors until the next
        call."""
        unique = list(dict.fromkeys(texts))
        self._prepared = {}
        self._prepared = dict(zip(unique, self._encode(unique), strict=True))

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts, shape (texts, dimensions); those that were prepared are not
        embedded again.

        Raises:
            StoryError: a text has no tokens, or a vector is not finite.
            ValueError: the encoder does not return one vector per text.
        """
        vectors = self._prepared
        if any(text not in vectors for text in texts):
            unique = list(dict.fromkeys(texts))
            vectors = dict(zip(unique, self._encode(unique), strict=True))
        found = np.stack([vectors[text] for text in texts])
        if not np.isfinite(found).all():
            raise StoryError("the encoder's vectors are not finite; load it with dtype='float32'")
        return found

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        if self._encoder is None or isinstance(self._encoder, (str, Path)):
            self._encoder = StoryEncoder.from_pretrained(self._encoder)
        if isinstance(self._encoder, StoryEncoder):
            tokens = self._encoder.tokenize(texts)
            return self._encoder.encode([tokens.chunks((i,), None) for i in range(len(texts))])
        if not self._warned and (
            cut := next((text for text in texts if is_truncated(self._encoder, text)), None)
        ):
            self._warned = True
            limit = getattr(self._encoder, "max_seq_length", None)
            logger.warning(
                "the encoder reads only the first %s tokens of %r (reported once)",
                limit,
                f"{cut[:60]}...",
            )
        vectors = np.asarray(self._encoder.encode(texts), np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(
                f"the encoder must return one vector for each of {len(texts)} text(s), not"
                f" {vectors.shape}"
            )
        return vectors
