"""Rows of the tables of ROCStories (Mostafazadeh et al., 2016): five-sentence stories with an id
and a title."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SENTENCES = tuple(f"sentence{number}" for number in range(1, 6))
"""The columns of the sentences; the others are `storyid` and `storytitle`."""


def is_roc_story(row: Mapping[str, Any]) -> bool:
    """Whether a row of a table is a story of ROCStories."""
    return "storyid" in row and all(column in row for column in SENTENCES)


def read_roc_story(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a story with `id`, `title` and `sentences`; white space is normalized. What is
    missing is None, or an empty sentence."""
    title = row.get("storytitle")
    return {
        "id": row["storyid"] or None,
        "title": _normalized(title) or None,
        "sentences": [_normalized(row[column]) for column in SENTENCES],
    }


def _normalized(text: str | None) -> str:
    return " ".join((text or "").split())
