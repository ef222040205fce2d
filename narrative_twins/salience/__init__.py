"""Salience: what to embed (operations, plans), the engine that scores, the result."""

from __future__ import annotations

from narrative_twins.salience.engine import OnError, OnTruncation, score_stories
from narrative_twins.salience.operations import OPERATIONS, Operation, cosine, register_operation
from narrative_twins.salience.plans import Approximation
from narrative_twins.salience.result import SalientSentence, StorySalience

__all__ = [
    "Approximation",
    "OPERATIONS",
    "OnError",
    "OnTruncation",
    "Operation",
    "SalientSentence",
    "StorySalience",
    "cosine",
    "register_operation",
    "score_stories",
]
