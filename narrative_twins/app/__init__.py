"""The web page: paste a story, score it, read it shaded."""

from narrative_twins.app.server import application as application
from narrative_twins.app.server import serve as serve
