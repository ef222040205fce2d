"""Votes for the sentences of stories by a language model, as rows to train on, for
`load_story_salience`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from narrative_twins.data.loading import load_story_salience
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.by_model import LICENCE, Generated, model_settings, rows_by_model
from narrative_twins.making.generated import Report, logger, recipe_text
from narrative_twins.prompting.chat import ATTEMPTS, Chat, Server
from narrative_twins.prompting.prompted import ask_scores
from narrative_twins.prompting.styles import READERS
from narrative_twins.prompting.templates import read_templates
from narrative_twins.stories.story import AUTO_SINGLE, Story, Windows

VotingStyle: TypeAlias = Literal["choose", "shares"]


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
    progress: bool = False,
    report: Report = logger.warning,
) -> Generated:
    """Have a language model vote for the most important sentences of stories, and write the votes
    as rows, see `rows_by_model`.

    A row has `id` (if the story has one), `story` (its sentences), `windows` (if it has several, or
    is long) and `votes`, a number for each sentence; each window has votes of its own.

    Args:
        stories: each in any form that `Story.parse` takes.
        server: the language model.
        out: the JSON Lines file to write.
        style: `"choose"`: the model is asked `samples` times about each window, as a reader, and an
            answer is a vote; `"shares"`: it is asked once about each window, how ten readers would
            vote.
        samples: number of answers for each window, for `"choose"`.
        attempts, progress, report: see `rows_by_model`, which also has the errors.
        prompts: a folder with `choose.txt` or `shares.txt`, which replace the package's prompts.
        windows: of stories that have none of their own, as in `score_stories`.
        language: the language of the stories, for the card.

    Raises:
        StoryError: a story is invalid.
        ValueError: an argument is invalid.
    """
    if style not in ("choose", "shares") or samples < 1:
        raise ValueError(
            f"style={style!r}, samples={samples}: use 'choose' or 'shares', which ask for votes,"
            " and 1 or more samples"
        )
    templates = read_templates([style], prompts)
    how = {
        "choose": f"{samples:,} times about each window to choose its most important sentence, and"
        " each answer is a vote",
        "shares": f"once about each window how {READERS} readers would vote for its most important"
        " sentence",
    }
    settings = {
        "style": style,
        "votes for each window": samples if style == "choose" else READERS,
        "windows": windows if isinstance(windows, int) else str(windows),
        **model_settings(server, templates, attempts),
    }
    facts = DatasetFacts(
        name="Judgments of stories by a language model",
        description="Stories with votes for each of their sentences. The votes are by the language"
        f" model {settings['language model']}, not by people: it was asked {how[style]}.",
        source=recipe_text("narrative-twins make judgments", settings),
        limits="No person judged these stories, and the votes were not compared with votes of"
        f" people; they are not human labels. {LICENCE}",
        language=language,
        tags=["synthetic"],
    )

    def ask(chat: Chat, row: Mapping[str, Any]) -> dict[str, Any]:
        votes = ask_scores(chat, Story.parse(row), style, templates[style], samples)
        return {"votes": list(map(int, votes))}

    rows = [_row(Story.parse(story, windows)) for story in stories]
    load = load_story_salience
    return rows_by_model(rows, ask, server, str(out), facts, load, attempts, progress, report)


def _row(story: Story) -> dict[str, Any]:
    """A story as the columns of a row. The windows of a long story are written even if it is a
    single one, since it is split by default when the row is read."""
    row: dict[str, Any] = {} if story.id is None else {"id": story.id}
    row["story"] = list(story.sentences)
    if len(story.windows) > 1 or len(story) > AUTO_SINGLE:
        row["windows"] = [list(window) for window in story.windows]
    return row
