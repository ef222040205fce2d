"""Baselines: scorers of salience that need no story encoder."""

from narrative_twins.baselines.prompted import prompted_salience as prompted_salience
