"""Recipes for twins and distractors: the sequence of questions about a story, and which answers are
valid.

After "Contrastive Learning with Narrative Twins for Modeling Story Salience" by Sterner, Lascarides
and Keller. The twin of a short story is the story expanded to four times its sentences, in other
words and with additional small events, and then retold from its most important events. A distractor
keeps the surface and has a different main event; the distractor of a synopsis has different turning
points, section by section.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from narrative_twins.files import digest
from narrative_twins.llm.answers import KnownAnswers
from narrative_twins.llm.prompts import Schema, Template, list_schema, read_templates, schema_of
from narrative_twins.llm.running import ATTEMPTS, Rejected, ask_until_valid
from narrative_twins.llm.server import estimate_tokens
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

COLUMNS = ("twin", "negative", "negative_twin")
"""Columns that are made for a short story."""
SECTIONS = 5
"""Windows of a synopsis, each with a turning point."""
LONGEST = 40
"""Maximum number of sentences of a short story."""
EXPANSION = 4
"""Number of sentences of an expansion for each sentence of the story."""

_TEMPLATES = {"stories": ("expand", "retell", "distract"), "synopses": ("distract_sections",)}
RECIPES = tuple(_TEMPLATES)
"""`"stories"`: twins and distractors of short stories; `"synopses"`: distractors of longer ones in
five sections."""


@dataclass(frozen=True)
class Recipe:
    """What is made of each story, and when answers are valid.

    Attributes:
        name: one of `RECIPES`.
        columns: the columns to make, from `COLUMNS`, with `twin`; only for short stories.
        attempts: maximum number of attempts to get a valid answer to a question.
        twin_overlap: maximum word overlap of a twin and its story, from 0 to 1, see
            `checks.overlap`.
        distractor_overlap: minimum word overlap of a distractor and its story, from 0 to 1.
        prompts: a folder of templates that replace those of the package.

    Raises:
        OSError, ValueError: a setting is invalid, or a template can't be read.
    """

    name: str = "stories"
    columns: Sequence[str] = COLUMNS
    attempts: int = ATTEMPTS
    twin_overlap: float = 0.7
    distractor_overlap: float = 0.5
    prompts: str | None = None
    templates: Mapping[str, Template] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.name not in RECIPES:
            raise ValueError(f"unknown recipe {self.name!r}; choose from {', '.join(RECIPES)}")
        unknown = [column for column in self.columns if column not in COLUMNS]
        if unknown or not self.columns:
            raise ValueError(
                f"columns={list(self.columns)}: must be one or more of {', '.join(COLUMNS)}"
            )
        if "twin" not in self.columns:
            raise ValueError(
                "rows without a twin can't be loaded as narrative twins; add the column twin"
            )
        if "negative_twin" in self.columns and "negative" not in self.columns:
            raise ValueError(
                "the column negative_twin is made from negative; add the column negative"
            )
        if self.attempts < 1:
            raise ValueError(f"attempts={self.attempts}: must be 1 or more")
        for name in ("twin_overlap", "distractor_overlap"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be from 0 to 1")
        templates = read_templates(
            "narrative_twins.making.twins", _TEMPLATES[self.name], self.prompts
        )
        object.__setattr__(self, "templates", templates)


@dataclass(frozen=True)
class Step:
    """A question of a recipe.

    Attributes:
        name: what it makes, for example `"twin, expanded"`.
        template: the name of its prompt template.
        values: the values of the placeholders.
        schema: the JSON schema of the answer.
        answer_tokens: an estimate of the length of the answer.
        read: makes the result out of the text of an answer, or raises `AnswerError`.
        stand_in: a result of about the same length, for estimates of the steps that follow.
        follows: whether its prompt contains the result of an earlier step.
    """

    name: str
    template: str
    values: dict[str, object]
    schema: Schema
    answer_tokens: int
    read: Callable[[str], Any]
    stand_in: Any
    follows: bool = False

    def prompt(self, recipe: Recipe) -> str:
        """The text of the question."""
        return recipe.templates[self.template].fill(self.values)


Steps: TypeAlias = Generator[Step, Any, dict[str, Any]]
"""Yields the questions about a story, is sent the result of each, and returns the columns. Only it
defines the order of the questions: `ask` sends it answers, an estimate sends it stand-ins."""


def recipe_steps(windows: Sequence[Sequence[str]], recipe: Recipe) -> Steps:
    """The questions about a story, whose sentences are in windows; a short story is a single
    window.

    Raises:
        Rejected: the story is too long for the recipe for short stories.
    """
    return (
        _synopsis_steps(windows, recipe)
        if recipe.name == "synopses"
        else _story_steps(windows[0], recipe)
    )


def _story_steps(sentences: Sequence[str], recipe: Recipe) -> Steps:
    if len(sentences) > LONGEST:
        raise Rejected(
            "story",
            f"{len(sentences)} sentences; the recipe for short stories takes at most {LONGEST}",
        )
    columns = {"twin": (yield from _twin_steps("twin", sentences, recipe))}
    if "negative" in recipe.columns:
        columns["negative"] = yield _distract(sentences, recipe)
    if "negative_twin" in recipe.columns:
        columns["negative_twin"] = yield from _twin_steps(
            "negative_twin", columns["negative"], recipe, follows=True
        )
    return columns


def _synopsis_steps(windows: Sequence[Sequence[str]], recipe: Recipe) -> Steps:
    return {"negative": (yield _distract_sections(windows, recipe))}


def _twin_steps(
    column: str, sentences: Sequence[str], recipe: Recipe, follows: bool = False
) -> Generator[Step, Any, list[str]]:
    longer = yield _expand(column, sentences, follows)
    twin: list[str] = yield _retell(column, longer, sentences, recipe)
    return twin


def _expand(column: str, sentences: Sequence[str], follows: bool) -> Step:
    count = EXPANSION * len(sentences)

    def read(text: str) -> list[str]:
        expansion = read_sentences(text, *about(count))
        check_reworded(sentences, expansion)
        return expansion

    longer = list(sentences) * EXPANSION
    return _sentences_step(
        f"{column}, expanded", "expand", sentences, count, about(count), read, longer, follows
    )


def _retell(column: str, longer: Sequence[str], sentences: Sequence[str], recipe: Recipe) -> Step:
    count = len(sentences)

    def read(text: str) -> list[str]:
        twin = read_sentences(text, count, count)
        check_twin(sentences, twin, recipe.twin_overlap)
        return twin

    name = f"{column}, retold"
    return _sentences_step(
        name, "retell", longer, count, (count, count), read, sentences, follows=True
    )


def _distract(sentences: Sequence[str], recipe: Recipe) -> Step:
    count = len(sentences)

    def read(text: str) -> list[str]:
        distractor = read_sentences(text, count, count)
        check_distractor(sentences, distractor, recipe.distractor_overlap)
        return distractor

    return _sentences_step(
        "negative", "distract", sentences, count, (count, count), read, sentences
    )


def _sentences_step(
    name: str,
    template: str,
    sentences: Sequence[str],
    count: int,
    bounds: tuple[int, int],
    read: Callable[[str], list[str]],
    stand_in: Sequence[str],
    follows: bool = False,
) -> Step:
    """A question about sentences, whose answer is a list of about `count` sentences."""
    story = json.dumps(list(sentences), ensure_ascii=False, indent=1)
    schema = schema_of({"sentences": list_schema("string", *bounds)})
    tokens = estimate_tokens(story) * count // len(sentences)
    return Step(
        name,
        template,
        {"story": story, "count": count},
        schema,
        tokens,
        read,
        list(stand_in),
        follows,
    )


def _distract_sections(windows: Sequence[Sequence[str]], recipe: Recipe) -> Step:
    def read(text: str) -> list[list[str]]:
        sections = read_sections(text, [len(window) for window in windows])
        check_sections(windows, sections, recipe.distractor_overlap)
        return sections

    names = section_names(len(windows))
    story = json.dumps(
        dict(zip(names, map(list, windows), strict=True)), ensure_ascii=False, indent=1
    )
    sections = {
        name: list_schema("string", *about(len(window)))
        for name, window in zip(names, windows, strict=True)
    }
    values = {"story": story, "count": sum(map(len, windows))}
    tokens = estimate_tokens(story)
    return Step(
        "negative",
        "distract_sections",
        values,
        schema_of(sections),
        tokens,
        read,
        list(map(list, windows)),
    )


async def ask(
    chat: KnownAnswers, windows: Sequence[Sequence[str]], recipe: Recipe
) -> dict[str, Any]:
    """Ask all questions about a story, and return the columns that the recipe makes.

    Raises:
        Rejected: a question got no valid answer, or the story is too long.
    """
    steps = recipe_steps(windows, recipe)
    try:
        step = next(steps)
        while True:
            step = steps.send(await answer_step(chat, windows, step, recipe))
    except StopIteration as finished:
        columns: dict[str, Any] = finished.value
        return columns


async def answer_step(
    chat: KnownAnswers, windows: Sequence[Sequence[str]], step: Step, recipe: Recipe
) -> Any:
    """The result of a question; raises `Rejected` as `ask_until_valid`, or if the answer would
    exceed the limit."""
    if step.answer_tokens > chat.server.limit:
        raise Rejected(
            step.name,
            f"the answer would have about {step.answer_tokens:,} tokens, more than the limit of"
            f" {chat.server.limit:,}; increase max_tokens",
        )
    # Answers are saved with the digest of the story.
    story = digest(windows if recipe.name == "synopses" else windows[0])
    return await ask_until_valid(
        chat,
        story,
        step.name,
        step.prompt(recipe),
        step.schema,
        step.read,
        attempts=recipe.attempts,
    )
