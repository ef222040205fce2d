"""Sentence encoders for tests: any object with `encode`."""

import hashlib

import numpy as np


class FakeSentenceEncoder:
    """Vectors that depend on the words of a text only. `calls` has the texts of each call."""

    def __init__(self, dimensions=8, vectors=()):
        self.dimensions = dimensions
        self.vectors = dict(vectors)
        self.calls = []

    def encode(self, texts):
        self.calls.append(texts)
        return np.array([self.vectors.get(text, self.vector(text)) for text in texts])

    def vector(self, text):
        return np.sum([self.word(word) for word in text.split()], axis=0)

    def word(self, word):
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
        return np.random.default_rng(seed).normal(size=self.dimensions)
