"""Recipes for twins and distractors: the sequence of questions about a story, and which answers are
valid. To add a recipe, add a `Recipe` to `RECIPES`.

After "Contrastive Learning with Narrative Twins for Modeling Story Salience" by Sterner, Lascarides
and Keller. The twin of a short story is the story expanded to four times its sentences, in other
words and with additional small events, and then retold from its most important events. A distractor
keeps the surface and has a different main event; the distractor of a synopsis has different turning
points, section by section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from narrative_twins.data.rows import RowError, check_sentences
from narrative_twins.prompting.chat import Question, Rejected
from narrative_twins.prompting.templates import (
    AnswerError,
    answer_form,
    fill,
    list_of,
    read_templates,
)

COLUMNS = ("twin", "negative", "negative_twin")
"""Columns that are made for a short story."""
LONGEST = 40
"""Maximum number of sentences of a short story."""
EXPANSION = 4
"""Number of sentences of an expansion for each sentence of the story."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""A word: a run of letters and digits, or a single Chinese or Japanese character."""

Text: TypeAlias = Sequence[str]
"""Sentences."""
Ask: TypeAlias = Callable[[Question], Any]
"""Asks a question, and returns its result."""


@dataclass(frozen=True)
class Recipe:
    """What can be made of a story.

    Attributes:
        make: asks the questions about a story, whose sentences are in windows, and returns the
            columns; raises `Rejected` for a story that it can't be used for.
        templates: the names of its prompts, see `read_templates`.
        columns: the columns that it makes; of several, `TwinOptions.columns` chooses.
        windows: the number of windows of a story; 1 for a short story.
    """

    make: Callable[[Ask, Sequence[Text], TwinOptions], dict[str, Any]]
    templates: Sequence[str]
    columns: Sequence[str]
    windows: int = 1


@dataclass(frozen=True)
class TwinOptions:
    """What is made of each story, and when answers are valid.

    Attributes:
        recipe: a name in `RECIPES`.
        columns: the columns to make, from `COLUMNS`, with `twin`; only for short stories.
        twin_overlap: maximum word overlap of a twin and its story, from 0 to 1, see `overlap`.
        distractor_overlap: minimum word overlap of a distractor and its story, from 0 to 1.
        prompts: a folder of templates that replace the package's.

    Raises:
        OSError, ValueError: the columns are invalid, or a template can't be read.
    """

    recipe: str = "stories"
    columns: Sequence[str] = COLUMNS
    twin_overlap: float = 0.7
    distractor_overlap: float = 0.5
    prompts: str | None = None
    templates: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        needed = {"twin", "negative"} if "negative_twin" in self.columns else {"twin"}
        if not needed <= set(self.columns):
            raise ValueError(
                f"columns={list(self.columns)}: add twin, without which rows can't be loaded as"
                " narrative twins, and negative, from which negative_twin is made"
            )
        templates = read_templates(RECIPES[self.recipe].templates, self.prompts)
        object.__setattr__(self, "templates", templates)


def _make_of_story(ask: Ask, windows: Sequence[Text], options: TwinOptions) -> dict[str, Any]:
    (story,) = windows
    size = len(story)
    if size > LONGEST:
        raise Rejected(
            "story", f"{size} sentences; the recipe for short stories takes at most {LONGEST}"
        )

    def rewrite(
        step: str, template: str, text: Text, number: int, check: Callable[[Text], None]
    ) -> list[str]:
        """Ask to rewrite a text in a number of sentences that pass a check."""
        bounds = about(number) if template == "expand" else (number, number)
        shown = json.dumps(list(text), ensure_ascii=False, indent=1)
        prompt = fill(options.templates[template], story=shown, count=number)

        def read(answer: Mapping[str, Any]) -> list[str]:
            sentences = read_sentences(answer["sentences"], "sentences")
            check(sentences)
            return sentences

        form = answer_form(sentences=list_of(str, *bounds))
        sentences: list[str] = ask(Question(step, prompt, form, read))
        return sentences

    def twin(column: str, of: Text) -> list[str]:
        check = partial(check_reworded, of)
        longer = rewrite(f"{column}, expanded", "expand", of, EXPANSION * size, check)
        check = partial(check_twin, of, most=options.twin_overlap)
        return rewrite(f"{column}, retold", "retell", longer, size, check)

    columns = {"twin": twin("twin", story)}
    if "negative" in options.columns:
        check = partial(check_distractor, story, least=options.distractor_overlap)
        columns["negative"] = rewrite("negative", "distract", story, size, check)
    if "negative_twin" in options.columns:
        columns["negative_twin"] = twin("negative_twin", columns["negative"])
    return columns


def _make_of_synopsis(ask: Ask, windows: Sequence[Text], options: TwinOptions) -> dict[str, Any]:
    named = {f"section_{number}": list(window) for number, window in enumerate(windows, start=1)}

    def read(answer: Mapping[str, Any]) -> list[list[str]]:
        sections = [read_sentences(answer[name], name) for name in named]
        for (name, window), section in zip(named.items(), sections, strict=True):
            _check_not_copied(window, section, name)
        check_distractor(list(chain(*windows)), list(chain(*sections)), options.distractor_overlap)
        return sections

    story = json.dumps(named, ensure_ascii=False, indent=1)
    template = options.templates["distract_sections"]
    form = {name: list_of(str, *about(len(window))) for name, window in named.items()}
    prompt = fill(template, story=story, count=sum(map(len, windows)))
    return {"negative": ask(Question("negative", prompt, answer_form(**form), read))}


RECIPES: dict[str, Recipe] = {
    "stories": Recipe(_make_of_story, ("expand", "retell", "distract"), COLUMNS),
    "synopses": Recipe(_make_of_synopsis, ("distract_sections",), ("negative",), windows=5),
}
"""The recipes by name: twins and distractors of short stories, and distractors of longer ones in
five sections, each with a turning point. `narrative-twins make twins --recipe` takes each of
them."""


def read_sentences(content: list[str], name: str) -> list[str]:
    """The sentences of a property of an answer; raises `AnswerError` if one is empty."""
    try:
        sentences = check_sentences(content, name, "the answer")
    except RowError as error:
        raise AnswerError(error.problem) from None
    return [" ".join(sentence.split()) for sentence in sentences]


def about(count: int) -> tuple[int, int]:
    """The minimum and maximum number of sentences that are about `count`: half, rounded up, and
    twice as many."""
    return (count + 1) // 2, 2 * count


def overlap(one: Text, other: Text) -> float:
    """The Dice coefficient of the distinct words of two texts, 2 |A ∩ B| / (|A| + |B|); 0 if there
    are no words. Case is ignored."""
    a, b = (set(_WORD.findall(" ".join(text).casefold())) for text in (one, other))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def check_twin(story: Text, twin: Text, most: float) -> None:
    """Raise `AnswerError` if a sentence of a twin is copied or repeated, or its word overlap is
    above `most`."""
    check_reworded(story, twin)
    if len(set(map(_normalize, twin))) < len(twin):
        raise AnswerError("a sentence is repeated")
    if (share := overlap(story, twin)) > most:
        raise AnswerError(f"the word overlap with the story is {share:.2f}, above {most}")


def check_reworded(story: Text, other: Text) -> None:
    """Raise `AnswerError` if a sentence of a text that rewords the story is copied from it."""
    copies = set(map(_normalize, story))
    for number, sentence in enumerate(other, start=1):
        if _normalize(sentence) in copies:
            raise AnswerError(f"sentence {number} is copied from the story")


def check_distractor(story: Text, distractor: Text, least: float) -> None:
    """Raise `AnswerError` if all sentences of a distractor are copied, or its word overlap is below
    `least`."""
    _check_not_copied(story, distractor, "it")
    if (share := overlap(story, distractor)) < least:
        raise AnswerError(f"the word overlap with the story is {share:.2f}, below {least}")


def _check_not_copied(story: Text, text: Text, name: str) -> None:
    if set(map(_normalize, text)) <= set(map(_normalize, story)):
        raise AnswerError(f"{name} is a copy: all its sentences are in the story")


def _normalize(sentence: str) -> str:
    """A sentence without case, punctuation and extra white space, for comparisons."""
    return " ".join(_WORD.findall(sentence.casefold())) or sentence.strip()
