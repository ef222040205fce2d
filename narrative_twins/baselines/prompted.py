"""Salience scores by prompting a language model: a baseline that the paper uses as the upper
bound."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from narrative_twins.baselines.asking import Asking, ask_stories, parse_stories
from narrative_twins.llm.running import ATTEMPTS, Prices, Rejected
from narrative_twins.llm.server import Server
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.splitting import Splitter
from narrative_twins.stories.story import StoryError, Windows

logger = logging.getLogger(__name__)


def prompted_salience(
    stories: Iterable[Any],
    server: Server,
    answers: str | Path,
    *,
    styles: str | Sequence[str] = "choose",
    samples: int = 10,
    attempts: int = ATTEMPTS,
    prompts: str | Path | None = None,
    windows: Windows = "auto",
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
        styles: one or more of `baselines.styles.STYLES`, which score sentences as:

            - `"choose"`, `prompted_choice`: in how many of `samples` answers the sentence is the
              most important of its window, as annotators are asked: the model sums up the window in
              fewer than 12 words, and chooses the most surprising of the sentences that the summary
              uses.
            - `"rate"`, `prompted_rating`: how likely it is, above 0 and below 1, that somebody else
              who tells the story would include the sentence. Asked once about the story; the paper
              asks this about synopses too.
            - `"choose-loss"`, `prompted_choice_loss`, and `"rate-loss"`, `prompted_rating_loss`:
              the same, with how much the story would lose without the sentence as what is asked.
              Not in the paper.
            - `"shares"`, `prompted_shares`: how many of ten readers would choose the sentence, if
              they were asked as by `"choose"`. Asked once about each window, at a tenth of the
              price of ten samples. Not in the paper.
        samples: number of answers for each window, for the styles that choose; the others are asked
            once.
        attempts: maximum number of attempts to get a valid answer to a question.
        prompts: a folder with templates that replace those of the package; `choose.txt` is that of
            `"choose"`. The complete story is `{{story}}`, its number of sentences `{{count}}`;
            `{{first}}` and `{{last}}` are the numbers of the sentences to choose from.
        windows, splitter: as in `score_stories`.
        on_error: if stories got no scores: `"raise"` an error for the first, after all were asked
            about; or `"skip"` them with a warning.
        prices: for the cost in the progress bar.
        progress: show a progress bar.

    Returns:
        Results as those of `score_stories`, for example for `evaluation.agreement_with_votes`.
        Their `context_tokens`
        is None, since the context of the model is unknown.

    Raises:
        StoryError: a story is invalid, or got no scores.
        ServerError: the server can't be used.
        OSError, ValueError: a prompt or the file of answers can't be read, or an argument is
            invalid.
    """
    asking = Asking(styles, samples, attempts, prompts)
    parsed = parse_stories(stories, windows, splitter)
    run = ask_stories(parsed, server, answers, asking, prices=prices, progress=progress)
    logger.info(
        "%d answers, %s",
        run.asked,
        (prices or Prices()).describe(run.prompt_tokens, run.completion_tokens),
    )
    results = []
    for index, (story, result) in enumerate(zip(parsed, run.results, strict=True)):
        if not isinstance(result, Rejected):
            results.append(
                StorySalience(story, dict(result), context_tokens=None, cut_tokens=0, index=index)
            )
        elif on_error == "raise":
            raise StoryError(f"no scores from the language model: {result}", index)
        else:
            name = str(index + 1) if story.id is None else repr(story.id)
            logger.warning(
                "story %s is skipped: no scores from the language model: %s", name, result
            )
    return results
