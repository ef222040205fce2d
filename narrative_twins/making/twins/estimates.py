"""The questions that a run would ask a language model, and an estimate of their tokens, without
asking them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from narrative_twins.files import digest
from narrative_twins.llm.answers import Answers, KnownAnswers, MissingAnswer, result_of
from narrative_twins.llm.running import Rejected
from narrative_twins.llm.server import Server, estimate_tokens
from narrative_twins.making.made import Estimate
from narrative_twins.making.twins.make import SourceStory
from narrative_twins.making.twins.recipes import Recipe, Step, answer_step, recipe_steps


class PlannedQuestion(NamedTuple):
    """A question that would be asked.

    Attributes:
        step: the step of the recipe.
        prompt: the text of the question.
        is_stand_in: whether the prompt contains the story in place of an answer that is still
            missing.
    """

    step: Step
    prompt: str
    is_stand_in: bool


def planned_questions(
    windows: Sequence[Sequence[str]], recipe: Recipe, server: Server, answers: Answers | None = None
) -> list[PlannedQuestion]:
    """The questions about a story that are not answered yet, in order.

    Args:
        windows, recipe: see `recipe_steps`.
        server: the server that would be asked; nothing is sent.
        answers: the saved answers, if there are any.

    Raises:
        Rejected: the story would be rejected without another question.
    """
    chat, steps = KnownAnswers(server, answers), recipe_steps(windows, recipe)
    questions: list[PlannedQuestion] = []
    try:
        step = next(steps)
        while True:
            try:
                result = result_of(answer_step(chat, windows, step, recipe))
            except MissingAnswer:
                is_stand_in = step.follows and bool(questions)
                questions.append(PlannedQuestion(step, step.prompt(recipe), is_stand_in))
                result = step.stand_in
            step = steps.send(result)
    except StopIteration:
        return questions


def estimate(
    sources: Iterable[SourceStory], recipe: Recipe, server: Server, answers: Answers
) -> Estimate:
    """Estimate a run, which asks only once about equal stories, and does not repeat answered
    questions."""
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
