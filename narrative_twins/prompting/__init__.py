"""Questions to a language model behind an OpenAI-compatible server, and salience by prompting.
Every answer is logged, so an interrupted run asks nothing twice."""

from narrative_twins.prompting.chat import Chat as Chat
from narrative_twins.prompting.chat import Question as Question
from narrative_twins.prompting.chat import Rejected as Rejected
from narrative_twins.prompting.chat import Server as Server
from narrative_twins.prompting.chat import ServerError as ServerError
from narrative_twins.prompting.prompted import prompted_salience as prompted_salience
from narrative_twins.prompting.question_styles import STYLES as STYLES
