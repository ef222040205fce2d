"""Rows of stories with votes for their sentences by a language model, for `load_story_salience`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.generated_rows import (
    LICENCE,
    Columns,
    Generated,
    model_settings,
    recipe_text,
    rows_by_model,
)
from narrative_twins.prompting.chat import ATTEMPTS, Chat, Server
from narrative_twins.prompting.prompted import SAMPLES, ask_scores
from narrative_twins.prompting.question_styles import READERS
from narrative_twins.prompting.templates import read_templates
from narrative_twins.stories.story import AUTO_SINGLE, Story, Windows

VotingStyle: TypeAlias = Literal["choose", "shares"]


def make_judgments(
    stories: Iterable[Any],
    server: Server,
    out: str,
    *,
    style: VotingStyle = "choose",
    samples: int = SAMPLES,
    attempts: int = ATTEMPTS,
    prompts: str | Path | None = None,
    windows: Windows = "auto",
    language: str = "en",
    progress: bool = False,
) -> Generated:
    """Have a language model vote for the most important sentences of stories, and write the votes.
    A row has `id` (if the story has one), `story` (its sentences), `windows` (if the story has
    several, or is long) and `votes`, a number for each sentence. Each window has votes of its own.

    Args:
        stories: each in any form that `Story.parse` takes (StoryError if one is invalid).
        style: `"choose"` asks `samples` times about each window for a vote; `"shares"` asks once
            about each window how ten readers would vote. ValueError for others.
        samples: the number of votes for each window, for `"choose"`.
        prompts: a folder with `choose.txt` or `shares.txt`, which replace the package's prompts.
        windows: the windows of stories without their own, as in `score_stories`.
        language: the language of the stories, for the facts.
        server, out, attempts, progress: see `rows_by_model`, which also lists the errors.
    """
    how = {
        "choose": f"{samples:,} times about each window to choose its most important sentence, and"
        " each answer is a vote",
        "shares": f"once about each window how {READERS} readers would vote for its most important"
        " sentence",
    }
    if style not in how or samples < 1:
        raise ValueError(
            f"style={style!r}, samples={samples}: use 'choose' or 'shares', which ask for votes,"
            " and 1 or more samples"
        )
    templates = read_templates([style], prompts)
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

    def ask(chat: Chat, row: Columns) -> Columns:
        """Return the column `votes` for a story, by asking the language model."""
        votes = ask_scores(chat, Story.parse(row), style, templates[style], samples)
        return {"votes": list(map(int, votes))}

    rows = []
    for story in [Story.parse(each, windows) for each in stories]:
        row: Columns = {} if story.id is None else {"id": story.id}
        row["story"] = list(story.sentences)
        # A long story is split by default when its row is read.
        if len(story.windows) > 1 or len(story) > AUTO_SINGLE:
            row["windows"] = [list(window) for window in story.windows]
        rows.append(row)
    return rows_by_model(rows, ask, server, out, facts, attempts, progress)
