"""The web pages: stories and books shaded by salience, and stories for annotators."""

from narrative_twins.app.server import application as application
from narrative_twins.app.server import serve as serve
