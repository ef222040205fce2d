"""The web page: paste a story, score it, read it shaded."""

from __future__ import annotations

from narrative_twins.app.server import application, serve

__all__ = [
    "application",
    "serve",
]
