"""Alignment of two versions of a story: sentence vectors of an encoder, and dynamic time warping
over their similarities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from narrative_twins.encoder.loading import default_encoder, fingerprint
from narrative_twins.encoder.story_encoder import StoryEncoder

STEPS = ((1, 1), (1, 0), (0, 1))
"""Steps of a path, in sentences of story and twin; of equally good steps the first is used."""


class SentenceEmbedder:
    """Embeds sentences as an array of shape (sentences, dimensions), float32.

    Args:
        name: folder or Hub id of an encoder (OSError if missing); None for the default encoder.
        device: torch device; default an accelerator if there is one.
        pooling: `"checkpoint"` for the pooling that the checkpoint is saved with, mean pooling if
            there is none; `"pooler"` for the `pooler_output` of the model, as SimCSE was trained:
            the first token after a dense layer with tanh, whose weights must be in the checkpoint
            (OSError if they are not).
    """

    def __init__(
        self,
        name: str | Path | None = None,
        device: str | None = None,
        pooling: Literal["checkpoint", "pooler"] = "checkpoint",
    ) -> None:
        self.name, self.pooling = str(name or default_encoder()), pooling
        self._encoder = StoryEncoder.from_pretrained(name, device=device, dtype="float32")
        if pooling == "pooler":
            model, trained = self._encoder.model, self._encoder.model.checkpoint_settings.pooling
            untrained = any(key.startswith("pooler.") for key in model.untrained)
            problem = ""
            if trained is not None:
                problem = f"it was trained with {trained} pooling, not with its pooler; use that"
            elif untrained or getattr(model, "pooler", None) is None:
                problem = "it has no weights of a pooler; use one such as SimCSE, or other pooling"
            if problem:
                raise OSError(f"encoder {self.name!r}: {problem}")
            self._encoder.pooling = "first"

    @property
    def fingerprint(self) -> str | None:
        """Distinguishes encoders of the same name, see `encoder.loading.fingerprint`."""
        return fingerprint(self.name, self._encoder.model.config)

    def __call__(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        vectors = self._encoder.encode(list(sentences))
        if self.pooling == "checkpoint":
            return vectors
        # The pooler takes token states, and uses the first.
        states = torch.from_numpy(vectors).to(self._encoder.device).unsqueeze(1)
        with torch.inference_mode():
            pooled: NDArray[np.float32] = self._encoder.model.pooler(states).cpu().numpy()
        return pooled


def best_path(similarities: NDArray[np.floating[Any]]) -> list[tuple[int, int]]:
    """The monotone path with the largest sum through a matrix of shape (n, m), by dynamic time
    warping in O(n·m).

    A path goes from cell (0, 0) to cell (n − 1, m − 1) by the steps of `STEPS`; its sum includes
    both ends. Ties are broken from the end, in the order of `STEPS`. Since most similarities are
    above 0, a diagonal step usually adds less than two single steps, and is rare.

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
