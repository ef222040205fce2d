"""The request to a language model, declared once for all commands that ask one."""

from __future__ import annotations

import json
from typing import Any

import click

from narrative_twins.commands.options import (
    COUNT,
    Decorator,
    Number,
    Parsed,
    counted,
    option,
    option_group,
    valued,
)
from narrative_twins.prompting.chat import KEY_VARIABLE, MAX_TOKENS, Server

SAMPLES = 10
"""Answers for each window, as in the paper."""

samples_option = option(
    "--samples", **counted(COUNT, "N", SAMPLES, "Answers for each window, for styles that choose")
)


def request_options(model: str = "model", required: bool = True) -> Decorator:
    """The options of the request, as the argument `server`: a `Server`, or None if no server is
    named, which is an error if it is required. `model` is the option with the name of the model."""

    def make(server: str | None, **settings: Any) -> Server | None:
        name = settings.pop(model)
        if (server is None) != (name is None):
            raise click.UsageError(
                f"--server and --{model.replace('_', '-')} must be used together"
            )
        return None if server is None else Server(server, name, **settings)

    options = {
        "server": valued(
            "URL",
            "OpenAI-compatible server, for example http://localhost:8000/v1.",
            required=required,
        ),
        model: valued("NAME", "Language model on the server.", required=required),
        "key_variable": valued(
            "NAME",
            "Environment variable of the API key, which is sent only to the server (default:"
            f" {KEY_VARIABLE}, if the server is OpenAI's or on this machine).",
        ),
        "temperature": counted(Number(min=0), "T", Server.temperature, "For sampling"),
        "seed": counted(click.IntRange(min=0), "N", Server.seed, "For sampling"),
        "concurrency": counted(COUNT, "N", Server.concurrency, "Requests at once"),
        "request": valued(
            "JSON",
            "Further fields of each request; null removes a field. For example, for a reasoning"
            ' model: \'{"max_completion_tokens": 8000, "reasoning_effort": "low"}\' (default:'
            f" max_tokens {MAX_TOKENS}).",
            type=Parsed(_json_object),
            default={},
        ),
    }
    return option_group("server", "Language model", options, make)


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{text!r} is not a JSON object")
    return value
