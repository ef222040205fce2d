"""Windows of a story, and orders of sentences: index arithmetic."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Order: TypeAlias = tuple[int, ...]
"""Sentence indices in the order they are read."""


class Window(NamedTuple):
    """Sentences `[lo, hi)`, the window whose sentences are scored, read within sentences `[start, stop)` of the story:
    all of it, or as much around the window as the encoder's context holds."""

    start: int
    lo: int
    hi: int
    stop: int

    @property
    def base(self) -> Order:
        """The story as it is told."""
        return tuple(range(self.start, self.stop))

    @property
    def size(self) -> int:
        """How many sentences are scored."""
        return self.hi - self.lo


Span: TypeAlias = tuple[int, int]


def even_windows(sentences: int, count: int) -> tuple[Span, ...]:
    """`count` windows over `sentences` sentences whose sizes differ by one at most: window w is
    `[w·n // count, (w + 1)·n // count)`."""
    edges = [w * sentences // count for w in range(count + 1)]
    return tuple(zip(edges, edges[1:], strict=False))
