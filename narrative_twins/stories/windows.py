"""Windows of a story and orders of its sentences, as sentence indices."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Order: TypeAlias = tuple[int, ...]
"""Sentence indices in the order they are read."""


class Window(NamedTuple):
    """The sentences `[lo, hi)` to score, and the sentences `[start, stop)` to read with them: the
    complete story, or as much of it around the window as fits the encoder's context."""

    start: int
    lo: int
    hi: int
    stop: int

    @property
    def base(self) -> Order:
        """The sentences that are read, in story order."""
        return tuple(range(self.start, self.stop))

    @property
    def size(self) -> int:
        """The number of sentences that are scored."""
        return self.hi - self.lo


Span: TypeAlias = tuple[int, int]


def even_windows(sentences: int, count: int) -> tuple[Span, ...]:
    """Split `sentences` sentences into `count` windows, as half-open ranges whose sizes differ by
    at most one."""
    edges = [w * sentences // count for w in range(count + 1)]
    return tuple(zip(edges, edges[1:], strict=False))
