"""JSON in the answers of a language model: the schema of a request, and parsing of the answer."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

_MAX_FAILURES = 1_000
"""Give up after this number of `{` that do not begin a JSON object."""


class AnswerError(ValueError):
    """An answer is invalid; the message explains why."""


def schema_of(properties: Mapping[str, Any]) -> Schema:
    """The JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def list_schema(item: str, least: int, most: int | None = None) -> Schema:
    """The JSON schema of a list of `least` to `most` items of a type; of exactly `least` items
    without `most`."""
    return {
        "type": "array",
        "items": {"type": item},
        "minItems": least,
        "maxItems": least if most is None else most,
    }


def read_object(text: str, properties: Sequence[str]) -> list[Any]:
    """The values of the properties of the JSON object in an answer, as `read_any_object` with a
    single form."""
    found = read_any_object(text, [properties])
    return [found[name] for name in properties]


def read_any_object(text: str, forms: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The JSON object in an answer, which may have other text before and after it.

    Of several, the last counts, since models may write drafts first.

    Args:
        text: the answer.
        forms: the accepted forms, each the names of its properties: the object has exactly those of
            one form.

    Raises:
        AnswerError: there is no such object.
    """
    found, problem = None, "the answer contains no JSON object"
    for value in _objects(text):
        if any(set(value) == set(form) for form in forms):
            found = value
        else:
            expected = " or ".join(reprlib.repr(list(form)) for form in forms)
            problem = (
                f"the JSON object has the properties {reprlib.repr(list(value))} instead of"
                f" {expected}"
            )
    if found is None:
        raise AnswerError(problem)
    return found


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text."""
    decoder, start = json.JSONDecoder(), text.find("{")
    failures = 0
    while start >= 0 and failures < _MAX_FAILURES:
        stop = start + 1
        try:
            value, stop = decoder.raw_decode(text, start)
            yield value
        except (ValueError, RecursionError):
            failures += 1
        start = text.find("{", stop)
