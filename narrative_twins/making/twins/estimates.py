"""What a run would ask a language model, and about how much that would cost, before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from narrative_twins.llm.answers import Answer, Answers, digest
from narrative_twins.llm.running import Rejected
from narrative_twins.llm.server import Question, Server, estimate_tokens
from narrative_twins.making.twins.make import SourceStory
from narrative_twins.making.twins.recipes import Recipe, Step, answer_step, recipe_steps


class PlannedQuestion(NamedTuple):
    """A question that would be asked.

    Attributes:
        step: the step of the recipe.
        prompt: the question in words.
        is_stand_in: whether the prompt contains the story in place of an answer that is not there yet.
    """

    step: Step
    prompt: str
    is_stand_in: bool


class Estimate(NamedTuple):
    """The questions that a run would ask, if no answer was invalid, and about how many tokens; and how many stories
    would be set aside without another question."""

    questions: int
    prompt_tokens: int
    completion_tokens: int
    aside: int


def planned_questions(
    windows: Sequence[Sequence[str]], recipe: Recipe, server: Server, answers: Answers | None = None
) -> list[PlannedQuestion]:
    """The questions about a story that are not answered yet, in order.

    Args:
        windows: the sentences of the story, see `recipe_steps`.
        recipe: the recipe.
        server: the server that would be asked; nothing is sent.
        answers: the answers so far; None for none.

    Raises:
        Rejected: the story would be set aside without another question.
    """
    chat, steps = _KnownAnswers(server, answers), recipe_steps(windows, recipe)
    questions: list[PlannedQuestion] = []
    try:
        step = next(steps)
        while True:
            try:
                result = _result(chat, windows, step, recipe)
            except _MissingAnswer:
                is_stand_in = step.follows and bool(questions)
                questions.append(PlannedQuestion(step, step.prompt(recipe), is_stand_in))
                result = step.stand_in
            step = steps.send(result)
    except StopIteration:
        return questions


def estimate(sources: Iterable[SourceStory], recipe: Recipe, server: Server, answers: Answers) -> Estimate:
    """What a run would ask. Equal stories are asked about once, and answered questions are not asked again.

    Args:
        sources: the stories.
        recipe, server, answers: see `planned_questions`.
    """
    questions: list[PlannedQuestion] = []
    aside = 0
    for source in {digest(source.windows): source for source in sources}.values():
        try:
            questions += planned_questions(source.windows, recipe, server, answers)
        except Rejected:
            aside += 1
    return Estimate(
        len(questions),
        sum(estimate_tokens(question.prompt) for question in questions),
        sum(question.step.answer_tokens for question in questions),
        aside,
    )


class _MissingAnswer(Exception):
    """There is no answer to a question yet."""


class _KnownAnswers:
    """Stands for a `Chat`, and has only the answers that are known."""

    def __init__(self, server: Server, answers: Answers | None) -> None:
        self.server, self.answers = server, answers

    def known(self, question: Question) -> Answer | None:
        """The answer, if there is one."""
        return None if self.answers is None else self.answers.get(self.server.key_of(question), self.server.limit)

    async def ask(self, question: Question) -> Answer:
        """The answer.

        Raises:
            _MissingAnswer: there is none.
        """
        answer = self.known(question)
        if answer is None:
            raise _MissingAnswer
        return answer


def _result(chat: _KnownAnswers, windows: Sequence[Sequence[str]], step: Step, recipe: Recipe) -> Any:
    """The result of a step from the known answers."""
    try:
        # The coroutine never waits for anything, so it needs no event loop.
        answer_step(chat, windows, step, recipe).send(None)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("known answers are not waited for")
