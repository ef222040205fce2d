"""Votes for the sentences of stories by a language model, as rows to train on, for
`load_story_salience`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from narrative_twins.baselines.prompted import Asking
from narrative_twins.baselines.styles import READERS, STYLES
from narrative_twins.data.loading import load_story_salience
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.llm.chat import ATTEMPTS, Rejected, Server
from narrative_twins.llm.running import Prices
from narrative_twins.making.made import MadeRows, ModelFiles, model_settings, recipe_text
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
    prices: Prices | None = None,
    progress: bool = False,
    dry_run: bool = False,
) -> MadeRows:
    """Have a language model vote for the most important sentences of stories, and write the votes
    as rows.

    Every answer is saved at once in `OUT.answers`, so the same call resumes an interrupted run.
    `OUT` gets the rows, in the order of the stories: `id` (if the story has one), `story` (its
    sentences), `windows` (if it has several, or is long) and `votes`, a number for each sentence;
    those of each window are votes of their own. `OUT.rejects` gets the stories without valid
    answers; neither is written if empty. The facts and the card of the rows are written next
    to them, see `RowsFile`. The model is asked only once about equal stories.

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
        dry_run: send nothing and write nothing, but return the questions that would be asked, see
            `Run`.

    Raises:
        StoryError: a story is invalid.
        ServerError: the server can't be used.
        OSError, ValueError: an argument is invalid, or a file can't be read or written; raised
            before the model is asked.
    """
    if style not in ("choose", "shares"):
        raise ValueError(f"style={style!r}: must be 'choose' or 'shares', which ask for votes")
    asking = Asking(stories, style, samples, attempts, prompts, windows)
    how = (
        f"{samples:,} times about each window to choose its most important sentence, and each"
        " answer is a vote"
        if style == "choose"
        else f"once about each window how {READERS} readers would vote for its most important"
        " sentence"
    )
    settings = {
        "style": style,
        "votes for each window": samples if style == "choose" else READERS,
        "windows": windows if isinstance(windows, int) else str(windows),
        **model_settings(server, asking.templates),
        "attempts": attempts,
    }
    files = ModelFiles(str(out), settings)
    run = asking.run(server, files.answers, prices=prices, progress=progress, dry_run=dry_run)
    votes = [
        result
        if isinstance(result, Rejected)
        else {"votes": [int(count) for count in result[STYLES[style].score]]}
        for result in run.results
    ]
    facts = DatasetFacts(
        name="Judgments of stories by a language model",
        description=(
            "Stories with votes for each of their sentences. The votes are by the language model"
            f" {settings['language model']}, not by people: it was asked {how}."
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
    rows = [_row(story) for story in asking.stories]
    return files.write(rows, replace(run, results=votes), facts, load_story_salience)


def _row(story: Story) -> dict[str, Any]:
    """A story as the columns of a row. The windows of a long story are written even if it is a
    single one, since it is split by default when the row is read."""
    row: dict[str, Any] = {} if story.id is None else {"id": story.id}
    row["story"] = list(story.sentences)
    if len(story.windows) > 1 or len(story) > AUTO_SINGLE:
        row["windows"] = [list(window) for window in story.windows]
    return row
