"""The package in other tools: a component for spaCy."""
