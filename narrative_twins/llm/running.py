"""Jobs that ask a language model about many stories, several at a time; an interruption loses no
answer."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tqdm.auto import tqdm

from narrative_twins.llm.answers import Answer, Answers
from narrative_twins.llm.chat import Chat, ChatStopped, DryRun, NoAnswer
from narrative_twins.llm.prompts import AnswerError, Schema
from narrative_twins.llm.server import Question, Server, estimate_tokens, seed_of

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a question is asked, by default, until its answer is valid."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Job = TypeVar("Job")


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

    def describe(self, prompt_tokens: int, completion_tokens: int) -> str:
        """These numbers of tokens as text, with their cost if there are prices."""
        words = f"{prompt_tokens:,} tokens in, {completion_tokens:,} out"
        cost = (prompt_tokens * self.input + completion_tokens * self.output) / 1e6
        digits = 2 if cost >= 1 else 4
        return f"{words}, cost {cost:,.{digits}f}" if self.input or self.output else words


@dataclass(frozen=True)
class Step:
    """A question about a story that is asked until its answer is valid.

    Attributes:
        story: the digest of the story.
        name: what the question asks for, for example `"twin, expanded"`.
        prompt: the text of the question.
        schema: the JSON schema of the answer.
        read: makes the result out of the text of an answer, or raises `AnswerError`.
        answer_tokens: an estimate of the length of the answer.
        stand_in: the result in a dry run, of about the length of a real one.
    """

    story: str
    name: str
    prompt: str
    schema: Schema
    read: Callable[[str], Any]
    answer_tokens: int = 0
    stand_in: Any = None


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
    missing: list[Step] | None = None


class Asker:
    """Asks the questions of a run until their answers are valid.

    Args:
        chat: the client.
        attempts: maximum number of answers to a question, each with another seed.

    Attributes:
        missing: in a dry run, the questions without an answer so far, each once.
    """

    def __init__(self, chat: Chat, attempts: int) -> None:
        self.chat, self.attempts = chat, attempts
        self.missing: dict[tuple[str, str], Step] = {}

    async def __call__(self, step: Step) -> Any:
        """The parsed first valid answer to a question; saved answers are tried before new ones are
        requested.

        Raises:
            Rejected: no answer was valid, a request got no answer, or the answer would exceed the
                token limit.
        """
        server = self.chat.server
        if step.answer_tokens > server.limit:
            raise Rejected(
                step.name,
                f"the answer would have about {step.answer_tokens:,} tokens, more than the limit of"
                f" {server.limit:,}; increase max_tokens",
            )
        questions = [
            Question(step.story, step.name, attempt, step.prompt, step.schema, seed)
            for attempt in range(self.attempts)
            for seed in [seed_of(server.seed, step.story, step.name, attempt)]
        ]
        saved = [self.chat.known(question) for question in questions]
        for known in filter(None, saved):
            with suppress(AnswerError):
                return _parse(known, step.read)
        if isinstance(self.chat, DryRun) and None in saved:
            self.missing[step.story, step.name] = step
            return step.stand_in
        problem, answer = "", None
        for question in questions:
            try:
                answer = await self.chat.ask(question)
                return _parse(answer, step.read)
            except AnswerError as error:
                problem = str(error)
            except NoAnswer as error:
                raise Rejected(step.name, str(error), None, question.attempt + 1) from None
        raise Rejected(step.name, problem, answer.text if answer else None, self.attempts)


def _parse(answer: Answer, read: Callable[[str], Any]) -> Any:
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
    work: Callable[[Asker, Job], Awaitable[Any]],
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
    found = Answers(answers)
    with nullcontext() if dry_run else found:
        chat = DryRun(server, found) if dry_run else Chat(server, found)
        asker = Asker(chat, attempts)
        bar = tqdm(total=len(unique), disable=not progress, unit="story", file=sys.stderr)

        def cost() -> str:
            return (prices or Prices()).describe(chat.prompt_tokens, chat.completion_tokens)

        def done() -> None:
            bar.update()
            bar.set_postfix_str(cost())

        try:
            with bar:
                results = _run(_run_all(asker, list(unique.values()), work, done), chat)
            if chat.stopping:
                raise KeyboardInterrupt
        except BaseException:
            logger.warning("the run stopped early, after %d answers, %s", chat.asked, cost())
            raise
    by_key = dict(zip(unique, results, strict=True))
    results = [by_key[key(job)] for job in jobs]
    if not dry_run:
        return Run(results, chat.asked, chat.prompt_tokens, chat.completion_tokens)
    missing = list(asker.missing.values())
    prompt_tokens = sum(estimate_tokens(step.prompt) for step in missing)
    return Run(results, len(missing), prompt_tokens, sum(s.answer_tokens for s in missing), missing)


async def _run_all(
    asker: Asker,
    jobs: Sequence[Job],
    work: Callable[[Asker, Job], Awaitable[Any]],
    done: Callable[[], None],
) -> list[Any]:
    results: list[Any] = [None] * len(jobs)
    # The workers share this iterator, so each job is taken once.
    numbered, chat = iter(enumerate(jobs)), asker.chat

    async def worker() -> None:
        for index, job in numbered:
            try:
                results[index] = await work(asker, job)
            except Rejected as error:
                results[index] = error
            except ChatStopped:
                return
            done()

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


def _run(job: Any, chat: Chat) -> list[Any]:
    """The result of a coroutine; in a thread if an event loop is already running, for example in a
    notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        results: list[Any] = asyncio.run(job)
        return results
    with ThreadPoolExecutor(1) as thread:
        future: Future[list[Any]] = thread.submit(asyncio.run, job)
        try:
            return future.result()
        except KeyboardInterrupt:
            chat.stopping = True
            raise
