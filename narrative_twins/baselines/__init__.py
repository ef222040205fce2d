"""Baselines: salience scores that are computed without a story encoder."""

from narrative_twins.baselines.prompted import prompted_salience as prompted_salience
