"""Baselines that do not read what a sentence says: chance, position and length."""

from __future__ import annotations

import json
import operator
import random

import numpy as np
from numpy.typing import NDArray

from narrative_twins.baselines.scorers import Baseline, Embedder, register_baseline
from narrative_twins.stories.story import Story


@register_baseline
class Random(Baseline):
    """Uniform draws from [0, 1). They depend on the seed and the sentences only: a story has the
    same scores on every machine, whatever the other stories.

    Args:
        seed: an integer; default that of `baseline_scores`, or else 0.
    """

    name = "random"
    meaning = "a random number"

    def __init__(self, seed: int | None = None) -> None:
        self.seed = None if seed is None else operator.index(seed)

    def scores(self, story: Story) -> NDArray[np.float64]:
        # Python promises the same draws in all versions, numpy's generators do not.
        draws = random.Random(json.dumps([self.seed or 0, *story.sentences]))
        return np.array([draws.random() for _ in story.sentences])

    def with_defaults(self, seed: int, embedder: Embedder) -> Baseline:
        return type(self)(seed) if self.seed is None else self


@register_baseline
class Lead(Baseline):
    """The number of sentences from this one to the end of the story."""

    name = "lead"
    meaning = "earlier sentences score higher"

    def scores(self, story: Story) -> NDArray[np.float64]:
        return np.arange(len(story), 0, -1, dtype=np.float64)


@register_baseline
class Trail(Baseline):
    """The position of the sentence in the story, counted from 1; the paper calls it
    "increasing"."""

    name = "trail"
    meaning = "later sentences score higher"

    def scores(self, story: Story) -> NDArray[np.float64]:
        return np.arange(1, len(story) + 1, dtype=np.float64)


@register_baseline
class Centre(Baseline):
    """Minus the distance of the sentence to the middle of its window, in sentences."""

    name = "centre"
    meaning = "sentences near the middle of their window score higher"

    def scores(self, story: Story) -> NDArray[np.float64]:
        windows = [np.arange(lo, hi) - (lo + hi - 1) / 2 for lo, hi in story.windows]
        return 0.0 - np.abs(np.concatenate(windows))


@register_baseline
class Length(Baseline):
    """The number of words in the sentence, separated by white space."""

    name = "length"
    meaning = "sentences with more words score higher"

    def scores(self, story: Story) -> NDArray[np.float64]:
        return np.array([len(sentence.split()) for sentence in story.sentences], np.float64)
