"""Evaluation: how well scores agree with human labels."""

from __future__ import annotations

from narrative_twins.evaluation.agreement import agreement_with_turning_points, agreement_with_votes

__all__ = [
    "agreement_with_turning_points",
    "agreement_with_votes",
]
