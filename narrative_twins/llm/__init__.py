"""A client for language models behind an OpenAI-compatible server; all answers are saved, so runs
can be resumed."""

from narrative_twins.llm.chat import Chat as Chat
from narrative_twins.llm.chat import Server as Server
from narrative_twins.llm.chat import ServerError as ServerError
from narrative_twins.llm.prompts import Template as Template
from narrative_twins.llm.prompts import read_templates as read_templates
from narrative_twins.llm.running import Prices as Prices
