"""What a run would ask a language model, and roughly what that would cost, before anything is asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from narrative_twins.making.answers import digest
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
from narrative_twins.making.server import tokens_of


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


def estimate(stories: Iterable[Sequence[Sequence[str]]], recipe: Recipe) -> Estimate:
    """What a run would ask for; equal stories are asked for once.

    Args:
        stories: their windows.
        recipe: what is made of each.
    """
    different = {digest(windows): windows for windows in stories}
    tokens = [one.tokens for windows in different.values() for one in questions_for(windows, recipe)]
    return Estimate(len(tokens), sum(tokens_in for tokens_in, _ in tokens), sum(out for _, out in tokens))


def _asked(name: str, step: Step, answer: Sequence[str], recipe: Recipe) -> Asked:
    prompt = recipe.templates[step.template].fill(step.values)
    return Asked(name, prompt, json.dumps(answer, ensure_ascii=False))
