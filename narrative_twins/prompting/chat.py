"""Questions to a language model behind an OpenAI-compatible server. The client of `openai` retries
requests that failed or were refused by a busy server. A question whose answer is invalid is asked
again with another seed. All answers are logged."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tqdm.auto import tqdm

from narrative_twins.extras import check_extra
from narrative_twins.prompting.templates import AnswerError, Form, read_answer
from narrative_twins.text import LONGEST_MESSAGE, shortened
from narrative_twins.writing import JsonlLog, digest

KEY_VARIABLE = "OPENAI_API_KEY"
"""The default environment variable of the API key."""
ATTEMPTS = 3
"""By default, how often a question is asked at most until its answer is valid."""
MAX_TOKENS = 4000
"""The maximum length of an answer in tokens, unless the request sets another."""

_LIMITS = ("max_tokens", "max_completion_tokens")
_UNUSABLE = (401, 403, 404)
"""Statuses of a wrong address, model or key, which no other request would change."""
_REFUSED = (400, 413, 422)
"""Statuses of a refused request: the prompt is too long or breaks rules, or a field is unknown."""
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Errors of reading a response that is not a chat completion."""

Job = TypeVar("Job")
Result = TypeVar("Result")


class ServerError(OSError):
    """The error of a server that can't be used; the message explains why and how to fix it."""


class Rejected(ValueError):
    """The error of a story that is rejected, usually because a question got no valid answer.

    Args:
        step: what the question asked for, see `Question`.
        reason: what is wrong with the last answer, or why there is none.
        answer: the last answer, or None if there was none.
    """

    def __init__(self, step: str, reason: str, answer: str | None = None) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.reason, self.answer = step, reason, answer


@dataclass(frozen=True)
class Question:
    """A question about a story.

    Attributes:
        step: what it asks for, in messages and in the log, for example `"twin, expanded"`.
        prompt: the text that is sent to the model.
        form: the form of the answer, see `answer_form`.
        read: makes the result of an answer in this form; raises `AnswerError` if it is invalid.
        sample: the number of the sample, if the same question is asked several times.
    """

    step: str
    prompt: str
    form: Form
    read: Callable[[dict[str, Any]], Any]
    sample: int = 0


@dataclass(frozen=True)
class Server:
    """A language model behind an OpenAI-compatible server, and the request to it.

    Attributes:
        url: the address of the server, for example `"http://localhost:8000/v1"`.
        model: the name of the model on the server.
        key_variable: the environment variable of the API key, which is sent only to this server.
            None: `OPENAI_API_KEY` if the server is OpenAI's or on this machine, else no key.
        temperature: the sampling temperature.
        seed: the seed of the run; the seed of each request is derived from it.
        request: JSON fields that are added to each request or replace fields of it, for example
            `{"max_completion_tokens": 8000, "reasoning_effort": "low"}` for a reasoning model. None
            removes a field, for example a `seed` that the server does not support.
        concurrency: maximum number of requests at once.
        retries: maximum number of retries of a request that failed, or took over ten minutes.

    Raises:
        ValueError: the request has fields that are set by the package.
    """

    url: str
    model: str
    key_variable: str | None = None
    temperature: float = 1.0
    seed: int = 0
    request: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 8
    retries: int = 5

    def __post_init__(self) -> None:
        if reserved := {"model", "messages", "n", "stream"} & set(self.request):
            raise ValueError(f"the request fields {sorted(reserved)} are set by the package")

    @property
    def key(self) -> str:
        """The API key of the server, `"none"` if it needs none. Raises ValueError if the variable
        `key_variable` is not set, or its value can't be a key."""
        host = urlsplit(self.url).hostname or ""
        is_trusted = host in ("localhost", "127.0.0.1", "::1") or host.endswith(".openai.com")
        variable = self.key_variable or (KEY_VARIABLE if is_trusted else "")
        key = os.environ.get(variable, "").strip()
        if self.key_variable and not key:
            raise ValueError(f"the environment variable {variable} of the API key is not set")
        # Errors about invalid headers would show the key.
        if not all("!" <= char <= "~" for char in key):
            raise ValueError(f"the value of {variable} is no API key: it has other characters")
        return key or "none"

    def request_of(self, question: Question, attempt: int) -> tuple[str, dict[str, Any]]:
        """Return the digest and the JSON body of a request for an answer to a question. The digest
        identifies the answer in the log; the limit of tokens and the server's address do not change
        it. The body lacks the form of the answer. The number of the `attempt` changes the seed."""
        # A seed of 31 bits, since some servers hold it in a signed integer of 32.
        parts = (self.seed, question.prompt, question.sample, attempt)
        seed = int(digest(parts)[:8], 16) & 0x7FFFFFFF
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": question.prompt}],
            "temperature": self.temperature,
            "seed": seed,
        }
        # Reasoning models refuse the older name of the limit.
        if "max_completion_tokens" not in self.request:
            body["max_tokens"] = MAX_TOKENS
        fields = {**body, **self.request}
        body = {name: value for name, value in fields.items() if value is not None}
        return digest([seed, {name: body[name] for name in body if name not in _LIMITS}]), body


class Chat:
    """A connection to a language model, with a log of its answers. Use it in `with`.

    Args:
        server: the language model.
        answers: the log, a JSON Lines file. A question that the log answers is not asked again.
        attempts: the maximum number of answers to a question, each with another seed.

    Attributes:
        counts: number of new answers (`asked`), and of their `prompt_tokens` and `answer_tokens`.

    Raises:
        ImportError: `openai` is missing.
        OSError, ValueError: the log can't be written or is a file of something else, or the
            variable of the API key is not set.
    """

    def __init__(self, server: Server, answers: str | Path, attempts: int = ATTEMPTS) -> None:
        check_extra("making")
        self.server, self.attempts, self._key = server, attempts, server.key
        self.counts = Counter[str]()
        self._log = JsonlLog(answers)
        self._answers: dict[str, dict[str, Any]] = {}
        for number, row in enumerate(self._log.rows):
            if not {"key", "text", "finish", "limit"} <= set(row):
                raise self._log.error(number, "is not an answer; use another file")
            self._answers[row["key"]] = row
        self._lock, self._locks = Lock(), dict[str, Any]()
        self._failures, self._is_stopping = 0, False

    def __enter__(self) -> Chat:
        import openai

        self._openai = openai
        self._log.__enter__()
        self._client = openai.OpenAI(
            base_url=self.server.url, api_key=self._key, max_retries=self.server.retries
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()
        self._log.__exit__(*error)

    @property
    def usage(self) -> str:
        """The numbers of new answers and their tokens, as text."""
        counts = self.counts
        tokens = f"{counts['prompt_tokens']:,} tokens in, {counts['answer_tokens']:,} out"
        return f"new answers: {counts['asked']:,} ({tokens})"

    def ask_each(
        self, jobs: Sequence[Job], work: Callable[[Job], Result], progress: bool = False
    ) -> list[Result | Rejected]:
        """Call `work` for each job, at most `server.concurrency` at a time. After Ctrl-C, answers
        under way are awaited and logged, since they are paid for; a second Ctrl-C drops them.
        Raises ServerError if the server can't be used.

        Args:
            jobs: what to work on, for example stories.
            work: asks about a job, and returns a result.
            progress: show a progress bar.

        Returns:
            The results in the order of the jobs; for a job whose work raised `Rejected`, the error.
        """

        def one(job: Job) -> Result | Rejected:
            """Return the result of a job, or the `Rejected` that its work raised."""
            try:
                return work(job)
            except Rejected as error:
                return error
            except BaseException:
                self._is_stopping = True
                raise

        results: list[Result | Rejected] = []
        # Its threads don't keep the process from ending, as a ThreadPoolExecutor's do.
        pool = ThreadPool(self.server.concurrency)
        try:
            with tqdm(total=len(jobs), disable=not progress, unit="story", file=sys.stderr) as bar:
                done = pool.imap(one, jobs)
                while len(results) < len(jobs):
                    # Windows can't interrupt a wait without an end.
                    with suppress(multiprocessing.TimeoutError):
                        results.append(done.next(timeout=1))
                        bar.set_postfix_str(self.usage, refresh=False)
                        bar.update()
        except BaseException as error:
            self._is_stopping = True
            if isinstance(error, KeyboardInterrupt):
                message = "waiting for answers under way; press Ctrl-C again to drop them"
                tqdm.write(message, file=sys.stderr)
            pool.close()
            pool.join()
            raise
        finally:
            pool.terminate()
        return results

    def ask(self, question: Question) -> Any:
        """Return the result of the first valid answer to a question, logged answers first. Raises
        `Rejected` if no answer was valid or a request got no answer, and ServerError if the server
        can't be used."""
        requests = [self.server.request_of(question, number) for number in range(self.attempts)]
        problem, text = "", None
        # A later attempt may have been logged by a run with other checks; its answer is free.
        for key, body in sorted(requests, key=lambda request: self._logged(*request) is None):
            try:
                # Equal questions in several threads are asked once.
                with self._locks.setdefault(key, Lock()):
                    answer = self._answer(question, key, body)
                text = answer["text"]
                if answer["finish"] == "length":
                    raise AnswerError("the answer was cut off; raise max_tokens of the request")
                return question.read(read_answer(question.form, text))
            except AnswerError as error:
                problem = str(error)
        raise Rejected(question.step, problem, text)

    def _logged(self, key: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the logged answer to a request with the digest `key`; None if the log has no such
        answer, or the answer was cut off at another limit of tokens than the limit in `body`."""
        answer = self._answers.get(key)
        is_usable = answer and (answer["finish"] != "length" or answer["limit"] == _limits(body))
        return answer if is_usable else None

    def _answer(self, question: Question, key: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request as a row of the log. If the log has none with the digest
        `key`, request and log one, which may raise `Rejected` or `ServerError`."""
        if (logged := self._logged(key, body)) is not None:
            return logged
        if self._is_stopping:
            raise Rejected(question.step, "the run is stopping")
        try:
            completion = self._complete(body, question.form)
            choice, usage = completion.choices[0], completion.usage
            tokens = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
            counts = dict(zip(("prompt_tokens", "answer_tokens"), map(int, tokens), strict=True))
            answer = {
                "key": key,
                "step": question.step,
                "model": str(completion.model),
                "finish": choice.finish_reason,
                "limit": _limits(body),
                "text": str(choice.message.content or choice.message.refusal or ""),
                **counts,
            }
        except (self._openai.OpenAIError, *_MALFORMED) as error:
            raise self._failure(question.step, error) from None
        with self._lock:
            self._log.append(answer)
            self._answers[key] = answer
            self._failures = 0
            self.counts.update(counts, asked=1)
        return answer

    def _complete(self, body: dict[str, Any], form: Form) -> Any:
        """Send a request with the JSON schema of `form` and return the response. If the server
        refuses the schema, send the request without it."""
        # As `extra_body`, since the client rejects arguments that it does not know.
        create = partial(
            self._client.chat.completions.create, model=body["model"], messages=body["messages"]
        )
        schema = {"name": "answer", "schema": form.model_json_schema(), "strict": True}
        response_format = {"type": "json_schema", "json_schema": schema}
        if "response_format" not in self.server.request:
            with suppress(self._openai.BadRequestError, self._openai.UnprocessableEntityError):
                return create(extra_body={**body, "response_format": response_format})
        return create(extra_body=body)

    def _failure(self, step: str, error: Exception) -> Exception:
        """Return the error to raise after a request failed with `error`: `ServerError` if the
        server can't be reached or used, or many requests failed in a row; otherwise `Rejected`."""
        status = getattr(error, "status_code", None)
        cause = "it is not a chat completion" if isinstance(error, _MALFORMED) else error.__cause__
        problem = shortened(f"the request failed: {error} {cause or ''}", LONGEST_MESSAGE)
        with self._lock:
            self._failures += 1
        is_connection = isinstance(error, self._openai.APIConnectionError)
        is_unusable = status in _UNUSABLE or (is_connection and not self._answers)
        # A story may be too long or violate rules, but not all stories.
        is_about_story = status in _REFUSED and self._answers
        is_often = self._failures >= max(3, self.server.concurrency) and not is_about_story
        if is_unusable or is_often:
            return ServerError(
                f"{problem}; no more are sent after {self._failures} without an answer; check that"
                f" the server is running, its address {self.server.url}, the model"
                f" {self.server.model}, the API key, and the fields of the request (null removes"
                " one)"
            )
        return Rejected(step, problem)


def _limits(body: Mapping[str, Any]) -> list[Any]:
    """Return the limits of tokens, if any, that the body of a request sets."""
    return [body[name] for name in _LIMITS if name in body]
