"""Fixtures: a local hub."""

from support.hub import hub as hub
