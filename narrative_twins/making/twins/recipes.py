"""The recipes by which twins and distractors are made of a story: which questions, and what holds as an answer.

After "Contrastive Learning with Narrative Twins for Modeling Story Salience" by Sterner, Lascarides and Keller. The
twin of a short story is the story expanded to four times its sentences, in other words and with further small
events, and then retold from its most important events. A distractor keeps the surface and has another main event; the
distractor of a synopsis has other turning points, section by section.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from narrative_twins.llm.answers import digest
from narrative_twins.llm.json_answers import Schema, list_schema, schema_of
from narrative_twins.llm.running import Asks, Rejected, settled
from narrative_twins.llm.server import tokens_of
from narrative_twins.llm.templates import Template, read_templates
from narrative_twins.making.twins.checks import (
    about,
    check_distractor,
    check_reworded,
    check_sections,
    check_twin,
    read_sections,
    read_sentences,
    section_names,
)

Result = TypeVar("Result")

COLUMNS = ("twin", "negative", "negative_twin")
"""What is made of a short story."""
SECTIONS = 5
"""Windows of a synopsis, each with a turning point."""
LONGEST = 40
"""Sentences of the longest story that is short."""
EXPANSION = 4
"""How many times as many sentences an expansion has."""

_NAMES = {"stories": ("expand", "retell", "distract"), "synopses": ("distract_sections",)}
RECIPES = tuple(_NAMES)
"""`"stories"`: short ones, with twins and distractors; `"synopses"`: distractors of longer stories in five sections."""


@dataclass(frozen=True)
class Recipe:
    """What is made of each story, and what holds.

    Attributes:
        name: one of `RECIPES`.
        columns: of `COLUMNS`, the twin at least; of short stories only.
        attempts: a question is asked so often, until an answer holds.
        twin_overlap: a twin shares at most so much of its words with its story, from 0 to 1.
        distractor_overlap: a distractor shares at least so much of its words with its story, from 0 to 1.
        prompts: a folder of templates that replace those of the package.

    Raises:
        OSError, ValueError: there is no such recipe, column or folder; a prompt is no template; or a number is none.
    """

    name: str = "stories"
    columns: Sequence[str] = COLUMNS
    attempts: int = 3
    twin_overlap: float = 0.7
    distractor_overlap: float = 0.5
    prompts: str | None = None
    templates: Mapping[str, Template] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.name not in RECIPES:
            raise ValueError(f"there is no recipe {self.name!r}; there are {', '.join(RECIPES)}")
        unknown = [column for column in self.columns if column not in COLUMNS]
        if unknown or not self.columns:
            raise ValueError(f"no column {unknown[0] if unknown else ''!r} is made; there are {', '.join(COLUMNS)}")
        if "twin" not in self.columns:
            raise ValueError("rows without a twin are not loaded as narrative twins; ask for the twin, too")
        if "negative_twin" in self.columns and "negative" not in self.columns:
            raise ValueError("a negative_twin is made of a negative; ask for both")
        if self.attempts < 1:
            raise ValueError(f"attempts={self.attempts}: a question is asked once at least")
        for name in ("twin_overlap", "distractor_overlap"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}: a share of the words is from 0 to 1")
        templates = read_templates("narrative_twins.making.twins", _NAMES[self.name], self.prompts)
        object.__setattr__(self, "templates", templates)


class Step(NamedTuple):
    """A question of a recipe.

    Attributes:
        template: the name of its prompt.
        values: what is filled in.
        schema: the JSON schema of the answer.
        answer_tokens: how many tokens the answer is likely to take.
    """

    template: str
    values: dict[str, object]
    schema: Schema
    answer_tokens: int


def expanding(sentences: Sequence[str]) -> Step:
    """The question for an expansion."""
    count = EXPANSION * len(sentences)
    return _step("expand", sentences, count, *about(count))


def retelling(sentences: Sequence[str], count: int) -> Step:
    """The question for a retelling in so many sentences."""
    return _step("retell", sentences, count, count, count)


def distracting(sentences: Sequence[str]) -> Step:
    """The question for a distractor."""
    count = len(sentences)
    return _step("distract", sentences, count, count, count)


def distracting_sections(windows: Sequence[Sequence[str]]) -> Step:
    """The question for a distractor in sections."""
    names = section_names(len(windows))
    story = json.dumps(dict(zip(names, map(list, windows), strict=True)), ensure_ascii=False, indent=1)
    sections = {name: list_schema("string", *about(len(window))) for name, window in zip(names, windows, strict=True)}
    return Step(
        "distract_sections", {"story": story, "count": sum(map(len, windows))}, schema_of(sections), tokens_of(story)
    )


def _step(template: str, sentences: Sequence[str], count: int, least: int, most: int) -> Step:
    story = json.dumps(list(sentences), ensure_ascii=False, indent=1)
    schema = schema_of({"sentences": list_schema("string", least, most)})
    return Step(template, {"story": story, "count": count}, schema, tokens_of(story) * count // len(sentences))


async def made_of_story(chat: Asks, sentences: Sequence[str], recipe: Recipe) -> dict[str, list[str]]:
    """The columns made of a short story.

    Raises:
        Rejected: no answer to one of the questions held, or the story is not short.
    """
    if len(sentences) > LONGEST:
        raise Rejected("story", f"has {len(sentences)} sentences; the recipe for short stories takes {LONGEST} at most")
    made: dict[str, list[str]] = {}
    made["twin"] = await _twin(chat, digest(sentences), "twin", sentences, recipe)
    if "negative" in recipe.columns:
        made["negative"] = await _distractor(chat, digest(sentences), sentences, recipe)
    if "negative_twin" in recipe.columns:
        made["negative_twin"] = await _twin(chat, digest(sentences), "negative_twin", made["negative"], recipe)
    return made


async def made_of_synopsis(chat: Asks, windows: Sequence[Sequence[str]], recipe: Recipe) -> dict[str, Any]:
    """The distractor of a synopsis, in its windows.

    Raises:
        Rejected: no answer held.
    """

    def read(text: str) -> list[list[str]]:
        sections = read_sections(text, [len(window) for window in windows])
        check_sections(windows, sections, recipe.distractor_overlap)
        return sections

    sections = await _settled(chat, digest(windows), "negative", distracting_sections(windows), read, recipe)
    return {"negative": sections}


async def _twin(chat: Asks, story: str, column: str, sentences: Sequence[str], recipe: Recipe) -> list[str]:
    def expansion(text: str) -> list[str]:
        found = read_sentences(text, *about(EXPANSION * len(sentences)))
        check_reworded(sentences, found)
        return found

    def twin(text: str) -> list[str]:
        found = read_sentences(text, len(sentences), len(sentences))
        check_twin(sentences, found, recipe.twin_overlap)
        return found

    longer = await _settled(chat, story, f"{column}, expanded", expanding(sentences), expansion, recipe)
    return await _settled(chat, story, f"{column}, retold", retelling(longer, len(sentences)), twin, recipe)


async def _distractor(chat: Asks, story: str, sentences: Sequence[str], recipe: Recipe) -> list[str]:
    def distractor(text: str) -> list[str]:
        found = read_sentences(text, len(sentences), len(sentences))
        check_distractor(sentences, found, recipe.distractor_overlap)
        return found

    return await _settled(chat, story, "negative", distracting(sentences), distractor, recipe)


async def _settled(
    chat: Asks, story: str, name: str, step: Step, read: Callable[[str], Result], recipe: Recipe
) -> Result:
    """The answer to a step.

    Raises:
        Rejected: as `settled`; or the answer would be longer than answers may be, which is not tried and paid for.
    """
    if step.answer_tokens > chat.server.limit:
        raise Rejected(
            name,
            f"its answer would take some {step.answer_tokens:,} tokens, and {chat.server.limit:,} are allowed; allow "
            "more, by max_tokens",
        )
    prompt = recipe.templates[step.template].fill(step.values)
    return await settled(chat, story, name, prompt, step.schema, read, recipe.attempts)
