"""This package inside of other people's tools: a component for spaCy."""
