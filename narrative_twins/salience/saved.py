"""Results that were saved as plain data: checks, and what they say about the story."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from narrative_twins.stories.story import Story, StoryError, shown_value

_MAX_GAP = 1_000_000
"""Characters between two sentences. The text between sentences is not in the data, and its place is
filled."""


def saved_story(data: Mapping[str, Any]) -> Story:
    """The story of a saved result. Its text has the sentences at their `spans`, and spaces between
    them. Raises `ValueError` if the data are not those of `StorySalience.to_dict`."""
    if not isinstance(data, Mapping):
        raise ValueError(
            f"a result is a mapping as of StorySalience.to_dict, not {type(data).__name__}"
        )
    if missing := [key for key in ("sentences", "spans", "windows", "scores") if key not in data]:
        raise ValueError(
            f"this is no result: it has no {', '.join(map(repr, missing))}; score the story first"
        )
    sentences, spans = data["sentences"], data["spans"]
    if not isinstance(sentences, (list, tuple)) or not all(
        isinstance(sentence, str) for sentence in sentences
    ):
        raise ValueError("'sentences' is not a list of texts")
    text, end = [], 0
    if not isinstance(spans, (list, tuple)) or len(spans) != len(sentences):
        raise ValueError(
            f"'spans' does not have one [start, end] for each of the {len(sentences)} sentences"
        )
    for i, (span, sentence) in enumerate(zip(spans, sentences, strict=True)):
        start = span[0] if isinstance(span, (list, tuple)) and len(span) == 2 else None
        if (
            not isinstance(start, int)
            or not 0 <= start - end <= _MAX_GAP
            or span[1] != start + len(sentence)
        ):
            raise ValueError(
                f"the span of sentence {i + 1}, {shown_value(span)}, is not where the sentence"
                " can be"
            )
        text.append(" " * (start - end) + sentence)
        end = span[1]
    try:
        return Story.parse({**data, "text": "".join(text)})
    except StoryError as error:
        raise ValueError(error.problem) from None


def saved_scores(data: Mapping[str, Any], count: int) -> dict[str, list[float]]:
    """The scores of a saved result of a story with `count` sentences. Raises `ValueError` if they
    are invalid."""
    scores = data["scores"]
    if not isinstance(scores, Mapping) or not scores:
        raise ValueError("'scores' does not have a list of numbers for each operation")
    found = {}
    for name, values in scores.items():
        if (
            not isinstance(name, str)
            or not isinstance(values, (list, tuple))
            or not all(map(_is_finite, values))
        ):
            raise ValueError(f"the scores of {shown_value(name)} are not a list of finite numbers")
        if len(values) != count:
            raise ValueError(
                f"there are {len(values)} scores of {shown_value(name)} for {count} sentence(s)"
            )
        found[name] = list(values)
    return found


def saved_context(data: Mapping[str, Any]) -> tuple[int | None, int, str | None]:
    """`context_tokens`, `cut_tokens` and `approximate` of a saved result. Raises `ValueError` if
    one is invalid."""
    context, cut, approximate = (
        data.get("context_tokens"),
        data.get("cut_tokens", 0),
        data.get("approximate"),
    )
    for name, value, valid in (
        ("context_tokens", context, context is None or isinstance(context, int)),
        ("cut_tokens", cut, isinstance(cut, int)),
        ("approximate", approximate, approximate is None or isinstance(approximate, str)),
    ):
        if not valid:
            raise ValueError(f"{name!r} is {shown_value(value)}")
    return context, cut, approximate


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
