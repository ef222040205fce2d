"""Salience: what to embed (operations, plans), the engine that scores, the result.

All is imported when it is used: options are read without numpy, and results without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrative_twins.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from narrative_twins.salience.books.extract import BookExtract as BookExtract
    from narrative_twins.salience.books.result import BookSalience as BookSalience
    from narrative_twins.salience.books.scoring import score_book as score_book
    from narrative_twins.salience.books.units import Level as Level
    from narrative_twins.salience.books.units import Unit as Unit
    from narrative_twins.salience.engine import score_stories as score_stories
    from narrative_twins.salience.operations import OPERATIONS as OPERATIONS
    from narrative_twins.salience.operations import Operation as Operation
    from narrative_twins.salience.operations import cosine as cosine
    from narrative_twins.salience.operations import register_operation as register_operation
    from narrative_twins.salience.options import SCORING_OPTIONS as SCORING_OPTIONS
    from narrative_twins.salience.options import Approximation as Approximation
    from narrative_twins.salience.options import OnError as OnError
    from narrative_twins.salience.options import OnTruncation as OnTruncation
    from narrative_twins.salience.options import Option as Option
    from narrative_twins.salience.options import ScoringOptions as ScoringOptions
    from narrative_twins.salience.result import Extract as Extract
    from narrative_twins.salience.result import PlainResult as PlainResult
    from narrative_twins.salience.result import SalientSentence as SalientSentence
    from narrative_twins.salience.result import StorySalience as StorySalience

_LAZY = {
    "books.extract": ("BookExtract",),
    "books.result": ("BookSalience",),
    "books.scoring": ("score_book",),
    "books.units": ("Level", "Unit"),
    "engine": ("score_stories",),
    "operations": ("OPERATIONS", "Operation", "cosine", "register_operation"),
    "options": (
        "Approximation",
        "OnError",
        "OnTruncation",
        "Option",
        "SCORING_OPTIONS",
        "ScoringOptions",
    ),
    "result": ("Extract", "PlainResult", "SalientSentence", "StorySalience"),
}
__getattr__ = _lazy_names(__name__, _LAZY)


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted({*globals(), *(name for names in _LAZY.values() for name in names)})
