"""Concurrent requests to a language model: failed requests are retried, and answers are saved
before they are used."""

from __future__ import annotations

import asyncio
from typing import Any

from narrative_twins.llm.answers import Answer, Answers
from narrative_twins.llm.bounded import bounded_client
from narrative_twins.llm.server import Question, Server, estimate_tokens

_INVALID = (ValueError, TypeError, AttributeError, RecursionError)
MALFORMED_RETRIES = 2
"""Retries of a request whose response is not a chat completion, for example an HTML page."""
_FATAL_STATUS = (401, 403, 404)
_REFUSED_STATUS = (400, 413, 422)
"""The server refuses this request: the prompt is too long or violates its rules, or a field is
unknown."""
MAX_TOKENS = 10_000_000
"""Servers that report more tokens of a request are not believed; then the tokens are estimated."""
_MESSAGE_LENGTH = 200
"""Error messages of the server are cut after this number of characters."""


class ServerError(OSError):
    """The server can't be used; the message explains why and how to fix it."""


class NoAnswer(ValueError):
    """A request got no answer, even after retries; the message explains why."""


class ChatStopped(Exception):
    """The request was not sent because the run is stopping."""


class _MalformedResponse(ValueError):
    """The response is not a chat completion."""


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
        try:
            import openai
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "openai is not installed; run: pip install narrative_twins[making]"
            ) from error
        self.server, self.answers = server, answers
        self.asked = self.prompt_tokens = self.completion_tokens = 0
        self.stopping = False
        self._openai, self._secret = openai, server.key
        self._semaphore = asyncio.Semaphore(server.concurrency)
        self._failures_in_a_row, self._has_answered = 0, False

    async def __aenter__(self) -> Chat:
        self._client = self._openai.AsyncOpenAI(
            base_url=self.server.url,
            api_key=self._secret.reveal(),
            max_retries=self.server.retries,
            timeout=self.server.timeout,
            http_client=bounded_client(self._openai, self.server.timeout),
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
        key = self.server.key_of(question)
        async with self._semaphore:
            if self.stopping:
                raise ChatStopped
            answer = await self._request(question, key)
            self.answers.add(answer)
        self.asked += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        return answer

    async def _request(self, question: Question, key: str) -> Answer:
        openai = self._openai
        try:
            answer = await self._request_with_retries(question, key)
        except openai.APIStatusError as error:
            problem = (
                f"the server answered {error.status_code}: {self._one_line(_error_message(error))}"
            )
            if error.status_code in _FATAL_STATUS:
                target = f"{self.server.url}, model {self.server.model!r}"
                raise ServerError(
                    f"{problem}; check the address, the model and the key ({target})"
                ) from None
            if 300 <= error.status_code < 400:
                target = self._one_line(error.response.headers.get("location", "another address"))
                raise ServerError(
                    f"the server redirects to {target}, which is not followed; use that address"
                ) from None
            if error.status_code in _REFUSED_STATUS:
                if self._has_answered:
                    # The server answers other requests, so it refuses this prompt.
                    raise NoAnswer(problem) from None
                problem += (
                    "; if it does not support a field, remove it with `fields`, or the schema with"
                    " `structured`"
                )
        except openai.APITimeoutError:
            problem = f"the server did not answer within {self.server.timeout:g} seconds"
        except openai.APIConnectionError as error:
            problem = (
                f"can't connect to {self.server.url}: {self._one_line(error.__cause__ or error)}"
            )
            if not self.asked:
                raise ServerError(
                    f"{problem}; check the address, and whether the server is running"
                ) from None
        except _MalformedResponse as error:
            problem = (
                f"the response of the server is not a chat completion: {self._one_line(error)}"
            )
        else:
            self._failures_in_a_row, self._has_answered = 0, True
            return answer
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= max(3, self.server.concurrency):
            raise ServerError(
                f"{problem}; {self._failures_in_a_row} requests in a row failed, so no more are"
                " sent"
            )
        raise NoAnswer(problem)

    async def _request_with_retries(self, question: Question, key: str) -> Answer:
        """Retries only malformed responses with a success status; the client retries failed
        requests itself."""
        for retry in range(MALFORMED_RETRIES + 1):
            try:
                body = self.server.body(question)
                # As `extra_body`, since the client rejects arguments that it does not know.
                completion = await self._client.chat.completions.create(
                    model=body.pop("model"), messages=body.pop("messages"), extra_body=body
                )
                return self._answer_of(completion, question, key)
            # Also deep nesting (RecursionError), and fields of other types.
            except (*_INVALID, self._openai.APIResponseValidationError) as error:
                if retry == MALFORMED_RETRIES or self.stopping:
                    raise _MalformedResponse(str(error)) from None
                await asyncio.sleep(0.5 * 2**retry)
        raise AssertionError("the last retry returns or raises")

    def _answer_of(self, completion: Any, question: Question, key: str) -> Answer:
        if isinstance(completion, str):
            raise _MalformedResponse(completion)
        try:
            choice, *_ = completion.choices
            text = choice.message.content or getattr(choice.message, "refusal", None) or ""
            finish = choice.finish_reason or "stop"
            if not isinstance(text, str):
                raise TypeError
        except (AttributeError, TypeError, ValueError):
            raise _MalformedResponse(str(completion)) from None
        usage = completion.usage
        counts = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        tokens = [_tokens(*pair) for pair in zip(counts, (question.prompt, text), strict=True)]
        return Answer(
            key,
            question.story,
            question.step,
            question.attempt,
            self._clean(str(completion.model or self.server.model)),
            self._clean(text),
            self._clean(str(finish)),
            self.server.limit,
            *tokens,
        )

    def _clean(self, text: str) -> str:
        """A text from the server without the API key, and with lone surrogates replaced, which
        UTF-8 can't encode."""
        return self._secret.redact(text).encode("utf-8", "replace").decode("utf-8")

    def _one_line(self, error: object) -> str:
        """An error message on one line, cut if it is long."""
        line = " ".join(self._clean(str(error)).split())
        return line if len(line) <= _MESSAGE_LENGTH else f"{line[:_MESSAGE_LENGTH]} ..."


def _tokens(count: object, content: str) -> int:
    """A server's count of the tokens of a content, or an estimate if it can't be one."""
    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_TOKENS:
        return count
    return estimate_tokens(content)


def _error_message(error: Any) -> object:
    """The error message of the server, if the response follows the OpenAI protocol."""
    return (error.body.get("message") if isinstance(error.body, dict) else None) or error
