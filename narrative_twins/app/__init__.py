"""The web page: paste a story, score it, and read it shaded by salience."""

from narrative_twins.app.server import application as application
from narrative_twins.app.server import serve as serve
from narrative_twins.app.server import serve_annotation as serve_annotation
