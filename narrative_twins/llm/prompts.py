"""Prompts and answers: prompt templates, which a user can replace, the JSON schema of an answer,
and the JSON object in its text.

A template has placeholders, for example `{{story}}`. All are filled in a single pass, so braces,
quotes and template syntax in a story are not interpreted.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

PLACEHOLDERS = ("story", "count")
"""Placeholders of all templates: the story as JSON or numbered lines, and the number of
sentences."""

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_MAX_FAILURES = 1_000
"""Give up after this number of `{` that do not begin a JSON object."""


@dataclass(frozen=True)
class Template:
    """A prompt with placeholders.

    Attributes:
        name: the file name without suffix; for templates of the user, the path.
        text: the content of the file.
        placeholders: the placeholders that it may have.

    Raises:
        ValueError: a placeholder is unknown, or `{{story}}` is missing.
    """

    name: str
    text: str
    placeholders: Sequence[str] = PLACEHOLDERS

    def __post_init__(self) -> None:
        found = set(_PLACEHOLDER.findall(self.text))
        if unknown := found - set(self.placeholders):
            known = ", ".join(f"{{{{{name}}}}}" for name in self.placeholders)
            raise ValueError(
                f"the prompt {self.name} has an unknown placeholder {{{{{unknown.pop()}}}}}; use"
                f" {known}"
            )
        if "story" not in found:
            raise ValueError(f"the prompt {self.name} has no {{{{story}}}} placeholder; add it")

    def fill(self, values: Mapping[str, object]) -> str:
        """The prompt, with every placeholder replaced by its value."""
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), self.text).strip()


def read_templates(
    package: str,
    names: Sequence[str],
    folder: str | Path | None = None,
    placeholders: Sequence[str] = PLACEHOLDERS,
) -> dict[str, Template]:
    """Read templates, by name.

    Args:
        package: the package with the templates, as files `prompts/NAME.txt`.
        names: the names of the templates.
        folder: a folder with files `NAME.txt` that replace templates of the package.
        placeholders: the placeholders that they may have.

    Raises:
        OSError, ValueError: the folder does not exist, or a file in it is not a template of the
            package or not valid.
    """
    prompts = files(package).joinpath("prompts")
    templates = {
        name: Template(name, prompts.joinpath(f"{name}.txt").read_text("utf-8"), placeholders)
        for name in names
    }
    if folder is None:
        return templates
    known = sorted(file.name for file in prompts.iterdir())
    own = sorted(Path(folder).glob("*.txt"))
    unknown = [str(path) for path in own if path.name not in known]
    if unknown or not own:
        problem = f"{unknown[0]} replaces no prompt" if unknown else f"{folder} has no prompt"
        raise ValueError(f"{problem}; the file name must be one of {', '.join(known)}")
    # Those of the user are all read, so that errors in them are reported.
    replaced = {
        path.stem: Template(str(path), path.read_text("utf-8-sig"), placeholders) for path in own
    }
    return {name: replaced.get(name, template) for name, template in templates.items()}


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


def list_schema(item: str, least: int, most: int) -> Schema:
    """The JSON schema of a list of `least` to `most` items of a type."""
    return {"type": "array", "items": {"type": item}, "minItems": least, "maxItems": most}


def read_object(text: str, *forms: Sequence[str]) -> dict[str, Any]:
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
            properties = reprlib.repr(list(value))
            problem = f"the JSON object has the properties {properties} instead of {expected}"
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
