"""Salience scores by prompting a language model: a baseline that the paper uses as the upper bound.
A style (`question_styles.py`) has the questions about a story, and reads their answers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from narrative_twins.prompting.chat import ATTEMPTS, Chat, Question, Rejected, Server
from narrative_twins.prompting.question_styles import STYLES
from narrative_twins.prompting.templates import fill, read_templates
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.sentences import Splitter
from narrative_twins.stories.story import Story, StoryError, Windows, check_stories

logger = logging.getLogger(__name__)

SAMPLES = 10
"""The default number of answers for each window, as in the paper."""


def prompted_salience(
    stories: Iterable[Any],
    server: Server,
    answers: str | Path,
    *,
    styles: str | Sequence[str] = "choose",
    samples: int = SAMPLES,
    attempts: int = ATTEMPTS,
    prompts: str | Path | None = None,
    windows: Windows = "auto",
    splitter: Splitter | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    progress: bool = False,
) -> list[StorySalience]:
    """Score the sentences of stories by prompting a language model. Every answer is logged at once,
    so the same call resumes an interrupted run.

    Args:
        stories: the stories, each in any form that `Story.parse` takes.
        server: the language model. The paper uses temperature 1.0, the default.
        answers: the log of the answers.
        styles: one or more names in `STYLES`, where their scores are explained.
        samples: number of answers for each window, for the styles that choose.
        attempts: maximum number of attempts to get a valid answer to a question.
        prompts: a folder with templates that replace the package's, such as `choose.txt`.
            The story is `{{story}}`, its number of sentences `{{count}}`; `{{first}}` and
            `{{last}}` are the numbers of the sentences to choose from.
        windows, splitter: as in `score_stories`.
        on_error: for stories without scores: `"raise"` an error for the first of them, after all
            stories were asked about; or `"skip"` them with a warning.
        progress: show a progress bar.

    Returns:
        One result per story, as by `score_stories` but without `context_tokens`.

    Raises:
        StoryError: a story is invalid, or got no scores.
        ServerError: the server can't be used.
        OSError, ValueError: a prompt or the log can't be read, or an argument is invalid.
    """
    names = [styles] if isinstance(styles, str) else list(styles)
    if not names or not set(names) <= set(STYLES) or samples < 1:
        raise ValueError(
            f"styles={names}, samples={samples}: use one or more of {', '.join(STYLES)}, and 1 or"
            " more samples"
        )
    check_stories(stories)
    parsed = []
    for index, story in enumerate(stories):
        try:
            parsed.append(Story.parse(story, windows, splitter))
        except StoryError as error:
            raise StoryError(error.problem, index) from None
    templates = read_templates(names, prompts)

    def scores_of(story: Story) -> dict[str, list[float]]:
        """Return the scores of a story in each style, by their names in a result."""
        return {
            STYLES[name].score: ask_scores(chat, story, name, template, samples)
            for name, template in templates.items()
        }

    with Chat(server, answers, attempts) as chat:
        scored = chat.ask_each(parsed, scores_of, progress)
    logger.info(chat.usage)
    results = []
    for index, (story, scores) in enumerate(zip(parsed, scored, strict=True)):
        if isinstance(scores, Rejected):
            problem = StoryError(f"no scores from the language model: {scores}", index)
            if on_error == "raise":
                raise problem
            logger.warning("skipped %s", problem)
        else:
            results.append(StorySalience(story, scores, index=index))
    return results


def ask_scores(chat: Chat, story: Story, name: str, template: str, samples: int) -> list[float]:
    """Ask about a story in the style `name`, `samples` times if the style is sampled. Return a
    score for each sentence, summed over the answers. Raises `Rejected` or `ServerError`."""
    style = STYLES[name]
    lines = [f"{index + 1}. {' '.join(text.split())}" for index, text in enumerate(story.sentences)]
    total = [0.0] * len(story)
    for windows in [(window,) for window in story.windows] if style.by_window else [story.windows]:
        first, last = windows[0][0], windows[-1][1]
        prompt = fill(
            template, story="\n".join(lines), count=len(story), first=first + 1, last=last
        )
        step = f"{name}, sentences {first + 1} to {last}" if style.by_window else name
        read = partial(style.read, windows=windows)
        for sample in range(samples if style.sampled else 1):
            question = Question(step, prompt, style.form(first, last), read, sample)
            for index, score in enumerate(chat.ask(question), start=first):
                total[index] += score
    return total
