"""Narrative twins and distractors written by a language model."""
