"""A client for a language model behind an OpenAI-compatible server.

A request that failed or was refused by a busy server (HTTP 429) is retried; a question whose answer
is invalid is asked again with another seed. Answers are saved before they are used, since they are
paid for.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from narrative_twins.extras import check_extra
from narrative_twins.files import ResumableFile, complete_lines, digest
from narrative_twins.llm.prompts import AnswerError, Schema

KEY_VARIABLE = "OPENAI_API_KEY"
"""The default environment variable of the API key."""
ATTEMPTS = 3
"""How often a question is asked, by default, until its answer is valid."""
MAX_ANSWER = 16_000_000
"""Bytes of a response. The longest answer of a language model is some hundred kilobytes."""

_MAX_TOKENS = 10_000_000
"""If a server reports more tokens for a request, they are estimated instead."""
_SHORTEST_KEY = 8
"""Shorter values are taken for placeholders such as `EMPTY`, which may be words of a story, and not
for secret keys."""
_MESSAGE_LENGTH = 200
"""Error messages of the server are cut after this number of characters."""
_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
_RESERVED_FIELDS = ("model", "messages", "n", "stream")
_FATAL_STATUS = (401, 403, 404)
_REFUSED_STATUS = (400, 413, 422)
"""The server refuses this request: the prompt is too long or violates its rules, or a field is
unknown."""


class ServerError(OSError):
    """The server can't be used; the message explains why and how to fix it."""


class Rejected(ValueError):
    """A story is rejected, usually because a question about it got no valid answer.

    Args:
        step: the step of the recipe.
        reason: what is wrong with the last answer, or why there is none.
        answer: the last answer, if there is one.
        attempts: number of attempts.
    """

    def __init__(
        self, step: str, reason: str, answer: str | None = None, attempts: int = 0
    ) -> None:
        super().__init__(step, reason, answer, attempts)
        self.step, self.reason, self.answer, self.attempts = step, reason, answer, attempts

    def __str__(self) -> str:
        return f"{self.step}: {self.reason}"


class ChatStopped(Exception):
    """The request was not sent because the run is stopping."""


class _NoAnswer(ValueError):
    """A request got no answer, even after retries."""


class _Refused(_NoAnswer):
    """The server refuses this request, but answers others."""


@dataclass(frozen=True)
class Question:
    """A question about a story.

    Attributes:
        story: the digest of the story.
        step: what the question asks for, for example `"twin, expanded"`.
        prompt: the text of the question.
        schema: the JSON schema of the answer.
        read: makes the result out of the text of an answer, or raises `AnswerError`.
        answer_tokens: an estimate of the length of the answer.
        stand_in: the result in a dry run, of about the length of a real one.
    """

    story: str
    step: str
    prompt: str
    schema: Schema
    read: Callable[[str], Any]
    answer_tokens: int = 0
    stand_in: Any = None


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
        # No message quotes the address, which may contain a key.
        try:
            parts = urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            is_address = is_address and self.url.isprintable()
        except ValueError:
            is_address = False
        if not is_address or parts.username is not None or parts.query or parts.fragment:
            raise ValueError(
                "the address of the server must be of the form http://localhost:8000/v1, without a"
                f" password or query; put the API key into {KEY_VARIABLE}"
            )
        for name, least in {"concurrency": 1, "retries": 0, "max_tokens": 1}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be {least} or more")
        if not (self.timeout > 0 and 0 <= self.temperature < math.inf):
            raise ValueError(
                f"timeout={self.timeout} must be above 0, temperature={self.temperature} a finite"
                " number of 0 or more"
            )
        if reserved := set(_RESERVED_FIELDS) & set(self.fields):
            raise ValueError(f"the request fields {sorted(reserved)} are set by the package")

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
        is_local = host in ("localhost", "127.0.0.1", "::1")
        is_trusted = is_local or f".{host}".endswith(".openai.com")
        variable = self.key_variable or (KEY_VARIABLE if is_trusted else "")
        key = os.environ.get(variable, "").strip()
        if self.key_variable and not key:
            raise ValueError(f"the environment variable {variable} of the API key is not set")
        # HTTP clients quote invalid header values in their errors, which would show the key.
        if not all("!" <= char <= "~" for char in key):
            raise ValueError(
                f"the value of {variable} is not a valid API key: use printable ASCII without"
                " spaces"
            )
        return key or "none"

    def body(self, question: Question, attempt: int) -> dict[str, Any]:
        """The body of the request for an answer; attempts are counted from 0."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": question.prompt}],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self._seed(question, attempt),
        }
        if self.structured:
            schema = {"name": "answer", "schema": question.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        body |= self.fields
        return {name: value for name, value in body.items() if value is not None}

    def key_of(self, question: Question, attempt: int) -> str:
        """A digest of everything that the answer depends on, except for its length limit and the
        server's address."""
        body, seed = self.body(question, attempt), self._seed(question, attempt)
        fields = {name: value for name, value in body.items() if name not in _LIMIT_FIELDS}
        return digest([question.story, question.step, attempt, seed, fields])

    def _seed(self, question: Question, attempt: int) -> int:
        """A seed from 0 to 2³¹ − 1."""
        parts = (self.seed, question.story, question.step, attempt)
        return int(digest(parts)[:8], 16) & 0x7FFFFFFF


def estimate_tokens(text: str) -> int:
    """A rough estimate of the number of tokens in a text: a token for every 4 bytes of UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


@dataclass(frozen=True)
class Answer:
    """An answer of a language model.

    Attributes:
        key: a digest of everything that the answer depends on, see `Server.key_of`.
        story, step: see `Question`.
        attempt: number of the attempt, from 0.
        model: the name of the model, as the server reports it.
        text: the answer.
        finish_reason: why generation stopped; `"length"` if the answer was cut off.
        max_tokens: the limit of its length.
        prompt_tokens, completion_tokens: numbers of tokens; estimated if the server does not report
            them.
    """

    key: str
    story: str
    step: str
    attempt: int
    model: str
    text: str
    finish_reason: str
    max_tokens: int
    prompt_tokens: int
    completion_tokens: int

    def read(self, question: Question) -> Any:
        """The result of the question; raises `AnswerError` if the answer is invalid."""
        if self.finish_reason == "length":
            raise AnswerError(
                f"the answer was cut off after {self.completion_tokens} tokens; increase max_tokens"
            )
        try:
            return question.read(self.text)
        except AnswerError as error:
            if self.finish_reason == "stop":
                raise
            reason = f"{error} (finish reason {self.finish_reason!r:.40})"
            raise AnswerError(reason) from None


class Answers(ResumableFile):
    """Saved answers by key, in a JSON Lines file; within `with`, new answers are appended to it.

    During a run the file is `NAME.part`; an interrupted run leaves all of its answers in it.

    Args:
        path: the file; it need not exist. A symbolic link is refused.

    Raises:
        ValueError: a line of the file is not an answer.
        OSError: the file can't be written, or another run is writing it.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(str(path), resume=True, sync=True, follow=False)
        self._found: dict[str, Answer] = {}
        self._read()

    def __enter__(self) -> Answers:
        super().__enter__()
        # Another run may have added answers since the file was read; now it is locked.
        self._read()
        return self

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str, max_tokens: int) -> Answer | None:
        """The saved answer, unless it was cut off and `max_tokens` now allows a longer one."""
        answer = self._found.get(key)
        if answer and answer.finish_reason == "length" and answer.max_tokens < max_tokens:
            return None
        return answer

    def add(self, answer: Answer) -> None:
        """Save an answer; it is on disk when this returns."""
        self.write_row(asdict(answer))
        self._found[answer.key] = answer

    def _read(self) -> None:
        for number, line in enumerate(complete_lines(self.path), start=1):
            try:
                answer = Answer(**json.loads(line))
            except (ValueError, TypeError, RecursionError):
                name = self.part if os.path.exists(self.part) else self.path
                raise ValueError(
                    f"{name}: line {number} is not an answer; remove it or use another file"
                ) from None
            self._found[answer.key] = answer


class Chat:
    """A client for a language model; use it in `async with`, except for a dry run.

    Args:
        server: the server and the settings of its requests.
        answers: the saved answers, to which new ones are added.
        attempts: maximum number of answers to a question, each with another seed.
        dry_run: send nothing; stand-ins are used for the answers that are missing.

    Attributes:
        asked: number of answers that came from the server.
        prompt_tokens, completion_tokens: tokens of these answers.
        missing: in a dry run, the questions without an answer so far, each once.
        stopping: set it to True to send no further requests; requests under way are completed.
    """

    def __init__(
        self, server: Server, answers: Answers, attempts: int = ATTEMPTS, dry_run: bool = False
    ) -> None:
        self.server, self.answers = server, answers
        self.attempts, self.dry_run = attempts, dry_run
        self.asked = self.prompt_tokens = self.completion_tokens = 0
        self.missing: dict[tuple[str, str], Question] = {}
        self.stopping = False
        self._failures_in_a_row, self._has_answered = 0, False
        self._semaphore = asyncio.Semaphore(server.concurrency)

    async def __aenter__(self) -> Chat:
        """Connect; raises `ImportError` without `openai`, `ValueError` for an API key that is
        missing or invalid."""
        check_extra("making")
        import openai

        self._openai, self._key = openai, self.server.key
        self._client = openai.AsyncOpenAI(
            base_url=self.server.url,
            api_key=self._key,
            # Of connections that failed, timeouts, and the status 408, 409, 429 and 5xx; the client
            # waits as long as `Retry-After` says.
            max_retries=self.server.retries,
            timeout=self.server.timeout,
            http_client=_bounded_client(openai, self.server.timeout),
        )
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._client.close()

    async def ask(self, question: Question) -> Any:
        """The result of the first valid answer to a question; saved answers are tried before new
        ones are requested.

        Raises:
            Rejected: no answer was valid, a request got no answer, or the answer would exceed the
                token limit.
            ServerError: the server can't be used.
            ChatStopped: a request was not sent, because of `stopping`.
        """
        server, step, limit = self.server, question.step, self.server.limit
        if question.answer_tokens > limit:
            raise Rejected(
                step,
                f"the answer would have about {question.answer_tokens:,} tokens, more than the"
                f" limit of {limit:,}; increase max_tokens",
            )
        keys = [server.key_of(question, attempt) for attempt in range(self.attempts)]
        saved = [self.answers.get(key, limit) for key in keys]
        for answer in filter(None, saved):
            self._has_answered = True
            with suppress(AnswerError):
                return answer.read(question)
        if self.dry_run and None in saved:
            self.missing[question.story, step] = question
            return question.stand_in
        problem, text = "", ""
        for attempt, known in enumerate(saved):
            try:
                answer = known or await self._new_answer(question, attempt)
                text = answer.text
                return answer.read(question)
            except AnswerError as error:
                problem = str(error)
            except _NoAnswer as error:
                raise Rejected(step, str(error), None, attempt + 1) from None
        raise Rejected(step, problem, text, self.attempts)

    async def _new_answer(self, question: Question, attempt: int) -> Answer:
        async with self._semaphore:
            if self.stopping:
                raise ChatStopped
            try:
                completion = await self._request(self.server.body(question, attempt))
                answer = self._answer_of(completion, question, attempt)
            except _Refused:
                raise
            except _NoAnswer as error:
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

    async def _request(self, body: dict[str, Any]) -> Any:
        """The response to a request, which the client retries if it fails."""
        try:
            # As `extra_body`, since the client rejects arguments that it does not know.
            return await self._client.chat.completions.create(
                model=body.pop("model"), messages=body.pop("messages"), extra_body=body
            )
        except self._openai.APIStatusError as error:
            raise self._problem_of_status(error) from None
        except self._openai.APITimeoutError:
            seconds = f"{self.server.timeout:g} seconds"
            raise _NoAnswer(f"the server did not answer within {seconds}") from None
        except self._openai.APIConnectionError as error:
            cause = self._one_line(error.__cause__ or error)
            problem = f"can't connect to {self.server.url}: {cause}"
            if self.asked:
                raise _NoAnswer(problem) from None
            raise ServerError(
                f"{problem}; check the address, and whether the server is running"
            ) from None
        # Also deep nesting (RecursionError), and fields of other types.
        except (ValueError, TypeError, AttributeError, RecursionError, self._openai.APIError) as e:
            raise self._malformed(e) from None

    def _problem_of_status(self, error: Any) -> Exception:
        """The error for a response that is an error: `_NoAnswer`, if other requests may succeed."""
        status, body = error.status_code, error.body
        said = (body.get("message") if isinstance(body, dict) else None) or error
        if is_redirect := 300 <= status < 400:
            said = (
                f"it redirects to {error.response.headers.get('location')}, which is not followed"
            )
        problem = f"the server answered {status}: {self._one_line(said)}"
        if status in _FATAL_STATUS or is_redirect:
            target = f"{self.server.url}, model {self.server.model!r}"
            return ServerError(f"{problem}; check the address, the model and the key ({target})")
        if status not in _REFUSED_STATUS:
            return _NoAnswer(problem)
        if self._has_answered:
            return _Refused(problem)
        return _NoAnswer(
            f"{problem}; if it does not support a field, remove it with `fields`, or the schema"
            " with `structured`"
        )

    def _malformed(self, response: object) -> _NoAnswer:
        return _NoAnswer(
            f"the response of the server is not a chat completion: {self._one_line(response)}"
        )

    def _answer_of(self, completion: Any, question: Question, attempt: int) -> Answer:
        try:
            choice, *_ = completion.choices
            text = choice.message.content or getattr(choice.message, "refusal", None) or ""
            finish = choice.finish_reason or "stop"
            if not isinstance(text, str):
                raise TypeError
        except (AttributeError, TypeError, ValueError):
            raise self._malformed(completion) from None

        def tokens(name: str, content: str) -> int:
            count: Any = getattr(completion.usage, name, None)
            is_credible = type(count) is int and 0 <= count <= _MAX_TOKENS
            return count if is_credible else estimate_tokens(content)

        return Answer(
            self.server.key_of(question, attempt),
            question.story,
            question.step,
            attempt,
            self._clean(completion.model or self.server.model),
            self._clean(text),
            self._clean(finish),
            self.server.limit,
            tokens("prompt_tokens", question.prompt),
            tokens("completion_tokens", text),
        )

    def _clean(self, content: object) -> str:
        """A text from the server without the API key, and with lone surrogates replaced, which
        UTF-8 can't encode."""
        text = str(content).encode("utf-8", "replace").decode("utf-8")
        return text.replace(self._key, "***") if len(self._key) >= _SHORTEST_KEY else text

    def _one_line(self, error: object) -> str:
        """An error message on one line, cut if it is long."""
        line = " ".join(self._clean(error).split())
        return line if len(line) <= _MESSAGE_LENGTH else f"{line[:_MESSAGE_LENGTH]} ..."


def _bounded_client(openai: Any, seconds: float) -> Any:
    """An HTTP client for `openai.AsyncOpenAI`, for a server that may be slow, endless or hostile.

    Each attempt has a deadline as a whole, however slowly the bytes arrive. A response of more than
    `MAX_ANSWER` bytes when decompressed is replaced by a message. Redirects are not followed, since
    they could lead to another host.
    """
    # `httpx`, or a successor of it, which depends on the release of openai.
    library = openai.DefaultAsyncHttpxClient.__base__.__module__
    httpx: Any = import_module(library.partition(".")[0])
    of_the_body = ("content-encoding", "content-length", "transfer-encoding")

    class BoundedClient(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **options: Any) -> Any:
            options |= {"stream": True, "follow_redirects": False}
            content = bytearray()
            try:
                async with asyncio.timeout(seconds):
                    response = await super().send(request, **options)
                    try:
                        async for piece in response.aiter_bytes():
                            content += piece
                            if len(content) > MAX_ANSWER:
                                break
                    finally:
                        await response.aclose()
            except TimeoutError:
                raise httpx.ReadTimeout(f"no answer in {seconds:g} s", request=request) from None
            headers = {name: v for name, v in response.headers.items() if name not in of_the_body}
            if len(content) > MAX_ANSWER:
                headers["content-type"] = "text/plain"
                content = bytearray(f"it is larger than {MAX_ANSWER:,} bytes".encode())
            return httpx.Response(
                response.status_code, headers=headers, content=bytes(content), request=request
            )

    return BoundedClient()
