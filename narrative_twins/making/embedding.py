"""Sentences to vectors, by any sentence encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.checkpoint import default_encoder


def sentence_embedder(
    name: str | Path | None = None, device: str | None = None, batch_size: int = 32
) -> Callable[[Sequence[str]], NDArray[np.floating[Any]]]:
    """A function from sentences to a vector each, of shape (sentences, dimensions).

    Args:
        name: folder or Hub id of a sentence-transformer; None for the package's default encoder.
        device: where it runs; default an accelerator if there is one.
        batch_size: sentences in a forward pass.

    Raises:
        OSError: there is no such encoder.
    """
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(name or default_encoder()), device=device, model_kwargs={"dtype": "float32"})

    def embed(sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        return model.encode(list(sentences), batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)

    return embed
