"""Settings of a language model behind an OpenAI-compatible server, its requests, and its API
key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from narrative_twins.files import digest
from narrative_twins.llm.prompts import Schema

KEY_VARIABLE = "OPENAI_API_KEY"
"""The default environment variable of the API key."""

_EXAMPLE = "http://localhost:8000/v1"
_SHORTEST_KEY = 8
"""Shorter values are taken for placeholders and not for secret keys."""
_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
_RESERVED_FIELDS = ("model", "messages", "n", "stream")
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Question:
    """A question to a language model.

    Attributes:
        story, step, attempt: the digest of the story, the step of the recipe, and the number of the
            attempt, from 0.
        prompt: the text of the question.
        schema: the JSON schema of the answer.
        seed: the sampling seed.
    """

    story: str
    step: str
    attempt: int
    prompt: str
    schema: Schema
    seed: int


@dataclass(frozen=True)
class Server:
    """A language model behind an OpenAI-compatible server, and the settings of its requests.

    Attributes:
        url: the address of the server, for example `"http://localhost:8000/v1"`.
        model: the name of the model on the server.
        key_variable: the environment variable of the API key, which is sent only to this server.
            None for `OPENAI_API_KEY` if the server is OpenAI's or on this machine, and otherwise
            for no key.
        concurrency: maximum number of requests at once.
        retries: maximum number of retries of a request that failed, timed out or was refused by a
            busy server. The wait grows up to 8 seconds, or is as long as the server requests, up to
            two minutes.
        timeout: seconds for an attempt of a request as a whole, however slowly the answer arrives.
        temperature: the sampling temperature.
        max_tokens: maximum length of an answer in tokens, unless `fields` override it; see `limit`.
        structured: send the JSON schema of the answer, for servers with structured output.
        seed: the seed of the run; the seed of each request is derived from it.
        fields: JSON fields that are added to each request or replace fields of it; None removes a
            field, for example a `seed` that the server does not support.

    Raises:
        ValueError: a setting is invalid.
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
        try:
            parts = urlsplit(self.url)
            parts.port  # noqa: B018 - raises ValueError if it is not a port
        except ValueError as error:
            raise ValueError(
                f"the address of the server is invalid ({error}); use one like {_EXAMPLE}"
            ) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the address of the server must be of the form {_EXAMPLE}")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(
                "the server's address contains a password or query; put the API key into"
                f" {KEY_VARIABLE}"
            )
        for name, least in {"concurrency": 1, "retries": 0, "max_tokens": 1}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be {least} or more")
        if not (self.timeout > 0 and self.temperature >= 0):
            raise ValueError(
                f"timeout={self.timeout} must be above 0, temperature={self.temperature} 0 or more"
            )
        for name in _RESERVED_FIELDS:
            if name in self.fields:
                raise ValueError(
                    f"the request field {name!r} is set by the package; remove it from the fields"
                )

    @property
    def limit(self) -> int:
        """Maximum length of an answer in tokens; 2³¹ − 1 if the request has no limit."""
        fields = {"max_tokens": self.max_tokens, **self.fields}
        limits = [fields.get(name) for name in _LIMIT_FIELDS]
        return min((limit for limit in limits if isinstance(limit, int)), default=2**31 - 1)

    @property
    def key(self) -> str:
        """The API key for the server, `none` if there is none; a `ValueError` if its variable is
        needed but not set, or is not a valid key."""
        host = urlsplit(self.url).hostname or ""
        trusted = host in _LOCAL_HOSTS or f".{host}".endswith(".openai.com")
        variable = self.key_variable or (KEY_VARIABLE if trusted else "")
        key = os.environ.get(variable, "").strip()
        if self.key_variable and not key:
            raise ValueError(
                f"the environment variable {variable} is not set; set it to the API key"
            )
        # HTTP clients quote invalid header values in their errors, which would show the key.
        if not all("!" <= char <= "~" for char in key):
            raise ValueError(
                f"the value of {variable} is not a valid API key: use printable ASCII without"
                " spaces"
            )
        return key or "none"

    def body(self, question: Question) -> dict[str, Any]:
        """The body of the request for an answer."""
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
        body |= self.fields
        return {name: value for name, value in body.items() if value is not None}

    def key_of(self, question: Question) -> str:
        """A digest of everything that the answer depends on, except for its length limit and the
        server's address."""
        fields = {
            name: value for name, value in self.body(question).items() if name not in _LIMIT_FIELDS
        }
        return digest([question.story, question.step, question.attempt, question.seed, fields])


def redact(text: str, key: str) -> str:
    """A text with an API key replaced by `***`. Short values are kept, since placeholders such as
    `EMPTY`, used for servers without keys, may be words of a story."""
    return text.replace(key, "***") if len(key) >= _SHORTEST_KEY else text


def estimate_tokens(text: str) -> int:
    """A rough estimate of the number of tokens in a text: a token for every 4 bytes of UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def seed_of(*parts: Any) -> int:
    """A seed from 0 to 2³¹ − 1 that is a hash of all arguments."""
    return int(digest(parts)[:8], 16) & 0x7FFFFFFF
