"""A language model behind an OpenAI-compatible server: who it is, how it is asked, what its key may never get into."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from narrative_twins.llm.answers import digest
from narrative_twins.llm.json_answers import Schema

KEY_VARIABLE = "OPENAI_API_KEY"
"""The environment variable that holds the key, unless another is named."""

_SHORTEST = 8
"""Characters of a key, at least."""
_LIMITS = ("max_tokens", "max_completion_tokens")
_ENDLESS = 2**31 - 1
"""The limit of answers where the server is told none."""
_OURS = ("model", "messages", "n", "stream")
"""Fields of a request that are for the package to set."""
_OPENAI = "openai.com"
_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Server:
    """A language model behind an OpenAI-compatible server, and how it is asked.

    Attributes:
        url: the address of the server, such as `"http://localhost:8000/v1"`.
        model: the name of the model there.
        key_variable: the environment variable that holds the key, which is sent to the server and goes nowhere else;
            None for `OPENAI_API_KEY` where the server is OpenAI's or on this machine, and else for no key.
        concurrency: requests under way at once.
        retries: how often a request is repeated that the server was too busy for, failed at, or did not answer in time;
            waits longer each time, up to 8 seconds, or as long as the server says, up to two minutes.
        timeout: seconds for one request.
        temperature: of sampling.
        max_tokens: of an answer, which is cut off there, unless `fields` say otherwise; see `limit`.
        structured: send the JSON schema of the answer, for servers that can hold the model to it.
        seed: of the whole run; each request has one of its own that depends on it.
        fields: of the request, as JSON: further ones, or others; None leaves one out, such as a `seed` that the server
            does not take.

    Raises:
        ValueError: a setting is none; names it.
    """

    url: str
    model: str
    key_variable: str | None = None
    concurrency: int = 8
    retries: int = 8
    timeout: float = 300.0
    temperature: float = 1.0
    max_tokens: int = 4000
    structured: bool = True
    seed: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the address of the server is to be like http://localhost:8000/v1")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(
                f"the address of the server is to hold no password or query; a key goes into {KEY_VARIABLE}"
            )
        for name, least in {"concurrency": 1, "retries": 0, "max_tokens": 1}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: {least} or more is needed")
        if not (self.timeout > 0 and self.temperature >= 0):
            raise ValueError(f"timeout={self.timeout}, temperature={self.temperature}: above 0, and 0 or more")
        ours = [name for name in self.fields if name in _OURS]
        if ours:
            raise ValueError(f"the field {ours[0]!r} of a request is set by the package; leave it out")

    @property
    def limit(self) -> int:
        """After how many tokens an answer is cut off; a number beyond all answers where the server is told none."""
        told = {"max_tokens": self.max_tokens, **self.fields}
        return min((told[name] for name in _LIMITS if isinstance(told.get(name), int)), default=_ENDLESS)

    @property
    def key(self) -> Secret:
        """The key that is sent to it.

        Raises:
            ValueError: there is none where a variable is named, or what that holds can be no key.
        """
        host = urlsplit(self.url).hostname or ""
        trusted = host in _HERE or f".{host}".endswith(f".{_OPENAI}")
        variable = self.key_variable or (KEY_VARIABLE if trusted else None)
        return Secret(variable, needed=self.key_variable is not None)

    def body(self, question: Question) -> dict[str, Any]:
        """The request for an answer."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": question.prompt}],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": question.seed,
        }
        if self.structured:
            schema = {"name": "answer", "schema": question.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return {name: value for name, value in (body | dict(self.fields)).items() if value is not None}

    def key_of(self, question: Question) -> str:
        """What the answer depends on, in short. How long it may be is no part of it, nor where the server is."""
        told = {name: value for name, value in self.body(question).items() if name not in _LIMITS}
        return digest([question.story, question.step, question.attempt, question.seed, told])


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        story, step, attempt: what for: the digest of a story, the step of a recipe, the how-manieth time.
        prompt: the question itself.
        schema: the JSON schema of the answer.
        seed: of sampling.
    """

    story: str
    step: str
    attempt: int
    prompt: str
    schema: Schema
    seed: int


class Secret:
    """The key of a server. It is shown to nobody: `str` and `repr` do not tell it.

    Args:
        variable: the environment variable that holds it; None for no key.
        needed: whether there has to be one.

    Raises:
        ValueError: the variable is needed and not set, or what it holds can be no key.
    """

    def __init__(self, variable: str | None, needed: bool = True) -> None:
        self._value = os.environ.get(variable, "").strip() if variable is not None else ""
        if needed and not self._value:
            raise ValueError(f"the environment variable {variable} is not set; put the key into it")
        # What can't stand in a header would be quoted in the error of whoever tries.
        if not all("!" <= char <= "~" for char in self._value):
            raise ValueError(
                f"the environment variable {variable} holds no key: there are spaces or signs in it that no key has"
            )

    def __repr__(self) -> str:
        return "Secret()"

    def tell(self) -> str:
        """The key, for the one who sends it; something that is none, where there is no key."""
        return self._value or "none"

    def hide(self, text: str) -> str:
        """A text without the key, should a server have put it there. What is too short for a key may be a word of a
        story, such as the EMPTY that people set for servers which need none."""
        return text.replace(self._value, "***") if len(self._value) >= _SHORTEST else text


def estimate_tokens(text: str) -> int:
    """How many tokens a text may be, roughly: one for four bytes."""
    return -(-len(text.encode("utf-8", "replace")) // 4)
