"""Jobs that ask a language model about many stories, several at a time; an interruption loses no
answer."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tqdm.auto import tqdm

from narrative_twins.llm.answers import Answer, Answers, KnownAnswers
from narrative_twins.llm.chat import Chat, ChatStopped, NoAnswer
from narrative_twins.llm.prompts import AnswerError, Schema
from narrative_twins.llm.server import Question, Server, seed_of

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a question is asked, by default, until its answer is valid."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Job = TypeVar("Job")
Result = TypeVar("Result")


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


@dataclass(frozen=True)
class Prices:
    """Prices of a million tokens, in any currency."""

    input: float = 0.0
    output: float = 0.0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost of these numbers of tokens."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6

    def describe(self, prompt_tokens: int, completion_tokens: int) -> str:
        """These numbers of tokens as text, with their cost if there are prices."""
        words = f"{prompt_tokens:,} tokens in, {completion_tokens:,} out"
        cost = self.cost(prompt_tokens, completion_tokens)
        digits = 2 if cost >= 1 else 4
        return f"{words}, cost {cost:,.{digits}f}" if self.input or self.output else words


@dataclass(frozen=True)
class Run:
    """The results of a run in the order of the jobs, with the numbers of new answers and of their
    tokens."""

    results: list[Any]
    asked: int
    prompt_tokens: int
    completion_tokens: int


async def ask_until_valid(
    chat: KnownAnswers,
    story: str,
    step: str,
    prompt: str,
    schema: Schema,
    read: Callable[[str], Result],
    attempts: int,
) -> Result:
    """The parsed first valid answer to a question; saved answers are tried before new ones are
    requested.

    Args:
        chat: the client.
        story, step, prompt, schema: see `Question`.
        read: parses the text of an answer; raises `AnswerError` if it is invalid.
        attempts: maximum number of answers, each with another seed.

    Raises:
        Rejected: no answer was valid, or a request got no answer.
    """
    questions = [
        Question(
            story, step, attempt, prompt, schema, seed_of(chat.server.seed, story, step, attempt)
        )
        for attempt in range(attempts)
    ]
    for known in filter(None, map(chat.known, questions)):
        with suppress(AnswerError):
            return _parse(known, read)
    problem, answer = "", None
    for question in questions:
        try:
            answer = await chat.ask(question)
            return _parse(answer, read)
        except AnswerError as error:
            problem = str(error)
        except NoAnswer as error:
            raise Rejected(step, str(error), None, question.attempt + 1) from None
    raise Rejected(step, problem, None if answer is None else answer.text, attempts)


def _parse(answer: Answer, read: Callable[[str], Result]) -> Result:
    if answer.is_truncated:
        raise AnswerError(
            f"the answer was cut off after {answer.completion_tokens} tokens; increase max_tokens"
        )
    try:
        return read(answer.text)
    except AnswerError as error:
        usual = answer.finish_reason == "stop"
        reason = "" if usual else f" (finish reason {answer.finish_reason!r:.40})"
        raise AnswerError(f"{error}{reason}") from None


def run_jobs(
    server: Server,
    answers: str | Path,
    jobs: Sequence[Job],
    work: Callable[[Chat, Job], Awaitable[Any]],
    *,
    prices: Prices | None = None,
    progress: bool = False,
) -> Run:
    """Run jobs that ask a language model, at most `server.concurrency` at a time.

    After Ctrl-C or SIGTERM no further requests are sent, but the answers under way, which are paid
    for, are awaited; after a second one they are not.

    Args:
        server: the server.
        answers: the file of saved answers; these are not requested again.
        jobs: the jobs, for example stories.
        work: runs a job and returns its result; if it raises `Rejected`, the result is this error.
        prices: for the cost in the progress bar.
        progress: show a progress bar.

    Raises:
        KeyboardInterrupt: the run was interrupted by Ctrl-C.
        ServerError: the server can't be used.
    """
    with Answers(answers) as found:
        chat = Chat(server, found)
        with tqdm(total=len(jobs), disable=not progress, unit="story", file=sys.stderr) as bar:

            def done(count: int) -> None:
                bar.update(count)
                bar.set_postfix_str(
                    (prices or Prices()).describe(chat.prompt_tokens, chat.completion_tokens)
                )

            try:
                results = _run_coroutine(_run_all(chat, jobs, work, done), chat)
                if chat.stopping:
                    raise KeyboardInterrupt
            except BaseException:
                paid = (prices or Prices()).describe(chat.prompt_tokens, chat.completion_tokens)
                logger.warning("the run stopped early, after %d answers, %s", chat.asked, paid)
                raise
    return Run(results, chat.asked, chat.prompt_tokens, chat.completion_tokens)


async def _run_all(
    chat: Chat,
    jobs: Sequence[Job],
    work: Callable[[Chat, Job], Awaitable[Any]],
    done: Callable[[int], None],
) -> list[Any]:
    results: list[Any] = [None] * len(jobs)
    # The workers share this iterator, so each job is taken once.
    numbered = iter(enumerate(jobs))

    async def worker() -> None:
        for index, job in numbered:
            try:
                results[index] = await work(chat, job)
            except Rejected as error:
                results[index] = error
            except ChatStopped:
                return
            done(1)

    async with chat:
        workers = [asyncio.create_task(worker()) for _ in range(chat.server.concurrency)]
        with _handling_interrupts(chat, workers):
            try:
                await asyncio.gather(*workers)
            except asyncio.CancelledError:
                if not chat.stopping:
                    raise
            except Exception:
                # Requests under way are paid for, so their answers are awaited and saved.
                chat.stopping = True
                await asyncio.wait(workers, timeout=chat.server.timeout)
                raise
            finally:
                for task in workers:
                    task.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
    return results


@contextmanager
def _handling_interrupts(chat: Chat, workers: Sequence[asyncio.Task[None]]) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM as `run_jobs` describes, if the platform and the thread support
    signal handlers."""

    def interrupted() -> None:
        if chat.stopping:
            for task in workers:
                task.cancel()
        else:
            chat.stopping = True
            tqdm.write(
                "interrupted: waiting for answers under way; press Ctrl-C again to drop them",
                file=sys.stderr,
            )

    loop = asyncio.get_running_loop()
    try:
        for number in _SIGNALS:
            loop.add_signal_handler(number, interrupted)
    except (RuntimeError, ValueError):
        yield
        return
    try:
        yield
    finally:
        for number in _SIGNALS:
            with suppress(ValueError):
                loop.remove_signal_handler(number)


def _run_coroutine(run: Coroutine[Any, Any, Result], chat: Chat) -> Result:
    """The result of a coroutine; in a thread if an event loop is already running, for example in a
    notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(asyncio.run, run)
        try:
            return future.result()
        except KeyboardInterrupt:
            chat.stopping = True
            raise
