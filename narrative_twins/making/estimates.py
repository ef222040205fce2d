"""What a run would ask a language model, and roughly what that would cost, before anything is asked."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

from narrative_twins.making.answers import Answer, Answers, digest
from narrative_twins.making.recipes import (
    EXPANSION,
    LONGEST,
    Recipe,
    Step,
    distracting,
    distracting_sections,
    expanding,
    retelling,
)
from narrative_twins.making.running import Rejected
from narrative_twins.making.server import Question, Server, tokens_of
from narrative_twins.making.twins import Source


class Asked(NamedTuple):
    """A question that would be asked.

    Attributes:
        step: what for.
        prompt: in what words.
        answer: a text as long as the answer is likely to be.
        stand_in: whether it is of an answer that is not there yet, such as an expansion, for which the story stands.
    """

    step: str
    prompt: str
    answer: str
    stand_in: bool = False

    @property
    def tokens(self) -> tuple[int, int]:
        """Roughly how many would go in and come out."""
        return tokens_of(self.prompt), tokens_of(self.answer)


class Estimate(NamedTuple):
    """How many questions a run would ask, if none had to be asked twice, and roughly how many tokens."""

    questions: int
    prompt_tokens: int
    completion_tokens: int


def questions_for(windows: Sequence[Sequence[str]], recipe: Recipe) -> list[Asked]:
    """The questions for a story, in order."""
    story = [sentence for window in windows for sentence in window]
    if recipe.name == "synopses":
        return [_asked("negative", distracting_sections(windows), story, recipe)]
    if len(story) > LONGEST:
        return []
    longer = story * EXPANSION
    asked = []
    for column in recipe.columns:
        if column == "negative":
            asked.append(_asked(column, distracting(story), story, recipe))
        else:
            expanded = _asked(f"{column}, expanded", expanding(story), longer, recipe)
            asked.append(expanded._replace(stand_in=column != "twin"))
            retold = _asked(f"{column}, retold", retelling(longer, len(story)), story, recipe)
            asked.append(retold._replace(stand_in=True))
    return asked


def estimate(sources: Iterable[Source], recipe: Recipe, server: Server, answers: Answers) -> Estimate:
    """What a run would ask for; equal stories are asked for once, and what is answered is not asked for again.

    Args:
        sources: the stories.
        recipe: what is made of each.
        server: whom the run would ask, and how; nothing is sent.
        answers: those there are.
    """
    different = {digest(source.windows): source for source in sources}
    known = _Known(server, answers)
    tokens = []
    for source in different.values():
        missing = _missing(source.made(known, recipe))
        if missing is not None:
            asked = questions_for(source.windows, recipe)
            tokens += [one.tokens for one in asked[[one.step for one in asked].index(missing) :]]
    return Estimate(len(tokens), sum(tokens_in for tokens_in, _ in tokens), sum(out for _, out in tokens))


class _Missing(Exception):
    """An answer is not there; says of which step."""


class _Known:
    """The answers there are, in the place of who is asked for more."""

    def __init__(self, server: Server, answers: Answers) -> None:
        self.server, self.answers = server, answers

    async def ask(self, question: Question) -> Answer:
        """The answer, if it is there.

        Raises:
            _Missing: it is not.
        """
        answer = self.answers.get(self.server.key_of(question), self.server.max_tokens)
        if answer is None:
            raise _Missing(question.step)
        return answer


def _missing(work: Coroutine[Any, Any, Any]) -> str | None:
    """The first step of a story that has no answer yet; None where it has a row, or is set aside."""
    try:
        # Nothing is waited for, so it needs no loop.
        work.send(None)
    except _Missing as missing:
        return str(missing)
    except (StopIteration, Rejected):
        return None
    raise AssertionError("it waits for something")


def _asked(name: str, step: Step, answer: Sequence[str], recipe: Recipe) -> Asked:
    prompt = recipe.templates[step.template].fill(step.values)
    return Asked(name, prompt, json.dumps(answer, ensure_ascii=False))
