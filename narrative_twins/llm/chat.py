"""Asking a language model: many requests at once, what fails is asked again, every answer is kept before it is used."""

from __future__ import annotations

import asyncio
from typing import Any

from narrative_twins.llm.answers import Answer, Answers
from narrative_twins.llm.server import Question, Server, estimate_tokens

MALFORMED_RETRIES = 2
"""How often a request is repeated whose answer is none, such as a page of HTML."""
_FATAL = (401, 403, 404)
_REFUSED = (400, 413, 422)
"""The server does not take this request: the prompt is too long for it, or against its rules, or a field is unknown."""
_SHOWN = 200
"""Characters of a server's error that are shown."""


class ServerError(OSError):
    """The server can't be used; says why, and the cure."""


class NoAnswer(ValueError):
    """One request got no answer, however often it was repeated; says why."""


class ChatStopped(Exception):
    """No further request is to be sent."""


class _Malformed(ValueError):
    """A response that holds no answer."""


class Chat:
    """Asks the model of a server; to be used within `async with`.

    Args:
        server: whom to ask, and how.
        answers: those there are, to which new ones are added.

    Attributes:
        asked: how many answers came from the server.
        prompt_tokens, completion_tokens: of these.
        stopping: set it to send no further request; those under way are waited for.

    Raises:
        ModuleNotFoundError: `openai` is not installed.
        ValueError: there is no key where one was named.
    """

    def __init__(self, server: Server, answers: Answers) -> None:
        try:
            import openai
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "a language model is asked by openai; install it: pip install narrative_twins[making]"
            ) from error
        self.server, self.answers = server, answers
        self.asked = self.prompt_tokens = self.completion_tokens = 0
        self.stopping = False
        self._openai, self._secret = openai, server.key
        self._gate, self._failures, self._answers_some = asyncio.Semaphore(server.concurrency), 0, False

    async def __aenter__(self) -> Chat:
        self._client = self._openai.AsyncOpenAI(
            base_url=self.server.url,
            api_key=self._secret.tell(),
            max_retries=self.server.retries,
            timeout=self.server.timeout,
        )
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._client.close()

    def known(self, question: Question) -> Answer | None:
        """The answer that there is."""
        answer = self.answers.get(self.server.key_of(question), self.server.limit)
        self._answers_some |= answer is not None
        return answer

    async def ask(self, question: Question) -> Answer:
        """The answer to a question: the one that there is, or else a new one, which is then kept.

        Raises:
            NoAnswer: this request got no answer.
            ServerError: no request gets one.
            ChatStopped: it was not sent, because of `stopping`.
        """
        known = self.known(question)
        if known is not None:
            return known
        key = self.server.key_of(question)
        async with self._gate:
            if self.stopping:
                raise ChatStopped
            answer = await self._sent(question, key)
            self.answers.add(answer)
        self.asked += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        return answer

    async def _sent(self, question: Question, key: str) -> Answer:
        openai = self._openai
        try:
            answer = await self._repeated(question, key)
        except openai.APIStatusError as error:
            problem = f"the server answered {error.status_code}: {self._said(_message(error))}"
            if error.status_code in _FATAL:
                where = f"{self.server.url}, model {self.server.model!r}"
                raise ServerError(f"{problem}; check the address, the model and the key ({where})") from None
            if error.status_code in _REFUSED:
                if self._answers_some:
                    # It is this prompt that it does not take.
                    raise NoAnswer(problem) from None
                problem += "; if it does not take a field, leave that out by `fields`, or the schema by `structured`"
        except openai.APITimeoutError:
            problem = f"the server did not answer within {self.server.timeout:g} seconds"
        except openai.APIConnectionError as error:
            problem = f"there is no connection to {self.server.url}: {self._said(error.__cause__ or error)}"
            if not self.asked:
                raise ServerError(f"{problem}; check the address, and whether the server runs") from None
        except _Malformed as error:
            problem = f"the server answered, but not with a chat completion: {self._said(error)}"
        else:
            self._failures, self._answers_some = 0, True
            return answer
        self._failures += 1
        if self._failures >= max(3, self.server.concurrency):
            raise ServerError(f"{problem}; {self._failures} requests in a row failed, so no more are sent")
        raise NoAnswer(problem)

    async def _repeated(self, question: Question, key: str) -> Answer:
        """The client repeats what failed by itself, but takes anything for an answer that has the status of one."""
        for repeat in range(MALFORMED_RETRIES + 1):
            try:
                body = self.server.body(question)
                # Fields that the client does not know of go into the body all the same.
                completion = await self._client.chat.completions.create(
                    model=body.pop("model"), messages=body.pop("messages"), extra_body=body
                )
                return self._answer(completion, question, key)
            except (ValueError, self._openai.APIResponseValidationError) as error:
                if repeat == MALFORMED_RETRIES or self.stopping:
                    raise _Malformed(str(error)) from None
                await asyncio.sleep(0.5 * 2**repeat)
        raise AssertionError("the last repeat returns or raises")

    def _answer(self, completion: Any, question: Question, key: str) -> Answer:
        if isinstance(completion, str):
            raise _Malformed(completion)
        try:
            (choice, *_) = completion.choices
            text = choice.message.content or getattr(choice.message, "refusal", None) or ""
            finish = choice.finish_reason or "stop"
            if not isinstance(text, str):
                raise TypeError
        except (AttributeError, TypeError, ValueError):
            raise _Malformed(str(completion)) from None
        usage = completion.usage
        counts = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        paid = [
            count if isinstance(count, int) else estimate_tokens(one)
            for count, one in zip(counts, (question.prompt, text), strict=True)
        ]
        return Answer(
            key,
            question.story,
            question.step,
            question.attempt,
            self._clean(str(completion.model or self.server.model)),
            self._clean(text),
            self._clean(str(finish)),
            self.server.limit,
            *paid,
        )

    def _clean(self, text: str) -> str:
        """A text of the server's that can be written: without the key, without half characters."""
        return self._secret.hide(text).encode("utf-8", "replace").decode("utf-8")

    def _said(self, error: object) -> str:
        """An error in one short line."""
        line = " ".join(self._clean(str(error)).split())
        return line if len(line) <= _SHOWN else f"{line[:_SHOWN]} ..."


def _message(error: Any) -> object:
    """What a server says of an error, where it says it as the protocol has it."""
    return (error.body.get("message") if isinstance(error.body, dict) else None) or error
