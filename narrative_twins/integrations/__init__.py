"""The package in other tools: a component for spaCy, tasks for mteb."""
