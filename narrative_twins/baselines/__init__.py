"""Baselines: scorers of salience that need no story encoder."""

from __future__ import annotations

from narrative_twins.baselines.prompted import prompted_salience

__all__ = [
    "prompted_salience",
]
