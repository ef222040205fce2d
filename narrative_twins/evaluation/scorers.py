"""Scorers to compare: encoders, whose scores are saved and not computed again, baselines, and
results from files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from narrative_twins.baselines.scorers import BASELINES, EmbeddingBaseline, baseline_scores
from narrative_twins.encoder.loading import encoder_settings
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.labelled_stories import LabelledStories
from narrative_twins.salience.engine import score_stories
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.salience.result import saved_scores
from narrative_twins.stories.reading import rows_in
from narrative_twins.writing import JsonlLog, digest, file_name

RANDOM_DRAWS = 100
"""The number of draws of the baseline `random`, as in the paper."""


class Scores(NamedTuple):
    """The scores of some stories by one run of a scorer.

    Attributes:
        run: the name of the run, for example the folder of an encoder.
        values: by operation (an empty name for a baseline), the scores of each story, one number
            per sentence; None for a story without scores.
        truncated: the number of stories that did not fit the encoder's context.
        context_tokens: the context of the encoder; None for other scorers.
    """

    run: str
    values: Mapping[str, Sequence[Sequence[float] | None]]
    truncated: int = 0
    context_tokens: int | None = None


Scorer: TypeAlias = Callable[[LabelledStories], Iterable[Scores]]
"""A function from labelled stories to the scores of each run."""


def encoder_runs(
    data: LabelledStories,
    name: str,
    encoders: Sequence[StoryEncoder | str | Path | None],
    *,
    folder: Path | None = None,
    loading: Mapping[str, Any] | None = None,
    options: ScoringOptions | None = None,
    **fields: Any,
) -> Iterator[Scores]:
    """Yield the scores by each of `encoders`: the runs of one encoder with different seeds.

    Args:
        data: the stories to score.
        name: the name of the encoder, for the files of scores.
        encoders: folders, Hub ids or `StoryEncoder`s; None for the default encoder.
        folder: the folder of saved scores, which are not computed again; None to save none.
        loading: options of `StoryEncoder.from_pretrained`, such as `dtype` or `pooling`.
        options: the options of scoring; None for the defaults of `ScoringOptions`.
        fields: fields of `ScoringOptions` that differ from `options`, such as `operations`.
    """
    loading = loading or {}
    # Tables say how many stories are truncated.
    options = ScoringOptions.of_call(options, fields, on_truncation="ignore")
    for encoder in encoders:
        run = "default" if encoder is None else None
        if not isinstance(encoder, StoryEncoder):
            encoder = StoryEncoder.from_pretrained(encoder, **loading)
        path = str(encoder.model.name_or_path)
        settings = {
            "stories": digest([[s.sentences, s.windows] for s in data.stories])[:12],
            **options.settings(),
            "precision": str(loading.get("dtype", "auto")),
            **encoder_settings(path, encoder),
            "pooling": encoder.pooling,
        }
        rows = _results(data, name, encoder, options, folder, settings)
        yield Scores(
            run or path,
            {key: [row["scores"][key] for row in rows] for key in rows[0]["scores"]},
            truncated=sum(row["truncated"] for row in rows),
            context_tokens=rows[0]["context_tokens"],
        )


def _results(
    data: LabelledStories,
    name: str,
    encoder: StoryEncoder,
    options: ScoringOptions,
    folder: Path | None,
    settings: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the results of an encoder as JSON data. In `folder` they are saved as JSON Lines, in a
    file named after `data`, `name` and a digest of `settings`. A complete file is read, and nothing
    is scored; an interrupted run is resumed from its log."""
    if folder is None:
        return [result.json() for result in score_stories(data.stories, encoder, options)]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file_name(f'{data.name}-{name}')}-{digest(settings)[:12]}.jsonl"
    if path.exists():
        return JsonlLog(path).rows
    with JsonlLog(path.with_suffix(".log"), settings) as log:
        rows = list(log.rows)
        rest = score_stories(data.stories[len(rows) :], encoder, options)
        for index, result in enumerate(rest, start=len(rows)):
            rows.append(replace(result, index=index, row=index).json())
            log.append(rows[-1])
    log.complete(path)
    return rows


def baseline_scorers(
    names: str | Iterable[str] | None, encoder: Any, loading: Mapping[str, Any], progress: Any
) -> Iterator[tuple[str, Scorer]]:
    """Yield the name and the scorer of each baseline in `names`, see `_baseline_names`. Those that
    embed texts share `encoder`, by default the default encoder; it is loaded if it is a path, with
    device and dtype from `loading`."""
    selected = _baseline_names(names, embed=encoder is not None)
    if not set(selected).isdisjoint(embedding_baselines()) and not hasattr(encoder, "encode"):
        shared = {key: loading[key] for key in ("device", "dtype") if key in loading}
        encoder = StoryEncoder.from_pretrained(encoder, **shared)
    for name in selected:
        yield name, partial(_baseline_runs, name=name, encoder=encoder, progress=progress)


def _baseline_names(names: str | Iterable[str] | None, embed: bool) -> list[str]:
    """Return the names of baselines; None are all, but those that embed texts only with `embed`:
    by the encoder under test they would measure it once more, under another name."""
    if names is None:
        every = [baseline.name for baseline in BASELINES.resolve(None)]
        return every if embed else [name for name in every if name not in embedding_baselines()]
    names = names if isinstance(names, str) else list(names)
    return [baseline.name for baseline in BASELINES.resolve(names)] if names else []


def embedding_baselines() -> list[str]:
    """Return the names of the registered baselines that compare the vectors of texts."""
    return [each.name for each in BASELINES.resolve(None) if isinstance(each, EmbeddingBaseline)]


def _baseline_runs(
    data: LabelledStories, name: str, encoder: Any, progress: Any
) -> Iterator[Scores]:
    """Yield the scores by a registered baseline: one run, or `RANDOM_DRAWS` runs of `random`."""
    draws = RANDOM_DRAWS if name == "random" else 1
    options: Any = {"encoder": encoder, "progress": progress and draws == 1}
    for draw in range(draws):
        results = baseline_scores(data.stories, name, seed=draw, **options)
        values = {"": [result.scores[name] for result in results]}
        yield Scores(name if draws == 1 else f"draw {draw + 1}", values)


def saved_runs(data: LabelledStories, files: Sequence[str | Path]) -> Iterator[Scores]:
    """Yield the scores in each file as a run. A file has results of
    `narrative-twins score --format jsonl`, or votes of `narrative-twins make judgments`. Stories
    are matched by their sentences; a file may lack stories.

    Raises:
        OSError, ValueError: a file can't be read, has lines that are not results, or has scores for
            none of the stories.
    """
    for path in files:
        by_story = _read_scores(path)
        rows = [by_story.get(story.sentences, {}) for story in data.stories]
        names = dict.fromkeys(name for scores in rows for name in scores)
        if not names:
            raise ValueError(f"{path} has scores for none of the stories of {data.name}")
        yield Scores(str(path), {name: [scores.get(name) for scores in rows] for name in names})


def _read_scores(path: str | Path) -> dict[tuple[str, ...], dict[str, list[float]]]:
    """Return the scores in a file by the sentences of the story, see `saved_runs`."""
    by_story = {}
    with open(path, "rb") as file:
        for where, row, problem, *_ in rows_in(file, str(path), "jsonl"):
            try:
                judged = "votes" in row
                sentences = row["story" if judged else "sentences"]
                scores = {"": row["votes"]} if judged else row["scores"]
                by_story[tuple(sentences)] = saved_scores(scores, len(sentences))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{where}, is not a result with 'sentences' and 'scores', nor a judgment"
                    f" with 'story' and 'votes': {problem or error}"
                ) from None
    return by_story
