"""Jobs that ask a language model about many stories, several at a time; an interruption loses no
answer."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tqdm.auto import tqdm

from narrative_twins.llm.chat import (
    ATTEMPTS,
    Answers,
    Chat,
    ChatStopped,
    Question,
    Rejected,
    Server,
    estimate_tokens,
)

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Job = TypeVar("Job")


@dataclass(frozen=True)
class Prices:
    """Prices of a million tokens, in any currency."""

    input: float = 0.0
    output: float = 0.0

    def describe(self, prompt_tokens: int, completion_tokens: int) -> str:
        """These numbers of tokens as text, with their cost if there are prices."""
        words = f"{prompt_tokens:,} tokens in, {completion_tokens:,} out"
        cost = (prompt_tokens * self.input + completion_tokens * self.output) / 1e6
        digits = 2 if cost >= 1 else 4
        return f"{words}, cost {cost:,.{digits}f}" if self.input or self.output else words


@dataclass(frozen=True)
class Run:
    """The results of a run.

    Attributes:
        results: the results of the jobs, in order.
        asked: number of new answers.
        prompt_tokens, completion_tokens: numbers of tokens of these answers.
        missing: after a dry run, the questions without an answer; the numbers are estimates of
            what asking them takes.
    """

    results: list[Any]
    asked: int
    prompt_tokens: int
    completion_tokens: int
    missing: list[Question] | None = None


def run_jobs(
    server: Server,
    answers: str | Path,
    jobs: Sequence[Job],
    work: Callable[[Chat, Job], Awaitable[Any]],
    *,
    key: Callable[[Job], Hashable] = lambda job: job,
    attempts: int = ATTEMPTS,
    prices: Prices | None = None,
    progress: bool = False,
    dry_run: bool = False,
) -> Run:
    """Run jobs that ask a language model, at most `server.concurrency` at a time.

    After Ctrl-C or SIGTERM no further requests are sent, but the answers under way, which are paid
    for, are awaited; after a second one they are not.

    Args:
        server: the server.
        answers: the file of saved answers; these are not requested again.
        jobs: the jobs, for example stories.
        work: runs a job and returns its result; if it raises `Rejected`, the result is this error.
        key: of several jobs with the same key, the first is run, for all of them.
        attempts: maximum number of attempts to get a valid answer to a question.
        prices: for the cost in the progress bar.
        progress: show a progress bar.
        dry_run: send nothing and write nothing; use stand-ins for the answers that are missing.

    Raises:
        KeyboardInterrupt: the run was interrupted by Ctrl-C.
        ServerError: the server can't be used.
    """
    unique: dict[Hashable, Job] = {}
    for job in jobs:
        unique.setdefault(key(job), job)
    results: dict[Hashable, Any] = {}
    found = Answers(answers)
    chat = Chat(server, found, attempts, dry_run)
    bar = tqdm(total=len(unique), disable=not progress, unit="story", file=sys.stderr)

    def cost() -> str:
        return (prices or Prices()).describe(chat.prompt_tokens, chat.completion_tokens)

    # The workers share this iterator, so each job is taken once.
    remaining = iter(unique.items())

    async def worker() -> None:
        for name, job in remaining:
            try:
                results[name] = await work(chat, job)
            except Rejected as error:
                results[name] = error
            except ChatStopped:
                return
            bar.update()
            bar.set_postfix_str(cost())

    with nullcontext() if dry_run else found, bar:
        try:
            _run(_run_workers(chat, worker), chat)
            if chat.stopping:
                raise KeyboardInterrupt
        except BaseException:
            logger.warning("the run stopped early, after %d answers, %s", chat.asked, cost())
            raise
    ordered = [results[key(job)] for job in jobs]
    if not dry_run:
        return Run(ordered, chat.asked, chat.prompt_tokens, chat.completion_tokens)
    missing = list(chat.missing.values())
    prompt_tokens = sum(estimate_tokens(question.prompt) for question in missing)
    answer_tokens = sum(question.answer_tokens for question in missing)
    return Run(ordered, len(missing), prompt_tokens, answer_tokens, missing)


async def _run_workers(chat: Chat, worker: Callable[[], Any]) -> None:
    """Run a worker for each parallel request, until all have ended."""
    async with nullcontext() if chat.dry_run else chat:
        workers = [asyncio.create_task(worker()) for _ in range(chat.server.concurrency)]
        try:
            with _handling_interrupts(chat, workers):
                _, others = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
                if others:
                    # One has failed. Requests under way are paid for, so their answers are awaited
                    # and saved.
                    chat.stopping = True
                    await asyncio.wait(others, timeout=chat.server.timeout)
        finally:
            for task in workers:
                task.cancel()
            ended = await asyncio.gather(*workers, return_exceptions=True)
        # Workers that were cancelled by a second interrupt are no failures.
        for error in ended:
            if isinstance(error, Exception):
                raise error


@contextmanager
def _handling_interrupts(chat: Chat, workers: Sequence[asyncio.Task[None]]) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM as `run_jobs` describes, if the thread supports signal handlers."""

    def interrupted() -> None:
        if chat.stopping:
            for task in workers:
                task.cancel()
        else:
            chat.stopping = True
            message = "interrupted: waiting for answers under way; press Ctrl-C again to drop them"
            tqdm.write(message, file=sys.stderr)

    loop = asyncio.get_running_loop()
    # In a thread other than the main one, signals can't be handled.
    with suppress(RuntimeError, ValueError):
        for number in _SIGNALS:
            loop.add_signal_handler(number, interrupted)
    try:
        yield
    finally:
        with suppress(RuntimeError, ValueError):
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _run(job: Any, chat: Chat) -> None:
    """Run a coroutine; in a thread if an event loop is already running, for example in a
    notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(job)
        return
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(asyncio.run, job)
        try:
            future.result()
        except KeyboardInterrupt:
            chat.stopping = True
            raise
