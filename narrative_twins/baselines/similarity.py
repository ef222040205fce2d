"""A baseline that compares each sentence with the whole text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from narrative_twins.baselines.scorers import EmbeddingBaseline, register_baseline
from narrative_twins.salience.operations import cosine
from narrative_twins.stories.story import Story


@register_baseline
class WholeText(EmbeddingBaseline):
    """Cosine similarity of the embeddings of the sentence and of the whole text, whatever the
    windows.

    In a story of one window that is summarization, if the encoder is the same `StoryEncoder`.
    """

    name = "whole_text"
    meaning = "how similar the sentence is to the whole text"

    def texts(self, story: Story) -> tuple[str, ...]:
        return (*story.sentences, story.text)

    def compare(self, story: Story, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        return cosine(vectors[:-1], vectors[-1])
