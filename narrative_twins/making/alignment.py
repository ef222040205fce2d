"""Alignment of two tellings of a story: sentence vectors of a sentence-transformers encoder, and
dynamic time warping over their similarities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.baselines.graph import cosine_matrix
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

SentencePooling: TypeAlias = Literal["checkpoint", "pooler"]
"""How a sentence vector is made of token states: as the settings of the checkpoint say, or by the
model's pooler."""


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
        name: the name of the encoder.
        pooling: as given.
        truncated: number of sentences so far that were truncated to the encoder's context.
    """

    def __init__(
        self,
        name: str | Path | None = None,
        device: str | None = None,
        batch_size: int = 32,
        pooling: SentencePooling = "checkpoint",
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
            list(sentences),
            batch_size=self._batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
        )


def similarity_matrix(
    story: NDArray[np.floating[Any]], twin: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """The cosine similarities of n and m vectors, of shape (n, m); those of a zero vector are 0."""
    return cosine_matrix(np.concatenate([story, twin]))[: len(story), len(story) :]


def best_path(similarities: NDArray[np.floating[Any]]) -> list[tuple[int, int]]:
    """The monotone path with the largest sum through a matrix of shape (n, m), by dynamic time
    warping in O(n·m).

    A path goes from cell (0, 0) to cell (n − 1, m − 1) by the steps of `STEPS`; its sum includes
    both ends:

        total[i, j] = similarities[i, j]
                      + max(total[i − 1, j − 1], total[i − 1, j], total[i, j − 1])

    Ties are broken from the end, in the order of `STEPS`. Since most similarities are above 0, a
    diagonal step usually adds less than two single steps, and is rare.

    Returns:
        The cells of the path in order: i is the index of a sentence of the story, j of the twin.

    Raises:
        ValueError: the matrix is empty, or has a cell that is not a finite number.
    """
    cells = np.asarray(similarities, np.float64)
    if cells.ndim != 2 or not cells.size or not np.isfinite(cells).all():
        raise ValueError(
            f"similarities of shape {cells.shape}: a non-empty matrix of finite numbers is needed"
        )
    n, m = cells.shape
    # The total of cell (i, j) is stored at [i + j + 2, i + 1], so that each anti-diagonal i + j is
    # a row: its cells do not depend on each other and are computed at once. Cells outside the
    # matrix are -inf, so no path uses them.
    totals = np.full((n + m + 1, n + 1), -np.inf)
    # The start of all paths: a cell (-1, -1), from which the first step leads to (0, 0).
    totals[0, 0] = 0
    for diagonal in range(n + m - 1):
        # The half-open range of i in this anti-diagonal.
        lo, hi = max(0, diagonal - m + 1), min(n, diagonal + 1)
        both, story, twin = (_before(totals, diagonal, lo, hi, step) for step in STEPS)
        rows = np.arange(lo, hi)
        totals[diagonal + 2, lo + 1 : hi + 1] = cells[rows, diagonal - rows] + np.maximum(
            np.maximum(both, story), twin
        )
    i, j = n - 1, m - 1
    path = [(i, j)]
    while (i, j) != (0, 0):
        # Trace back to the predecessor with the largest total; `max` returns the first of equal
        # ones.
        down, right = max(STEPS, key=lambda step: _before(totals, i + j, i, i + 1, step)[0])
        i, j = i - down, j - right
        path.append((i, j))
    return path[::-1]


def _before(
    totals: NDArray[np.float64], diagonal: int, lo: int, hi: int, step: tuple[int, int]
) -> NDArray[np.float64]:
    """The totals of the predecessors by one step of the cells `lo` to `hi` of an anti-diagonal."""
    down, right = step
    return totals[diagonal + 2 - down - right, lo + 1 - down : hi + 1 - down]
