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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from narrative_twins.data.rows import RowError, check_sentences
from narrative_twins.files import digest
from narrative_twins.llm.chat import ATTEMPTS, Question, Rejected, estimate_tokens
from narrative_twins.llm.prompts import (
    AnswerError,
    Template,
    list_schema,
    read_object,
    read_templates,
    schema_of,
)

COLUMNS = ("twin", "negative", "negative_twin")
"""Columns that are made for a short story."""
LONGEST = 40
"""Maximum number of sentences of a short story."""
EXPANSION = 4
"""Number of sentences of an expansion for each sentence of the story."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""A word: a run of letters and digits, or a single Chinese or Japanese character."""
_EXAMPLE = ("first sentence", "second sentence")
"""The sentences of the example answer in the prompts."""


Ask: TypeAlias = Callable[[Question], Awaitable[Any]]
"""Asks a question, and returns its result."""


@dataclass(frozen=True)
class Recipe:
    """What can be made of a story.

    Attributes:
        make: asks the questions about a story, whose sentences are in windows, and returns the
            columns; raises `Rejected` for a story that it can't be used for.
        templates: the names of its prompts, which are files `prompts/NAME.txt`.
        columns: the columns that it makes; of several, `TwinOptions.columns` chooses.
        windows: the number of windows of a story; 1 for a short story.
        made: what it makes, in words, for the card; by default the names of the columns.
    """

    make: Callable[[Ask, Sequence[Sequence[str]], TwinOptions], Awaitable[dict[str, Any]]]
    templates: Sequence[str]
    columns: Sequence[str]
    windows: int = 1
    made: str = ""


@dataclass(frozen=True)
class TwinOptions:
    """What is made of each story, and when answers are valid.

    Attributes:
        recipe: a name in `RECIPES`.
        columns: the columns to make, from `COLUMNS`, with `twin`; only for short stories.
        attempts: maximum number of attempts to get a valid answer to a question.
        twin_overlap: maximum word overlap of a twin and its story, from 0 to 1, see `overlap`.
        distractor_overlap: minimum word overlap of a distractor and its story, from 0 to 1.
        prompts: a folder of templates that replace those of the package.

    Raises:
        OSError, ValueError: the columns are invalid, or a template can't be read.
    """

    recipe: str = "stories"
    columns: Sequence[str] = COLUMNS
    attempts: int = ATTEMPTS
    twin_overlap: float = 0.7
    distractor_overlap: float = 0.5
    prompts: str | None = None
    templates: Mapping[str, Template] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if "twin" not in self.columns:
            raise ValueError(
                "rows without a twin can't be loaded as narrative twins; add the column twin"
            )
        if "negative_twin" in self.columns and "negative" not in self.columns:
            raise ValueError(
                "the column negative_twin is made from negative; add the column negative"
            )
        names = RECIPES[self.recipe].templates
        templates = read_templates("narrative_twins.making", names, self.prompts)
        object.__setattr__(self, "templates", templates)


async def _make_of_story(
    ask: Ask, windows: Sequence[Sequence[str]], options: TwinOptions
) -> dict[str, Any]:
    (story,) = windows
    count = len(story)
    if count > LONGEST:
        raise Rejected(
            "story", f"{count} sentences; the recipe for short stories takes at most {LONGEST}"
        )

    async def sentences(
        step: str,
        template: str,
        text: Sequence[str],
        stand_in: Sequence[str],
        bounds: tuple[int, int],
        check: Callable[[list[str]], None],
    ) -> list[str]:
        """Ask to rewrite a text; the answer is a list of sentences that passes a check."""

        def read(content: str) -> list[str]:
            answer = read_sentences(content, *bounds)
            check(answer)
            return answer

        shown = json.dumps(list(text), ensure_ascii=False, indent=1)
        prompt = options.templates[template].fill({"story": shown, "count": len(stand_in)})
        schema = schema_of({"sentences": list_schema("string", *bounds)})
        tokens = estimate_tokens(shown) * len(stand_in) // len(text)
        question = Question(digest(story), step, prompt, schema, read, tokens, list(stand_in))
        answer: list[str] = await ask(question)
        return answer

    async def twin(column: str, of: Sequence[str]) -> list[str]:
        longer = await sentences(
            f"{column}, expanded",
            "expand",
            of,
            list(of) * EXPANSION,
            about(EXPANSION * count),
            partial(check_reworded, of),
        )
        check = partial(check_twin, of, most=options.twin_overlap)
        return await sentences(f"{column}, retold", "retell", longer, of, (count, count), check)

    columns = {"twin": await twin("twin", story)}
    if "negative" in options.columns:
        check = partial(check_distractor, story, least=options.distractor_overlap)
        columns["negative"] = await sentences(
            "negative", "distract", story, story, (count, count), check
        )
    if "negative_twin" in options.columns:
        columns["negative_twin"] = await twin("negative_twin", columns["negative"])
    return columns


async def _make_of_synopsis(
    ask: Ask, windows: Sequence[Sequence[str]], options: TwinOptions
) -> dict[str, Any]:
    named = {f"section_{number}": list(window) for number, window in enumerate(windows, start=1)}

    def read(text: str) -> list[list[str]]:
        found = read_object(text, list(named))
        sections = []
        for name, window in named.items():
            section = _sentences(found[name], name)
            least, most = about(len(window))
            if not least <= len(section) <= most:
                size = f"{len(section)} sentence(s) instead of about {len(window)}"
                raise AnswerError(f"{name} has {size}")
            _check_not_copied(window, section, name)
            sections.append(section)
        check_distractor(list(chain(*windows)), list(chain(*sections)), options.distractor_overlap)
        return sections

    story = json.dumps(named, ensure_ascii=False, indent=1)
    values = {"story": story, "count": sum(map(len, windows))}
    schema = {name: list_schema("string", *about(len(window))) for name, window in named.items()}
    question = Question(
        digest(windows),
        "negative",
        options.templates["distract_sections"].fill(values),
        schema_of(schema),
        read,
        estimate_tokens(story),
        list(named.values()),
    )
    return {"negative": await ask(question)}


RECIPES: dict[str, Recipe] = {
    "stories": Recipe(_make_of_story, ("expand", "retell", "distract"), COLUMNS),
    "synopses": Recipe(
        _make_of_synopsis,
        ("distract_sections",),
        ("negative",),
        windows=5,
        made="distractors in five sections",
    ),
}
"""The recipes by name: twins and distractors of short stories, and distractors of longer ones in
five sections, each with a turning point. `narrative-twins make twins --recipe` takes each of
them."""


# The checks of answers. Their form is checked too, since servers may ignore the JSON schema of a
# request without an error.


def read_sentences(text: str, least: int, most: int) -> list[str]:
    """The sentences in an answer; raises `AnswerError` unless there are `least` to `most`, not the
    prompt's example."""
    sentences = _sentences(read_object(text, ["sentences"])["sentences"], "sentences")
    if any(_normalize(sentence) in _EXAMPLE for sentence in sentences):
        raise AnswerError("the answer repeats the example in the prompt")
    if not least <= len(sentences) <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise AnswerError(f"the answer has {len(sentences)} sentence(s) instead of {expected}")
    return sentences


def about(count: int) -> tuple[int, int]:
    """The minimum and maximum number of sentences that are about `count`: half, rounded up, and
    twice as many."""
    return (count + 1) // 2, 2 * count


def overlap(one: Sequence[str], other: Sequence[str]) -> float:
    """The Dice coefficient of the distinct words of two texts, 2 |A ∩ B| / (|A| + |B|); 0 if there
    are no words. Case is ignored."""
    a, b = (set(_WORD.findall(" ".join(text).casefold())) for text in (one, other))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def check_twin(story: Sequence[str], twin: Sequence[str], most: float) -> None:
    """Raise `AnswerError` if a sentence of a twin is copied or repeated, or its word overlap is
    above `most`."""
    check_reworded(story, twin)
    if len(set(map(_normalize, twin))) < len(twin):
        raise AnswerError("a sentence is repeated")
    if (share := overlap(story, twin)) > most:
        raise AnswerError(
            "the wording is too close to the story: word overlap"
            f" {share:.2f}, expected at most {most}"
        )


def check_reworded(story: Sequence[str], other: Sequence[str]) -> None:
    """Raise `AnswerError` if a sentence of a text that rewords the story is copied from it."""
    copies = set(map(_normalize, story))
    for number, sentence in enumerate(other, start=1):
        if _normalize(sentence) in copies:
            raise AnswerError(f"sentence {number} is copied from the story")


def check_distractor(story: Sequence[str], distractor: Sequence[str], least: float) -> None:
    """Raise `AnswerError` if all sentences of a distractor are copied, or its word overlap is below
    `least`."""
    _check_not_copied(story, distractor, "it")
    if (share := overlap(story, distractor)) < least:
        raise AnswerError(
            "the wording is too far from the story: word overlap"
            f" {share:.2f}, expected at least {least}"
        )


def _check_not_copied(story: Sequence[str], text: Sequence[str], name: str) -> None:
    if set(map(_normalize, text)) <= set(map(_normalize, story)):
        raise AnswerError(f"{name} is a copy: all its sentences are in the story")


def _normalize(sentence: str) -> str:
    """A sentence without case, punctuation and extra white space, for comparisons."""
    return " ".join(_WORD.findall(sentence.casefold())) or sentence.strip()


def _sentences(content: Any, name: str) -> list[str]:
    try:
        sentences = check_sentences(content, name, "the answer")
    except RowError as error:
        raise AnswerError(error.problem) from None
    return [" ".join(sentence.split()) for sentence in sentences]
