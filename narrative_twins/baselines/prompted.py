"""A language model that is asked which sentences matter: a baseline, and in the paper the upper bound of salience.

It stands beside the measures of agreement, since it scores stories without an encoder and is there to be compared.
"""

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
"""What the scores of each style are called in a result."""


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
    """The salience of sentences as a language model says it when it is asked.

    Every answer is in a file before the next is asked for: a run that was broken off goes on by the same call.

    Args:
        stories: each in any form that `Story.parse` takes.
        server: the language model. The paper asks at temperature 1.0, the default.
        answers: the file that the answers are kept in.
        styles: `"choose"` asks as an annotator is asked, `samples` times, for the one sentence that matters most; how
            often a sentence was chosen is its score, `prompted_choice`. `"rate"` asks once for a score above 0 and
            below 1 for every sentence, no two of them equal: `prompted_rating`.
        samples: of `"choose"`.
        attempts: a question is asked so often, until an answer holds.
        prompts: a folder with a `choose.txt` or `rate.txt` of your own.
        splitter: as in `score_stories`.
        on_error: `"raise"` an error for the first story that has no scores, once all have been asked for; or `"skip"`
            those with a warning, and leave them out.
        prices: for the progress bar.
        progress: show one.

    Returns:
        Results as those of `score_stories`, for `evaluation.agreement_with_votes` and all else; `context_tokens` is 0,
        since only the server knows how much the model reads at once.

    Raises:
        StoryError: a story is none, or has no scores.
        ServerError: the server can't be used.
        OSError, ValueError: a prompt or the file of answers can't be read; a style is none.
    """
    check_stories(stories)
    if isinstance(styles, str):
        styles = (styles,)
    unknown = [style for style in styles if style not in SCORES]
    if unknown or not styles:
        raise ValueError(f"there is no style {unknown[0] if unknown else ''!r}; there are {', '.join(SCORES)}")
    for name, value in {"samples": samples, "attempts": attempts}.items():
        if value < 1:
            raise ValueError(f"{name}={value}: at least one is needed")
    templates = read_templates("narrative_twins.baselines", styles, prompts)
    parsed = [_parsed(at, story, splitter) for at, story in enumerate(stories)]
    different = {story.sentences: story for story in parsed}

    async def work(chat: ChatLike, story: Story) -> dict[str, list[float]]:
        scores = {}
        for style in styles:
            if style == "choose":
                scores[SCORES[style]] = await _chosen(chat, story, templates[style], samples, attempts)
            else:
                scores[SCORES[style]] = await _rated(chat, story, templates[style], attempts)
        return scores

    run = run_jobs(server, answers, list(different.values()), work, prices=prices, progress=progress)
    logger.info("%d answers, %s", run.asked, (prices or Prices()).told(run.prompt_tokens, run.completion_tokens))
    found = dict(zip(different, run.results, strict=True))
    results = []
    for at, story in enumerate(parsed):
        scores = found[story.sentences]
        if not isinstance(scores, Rejected):
            results.append(StorySalience(story, dict(scores), context_tokens=0, cut_tokens=0, index=at))
        elif on_error == "raise":
            raise StoryError(f"the language model gave no scores; {scores}", at)
        else:
            called = str(at) if parsed[at].id is None else repr(parsed[at].id)
            logger.warning("story %s is left out: the language model gave no scores; %s", called, scores)
    return results


def _parsed(at: int, story: Any, splitter: Splitter | None) -> Story:
    try:
        return Story.parse(story, splitter=splitter)
    except StoryError as error:
        raise StoryError(error.problem, at) from None


async def _chosen(chat: ChatLike, story: Story, template: Template, samples: int, attempts: int) -> list[float]:
    """How often each sentence was chosen."""
    count = len(story)

    async def choice(sample: int) -> int:
        step = f"choose, sample {sample}"
        schema = schema_of({"sentence": {"type": "integer", "minimum": 1, "maximum": count}})
        chosen = await ask_until_valid(
            chat,
            digest(story.sentences),
            step,
            _prompt(template, story),
            schema,
            lambda t: read_choice(t, count),
            attempts,
        )
        return chosen

    chosen = await asyncio.gather(*map(choice, range(samples)), return_exceptions=True)
    problems = [one for one in chosen if isinstance(one, BaseException)]
    if problems:
        # That no server is there says more than that one sample got no answer.
        raise min(problems, key=lambda problem: isinstance(problem, Rejected))
    return list(map(float, vote_counts([one for one in chosen if isinstance(one, int)], count)))


async def _rated(chat: ChatLike, story: Story, template: Template, attempts: int) -> list[float]:
    """The score of each sentence."""
    count = len(story)
    schema = schema_of({"scores": list_schema("number", count)})
    scores = await ask_until_valid(
        chat,
        digest(story.sentences),
        "rate",
        _prompt(template, story),
        schema,
        lambda t: read_scores(t, count),
        attempts,
    )
    return scores


def _prompt(template: Template, story: Story) -> str:
    lines = [f"{number}. {' '.join(sentence.split())}" for number, sentence in enumerate(story.sentences, start=1)]
    return template.fill({"story": "\n".join(lines), "count": len(story)})


def read_choice(text: str, sentences: int) -> int:
    """The sentence that an answer chose, counted from 1.

    Raises:
        AnswerError: it chose none of them.
    """
    (chosen,) = read_object(text, ["sentence"])
    if type(chosen) is not int or not 1 <= chosen <= sentences:
        raise AnswerError(f"its choice is {chosen!r:.40}; a whole number from 1 to {sentences} is needed")
    return chosen


def read_scores(text: str, sentences: int) -> list[float]:
    """The scores of an answer, one for each sentence.

    Raises:
        AnswerError: they are not as many, not between 0 and 1, or not all different.
    """
    (scores,) = read_object(text, ["scores"])
    if not isinstance(scores, list) or len(scores) != sentences:
        found = f"{len(scores)} score(s)" if isinstance(scores, list) else type(scores).__name__
        raise AnswerError(f"it has {found}; one for each of {sentences} sentence(s) is needed")
    for score in scores:
        if type(score) is not float or not 0 < score < 1:
            raise AnswerError(f"it has a score {score!r:.40}; numbers above 0 and below 1 are needed")
    if len(set(scores)) < len(scores):
        raise AnswerError("two of its scores are equal")
    return scores
