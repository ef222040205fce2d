"""Votes for the sentences of stories by a language model, as rows to train on, for
`load_story_salience`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from narrative_twins.baselines.prompted import Asking, ask_stories, parse_stories, questions
from narrative_twins.baselines.styles import READERS, STYLES
from narrative_twins.data.loading import load_story_salience
from narrative_twins.files import digest
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.llm.answers import Answers, KnownAnswers, MissingAnswer, result_of
from narrative_twins.llm.running import ATTEMPTS, Prices, Rejected
from narrative_twins.llm.server import Server
from narrative_twins.making.made import (
    MadeRows,
    Plan,
    PlannedQuestion,
    RowFiles,
    model_settings,
    recipe_text,
    rejected_row,
    rejected_text,
)
from narrative_twins.stories.story import AUTO_SINGLE, Story, Windows

VotingStyle: TypeAlias = Literal["choose", "shares"]

_SUMMARY_TOKENS, _VOTE_TOKENS = 30, 2
"""Estimates: tokens of an answer with a summary and a choice, and those of each number of votes."""


def make_judgments(
    stories: Iterable[Any],
    server: Server,
    out: str | Path,
    *,
    style: VotingStyle = "choose",
    samples: int = 10,
    attempts: int = ATTEMPTS,
    prompts: str | Path | None = None,
    windows: Windows = "auto",
    language: str = "en",
    prices: Prices | None = None,
    progress: bool = False,
) -> MadeRows:
    """Have a language model vote for the most important sentences of stories, and write the votes
    as rows.

    Every answer is saved at once in `OUT.answers`, so the same call resumes an interrupted run.
    `OUT` gets the rows, in the order of the stories: `id` (if the story has one), `story` (its
    sentences), `windows` (if it has several, or is long) and `votes`, a number for each sentence;
    those of each window are votes of their own. `OUT.rejects` gets the stories without valid
    answers; neither is written if empty. The facts and the card of the rows are written next
    to them, see `narrative_twins.making.made`. The model is asked only once about equal stories.

    Args:
        stories: each in any form that `Story.parse` takes.
        server: the language model.
        out: the JSON Lines file to write.
        style: `"choose"`: the model is asked `samples` times about each window, as a reader, and an
            answer is a vote; `"shares"`: it is asked once about each window, how ten readers would
            vote.
        samples: number of answers for each window, for `"choose"`.
        attempts: maximum number of attempts to get a valid answer to a question.
        prompts: a folder with `choose.txt` or `shares.txt`, which replace those of the package.
        windows: of stories that have none of their own, as in `score_stories`.
        language: the language of the stories, for the card.
        prices: for the cost in the progress bar.
        progress: show a progress bar.

    Raises:
        StoryError: a story is invalid.
        ServerError: the server can't be used.
        OSError, ValueError: an argument is invalid, or a file can't be read or written; raised
            before the model is asked.
    """
    asking = voting(style, samples, attempts, prompts)
    parsed = parse_stories(stories, windows)
    asking.check_stories(parsed)
    settings = _settings(server, style, asking, windows)
    files = RowFiles(str(out), settings)
    run = ask_stories(parsed, server, f"{out}.answers", asking, prices=prices, progress=progress)
    rows: list[dict[str, Any]] = []
    rejects: list[dict[str, Any]] = []
    for story, result in zip(parsed, run.results, strict=True):
        if isinstance(result, Rejected):
            rejects.append(rejected_row(_row(story), result))
        else:
            rows.append(
                {**_row(story), "votes": [int(votes) for votes in result[STYLES[style].score]]}
            )
    made = MadeRows(rows, rejects, run, _facts(settings, style, samples, rows, rejects, language))
    files.write(made, load_story_salience)
    return made


def voting(style: VotingStyle, samples: int, attempts: int, prompts: str | Path | None) -> Asking:
    """How a language model is asked for votes; raises `OSError` or `ValueError` as
    `make_judgments`."""
    if style not in ("choose", "shares"):
        raise ValueError(f"style={style!r}: must be 'choose' or 'shares', which ask for votes")
    return Asking(style, samples, attempts, prompts)


def _row(story: Story) -> dict[str, Any]:
    """A story as the columns of a row. The windows of a long story are written even if it is a
    single one, since it is split by default when the row is read."""
    row: dict[str, Any] = {} if story.id is None else {"id": story.id}
    row["story"] = list(story.sentences)
    if len(story.windows) > 1 or len(story) > AUTO_SINGLE:
        row["windows"] = [list(window) for window in story.windows]
    return row


def _settings(
    server: Server, style: VotingStyle, asking: Asking, windows: Windows
) -> dict[str, Any]:
    """All settings that the rows depend on; also shown on the card."""
    settings: dict[str, Any] = {"style": style}
    if style == "choose":
        settings["answers for each window"] = asking.samples
    else:
        settings["votes for each window"] = READERS
    settings["windows"] = windows if isinstance(windows, int) else str(windows)
    return settings | model_settings(server, asking.templates) | {"attempts": asking.attempts}


def _facts(
    settings: Mapping[str, Any],
    style: VotingStyle,
    samples: int,
    rows: Sequence[Mapping[str, Any]],
    rejects: Sequence[Mapping[str, Any]],
    language: str,
) -> DatasetFacts:
    model = settings["language model"]
    asked = (
        f"{samples:,} times about each window to choose its most important sentence, and each"
        " answer is a vote"
        if style == "choose"
        else (
            f"once about each window how {READERS} readers would vote for its most important"
            " sentence"
        )
    )
    temperature = settings["fields of a request"].get("temperature")
    at = "" if temperature is None else f", at temperature {temperature}"
    return DatasetFacts(
        name="Judgments of stories by a language model",
        description=(
            "Stories with votes for each of their sentences. The votes are by the language model"
            f" {model}, not by people: it was asked {asked}{at}. Of {len(rows) + len(rejects):,}"
            f" stories {len(rows):,} have a row and {rejected_text(rejects)}."
        ),
        source=recipe_text("narrative-twins make judgments", settings),
        limits=(
            "No person judged these stories, and the votes were not compared with those of people;"
            " they are not human labels. The licence of the stories also applies to the rows, and"
            " the terms of the model may add restrictions."
        ),
        language=language,
        tags=["synthetic"],
    )


def plan_judgments(
    story: Story, server: Server, asking: Asking, answers: Answers | None = None
) -> Plan:
    """What `make_judgments` would ask about a story; nothing is sent.

    Args:
        story: the story.
        server: the server that would be asked.
        asking: how it is asked.
        answers: the saved answers, if there are any.
    """
    chat, is_rejected = KnownAnswers(server, answers), False
    planned: list[PlannedQuestion] = []
    for name in asking.templates:
        for question in questions(story, name, asking):
            try:
                result_of(question.ask(chat))
            except MissingAnswer:
                votes = sum(hi - lo for lo, hi in question.windows)
                tokens = _SUMMARY_TOKENS + (0 if question.style.sampled else votes * _VOTE_TOKENS)
                planned.append(
                    PlannedQuestion(digest(story.sentences), question.step, question.prompt, tokens)
                )
            except Rejected:
                # The other questions about the story are asked all the same.
                is_rejected = True
    return Plan(planned, is_rejected)
