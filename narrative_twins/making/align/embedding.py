"""Sentence vectors from a sentence-transformers encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from narrative_twins.encoder.checkpoint import default_encoder, fingerprint
from narrative_twins.encoder.loading import one_line
from narrative_twins.encoder.models import check_checkpoint
from narrative_twins.encoder.tokens import check_vocabulary
from narrative_twins.encoder.truncation import is_truncated
from narrative_twins.encoder.weight_files import modules_problem

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

        self._name = str(name or default_encoder())
        # The checks are ours, and the model may have parts that only sentence-transformers knows.
        check_checkpoint(self._name, pooler=pooling == "pooler")
        if problem := modules_problem(self._name):
            raise OSError(f"encoder {self._name!r} can't be loaded: {problem}")
        try:
            self._model = SentenceTransformer(
                self._name,
                device=device,
                model_kwargs={"dtype": "float32", "use_safetensors": True},
            )
        except Exception as error:  # of any kind, since the files may contain anything
            raise OSError(one_line(f"encoder {self._name!r} can't be loaded: {error}")) from error
        backbone: Any = self._model[0].auto_model
        check_vocabulary(
            self._name, self._model.tokenizer, backbone.get_input_embeddings().num_embeddings
        )
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
        """Distinguishes encoders of the same name, see `checkpoint.fingerprint`."""
        return fingerprint(self._name, getattr(self._model[0], "auto_model", self._model).config)

    def __call__(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        self.truncated += sum(is_truncated(self._model, sentence) for sentence in sentences)
        return self._model.encode(
            list(sentences),
            batch_size=self._batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
