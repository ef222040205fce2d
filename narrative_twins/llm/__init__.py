"""Language models behind an OpenAI-compatible server: requests, answers kept on disk, runs that can be resumed."""

from __future__ import annotations

from narrative_twins.llm.chat import Chat, ServerError
from narrative_twins.llm.running import Prices
from narrative_twins.llm.server import Server
from narrative_twins.llm.templates import Template, read_templates

__all__ = [
    "Chat",
    "Prices",
    "Server",
    "ServerError",
    "Template",
    "read_templates",
]
