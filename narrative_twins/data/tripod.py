"""TRIPOD's table of film synopses, and what has to be cleaned in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_SENTENCE = re.compile(r"\[STR_SENT\](.*?)\[END_SENT\]", re.DOTALL)
# The names of actors, and the marks of footnotes; words like "[him]" are kept, they belong to their sentence.
_ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\d\]")
# What goes before a word stays where it is: ".45".
_LOOSE = re.compile(r"\s+(?=[,.;:!?](?!\w))")


def is_second_annotation(row: Mapping[str, str]) -> bool:
    """Whether a row of the table repeats a synopsis that someone else has annotated too."""
    return row["movie_name"].endswith(("_1", "_2"))


def read_synopsis(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of the table as a JSON file has it: `sentences`, cleaned, and `turning_points`, counted from 0.

    A sentence of which nothing is left is an empty text, so that the turning points still count right.
    """
    sentences = [_clean(sentence) for sentence in _SENTENCE.findall(row["synopsis_segmented"])]
    points = [row.get(f"tp{number}") for number in range(1, 6)]
    return {"sentences": sentences, "turning_points": points}


def _clean(sentence: str) -> str:
    sentence, before = unicodedata.normalize("NFKC", sentence), ""
    while sentence != before:
        sentence, before = _ASIDE.sub("", sentence), sentence
    return _LOOSE.sub("", " ".join(sentence.split()))
