"""`narrative-twins` in this process: most tests of commands need no process of their own, which
would import torch again."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from narrative_twins.commands.cli import main


class Done(NamedTuple):
    """A command that has ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def with_defaults(defaults: Iterable[object], *arguments: object) -> list[object]:
    """Arguments of a command, after those default options, each with a value, that they lack."""
    words = list(defaults)
    for flag in {word for word in words if str(word).startswith("-")} & {*arguments}:
        at = words.index(flag)
        del words[at : at + 2]
    return [*words, *arguments]


class _Stream(io.TextIOWrapper):
    """A standard stream in memory, which may be a terminal."""

    def __init__(self, content: bytes, encoding: str, terminal: bool) -> None:
        super().__init__(io.BytesIO(content), encoding=encoding, newline="")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def run(
    *arguments: object,
    input: str | bytes | None = "",
    cwd: str | Path = ".",
    encoding: str = "utf-8",
    terminal: bool = False,
    width: int = 100,
) -> Done:
    """Run a command to its end. The encoding is that of text on its standard output; what is
    printed for programs is UTF-8. Its streams are terminals of this width, or none. Standard
    input is closed if `input` is None."""
    content = input.encode() if isinstance(input, str) else input
    stdin = None if content is None else _Stream(content, "utf-8", terminal)
    out, err = _Stream(b"", encoding, terminal), _Stream(b"", "utf-8", terminal)
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, {"COLUMNS": str(width)}),
        mock.patch.object(sys, "stdin", stdin),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out.flush()
        err.flush()
    texts = [stream.buffer.getvalue() for stream in (out, err)]  # type: ignore[attr-defined]
    return Done(code, *(text.decode("utf-8", "surrogateescape") for text in texts))
