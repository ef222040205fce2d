"""An HTTP client for answers of a server that may be slow, endless or hostile."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any

MAX_ANSWER = 16_000_000
"""Bytes of an answer. The longest answer of a language model is some hundred kilobytes."""


def bounded_client(openai: Any, seconds: float, max_answer: int = MAX_ANSWER) -> Any:
    """An HTTP client for `openai.AsyncOpenAI`: each attempt has a deadline as a whole, however
    slowly the bytes arrive, answers have a maximum size, and redirects are not followed, since they
    could lead to another host.

    Args:
        openai: the library `openai`.
        seconds: the deadline of an attempt.
        max_answer: bytes of an answer, decompressed; a longer answer, or one nested deeply, is
            replaced by a message.
    """
    # `httpx`, or a successor of it, which depends on the release of openai.
    library = next(
        kind.__module__
        for kind in openai.DefaultAsyncHttpxClient.__mro__
        if kind.__name__ == "AsyncClient"
    )
    httpx: Any = import_module(library.partition(".")[0])

    class BoundedClient(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **options: Any) -> Any:
            try:
                async with asyncio.timeout(seconds):
                    response = await super().send(
                        request, **{**options, "stream": True, "follow_redirects": False}
                    )
                    try:
                        content = await _read(response, max_answer)
                    finally:
                        await response.aclose()
            except TimeoutError:
                raise httpx.ReadTimeout(
                    f"no answer within {seconds:g} seconds", request=request
                ) from None
            headers = {
                name: value
                for name, value in response.headers.items()
                if name.lower() not in _OF_THE_BODY
            }
            if problem := _problem(content, max_answer):
                headers, content = {"content-type": "text/plain"}, problem.encode()
            return httpx.Response(
                response.status_code, headers=headers, content=content, request=request
            )

    return BoundedClient()


_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")


def _problem(content: bytes | None, limit: int) -> str | None:
    """Why the client can't be given the content of a response, if so."""
    if content is None:
        return f"it is larger than {limit:,} bytes"
    try:
        json.loads(content)
    except RecursionError:
        return "it is nested too deeply"
    except ValueError:
        pass  # the client reports it
    return None


async def _read(response: Any, limit: int) -> bytes | None:
    """The decompressed body of a response, or None if it has more bytes than `limit`."""
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > limit:
            return None
    return bytes(content)
