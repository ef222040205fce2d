"""What a run would ask a language model, and roughly what that would cost, before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from narrative_twins.llm.answers import Answer, Answers, digest
from narrative_twins.llm.running import Rejected
from narrative_twins.llm.server import Question, Server, tokens_of
from narrative_twins.making.twins.make import Source
from narrative_twins.making.twins.recipes import (
    EXPANSION,
    LONGEST,
    Recipe,
    Step,
    distracting,
    distracting_sections,
    expanding,
    retelling,
)


class Asked(NamedTuple):
    """A question that would be asked.

    Attributes:
        step: what for.
        prompt: in what words.
        answer_tokens: roughly how many would come out.
        stand_in: whether it is of an answer that is not there yet, such as an expansion, for which the story stands.
    """

    step: str
    prompt: str
    answer_tokens: int
    stand_in: bool = False

    @property
    def tokens(self) -> tuple[int, int]:
        """Roughly how many would go in and come out."""
        return tokens_of(self.prompt), self.answer_tokens


class Estimate(NamedTuple):
    """How many questions a run would ask, if none had to be asked twice, and roughly how many tokens; and how many
    stories would be set aside without another question."""

    questions: int
    prompt_tokens: int
    completion_tokens: int
    aside: int


def questions_for(windows: Sequence[Sequence[str]], recipe: Recipe) -> list[Asked]:
    """The questions for a story, in order."""
    story = [sentence for window in windows for sentence in window]
    if recipe.name == "synopses":
        return [_asked("negative", distracting_sections(windows), recipe)]
    if len(story) > LONGEST:
        return []
    longer = story * EXPANSION
    asked = []
    for column in recipe.columns:
        if column == "negative":
            asked.append(_asked(column, distracting(story), recipe))
        else:
            expanded = _asked(f"{column}, expanded", expanding(story), recipe)
            asked.append(expanded._replace(stand_in=column != "twin"))
            retold = _asked(f"{column}, retold", retelling(longer, len(story)), recipe)
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
    tokens, aside = [], 0
    for source in different.values():
        try:
            # Nothing is waited for, so it needs no loop.
            source.made(known, recipe).send(None)
        except _Missing as missing:
            asked = questions_for(source.windows, recipe)
            tokens += [one.tokens for one in asked[[one.step for one in asked].index(str(missing)) :]]
        except Rejected:
            aside += 1
        except StopIteration:
            pass
    return Estimate(len(tokens), sum(tokens_in for tokens_in, _ in tokens), sum(out for _, out in tokens), aside)


class _Missing(Exception):
    """An answer is not there; says of which step."""


class _Known:
    """The answers there are, in the place of who is asked for more."""

    def __init__(self, server: Server, answers: Answers) -> None:
        self.server, self.answers = server, answers

    def known(self, question: Question) -> Answer | None:
        """The answer that there is."""
        return self.answers.get(self.server.key_of(question), self.server.limit)

    async def ask(self, question: Question) -> Answer:
        """The answer, if it is there.

        Raises:
            _Missing: it is not.
        """
        answer = self.known(question)
        if answer is None:
            raise _Missing(question.step)
        return answer


def _asked(name: str, step: Step, recipe: Recipe) -> Asked:
    return Asked(name, recipe.templates[step.template].fill(step.values), step.answer_tokens)
