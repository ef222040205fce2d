"""Runs of many stories: some at a time, in any order, with progress; an interruption costs no answer."""

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
from typing import Any, Protocol, TypeVar

from tqdm.auto import tqdm

from narrative_twins.llm.answers import Answer, Answers, seed_of
from narrative_twins.llm.chat import Chat, ChatStopped, NoAnswer
from narrative_twins.llm.json_answers import AnswerError, Schema
from narrative_twins.llm.server import Question, Server

logger = logging.getLogger(__name__)

Job = TypeVar("Job")
Result = TypeVar("Result")


class Rejected(ValueError):
    """A story that got no answer which holds.

    Args:
        step: where in the recipe.
        reason: what was wrong with the last answer.
        answer: that answer, or None where there was none.
        attempts: how many there were.
    """

    def __init__(self, step: str, reason: str, answer: str | None = None, attempts: int = 0) -> None:
        super().__init__(step, reason, answer, attempts)
        self.step, self.reason, self.answer, self.attempts = step, reason, answer, attempts

    def __str__(self) -> str:
        return f"{self.step}: {self.reason}"


@dataclass(frozen=True)
class Prices:
    """What a million tokens cost, in whatever currency."""

    input: float = 0.0
    output: float = 0.0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6

    def told(self, prompt_tokens: int, completion_tokens: int) -> str:
        """So many tokens in words, with what they cost where there are prices."""
        words = f"{prompt_tokens:,} tokens in, {completion_tokens:,} out"
        cost = self.cost(prompt_tokens, completion_tokens)
        digits = 2 if cost >= 1 else 4
        return f"{words}, cost {cost:,.{digits}f}" if self.input or self.output else words


@dataclass(frozen=True)
class Run:
    """The results of a run, a story each in the order given, and what was paid for in it."""

    results: list[Any]
    asked: int
    prompt_tokens: int
    completion_tokens: int


class ChatLike(Protocol):
    """Whom `ask_until_valid` asks: a `Chat`, or what stands for one.

    Attributes:
        server: how it is asked.
    """

    server: Server

    def known(self, question: Question) -> Answer | None:
        """The answer that there is."""

    async def ask(self, question: Question) -> Answer:
        """The answer to a question."""


async def ask_until_valid(
    chat: ChatLike, story: str, step: str, prompt: str, schema: Schema, read: Callable[[str], Result], attempts: int
) -> Result:
    """The first answer that holds, out of so many, as it is read. What there is goes before what would be asked for.

    Args:
        chat: to ask.
        story: the digest of the story that it is asked for.
        step: of the recipe.
        prompt, schema: of the question.
        read: makes of an answer what is needed, or raises `AnswerError`.
        attempts: after so many answers that don't hold it is given up.

    Raises:
        Rejected: none of them held, or there was none.
    """
    questions = [
        Question(story, step, attempt, prompt, schema, seed_of(chat.server.seed, story, step, attempt))
        for attempt in range(attempts)
    ]
    for known in filter(None, map(chat.known, questions)):
        with suppress(AnswerError):
            return _read(known, read)
    problem, answer = "", None
    for question in questions:
        try:
            answer = await chat.ask(question)
            return _read(answer, read)
        except AnswerError as error:
            problem = str(error)
        except NoAnswer as error:
            raise Rejected(step, str(error), None, question.attempt + 1) from None
    raise Rejected(step, problem, None if answer is None else answer.text, attempts)


def _read(answer: Answer, read: Callable[[str], Result]) -> Result:
    """What an answer says.

    Raises:
        AnswerError: it does not hold, or is not whole.
    """
    if answer.cut:
        raise AnswerError(f"cut off after {answer.completion_tokens} tokens; allow more, by max_tokens")
    try:
        return read(answer.text)
    except AnswerError as error:
        ending = "" if answer.ended else f" (the model ended by {answer.finish_reason!r:.40})"
        raise AnswerError(f"{error}{ending}") from None


def run_jobs(
    server: Server,
    answers: str | Path,
    jobs: Sequence[Job],
    work: Callable[[Chat, Job], Awaitable[Any]],
    *,
    prices: Prices | None = None,
    progress: bool = False,
) -> Run:
    """Do the work of all jobs, as many at a time as the server is sent requests.

    Ctrl-C sends no further request and waits for the answers under way, which are paid for; a second one does not wait.

    Args:
        server: whom to ask.
        answers: the file of answers; those in it are not asked for again.
        jobs: one a story.
        work: what to do with one; its result stands at the place of the job, or the `Rejected` that it raised.
        prices: for the progress bar.
        progress: show one.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
        ServerError: the server can't be used.
    """
    with Answers(answers) as found:
        chat = Chat(server, found)
        with tqdm(total=len(jobs), disable=not progress, unit="story", file=sys.stderr) as bar:

            def done(count: int) -> None:
                bar.update(count)
                bar.set_postfix_str((prices or Prices()).told(chat.prompt_tokens, chat.completion_tokens))

            try:
                results = _finished(_all(chat, jobs, work, done), chat)
                if chat.stopping:
                    raise KeyboardInterrupt
            except BaseException:
                paid = (prices or Prices()).told(chat.prompt_tokens, chat.completion_tokens)
                logger.warning("the run ended before its time, with %d answers, %s", chat.asked, paid)
                raise
    return Run(results, chat.asked, chat.prompt_tokens, chat.completion_tokens)


async def _all(
    chat: Chat, jobs: Sequence[Job], work: Callable[[Chat, Job], Awaitable[Any]], done: Callable[[int], None]
) -> list[Any]:
    results: list[Any] = [None] * len(jobs)
    waiting = iter(enumerate(jobs))

    async def worker() -> None:
        for at, job in waiting:
            try:
                results[at] = await work(chat, job)
            except Rejected as error:
                results[at] = error
            except ChatStopped:
                return
            done(1)

    async with chat:
        workers = [asyncio.create_task(worker()) for _ in range(chat.server.concurrency)]
        with _interruptible(chat, workers):
            try:
                await asyncio.gather(*workers)
            except asyncio.CancelledError:
                if not chat.stopping:
                    raise
            except Exception:
                # What is under way is paid for.
                chat.stopping = True
                await asyncio.wait(workers, timeout=chat.server.timeout)
                raise
            finally:
                for task in workers:
                    task.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
    return results


@contextmanager
def _interruptible(chat: Chat, workers: Sequence[asyncio.Task[None]]) -> Iterator[None]:
    """Have Ctrl-C end the run gently, where the system and the thread allow."""

    def interrupted() -> None:
        if chat.stopping:
            for task in workers:
                task.cancel()
        else:
            chat.stopping = True
            tqdm.write("interrupted: waiting for the answers under way; again to drop them", file=sys.stderr)

    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, interrupted)
    except (RuntimeError, ValueError):
        yield
        return
    try:
        yield
    finally:
        with suppress(ValueError):
            loop.remove_signal_handler(signal.SIGINT)


def _finished(run: Coroutine[Any, Any, Result], chat: Chat) -> Result:
    """What a coroutine gives, in a notebook too, where a loop runs already."""
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
