"""Stories: sentences in order, their windows, and how story files are read."""

from narrative_twins.stories.headings import find_headings as find_headings
