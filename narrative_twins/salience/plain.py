"""The result of a story as plain data that can also be shown: what the pipeline returns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from narrative_twins.plots.style import PAGE
from narrative_twins.salience.result import Extract, SalientSentence, StorySalience

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class PlainResult(dict[str, Any]):
    """A dict as of `StorySalience.to_dict`, with the methods of `StorySalience`. It is equal to a
    plain dict with the same content, and is saved as JSON like one.

    Attributes:
        index: index of the story in the input, counted from 0.
    """

    index: int = 0

    @classmethod
    def of(cls, result: StorySalience) -> PlainResult:
        """A result as plain data."""
        plain = cls(result.to_dict())
        plain.index = result.index
        return plain

    @property
    def salience(self) -> StorySalience:
        """The result with its attributes. Raises `ValueError` if the data were changed so that they
        are no result."""
        return StorySalience.from_dict(self, self.index)

    def compared(self, operation: str | None = None) -> list[float]:
        """See `StorySalience.compared`."""
        return self.salience.compared(operation)

    def rank(self, operation: str | None = None) -> list[int]:
        """See `StorySalience.rank`."""
        return self.salience.rank(operation)

    def top(self, k: int, operation: str | None = None) -> list[SalientSentence]:
        """See `StorySalience.top`."""
        return self.salience.top(k, operation)

    def extract(
        self, k: int | None = None, operation: str | None = None, *, share: float | None = None
    ) -> Extract:
        """See `StorySalience.extract`."""
        return self.salience.extract(k, operation, share=share)

    def to_pandas(self) -> pandas.DataFrame:
        """See `StorySalience.to_pandas`."""
        return self.salience.to_pandas()

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        operations: Iterable[str] | None = None,
        *,
        top: int = 3,
        width: float = PAGE,
        bare: bool = False,
    ) -> Figure:
        """See `StorySalience.plot`."""
        return self.salience.plot(path, operations, top=top, width=width, bare=bare)

    def _repr_html_(self) -> str:
        return self.salience._repr_html_()
