"""Prompts and answers: the templates of prompts, which a user can replace, the form of an answer,
and the JSON object in its text. A template has placeholders, for example `{{story}}`. All are
filled in a single pass, so braces, quotes and template syntax in a story are not interpreted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pydantic import BaseModel

Form: TypeAlias = "type[BaseModel]"

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_SHOWN = 300
"""The maximum number of characters of an error about an answer."""


def read_templates(names: Sequence[str], folder: str | Path | None = None) -> dict[str, str]:
    """Return the texts of templates, by name.

    Args:
        names: the names of the templates, which are the files `prompts/NAME.txt` of the package.
        folder: a folder with files `NAME.txt` that replace templates of the package. They have the
            same placeholders; `{{count}}`, the number of sentences, is optional.

    Raises:
        OSError, ValueError: a file can't be read, is not named as a template of the package, or
            has other placeholders; or the folder has no templates.
    """
    package = files("narrative_twins.prompting").joinpath("prompts")
    paths = {} if folder is None else {path.stem: path for path in Path(folder).glob("*.txt")}
    every = sorted(file.name.removesuffix(".txt") for file in package.iterdir())
    if folder is not None and not (paths and set(paths) <= set(every)):
        raise ValueError(
            f"{folder} has the prompts {sorted(paths)}; name them {', '.join(every)} (.txt)"
        )
    templates = {}
    for name in names:
        default = package.joinpath(f"{name}.txt").read_text("utf-8")
        text = paths[name].read_text("utf-8-sig") if name in paths else default
        needed, used = (set(_PLACEHOLDER.findall(one)) - {"count"} for one in (default, text))
        if used != needed:
            raise ValueError(
                f"{paths[name]} has the placeholders {sorted(used)}; it needs {sorted(needed)}, and"
                " may have ['count'], each in double braces"
            )
        templates[name] = text
    return templates


def fill(template: str, **values: object) -> str:
    """Return a prompt: the template, with every placeholder replaced by its value."""
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), template).strip()


class AnswerError(ValueError):
    """The error of an invalid answer; the message explains why it is invalid."""


def answer_form(**properties: Any) -> Form:
    """Return the form of an answer: a JSON object with exactly these properties. Its JSON schema is
    sent with the question; models write the properties in this order.

    Args:
        properties: the type of each property, such as `str`, or made by `integer` or `list_of`.
    """
    from pydantic import ConfigDict, create_model

    fields: Any = {name: (kind, ...) for name, kind in properties.items()}
    return create_model("answer", __config__=ConfigDict(extra="forbid"), **fields)


def integer(least: int, most: int) -> Any:
    """Return the type of an integer from `least` to `most`, for `answer_form`."""
    from pydantic import conint

    return conint(ge=least, le=most)


def list_of(kind: Any, least: int, most: int) -> Any:
    """Return the type of a list of `least` to `most` items of type `kind`, for `answer_form`."""
    from pydantic import conlist

    return conlist(kind, min_length=least, max_length=most)


def read_answer(form: Form, text: str) -> dict[str, Any]:
    """Return the JSON object with the properties of `form` in an answer, whatever text is around
    it. Of several such objects the last is returned, since models may write drafts first. Raises
    `AnswerError` if there is no such object, or a value in it has another type."""
    from pydantic import ValidationError

    answer, others = None, ""
    for value in _objects(text):
        if set(value) == set(form.model_fields):
            answer = value
        else:
            others = f" with the properties {', '.join(form.model_fields)}"
    if answer is None:
        raise AnswerError(f"the answer contains no JSON object{others}")
    try:
        return form.model_validate(answer).model_dump()
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
        ]
        raise AnswerError("; ".join(problems)[:_SHOWN]) from None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects in a text, without invalid ones."""
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        stop = start + 1
        with suppress(ValueError, RecursionError):
            value, stop = decoder.raw_decode(text, start)
            yield value
        start = text.find("{", stop)
