"""Stories: sentences in order, their windows, and how story files are read."""

from narrative_twins.stories.sentences import find_headings as find_headings
