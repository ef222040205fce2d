"""JSON in the answers of a language model: the schema that is asked for, and the object that is found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]


_STARTS = 1_000
"""Places where JSON may begin and does not that are tried."""


class AnswerError(ValueError):
    """What is wrong with an answer."""


def schema_of(properties: Mapping[str, Any]) -> Schema:
    """The JSON schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def list_schema(item: str, least: int, most: int | None = None) -> Schema:
    """The JSON schema of a list of a type, of so many or of `least` to `most`."""
    return {"type": "array", "items": {"type": item}, "minItems": least, "maxItems": least if most is None else most}


def read_object(text: str, properties: Sequence[str]) -> list[Any]:
    """The properties of the JSON object in an answer, whatever stands round it: of the last one that has them, since
    models that think aloud have drafts before it.

    Raises:
        AnswerError: there is no object with just these properties.
    """
    found, problem = None, "there is no JSON object in it"
    for value in _objects(text):
        if set(value) == set(properties):
            found = [value[name] for name in properties]
        else:
            problem = f"its JSON object has {', '.join(map(repr, value)) or 'nothing'}, not {', '.join(properties)}"
    if found is None:
        raise AnswerError(problem)
    return found


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text that are not within each other."""
    decoder, start = json.JSONDecoder(), text.find("{")
    failed = 0
    while start >= 0 and failed < _STARTS:
        stop = start + 1
        try:
            value, stop = decoder.raw_decode(text, start)
            yield value
        except (ValueError, RecursionError):
            failed += 1
        start = text.find("{", stop)
