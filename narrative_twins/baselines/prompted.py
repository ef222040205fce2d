"""Salience scores by prompting a language model: a baseline that the paper uses as the upper bound."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from narrative_twins.data.shapes import vote_counts
from narrative_twins.llm.answers import digest
from narrative_twins.llm.json_answers import AnswerError, list_schema, read_object, schema_of
from narrative_twins.llm.running import ChatLike, Prices, Rejected, ask_until_valid, run_jobs
from narrative_twins.llm.server import Server
from narrative_twins.llm.templates import Template, read_templates
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import Story, StoryError, check_stories

logger = logging.getLogger(__name__)

Style: TypeAlias = Literal["choose", "rate"]

SCORES: dict[str, str] = {"choose": "prompted_choice", "rate": "prompted_rating"}
"""The name of the scores of each style in a result."""


def prompted_salience(
    stories: Iterable[Any],
    server: Server,
    answers: str | Path,
    *,
    styles: Style | Sequence[Style] = "choose",
    samples: int = 10,
    attempts: int = 3,
    prompts: str | Path | None = None,
    splitter: Splitter | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    prices: Prices | None = None,
    progress: bool = False,
) -> list[StorySalience]:
    """Salience scores of sentences by a language model.

    Every answer is saved at once, so the same call resumes an interrupted run.

    Args:
        stories: each in any form that `Story.parse` takes.
        server: the language model. The paper uses temperature 1.0, the default.
        answers: the file of the saved answers.
        styles: `"choose"` asks `samples` times for the most important sentence, as annotators are asked; the score of
            a sentence, `prompted_choice`, is the number of times that it was chosen. `"rate"` asks once for a score of
            every sentence, `prompted_rating`, above 0 and below 1 and all different.
        samples: number of answers for `"choose"`.
        attempts: maximum number of attempts to get a valid answer to a question.
        prompts: a folder with a `choose.txt` or `rate.txt` that replaces the prompt of the package.
        splitter: as in `score_stories`.
        on_error: if stories got no scores: `"raise"` an error for the first, after all were asked about; or `"skip"`
            them with a warning.
        prices: for the cost in the progress bar.
        progress: show a progress bar.

    Returns:
        Results as those of `score_stories`, for example for `evaluation.agreement_with_votes`. Their `context_tokens`
        is None, since the context of the model is unknown.

    Raises:
        StoryError: a story is invalid, or got no scores.
        ServerError: the server can't be used.
        OSError, ValueError: a prompt or the file of answers can't be read, or an argument is invalid.
    """
    check_stories(stories)
    if isinstance(styles, str):
        styles = (styles,)
    unknown = [style for style in styles if style not in SCORES]
    if unknown or not styles:
        raise ValueError(f"styles={list(styles)}: must be one or more of {', '.join(SCORES)}")
    for name, value in {"samples": samples, "attempts": attempts}.items():
        if value < 1:
            raise ValueError(f"{name}={value}: must be 1 or more")
    templates = read_templates("narrative_twins.baselines", styles, prompts)
    parsed = [_parse(index, story, splitter) for index, story in enumerate(stories)]
    unique = {story.sentences: story for story in parsed}

    async def work(chat: ChatLike, story: Story) -> dict[str, list[float]]:
        scores = {}
        for style in styles:
            if style == "choose":
                scores[SCORES[style]] = await _choose(chat, story, templates[style], samples, attempts)
            else:
                scores[SCORES[style]] = await _rate(chat, story, templates[style], attempts)
        return scores

    run = run_jobs(server, answers, list(unique.values()), work, prices=prices, progress=progress)
    logger.info("%d answers, %s", run.asked, (prices or Prices()).describe(run.prompt_tokens, run.completion_tokens))
    results_by_story = dict(zip(unique, run.results, strict=True))
    results = []
    for index, story in enumerate(parsed):
        result = results_by_story[story.sentences]
        if not isinstance(result, Rejected):
            results.append(StorySalience(story, dict(result), context_tokens=None, cut_tokens=0, index=index))
        elif on_error == "raise":
            raise StoryError(f"no scores from the language model: {result}", index)
        else:
            name = str(index) if parsed[index].id is None else repr(parsed[index].id)
            logger.warning("story %s is skipped: no scores from the language model: %s", name, result)
    return results


def _parse(index: int, story: Any, splitter: Splitter | None) -> Story:
    try:
        return Story.parse(story, splitter=splitter)
    except StoryError as error:
        raise StoryError(error.problem, index) from None


async def _choose(chat: ChatLike, story: Story, template: Template, samples: int, attempts: int) -> list[float]:
    """The number of times that each sentence was chosen."""
    count = len(story)

    async def choice(sample: int) -> int:
        step = f"choose, sample {sample}"
        schema = schema_of({"sentence": {"type": "integer", "minimum": 1, "maximum": count}})
        chosen = await ask_until_valid(
            chat,
            digest(story.sentences),
            step,
            _fill(template, story),
            schema,
            lambda t: read_choice(t, count),
            attempts,
        )
        return chosen

    chosen = await asyncio.gather(*map(choice, range(samples)), return_exceptions=True)
    errors = [result for result in chosen if isinstance(result, BaseException)]
    if errors:
        # An error of the server goes before a rejected sample, which it may have caused.
        raise min(errors, key=lambda error: isinstance(error, Rejected))
    return list(map(float, vote_counts([result for result in chosen if isinstance(result, int)], count)))


async def _rate(chat: ChatLike, story: Story, template: Template, attempts: int) -> list[float]:
    count = len(story)
    schema = schema_of({"scores": list_schema("number", count)})
    scores = await ask_until_valid(
        chat, digest(story.sentences), "rate", _fill(template, story), schema, lambda t: read_scores(t, count), attempts
    )
    return scores


def _fill(template: Template, story: Story) -> str:
    lines = [f"{number}. {' '.join(sentence.split())}" for number, sentence in enumerate(story.sentences, start=1)]
    return template.fill({"story": "\n".join(lines), "count": len(story)})


def read_choice(text: str, sentences: int) -> int:
    """The number of the sentence that an answer chose, from 1; raises `AnswerError` if it is invalid."""
    (chosen,) = read_object(text, ["sentence"])
    if type(chosen) is not int or not 1 <= chosen <= sentences:
        raise AnswerError(f"the choice {chosen!r:.40} is not an integer from 1 to {sentences}")
    return chosen


def read_scores(text: str, sentences: int) -> list[float]:
    """The scores in an answer; raises `AnswerError` unless they are `sentences` different numbers between 0 and 1."""
    (scores,) = read_object(text, ["scores"])
    if not isinstance(scores, list) or len(scores) != sentences:
        found = f"{len(scores)} score(s)" if isinstance(scores, list) else type(scores).__name__
        raise AnswerError(f"the answer has {found} instead of a list of {sentences} score(s)")
    for score in scores:
        if type(score) is not float or not 0 < score < 1:
            raise AnswerError(f"the score {score!r:.40} is not a number above 0 and below 1")
    if len(set(scores)) < len(scores):
        raise AnswerError("two scores are equal")
    return scores
