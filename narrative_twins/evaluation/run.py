"""`evaluate`: reads labelled stories, scores them, measures agreement, and compares encoders,
operations, baselines and people (how well annotators agree with each other)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from narrative_twins.data.sources import DataSource
from narrative_twins.evaluation.agreement import Rule, turning_point_areas
from narrative_twins.evaluation.comparison import PARTIAL, PEOPLE, Comparison, long_table
from narrative_twins.evaluation.labelled_stories import DataSummary, LabelledStories, load_labelled
from narrative_twins.evaluation.metrics import METRICS, partial_spearman
from narrative_twins.evaluation.scorers import (
    Scorer,
    Scores,
    baseline_scorers,
    embedding_baselines,
    encoder_runs,
    saved_runs,
)
from narrative_twins.evaluation.significance import mean
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.text import for_terminal
from narrative_twins.writing import atomic_write

Encoders = Mapping[str, Any] | Iterable[Any] | str | Path | None


def evaluate(
    encoders: Encoders = None,
    data: DataSource | LabelledStories | Sequence[DataSource | LabelledStories] | None = None,
    out: str | Path | None = None,
    *,
    baselines: str | Iterable[str] | None = None,
    results: Mapping[str, Any] | None = None,
    second: DataSource | None = None,
    split: str | None = None,
    against: str | None = None,
    rule: Rule = "numbered",
    sentence_encoder: Any = None,
    loading: Mapping[str, Any] | None = None,
    options: ScoringOptions | None = None,
    **fields: Any,
) -> Comparison:
    """Compare encoders, each with all operations, and baselines with human labels.

    Args:
        encoders: a dict from a name to an encoder, or to a list of encoders (runs of different
            seeds, whose mean is shown); or encoders without names. An encoder is a `StoryEncoder`,
            its folder or Hub id, or None for the default encoder.
        data: labelled stories (`load_labelled`), or a file, folder or Hub id, or a list; required.
        out: a folder for the result: `results.json` with the values of all stories, `table.md`,
            `table.tex`, and in `scores` the scores of encoders, which are not computed again.
        baselines: names of registered baselines; `()` for none. Default all, but those that embed
            texts only if there is a `sentence_encoder`.
        results: a dict from the name of another scorer, such as a language model, to files of its
            results, see `scorers.saved_runs`.
        second, split: see `load_labelled`.
        against: the name of a row, such as `"trail"` or `"default summarization"`, that all other
            rows are tested against.
        rule: for turning points, see `agreement_with_turning_points`.
        sentence_encoder: the encoder of baselines that embed texts, for example one that was not
            trained on stories; for baselines that are named, by default the default encoder. A note
            below the table says whose vectors they compare.
        loading: options of `StoryEncoder.from_pretrained`.
        options: the options of scoring; None for the defaults of `ScoringOptions`.
        fields: fields of `ScoringOptions` that differ from `options`, such as `operations`.

    Raises:
        ValueError: an argument is invalid or a name is used twice (raised before stories are
            scored), or there is no row `against` (raised afterwards).
        RowError, OSError, StoryError: data or an encoder can't be loaded, or a story can't be
            scored.

    Example:
        ```python
        from datasets import Dataset
        from narrative_twins import evaluate

        rows = [{"story": ["Nadia ran.", "It rained.", "The mill burned."], "choices": [3, 3, 1]}]
        data = Dataset.from_list(rows)
        comparison = evaluate({"default": None}, data, baselines=["trail"])
        print(comparison.tables()[0].to_markdown())
        ```
    """
    sets = _read(data, split, second)
    # Tables say how many stories are truncated.
    options = ScoringOptions.of_call(options, fields, on_truncation="ignore")
    folder = None if out is None else Path(out)
    loading = loading or {}
    scoring: dict[str, Any] = {
        "folder": folder and folder / "scores",
        "loading": loading,
        "options": options,
    }
    scorers: list[tuple[str, Scorer]] = [
        *((n, partial(encoder_runs, name=n, encoders=e, **scoring)) for n, e in _named(encoders)),
        *((n, partial(saved_runs, files=_as_list(f))) for n, f in (results or {}).items()),
        *baseline_scorers(baselines, sentence_encoder, loading, options.progress),
    ]
    _check_scorers(scorers, sets)
    values: list[pd.DataFrame] = []
    notes: list[tuple[str, str]] = []
    for stories in sets:
        values += measure_people(stories)
        for name, score in scorers:
            if options.progress:
                print(for_terminal(f"{stories.name}: {name}"), file=sys.stderr)
            runs = list(score(stories))
            values += measure(stories, name, runs, rule)
            notes += [(stories.name, note) for note in _notes(stories, name, runs)]
        notes += [(stories.name, note) for note in _vector_notes(scorers, sentence_encoder)]
    return _compared(values, sets, rule, against, notes, folder)


def _compared(
    values: Sequence[pd.DataFrame],
    sets: Sequence[LabelledStories],
    rule: Rule,
    against: str | None,
    notes: Sequence[tuple[str, str]],
    folder: Path | None,
) -> Comparison:
    """Return the comparison of measured values, and write it to `folder`. Raises ValueError if a
    set of stories has no row `against`."""
    summaries = [DataSummary.of(stories, rule) for stories in sets]
    comparison = Comparison(pd.concat(values, ignore_index=True), summaries, against, notes)
    if against is not None:
        for summary in summaries:
            comparison.line(summary.name, against)
    if folder is not None:
        _write(comparison, folder)
    return comparison


def _read(data: Any, split: str | None, second: DataSource | None) -> list[LabelledStories]:
    """Return the sets of labelled stories in `data`; files, folders and Hub ids are loaded."""
    sources = _as_list(data)
    if not sources or None in sources:
        raise ValueError("pass data: a file, a folder or a Hub id of stories with human labels")
    return [
        each if isinstance(each, LabelledStories) else load_labelled(each, split, second=second)
        for each in sources
    ]


def _named(encoders: Encoders) -> list[tuple[str, list[Any]]]:
    """Return the name and the list of runs of each entry in `encoders`."""
    if isinstance(encoders, Mapping):
        return [(str(name), _as_list(runs)) for name, runs in encoders.items()]
    return [(encoder_name(encoder), [encoder]) for encoder in _as_list(encoders)]


def encoder_name(encoder: Any) -> str:
    """Return a name for an encoder: `default` for None, else the last part of its path that is not
    `final` or `checkpoint-N`. For example, `out/seed-1/final` gives `seed-1`."""
    if encoder is None:
        return "default"
    parts = Path(str(getattr(getattr(encoder, "model", None), "name_or_path", encoder))).parts
    named = [part for part in parts if part != "final" and not part.startswith("checkpoint-")]
    return (named or parts or ["encoder"])[-1]


def _check_scorers(scorers: Sequence[tuple[str, Scorer]], sets: Sequence[LabelledStories]) -> None:
    """Raise a `ValueError` if there is nothing to compare, or a name occurs twice."""
    if not scorers and not any(True for stories in sets for _ in measure_people(stories)):
        raise ValueError("there is nothing to compare; give an encoder, a baseline or results")
    names_of = {"scorer": [name for name, _ in scorers], "data set": [each.name for each in sets]}
    for kind, names in names_of.items():
        if twice := [name for name in names if names.count(name) > 1]:
            problem = f"more than one {kind} has the name {twice[0]!r}"
            raise ValueError(f"{problem}; rename one of them")


def _notes(stories: LabelledStories, scorer: str, runs: Sequence[Scores]) -> Iterator[str]:
    """Yield what a reader of the table must know of the runs of a scorer."""
    if truncated := max(run.truncated for run in runs):
        yield (
            f"{scorer}: {truncated} of {len(stories)} stories do not fit its context of"
            f" {runs[0].context_tokens} tokens; each window is read with as much of its story as"
            " fits."
        )


def _vector_notes(scorers: Sequence[tuple[str, Scorer]], encoder: Any) -> Iterator[str]:
    """Yield whose vectors the baselines that embed texts compare, if there are such rows."""
    if names := [name for name, _ in scorers if name in embedding_baselines()]:
        whose = "the default encoder" if encoder is None else encoder_name(encoder)
        yield f"{', '.join(names)}: by the vectors that {whose} gives to each sentence alone."


def measure(
    data: LabelledStories, scorer: str, runs: Sequence[Scores], rule: Rule = "numbered"
) -> Iterator[pd.DataFrame]:
    """Yield a long table of the values of all metrics for each operation and run of a scorer."""
    names = [scores.run for scores in runs]
    for operation in runs[0].values:
        for i, scores in enumerate(runs):
            # An encoder that is named twice has two runs.
            earlier = names[:i].count(scores.run)
            run = f"{scores.run} ({earlier + 1})" if earlier else scores.run
            values = _metrics(data, scores.values[operation], rule)
            yield long_table(data.name, scorer, operation, run, values)


def measure_people(data: LabelledStories) -> Iterator[pd.DataFrame]:
    """Yield long tables of human agreement, a ceiling for scores: of a second group of annotators
    with the first, and of each annotator with the others, if the data have such labels."""
    if data.second is not None:
        values = _metrics(data, data.second)
        # As in the figures of the paper, both metrics are over the same stories.
        values["auc"][np.isnan(values["spearman"])] = math.nan
        yield long_table(data.name, PEOPLE[0], "", "second group", values)
    annotations = [np.array(labels or (), np.float64) for labels in data.annotations or ()]
    if any(len(labels) > 1 for labels in annotations):
        values = {
            key: _column(_with_others(labels, metric.function) for labels in annotations)
            for key, metric in METRICS.items()
        }
        values[PARTIAL] = _column([math.nan])
        yield long_table(data.name, PEOPLE[1], "", "annotators", values)


def _with_others(labels: NDArray[np.float64], metric: Any) -> float:
    """Return a metric of the labels of one annotator against the mean labels of the others,
    averaged over annotators; nan for one annotator. `labels` has shape (annotators, sentences)."""
    if len(labels) < 2:
        return math.nan
    others = (np.delete(labels, i, axis=0).mean(axis=0) for i in range(len(labels)))
    return mean(map(metric, labels, others)).value


def _column(values: Iterable[float]) -> NDArray[np.float64]:
    """Return one value per story as an array of shape (stories, 1)."""
    return np.array(list(values), np.float64)[:, None]


def _metrics(
    data: LabelledStories, scores: Sequence[Sequence[float] | None], rule: Rule = "numbered"
) -> dict[str, NDArray[np.float64]]:
    """Return the values of a run by metric, shape (stories, turning points) or (stories, 1); for
    the partial correlation (1, 1). `scores` has a list per story, or None, which gives nan."""
    if data.points is not None:
        areas = [
            [math.nan] * len(points)
            if row is None
            else turning_point_areas(row, story.windows, points, rule)
            for story, row, points in zip(data.stories, scores, data.points, strict=True)
        ]
        values = {"auc": np.array(areas)}
    else:
        values = {
            key: _column(
                math.nan if row is None else metric.function(row, labels)
                for row, labels in zip(scores, data.labels, strict=True)
            )
            for key, metric in METRICS.items()
        }
    return values | {PARTIAL: _column([_partial_spearman(data, scores)])}


def _partial_spearman(data: LabelledStories, scores: Sequence[Sequence[float] | None]) -> float:
    """Return Spearman's correlation given position and length in words, with ranks within
    windows."""
    groups = []
    for story, row, labels in zip(data.stories, scores, data.labels, strict=True):
        if row is None:
            continue
        lengths = [len(sentence.split()) for sentence in story.sentences]
        for lo, hi in story.windows:
            groups.append((row[lo:hi], labels[lo:hi], (range(lo, hi), lengths[lo:hi])))
    columns = zip(*groups, strict=True) if groups else ([], [], [])
    return partial_spearman(*columns)


def _as_list(values: Any) -> list[Any]:
    """Return a list or tuple as a list, and any other value as the only item of a list."""
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _write(comparison: Comparison, folder: Path) -> None:
    """Write `results.json`, `table.md` and `table.tex` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = comparison.tables()
    texts = {
        "results.json": json.dumps(comparison.json(), indent=1) + "\n",
        "table.md": "\n".join(table.to_markdown() for table in tables),
        "table.tex": "\n".join(table.to_latex() for table in tables),
    }
    for name, text in texts.items():
        with atomic_write(folder / name) as file:
            file.write(text)
