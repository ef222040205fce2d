"""Rows of TRIPOD's table of film synopses, and cleaning of their sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_SENTENCE = re.compile(r"\[STR_SENT\](.*?)\[END_SENT\]", re.DOTALL)
# Names of actors in round brackets, and footnote marks like "[2]"; words like "[him]" belong to the
# sentence.
_ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\d\]")
# Spaces before punctuation, except if a word follows as in ".45".
_LOOSE = re.compile(r"\s+(?=[,.;:!?](?!\w))")


def is_second_annotation(row: Mapping[str, str]) -> bool:
    """Whether a row repeats the synopsis of another row, with the labels of another annotator."""
    return row["movie_name"].endswith(("_1", "_2"))


def read_synopsis(row: Mapping[str, str]) -> dict[str, Any]:
    """A row as cleaned `sentences` and `turning_points`, counted from 0. Sentences that cleaning
    leaves empty are kept, so that the turning points stay valid."""
    sentences = [_clean(sentence) for sentence in _SENTENCE.findall(row["synopsis_segmented"])]
    points = [row.get(f"tp{number}") for number in range(1, 6)]
    return {"sentences": sentences, "turning_points": points}


def _clean(sentence: str) -> str:
    sentence, before = unicodedata.normalize("NFKC", sentence), ""
    # Repeated, since brackets may be nested.
    while sentence != before:
        sentence, before = _ASIDE.sub("", sentence), sentence
    return _LOOSE.sub("", " ".join(sentence.split()))
