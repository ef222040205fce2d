"""What a run would ask a language model: questions are answered from the saved answers, without a
server."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from narrative_twins.llm.answers import Answer, Answers
from narrative_twins.llm.server import Question, Server

Result = TypeVar("Result")


class MissingAnswer(Exception):
    """The question is not answered yet."""


class KnownAnswers:
    """Replaces a `Chat`, but has only the saved answers.

    Args:
        server: the server that would be asked; nothing is sent.
        answers: the saved answers, if there are any.
    """

    def __init__(self, server: Server, answers: Answers | None) -> None:
        self.server, self.answers = server, answers

    def known(self, question: Question) -> Answer | None:
        """The saved answer, if there is one."""
        return (
            None
            if self.answers is None
            else self.answers.get(self.server.key_of(question), self.server.limit)
        )

    async def ask(self, question: Question) -> Answer:
        """The saved answer; raises `MissingAnswer` if there is none."""
        answer = self.known(question)
        if answer is None:
            raise MissingAnswer
        return answer


def result_of(asking: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that asks a single question of `KnownAnswers`; raises
    `MissingAnswer` as `ask`."""
    try:
        # The coroutine never waits for anything, so it needs no event loop.
        asking.send(None)
    except StopIteration as finished:
        result: Result = finished.value
        return result
    raise AssertionError("saved answers are returned at once")
