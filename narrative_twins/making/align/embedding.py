"""Sentences to vectors, by any sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.checkpoint import default_encoder, fingerprint

_SPECIAL = 4
"""Special tokens of a sentence, at most."""


class SentenceEmbedder:
    """Embeds sentences: an array of shape (sentences, dimensions).

    Args:
        name: folder or Hub id of a sentence-transformer; None for the package's default encoder.
        device: where it runs; default an accelerator if there is one.
        batch_size: sentences in a forward pass.

    Attributes:
        cut: how many sentences so far were longer than the encoder reads, and went in without their ends.

    Raises:
        OSError: there is no such encoder.
    """

    def __init__(self, name: str | Path | None = None, device: str | None = None, batch_size: int = 32) -> None:
        from sentence_transformers import SentenceTransformer

        self._name = str(name or default_encoder())
        self._model = SentenceTransformer(self._name, device=device, model_kwargs={"dtype": "float32"})
        self._batch_size = batch_size
        self.cut = 0

    @property
    def fingerprint(self) -> str | None:
        """What tells the encoder apart from others of the same name, see `checkpoint.fingerprint`."""
        return fingerprint(self._name, getattr(self._model[0], "auto_model", self._model).config)

    def __call__(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        self.cut += sum(map(self._is_cut, sentences))
        return self._model.encode(
            list(sentences), batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True
        )

    def _is_cut(self, sentence: str) -> bool:
        most = self._model.max_seq_length
        # A token is a byte at least: few sentences have to be looked at.
        if most is None or len(sentence.encode("utf-8", "replace")) + _SPECIAL <= most:
            return False
        return len(self._model.tokenizer(sentence, verbose=False)["input_ids"]) > most
