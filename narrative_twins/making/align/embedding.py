"""Sentence vectors from a sentence-transformers encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.checkpoint import check_checkpoint, default_encoder, fingerprint
from narrative_twins.encoder.truncation import is_truncated


class SentenceEmbedder:
    """Embeds sentences as an array of shape (sentences, dimensions).

    Args:
        name: folder or Hub id of a sentence-transformer (OSError if missing); None for the package's default encoder.
        device: torch device; default an accelerator if there is one.
        batch_size: sentences in a forward pass.

    Attributes:
        truncated: number of sentences so far that were truncated to the encoder's context.
    """

    def __init__(self, name: str | Path | None = None, device: str | None = None, batch_size: int = 32) -> None:
        from sentence_transformers import SentenceTransformer

        self._name = str(name or default_encoder())
        # The checks are ours, and the model may have parts that only sentence-transformers knows.
        check_checkpoint(self._name)
        self._model = SentenceTransformer(
            self._name, device=device, model_kwargs={"dtype": "float32", "use_safetensors": True}
        )
        self._batch_size = batch_size
        self.truncated = 0

    @property
    def fingerprint(self) -> str | None:
        """Distinguishes encoders of the same name, see `checkpoint.fingerprint`."""
        return fingerprint(self._name, getattr(self._model[0], "auto_model", self._model).config)

    def __call__(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        self.truncated += sum(is_truncated(self._model, sentence) for sentence in sentences)
        return self._model.encode(
            list(sentences), batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True
        )
