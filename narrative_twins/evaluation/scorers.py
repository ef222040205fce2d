"""What is compared: encoders, baselines, language models and results from files; their scores are
saved and not computed again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from narrative_twins.baselines.scorers import BASELINES, EmbeddingBaseline, baseline_scores
from narrative_twins.encoder.loading import encoder_settings
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.labelled import LabelledStories
from narrative_twins.prompting.chat import Server
from narrative_twins.prompting.prompted import prompted_salience
from narrative_twins.prompting.styles import STYLES
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.salience.result import StorySalience, saved_scores
from narrative_twins.stories.reading import stories_in
from narrative_twins.stories.story import Story
from narrative_twins.writing import JsonlLog, complete_lines, digest, file_name

RANDOM_DRAWS = 100
"""How often the baseline `random` is drawn, as in the paper."""


class Scores(NamedTuple):
    """The scores of some stories by one run of a scorer.

    Attributes:
        run: the name of the run, for example the folder of an encoder.
        values: by operation or baseline, for each story one number per sentence, or None if it has
            no scores.
        truncated: the number of stories that did not fit the encoder's context.
        context_tokens: the context of the encoder, if there is one.
    """

    run: str
    values: Mapping[str, Sequence[Sequence[float] | None]]
    truncated: int = 0
    context_tokens: int | None = None


class Scorer(NamedTuple):
    """A scorer: its name in tables, a function from labelled stories to the scores of each run, and
    whether it has operations; a baseline is its only one."""

    name: str
    scores: Callable[[LabelledStories], Iterable[Scores]]
    has_operations: bool = True


@dataclass(frozen=True)
class PromptedScorer:
    """A language model that is asked for salience, see `prompting.prompted_salience`. Stories
    without valid answers are undefined.

    Args:
        name: in tables.
        server: the language model.
        answers: the file of the saved answers; questions that it has answers to are not asked
            again.
        styles: ways to ask.
        options: other options of `prompted_salience`, such as `samples`.
    """

    name: str
    server: Server
    answers: str | Path
    styles: Sequence[str] = ("choose", "rate")
    options: Mapping[str, Any] = field(default_factory=dict)

    def scores(self, data: LabelledStories, progress: Any = False) -> Iterator[Scores]:
        """The scores by each style, as one run. A story without an answer in one style may have one
        in another."""
        options = {"on_error": "skip", "progress": progress, **self.options}
        values: dict[str, list[Sequence[float] | None]] = {}
        for style in self.styles:
            score = STYLES[style].score
            values[score] = [None] * len(data)
            for result in prompted_salience(
                data.stories, self.server, self.answers, styles=style, **options
            ):
                values[score][result.index] = result.scores[score]
        yield Scores(self.server.model, values)


def encoder_runs(
    data: LabelledStories,
    name: str,
    encoders: Sequence[StoryEncoder | str | Path | None],
    *,
    folder: Path | None = None,
    loading: Mapping[str, Any] | None = None,
    **scoring: Any,
) -> Iterator[Scores]:
    """The scores by an encoder, or several of different seeds, each a run.

    Args:
        data: the stories.
        name: of the encoder, for the files of scores.
        encoders: folders, Hub ids or `StoryEncoder`s; None for the default encoder.
        folder: for saved scores, which are not computed again.
        loading: options of `StoryEncoder.from_pretrained`, such as `dtype` or `pooling`.
        scoring: options of `score_stories`, such as `operations`.
    """
    loading = loading or {}
    options = ScoringOptions(**{"on_truncation": "ignore", **scoring})
    settings = {**options.settings(), "precision": str(loading.get("dtype", "auto"))}
    for encoder in encoders:
        run = "default" if encoder is None else None
        if not isinstance(encoder, StoryEncoder):
            encoder = StoryEncoder.from_pretrained(encoder, **loading)
        run = run or str(encoder.model.name_or_path)
        score = partial(score_stories, encoder=encoder, options=options)
        yield _scores(run, data, score, folder, name, settings | _settings_of(encoder))


def baseline_runs(
    data: LabelledStories, name: str, encoder: Any, *, folder: Path | None, progress: Any
) -> Iterator[Scores]:
    """The scores by a registered baseline; `random` is drawn `RANDOM_DRAWS` times. Scores by an
    `encoder` that is no `StoryEncoder` are not saved, since its exact version is not known."""
    draws = RANDOM_DRAWS if name == "random" else 1
    is_saved = isinstance(BASELINES[name], EmbeddingBaseline) and isinstance(encoder, StoryEncoder)
    options = {"baselines": name, "encoder": encoder, "progress": progress and draws == 1}
    for draw in range(draws):
        score = partial(baseline_scores, seed=draw, **options)
        if is_saved:
            yield _scores(name, data, score, folder, name, _settings_of(encoder))
        else:
            yield _scores(name if draws == 1 else f"draw {draw + 1}", data, score)


def saved_runs(data: LabelledStories, files: Sequence[str | Path]) -> Iterator[Scores]:
    """Scores in files of results, such as `narrative-twins score --format jsonl` or a prompted
    model writes them. Each file is a run; stories are matched by their sentences.

    Raises:
        OSError, ValueError: a file can't be read, has lines that are not results, or has scores
            for none of the stories.
    """
    for path in files:
        by_story: dict[tuple[str, ...], dict[str, list[float]]] = {}
        with open(path, "rb") as file:
            for where, row, problem in stories_in(file, str(path), "jsonl"):
                try:
                    scores = saved_scores(row["scores"], len(row["sentences"]))
                    by_story[tuple(row["sentences"])] = scores
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{where}, is not a result with 'sentences' and 'scores':"
                        f" {problem or error}"
                    ) from None
        rows = [by_story.get(story.sentences, {}) for story in data.stories]
        names = dict.fromkeys(name for scores in rows for name in scores)
        if not names:
            raise ValueError(f"{path} has scores for none of the stories of {data.name}")
        yield Scores(str(path), {name: [scores.get(name) for scores in rows] for name in names})


def _scores(
    run: str,
    data: LabelledStories,
    score: Callable[[Sequence[Story]], Iterable[StorySalience]],
    folder: Path | None = None,
    name: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Scores:
    """The scores of a run by the function `score`. With a folder they are saved as JSON Lines in a
    file that is named by `name` and a digest of the `settings` that they depend on; a complete file
    is not computed again, and an interrupted run is resumed from its log."""
    rows: list[dict[str, Any]] = []
    if folder is None:
        rows += (result.json() for result in score(data.stories))
    else:
        settings = {"stories": data.digest, **(settings or {})}
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{file_name(f'{data.name}-{name}')}-{digest(settings)[:12]}.jsonl"
        if path.exists():
            rows += map(json.loads, complete_lines(str(path)))
        else:
            with JsonlLog(path.with_suffix(".log"), settings) as log:
                rows += log.rows
                for result in score(data.stories[len(rows) :]):
                    rows.append(result.json())
                    log.append(rows[-1])
            log.complete(path)
    return Scores(
        run,
        {operation: [row["scores"][operation] for row in rows] for operation in rows[0]["scores"]},
        truncated=sum(row["truncated"] for row in rows),
        context_tokens=rows[0]["context_tokens"],
    )


def _settings_of(encoder: StoryEncoder) -> dict[str, Any]:
    """What the vectors of an encoder depend on, as JSON data."""
    return {**encoder_settings(encoder.model.name_or_path, encoder), "pooling": encoder.pooling}
