"""Salience scores by prompting a language model: a baseline that the paper uses as the upper bound.
A style (`styles.py`) makes the questions about a story and reads their answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from narrative_twins.baselines.styles import PLACEHOLDERS, STYLES
from narrative_twins.files import digest
from narrative_twins.llm.chat import ATTEMPTS, Chat, Question, Rejected, Server
from narrative_twins.llm.prompts import read_templates
from narrative_twins.llm.running import Prices, Run, run_jobs
from narrative_twins.salience.result import StorySalience
from narrative_twins.stories.sentences import Span, Splitter
from narrative_twins.stories.story import Story, StoryError, Windows, check_stories

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
              the same, but the question is how much the story would lose without the sentence. Not
              in the paper.
            - `"shares"`, `prompted_shares`: how many of ten readers would choose the sentence, if
              they were asked as by `"choose"`. Asked once about each window. Not in the paper.
        samples: number of answers for each window, for the styles that choose.
        attempts: maximum number of attempts to get a valid answer to a question.
        prompts: a folder with templates that replace those of the package, such as `choose.txt`.
            The story is `{{story}}`, its number of sentences `{{count}}`; `{{first}}` and
            `{{last}}` are the numbers of the sentences to choose from.
        windows, splitter: as in `score_stories`.
        on_error: if stories got no scores: `"raise"` an error for the first, after all were asked
            about; or `"skip"` them with a warning.
        prices: for the cost in the progress bar.
        progress: show a progress bar.

    Returns:
        Results like those of `score_stories`, without `context_tokens`.

    Raises:
        StoryError: a story is invalid, or got no scores.
        ServerError: the server can't be used.
        OSError, ValueError: a prompt or the file of answers can't be read, or an argument is
            invalid.
    """
    asking = Asking(stories, styles, samples, attempts, prompts, windows, splitter)
    run = asking.run(server, answers, prices=prices, progress=progress)
    paid = (prices or Prices()).describe(run.prompt_tokens, run.completion_tokens)
    logger.info("%d answers, %s", run.asked, paid)
    results = []
    for index, (story, result) in enumerate(zip(asking.stories, run.results, strict=True)):
        if not isinstance(result, Rejected):
            results.append(StorySalience(story, result, index=index))
            continue
        error = StoryError(f"no scores from the language model: {result}", index)
        if on_error == "raise":
            raise error
        logger.warning("skipped %s", error)
    return results


class Asking:
    """What a language model is asked about stories; the arguments are those of `prompted_salience`.

    Attributes:
        stories: the stories.
        templates: the template of each style.

    Raises:
        StoryError: a story is invalid.
        OSError, ValueError: an argument is invalid, a template can't be read, or one about single
            windows does not say which sentences it is about.
    """

    def __init__(
        self,
        stories: Iterable[Any],
        styles: str | Sequence[str] = "choose",
        samples: int = 10,
        attempts: int = ATTEMPTS,
        prompts: str | Path | None = None,
        windows: Windows = "auto",
        splitter: Splitter | None = None,
    ) -> None:
        names = [styles] if isinstance(styles, str) else list(styles)
        if not names or not set(names) <= set(STYLES):
            raise ValueError(f"styles={names}: must be one or more of {', '.join(STYLES)}")
        for name, value in {"samples": samples, "attempts": attempts}.items():
            if value < 1:
                raise ValueError(f"{name}={value}: must be 1 or more")
        self.samples = samples
        self.attempts = attempts
        self.templates = read_templates("narrative_twins.baselines", names, prompts, PLACEHOLDERS)
        check_stories(stories)
        self.stories: list[Story] = []
        for index, story in enumerate(stories):
            try:
                self.stories.append(Story.parse(story, windows, splitter))
            except StoryError as error:
                raise StoryError(error.problem, index) from None
        if all(len(story.windows) == 1 for story in self.stories):
            return
        for name, template in self.templates.items():
            bounded = "{{first}}" in template.text and "{{last}}" in template.text
            if STYLES[name].by_window and not bounded:
                raise ValueError(
                    f"the prompt {template.name} is about one window of a story at a time, and some"
                    " stories have several; add {{first}} and {{last}}, the numbers of the"
                    " sentences to choose from, or use a single window"
                )

    def run(
        self,
        server: Server,
        answers: str | Path,
        *,
        prices: Prices | None = None,
        progress: bool = False,
        dry_run: bool = False,
    ) -> Run:
        """Ask about all stories; the arguments and errors are those of `run_jobs`. The results are
        the scores of the sentences of each story by the name of the score, or the `Rejected` of a
        story without valid answers."""
        locks: defaultdict[tuple[str, ...], asyncio.Lock] = defaultdict(asyncio.Lock)

        async def work(chat: Chat, story: Story) -> dict[str, list[float]]:
            # The same sentences in other windows have questions in common, which are asked once.
            async with locks[story.sentences]:
                return {
                    STYLES[name].score: await self._scores(chat, story, name)
                    for name in self.templates
                }

        return run_jobs(
            server,
            answers,
            self.stories,
            work,
            key=lambda story: (story.sentences, story.windows),
            attempts=self.attempts,
            prices=prices,
            progress=progress,
            dry_run=dry_run,
        )

    async def _scores(self, chat: Chat, story: Story, name: str) -> list[float]:
        """The scores of all sentences of a story: the sums over the answers to all questions of a
        style."""
        style, template = STYLES[name], self.templates[name]
        lines = [
            f"{number}. {' '.join(sentence.split())}"
            for number, sentence in enumerate(story.sentences, start=1)
        ]
        values = {"story": "\n".join(lines), "count": len(story)}

        def question(step: str, windows: Sequence[Span]) -> Question:
            count = sum(hi - lo for lo, hi in windows)
            return Question(
                digest(story.sentences),
                step,
                template.fill({**values, "first": windows[0][0] + 1, "last": windows[-1][1]}),
                style.schema(windows),
                lambda text: style.read(text, windows),
                # Estimated: a short summary, and two for each number of votes.
                answer_tokens=30 + (0 if style.sampled else count * 2),
                stand_in=[0.0] * count,
            )

        questions = style.questions(story, self.samples)
        answers: list[Any] = await asyncio.gather(
            *(chat.ask(question(*given)) for given in questions), return_exceptions=True
        )
        errors = [found for found in answers if isinstance(found, BaseException)]
        if errors:
            # An error of the server goes before a rejected question, which it may have caused.
            raise min(errors, key=lambda error: isinstance(error, Rejected))
        total = [0.0] * len(story)
        for (_, windows), scores in zip(questions, answers, strict=True):
            for index, score in enumerate(scores, start=windows[0][0]):
                total[index] += score
        return total
