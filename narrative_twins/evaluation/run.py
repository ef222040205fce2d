"""`evaluate`: reads labelled stories, scores them, measures agreement and compares encoders,
operations and baselines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from narrative_twins.baselines.scorers import BASELINES, EmbeddingBaseline
from narrative_twins.data.sources import DataSource
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.agreement import Rule
from narrative_twins.evaluation.comparison import Comparison
from narrative_twins.evaluation.labelled import DataSummary, LabelledStories, load_labelled
from narrative_twins.evaluation.measure import measure, measure_people
from narrative_twins.evaluation.scorers import (
    PromptedScorer,
    Scorer,
    Scores,
    baseline_runs,
    encoder_runs,
    saved_runs,
)
from narrative_twins.salience.options import ScoringOptions
from narrative_twins.writing import atomic_write, file_name

logger = logging.getLogger(__name__)

Encoders = Mapping[str, Any] | Iterable[Any] | str | Path | None


def evaluate(
    encoders: Encoders = None,
    data: DataSource | LabelledStories | Sequence[DataSource | LabelledStories] | None = None,
    out: str | Path | None = None,
    *,
    baselines: str | Iterable[str] | None = None,
    results: Mapping[str, Any] | None = None,
    prompted: PromptedScorer | Sequence[PromptedScorer] = (),
    second: DataSource | None = None,
    split: str | None = None,
    against: str | None = None,
    rule: Rule = "numbered",
    sentence_encoder: Any = None,
    loading: Mapping[str, Any] | None = None,
    report: Callable[[str], None] = lambda message: None,
    **options: Any,
) -> Comparison:
    """Compare encoders, each with all operations, and baselines with human labels.

    Args:
        encoders: names with an encoder, or a list of encoders (runs of different seeds, of which
            the mean is shown); or only encoders. An encoder is a `StoryEncoder`, its folder or Hub
            id, or None for the default encoder.
        data: labelled stories (`load_labelled`), or a file, folder or Hub id of some, or several;
            required.
        out: a folder for the result: `results.json` with the values of all stories, `table.md`,
            `table.tex`, a plot `DATA.svg` of each set of stories, and in `scores` the scores of
            each run, which are not computed again.
        baselines: names of registered baselines; default all. `()` for none.
        results: names with files of results of other scorers, see
            `scorers.saved_runs`.
        prompted: language models to ask, or whose saved answers are used.
        second, split: see `load_labelled`.
        against: the name of a row, such as `"trail"` or `"default summarization"`, that all others
            are tested against.
        rule: for turning points, see `agreement_with_turning_points`.
        sentence_encoder: for baselines that compare sentences; default the default encoder.
        loading: options of `StoryEncoder.from_pretrained`.
        report: is called with a line on each step.
        options: options of `score_stories`, see `ScoringOptions`.

    Raises:
        ValueError: an argument is invalid or a name is used twice; raised before anything is
            scored. Or there is no row `against`.
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
    ScoringOptions(**options)  # an invalid one is refused now
    folder = None if out is None else Path(out)
    saved: dict[str, Any] = {"folder": folder and folder / "scores"}
    loading, progress = loading or {}, options.get("progress", False)
    scoring = {**saved, "loading": loading, **options}
    scorers = [
        *(_scorer(n, encoder_runs, name=n, encoders=e, **scoring) for n, e in _named(encoders)),
        *(_scorer(n, saved_runs, files=_as_list(f)) for n, f in (results or {}).items()),
        *(_scorer(each.name, each.scores, progress=progress) for each in _as_list(prompted)),
        *_baselines(baselines, sentence_encoder, loading, **saved, progress=progress),
    ]
    if not scorers and not any(True for stories in sets for _ in measure_people(stories)):
        raise ValueError("there is nothing to compare; give an encoder, a baseline or results")
    _check_names("scorer", scorers)
    _check_names("data set", sets)
    values: list[pd.DataFrame] = []
    notes: list[tuple[str, str]] = []
    for stories in sets:
        values += measure_people(stories)
        for scorer in scorers:
            report(f"{stories.name}: {scorer.name}")
            runs = list(scorer.scores(stories))
            values += measure(stories, scorer.name, scorer.has_operations, runs, rule)
            notes += _notes(stories, scorer.name, runs)
    summaries = [DataSummary.of(stories, rule) for stories in sets]
    comparison = Comparison(pd.concat(values, ignore_index=True), summaries, against, notes)
    if against is not None:
        for summary in summaries:
            comparison.line(summary.name, against)
    if folder is not None:
        _write(comparison, folder)
    return comparison


def _read(data: Any, split: str | None, second: DataSource | None) -> list[LabelledStories]:
    """The sets of labelled stories."""
    sources = list(data) if isinstance(data, Sequence) and not isinstance(data, str) else [data]
    if not sources or None in sources:
        raise ValueError("pass data: a file, a folder or a Hub id of stories with human labels")
    return [
        source
        if isinstance(source, LabelledStories)
        else load_labelled(source, split, second=second)
        for source in sources
    ]


def _scorer(label: str, scores: Callable[..., Iterable[Scores]], **options: Any) -> Scorer:
    return Scorer(label, partial(scores, **options))


def _named(encoders: Encoders) -> list[tuple[str, list[Any]]]:
    """Names and the runs of each."""
    if isinstance(encoders, Mapping):
        return [(str(name), _as_list(runs)) for name, runs in encoders.items()]
    return [(encoder_name(encoder), [encoder]) for encoder in _as_list(encoders)]


def _baselines(
    names: str | Iterable[str] | None, encoder: Any, loading: Mapping[str, Any], **options: Any
) -> Iterator[Scorer]:
    if names is not None and not isinstance(names, str):
        names = list(names)
    baselines = [] if names == [] else BASELINES.resolve(names)
    embeds = any(isinstance(baseline, EmbeddingBaseline) for baseline in baselines)
    if embeds and not hasattr(encoder, "encode"):
        # Loaded once for all baselines, with its own pooling and context.
        shared = {name: value for name, value in loading.items() if name in ("device", "dtype")}
        encoder = StoryEncoder.from_pretrained(encoder, **shared)
    for name in (baseline.name for baseline in baselines):
        yield Scorer(name, partial(baseline_runs, name=name, encoder=encoder, **options), False)


def _check_names(kind: str, items: Sequence[Any]) -> None:
    names = [item.name for item in items]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"more than one {kind} has the name {twice[0]!r}; rename one of them")


def _notes(stories: LabelledStories, scorer: str, runs: Sequence[Scores]) -> list[tuple[str, str]]:
    """How many stories did not fit the context of an encoder, if any."""
    truncated = max(run.truncated for run in runs)
    note = (
        f"{scorer}: {truncated} of {len(stories)} stories do not fit its context of"
        f" {runs[0].context_tokens} tokens; each window is read with as much of its story as fits."
    )
    return [(stories.name, note)] if truncated else []


def encoder_name(encoder: Any) -> str:
    """A name for an encoder: `default` for None; the last part of its path; of a folder `final` or
    `checkpoint-N`, the run's folder."""
    if encoder is None:
        return "default"
    parts = Path(str(getattr(getattr(encoder, "model", None), "name_or_path", encoder))).parts
    named = [part for part in parts if part != "final" and not part.startswith("checkpoint-")]
    return (named or parts)[-1]


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _write(comparison: Comparison, folder: Path) -> None:
    """Write the files of `evaluate`; a plot only if matplotlib is installed."""
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
    try:
        for summary in comparison.summaries:
            comparison.plot(summary.name, folder / f"{file_name(summary.name)}.svg")
    except ModuleNotFoundError as error:
        logger.warning("no plot is written: %s", error)
