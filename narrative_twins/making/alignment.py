"""Alignment of two versions of a story: sentence vectors of a sentence-transformers encoder, and
dynamic time warping over their similarities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.loading import (
    SAFELY,
    check_checkpoint,
    check_modules,
    default_encoder,
    fingerprint,
    loading_errors,
)
from narrative_twins.encoder.tokenizer import check_vocabulary, is_truncated

STEPS = ((1, 1), (1, 0), (0, 1))
"""Steps of a path, in sentences of the story and of the twin; among equally good steps the first is
used."""


class SentenceEmbedder:
    """Embeds sentences as an array of shape (sentences, dimensions).

    Args:
        name: folder or Hub id of a sentence-transformer (OSError if missing); None for the
            package's default encoder.
        device: torch device; default an accelerator if there is one.
        batch_size: sentences in a forward pass.
        pooling: `"checkpoint"` for the pooling of sentence-transformers that the checkpoint is
            saved with, mean pooling if there is none; `"pooler"` for the `pooler_output` of the
            model, as SimCSE was trained: the first token after a dense layer with tanh, whose
            weights must be in the checkpoint (OSError if they are not).

    Attributes:
        truncated: number of sentences so far that were truncated to the encoder's context.
    """

    def __init__(
        self,
        name: str | Path | None = None,
        device: str | None = None,
        batch_size: int = 32,
        pooling: Literal["checkpoint", "pooler"] = "checkpoint",
    ) -> None:
        from sentence_transformers import SentenceTransformer

        self.name, self.pooling = str(name or default_encoder()), pooling
        # The checks are ours, and the model may have parts that only sentence-transformers knows.
        check_checkpoint(self.name, pooler=pooling == "pooler")
        check_modules(self.name)
        with loading_errors(self.name):
            self._model = SentenceTransformer(
                self.name, device=device, model_kwargs={"dtype": "float32", **SAFELY}
            )
        backbone: Any = self._model[0].auto_model
        check_vocabulary(self.name, self._model.tokenizer, backbone)
        if pooling == "pooler":
            transformer: Any = self._model[0]
            transformer.modality_config = {
                "text": {"method": "forward", "method_output_name": "pooler_output"}
            }
            transformer.module_output_name = "sentence_embedding"
            self._model = SentenceTransformer(modules=[transformer], device=device)
        self._batch_size = batch_size
        self.truncated = 0

    @property
    def fingerprint(self) -> str | None:
        """Distinguishes encoders of the same name, see `encoder.loading.fingerprint`."""
        return fingerprint(self.name, getattr(self._model[0], "auto_model", self._model).config)

    def __call__(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        self.truncated += sum(is_truncated(self._model, sentence) for sentence in sentences)
        return self._model.encode(
            list(sentences), batch_size=self._batch_size, show_progress_bar=False
        )


def best_path(similarities: NDArray[np.floating[Any]]) -> list[tuple[int, int]]:
    """The monotone path with the largest sum through a matrix of shape (n, m), by dynamic time
    warping in O(n·m).

    A path goes from cell (0, 0) to cell (n − 1, m − 1) by the steps of `STEPS`; its sum includes
    both ends. Ties are broken from the end, in the order of `STEPS`. Since most similarities are
    above 0, a diagonal step usually adds less than two single steps, and is rare.

    Returns:
        The cells of the path in order: i is the index of a sentence of the story, j of the twin.
        ValueError if the matrix is empty, or has a cell that is not a finite number.
    """
    cells = np.asarray(similarities, np.float64)
    if cells.ndim != 2 or not cells.size or not np.isfinite(cells).all():
        raise ValueError(
            f"similarities of shape {cells.shape}: a non-empty matrix of finite numbers is needed"
        )
    n, m = cells.shape
    # The total of cell (i, j) is at [i + 1][j + 1]; cells outside of the matrix are -inf, so that
    # no path uses them, but for the one before all paths.
    totals = [[-math.inf] * (m + 1) for _ in range(n + 1)]
    totals[0][0] = 0
    for i, row in enumerate(cells.tolist()):
        for j, cell in enumerate(row):
            totals[i + 1][j + 1] = cell + max(totals[i][j], totals[i][j + 1], totals[i + 1][j])
    i, j = n - 1, m - 1
    path = [(i, j)]
    while (i, j) != (0, 0):
        # `max` returns the first of equal predecessors.
        i, j = max(((i - di, j - dj) for di, dj in STEPS), key=lambda c: totals[c[0] + 1][c[1] + 1])
        path.append((i, j))
    return path[::-1]
