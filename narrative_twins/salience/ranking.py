"""How units with scores are compared: sentences of a story, or units of a level of a book. Ranks,
stars and shades all go by the values of `compared`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from narrative_twins.salience.operations import OPERATIONS
from narrative_twins.stories.sentences import Span

PRIMARY_OPERATION = "summarization"
"""The default operation when only one is shown: it agrees best with human annotators."""
MARKED = 1 / 5
"""The share of the sentences that is marked, or extracted, by default."""


class Scored:
    """The scores of units in order: of the sentences of a story, or of one level of a book.

    Attributes:
        scores: by operation, one float per unit; higher is more salient.
        windows: half-open ranges of the units, each of which was scored by itself.
    """

    scores: Mapping[str, list[float]]
    windows: Sequence[Span]

    @property
    def primary_operation(self) -> str:
        """The default operation of `rank` and `top`: summarization if scored, else the first."""
        return PRIMARY_OPERATION if PRIMARY_OPERATION in self.scores else next(iter(self.scores))

    @property
    def is_comparable(self) -> bool:
        """Whether any window has several units, so that there is something to compare."""
        return any(hi - lo > 1 for lo, hi in self.windows)

    def scores_of(self, operation: str | None = None) -> list[float]:
        """Return the scores of the units by an operation, by default the primary operation. Raises
        ValueError if the operation was not scored."""
        name = self.primary_operation if operation is None else operation
        if name not in self.scores:
            raise ValueError(f"{name!r} was not scored; choose from {', '.join(self.scores)}")
        return self.scores[name]

    def rank(self, operation: str | None = None) -> list[int]:
        """Return the rank of each unit, in order of the units. Ranks are by `compared`: 1 is the
        most salient, and equal values share a rank."""
        negative = -np.array(compared(self, operation))
        ranks: list[int] = (1 + np.searchsorted(np.sort(negative), negative)).tolist()
        return ranks

    def compared(self, operation: str | None = None) -> list[float]:
        """Deprecated: `narrative_twins.salience.ranking.compared`."""
        _warn_of("compared")
        return compared(self, operation)

    def shaded(self, operation: str | None = None) -> list[float]:
        """Deprecated: `narrative_twins.salience.ranking.shaded`."""
        _warn_of("shaded")
        return shaded(self, operation)

    def marked(self, operation: str | None = None, k: int | None = None) -> list[int]:
        """Deprecated: `narrative_twins.salience.ranking.marked`."""
        _warn_of("marked")
        return marked(self, operation, k)

    def highest(self, k: int, operation: str | None = None) -> list[int]:
        """Deprecated: `top` has these units, `narrative_twins.salience.ranking.highest` indices."""
        _warn_of("highest")
        return highest(self, k, operation)


def _warn_of(name: str) -> None:
    """Warn that the method `name` of a result is a function now."""
    new = f"narrative_twins.salience.ranking.{name}"
    message = f"result.{name}(...) goes in 0.2; use {new}(result, ...)"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def compared(units: Scored, operation: str | None = None) -> list[float]:
    """Return a value per unit, by which units are compared: the score; for disruption, the score
    relative to the usual score at its place in the window."""
    name = units.primary_operation if operation is None else operation
    scores = units.scores_of(name)
    # Saved scores may be by an operation of somebody who has not registered it here.
    if name not in OPERATIONS:
        return list(scores)
    values: list[float] = OPERATIONS[name].compared(np.array(scores), units.windows).tolist()
    return values


def shaded(units: Scored, operation: str | None = None) -> list[float]:
    """Return the values that bars and shades show: `compared`, but NaN for a unit that is alone in
    its window, since there is nothing to compare the unit with."""
    alone = {lo for lo, hi in units.windows if hi - lo == 1}
    return [math.nan if i in alone else value for i, value in enumerate(compared(units, operation))]


def highest(units: Scored, k: int, operation: str | None = None) -> list[int]:
    """Return the indices of the k most salient units, or of all if there are fewer. They are sorted
    by the values of `compared`, highest first; units of equal value stay in order."""
    if k < 0:
        raise ValueError(f"top({k}): the number can't be negative")
    values = compared(units, operation)
    return sorted(range(len(values)), key=lambda i: -values[i])[:k]


def marked(units: Scored, operation: str | None = None, k: int | None = None) -> list[int]:
    """Return the indices of the k units that stars and labels mark, most salient first; by default
    a fifth of the units. Units that are alone in their window are left out."""
    if k is not None and k < 0:
        raise ValueError(f"top({k}): the number can't be negative")
    values = shaded(units, operation)
    several = [i for i in highest(units, len(values), operation) if not math.isnan(values[i])]
    return several[: extract_length(len(several), k, None, default=MARKED)]


def extract_length(count: int, k: int | None, share: float | None, default: float) -> int:
    """Return how many of `count` sentences an extract has: `k`, or if `k` is None, a share of them,
    rounded, but at least 1. The share is `share`, or `default` if `share` is None. Raises
    ValueError if both `k` and `share` are set, or if `share` is not above 0 and at most 1."""
    if k is not None and share is not None:
        raise ValueError(f"k={k}, share={share}: choose a number or a share of sentences, not both")
    if share is not None and not 0 < share <= 1:
        raise ValueError(f"share={share}: a share of sentences is above 0, and at most 1")
    return max(1, round(count * (share or default))) if k is None else k
