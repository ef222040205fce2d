"""`evaluate`: compares encoders, operations and baselines with human labels."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from narrative_twins.baselines.scorers import BASELINES, EmbeddingBaseline
from narrative_twins.data.sources import DataSource
from narrative_twins.encoder.story_encoder import StoryEncoder
from narrative_twins.evaluation.agreement import Rule
from narrative_twins.evaluation.comparison import (
    Comparison,
    DataSummary,
    Row,
    make_rows,
    people_rows,
)
from narrative_twins.evaluation.labelled import LabelledStories, load_labelled
from narrative_twins.evaluation.scorers import (
    BaselineScorer,
    EncoderScorer,
    PromptedScorer,
    ResultsScorer,
    Scorer,
)
from narrative_twins.files import AtomicFile
from narrative_twins.salience.options import ScoringOptions, checked_options

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
    **options: Unpack[ScoringOptions],
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
        results: names with files of results of other scorers, see `ResultsScorer`.
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
    given = list(data) if isinstance(data, Sequence) and not isinstance(data, str) else [data]
    if not given or None in given:
        raise ValueError("pass data: a file, a folder or a Hub id of stories with human labels")
    sets = [
        source
        if isinstance(source, LabelledStories)
        else load_labelled(source, split, second=second)
        for source in given
    ]
    checked_options(options)
    progress: Any = options.get("progress", False)
    scoring = {name: value for name, value in options.items() if name != "progress"}
    loading = loading or {}
    if baselines is not None and not isinstance(baselines, str):
        baselines = list(baselines)
    chosen = [] if baselines == [] else BASELINES.resolve(baselines)
    needs_encoder = any(isinstance(baseline, EmbeddingBaseline) for baseline in chosen)
    if needs_encoder and not hasattr(sentence_encoder, "encode"):
        # Loaded once for all baselines, with its own pooling and context.
        own = {name: value for name, value in loading.items() if name in ("device", "dtype")}
        sentence_encoder = StoryEncoder.from_pretrained(sentence_encoder, **own)
    scorers: list[Scorer] = [
        *(EncoderScorer(name, runs, loading, scoring) for name, runs in _named(encoders)),
        *(ResultsScorer(name, _as_list(files)) for name, files in (results or {}).items()),
        *_as_list(prompted),
        *(BaselineScorer(baseline.name, sentence_encoder) for baseline in chosen),
    ]
    if not scorers and not any(row for labelled in sets for row in people_rows(labelled)):
        raise ValueError("there is nothing to compare; give an encoder, a baseline or results")
    for kind, named in (("scorer", scorers), ("data set", sets)):
        names = [item.name for item in named]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"more than one {kind} has the name {twice[0]!r}; rename one of them")
    rows: list[Row] = []
    notes: list[tuple[str, str]] = []
    folder = None if out is None else Path(out)
    for labelled in sets:
        rows += people_rows(labelled)
        for scorer in scorers:
            report(f"{labelled.name}: {scorer.name}")
            runs = list(scorer.scores(labelled, folder and folder / "scores", progress))
            rows += make_rows(labelled, scorer.name, scorer.is_encoder, runs, rule)
            if truncated := max(run.truncated for run in runs):
                note = (
                    f"{scorer.name}: {truncated} of {len(labelled)} stories do not fit its context"
                    f" of {runs[0].context_tokens} tokens; each window is read with as much of its"
                    " story as fits."
                )
                notes.append((labelled.name, note))
    summaries = [DataSummary.of(labelled, rule) for labelled in sets]
    comparison = Comparison(summaries, rows, against, notes)
    if against is not None:
        for summary in summaries:
            comparison.row(summary.name, against)
    if folder is not None:
        _write(comparison, folder)
    return comparison


def _named(encoders: Encoders) -> Iterator[tuple[str, list[Any]]]:
    """Names and the runs of each."""
    if isinstance(encoders, Mapping):
        yield from ((name, _as_list(runs)) for name, runs in encoders.items())
    else:
        for encoder in _as_list(encoders):
            yield ("default" if encoder is None else encoder_name(encoder)), [encoder]


def encoder_name(encoder: Any) -> str:
    """A name for an encoder: the last part of its path; of a folder `final` or `checkpoint-N`, the
    run's folder."""
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
        "results.json": json.dumps(comparison.to_dict(), indent=1) + "\n",
        "table.md": "\n".join(table.to_markdown() for table in tables),
        "table.tex": "\n".join(table.to_latex() for table in tables),
    }
    for name, text in texts.items():
        with AtomicFile(str(folder / name)) as file:
            file.write(text)
    try:
        for summary in comparison.summaries:
            comparison.plot(summary.name, folder / f"{summary.name}.svg")
    except ModuleNotFoundError as error:
        logger.warning("no plot is written: %s", error)
