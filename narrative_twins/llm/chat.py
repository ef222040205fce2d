"""Requests to a language model: failed ones are retried, and answers are saved before they are
used."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any

from narrative_twins.llm.answers import Answer, Answers
from narrative_twins.llm.server import Question, Server, estimate_tokens, redact

MAX_ANSWER = 16_000_000
"""Bytes of a response. The longest answer of a language model is some hundred kilobytes."""
MAX_TOKENS = 10_000_000
"""If a server reports more tokens for a request, they are estimated instead."""
_FATAL_STATUS = (401, 403, 404)
_REFUSED_STATUS = (400, 413, 422)
"""The server refuses this request: the prompt is too long or violates its rules, or a field is
unknown."""
_MESSAGE_LENGTH = 200
"""Error messages of the server are cut after this number of characters."""


class ServerError(OSError):
    """The server can't be used; the message explains why and how to fix it."""


class NoAnswer(ValueError):
    """A request got no answer, even after retries; the message explains why."""


class _Refused(NoAnswer):
    """The server refuses this request, but answers others."""


class ChatStopped(Exception):
    """The request was not sent because the run is stopping."""


class Chat:
    """A client for a language model; use it in `async with`.

    Args:
        server: the server and the settings of its requests.
        answers: the saved answers, to which new ones are added.

    Attributes:
        asked: number of answers that came from the server.
        prompt_tokens, completion_tokens: tokens of these answers.
        stopping: set it to True to send no further requests; requests under way are completed.

    Raises:
        ModuleNotFoundError: `openai` is not installed.
        ValueError: the API key is missing or invalid.
    """

    def __init__(self, server: Server, answers: Answers) -> None:
        self.server, self.answers = server, answers
        self.asked = self.prompt_tokens = self.completion_tokens = 0
        self.stopping = False
        self._failures_in_a_row, self._has_answered = 0, False
        self._semaphore = asyncio.Semaphore(server.concurrency)
        self._connect()

    def _connect(self) -> None:
        try:
            import openai
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "openai is not installed; run: pip install narrative_twins[making]"
            ) from error
        self._openai, self._key = openai, self.server.key

    async def __aenter__(self) -> Chat:
        self._client = self._openai.AsyncOpenAI(
            base_url=self.server.url,
            api_key=self._key,
            max_retries=self.server.retries,
            timeout=self.server.timeout,
            http_client=_bounded_client(self._openai, self.server.timeout),
        )
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._client.close()

    def known(self, question: Question) -> Answer | None:
        """The saved answer to a question; None if there is none."""
        answer = self.answers.get(self.server.key_of(question), self.server.limit)
        self._has_answered |= answer is not None
        return answer

    async def ask(self, question: Question) -> Answer:
        """The saved answer to a question, or else a new one, which is then saved.

        Raises:
            NoAnswer: this request got no answer.
            ServerError: the server can't be used.
            ChatStopped: the request was not sent, because of `stopping`.
        """
        known = self.known(question)
        if known is not None:
            return known
        async with self._semaphore:
            if self.stopping:
                raise ChatStopped
            try:
                answer = self._answer_of(await self._request(question), question)
            except _Refused:
                raise
            except NoAnswer as error:
                self._failures_in_a_row += 1
                if self._failures_in_a_row < max(3, self.server.concurrency):
                    raise
                failed = f"{self._failures_in_a_row} requests in a row failed"
                raise ServerError(f"{error}; {failed}, so no more are sent") from None
            self._failures_in_a_row, self._has_answered = 0, True
            self.answers.add(answer)
        self.asked += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        return answer

    async def _request(self, question: Question) -> Any:
        """The response to a question; the client retries failed requests."""
        body, url = self.server.body(question), self.server.url
        try:
            # As `extra_body`, since the client rejects arguments that it does not know.
            return await self._client.chat.completions.create(
                model=body.pop("model"), messages=body.pop("messages"), extra_body=body
            )
        except self._openai.APIStatusError as error:
            raise self._problem_of_status(error) from None
        except self._openai.APITimeoutError:
            seconds = f"{self.server.timeout:g} seconds"
            raise NoAnswer(f"the server did not answer within {seconds}") from None
        except self._openai.APIConnectionError as error:
            problem = f"can't connect to {url}: {self._one_line(error.__cause__ or error)}"
            if self.asked:
                raise NoAnswer(problem) from None
            raise ServerError(
                f"{problem}; check the address, and whether the server is running"
            ) from None
        # Also deep nesting (RecursionError), and fields of other types.
        except (ValueError, TypeError, AttributeError, RecursionError, self._openai.APIError) as e:
            raise self._malformed(e) from None

    def _problem_of_status(self, error: Any) -> Exception:
        """The error for a response that is an error: `NoAnswer`, if other requests may succeed."""
        status, body = error.status_code, error.body
        said = (body.get("message") if isinstance(body, dict) else None) or error
        problem = f"the server answered {status}: {self._one_line(said)}"
        if status in _FATAL_STATUS:
            target = f"{self.server.url}, model {self.server.model!r}"
            return ServerError(f"{problem}; check the address, the model and the key ({target})")
        if 300 <= status < 400:
            target = self._one_line(error.response.headers.get("location", "another address"))
            return ServerError(
                f"the server redirects to {target}, which is not followed; use that address"
            )
        if status not in _REFUSED_STATUS:
            return NoAnswer(problem)
        if self._has_answered:
            return _Refused(problem)
        return NoAnswer(
            f"{problem}; if it does not support a field, remove it with `fields`, or the schema"
            " with `structured`"
        )

    def _malformed(self, response: object) -> NoAnswer:
        return NoAnswer(
            f"the response of the server is not a chat completion: {self._one_line(response)}"
        )

    def _answer_of(self, completion: Any, question: Question) -> Answer:
        try:
            choice, *_ = completion.choices
            text = choice.message.content or getattr(choice.message, "refusal", None) or ""
            finish = choice.finish_reason or "stop"
            if not isinstance(text, str):
                raise TypeError
        except (AttributeError, TypeError, ValueError):
            raise self._malformed(completion) from None
        usage = completion.usage
        return Answer(
            self.server.key_of(question),
            question.story,
            question.step,
            question.attempt,
            self._clean(str(completion.model or self.server.model)),
            self._clean(text),
            self._clean(str(finish)),
            self.server.limit,
            _tokens(getattr(usage, "prompt_tokens", None), question.prompt),
            _tokens(getattr(usage, "completion_tokens", None), text),
        )

    def _clean(self, text: str) -> str:
        """A text from the server without the API key, and with lone surrogates replaced, which
        UTF-8 can't encode."""
        return redact(text, self._key).encode("utf-8", "replace").decode("utf-8")

    def _one_line(self, error: object) -> str:
        """An error message on one line, cut if it is long."""
        line = " ".join(self._clean(str(error)).split())
        return line if len(line) <= _MESSAGE_LENGTH else f"{line[:_MESSAGE_LENGTH]} ..."


class DryRun(Chat):
    """Instead of a client: only saved answers are known, and nothing is sent."""

    def _connect(self) -> None:
        """Neither `openai` nor a key is needed."""

    async def __aenter__(self) -> DryRun:
        return self

    async def __aexit__(self, *problem: object) -> None:
        pass


def _tokens(count: object, content: str) -> int:
    """A server's count of the tokens of a content, or an estimate if it can't be one."""
    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_TOKENS:
        return count
    return estimate_tokens(content)


def _bounded_client(openai: Any, seconds: float) -> Any:
    """An HTTP client for `openai.AsyncOpenAI`, for a server that may be slow, endless or hostile.

    Each attempt has a deadline as a whole, however slowly the bytes arrive. A response of more than
    `MAX_ANSWER` bytes when decompressed, or one nested deeply, is replaced by a message. Redirects
    are not followed, since they could lead to another host.
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
            options |= {"stream": True, "follow_redirects": False}
            content, problem = bytearray(), ""
            try:
                async with asyncio.timeout(seconds):
                    response = await super().send(request, **options)
                    try:
                        async for piece in response.aiter_bytes():
                            content += piece
                            if len(content) > MAX_ANSWER:
                                problem = f"it is larger than {MAX_ANSWER:,} bytes"
                                break
                    finally:
                        await response.aclose()
            except TimeoutError:
                raise httpx.ReadTimeout(f"no answer in {seconds:g} s", request=request) from None
            try:
                json.loads(b"" if problem else content)
            except RecursionError:
                problem = "it is nested too deeply"
            except ValueError:
                pass  # the client reports it
            of_the_body = ("content-encoding", "content-length", "transfer-encoding")
            headers = {name: v for name, v in response.headers.items() if name not in of_the_body}
            if problem:
                headers["content-type"] = "text/plain"
            return httpx.Response(
                response.status_code,
                headers=headers,
                content=problem.encode() or bytes(content),
                request=request,
            )

    return BoundedClient()
