"""What a plan is made from: trained runs, files of results and labelled stories; and what is
missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from plan import Plan, Run, TableRow

from narrative_twins import OPERATIONS, evaluate
from narrative_twins.data.rows import Cleaning
from narrative_twins.data.sources import CORPORA
from narrative_twins.evaluation.comparison import COLUMNS, PEOPLE, Comparison
from narrative_twins.evaluation.labelled_stories import DataSummary, LabelledStories
from narrative_twins.evaluation.metrics import label_entropy
from narrative_twins.evaluation.run import measure_people
from narrative_twins.evaluation.scorers import saved_runs
from narrative_twins.evaluation.significance import mean
from narrative_twins.prompting.question_styles import STYLES

CORPUS_LABELS = {
    "stories": (
        "the five-sentence stories of the package; their votes were judged by a language model, not"
        " by people"
    ),
    "synopses": (
        "the synopses of the package; their turning points are those that a language model was told"
        " to write, not labels by people"
    ),
}
SMOKE = (
    "Smoke test, figures mean nothing: encoders of random weights after two steps of training, people"
    " and language models that choose at random, a few stories."
)
CHOICES = {style.score for style in STYLES.values() if style.sampled}
"""The scores of language models that are numbers of choices."""
SECOND_GROUP = (
    "The row of a second group of people needs their labels of the same stories: make tables"
    " SECOND=FILE."
)
ANNOTATORS = (
    "The row of one of the people needs the labels of each of them: make tables STORIES=FILE, for"
    " example igorsterner/rocstory-salience."
)


def is_corpus(source: str) -> bool:
    """Whether a source is a corpus of the package, and no file or folder of this name."""
    return source in CORPORA and not Path(source).exists()


def split_of(data: str, source: str) -> str | None:
    """The split of labelled stories: all films, as in the paper; of stories the default, and of the
    synopses of the package too, since the others are trained on."""
    return "all" if data == "synopses" and not is_corpus(source) else None


@dataclass(frozen=True)
class Workspace:
    """Folders and data.

    Attributes:
        plan: what to make.
        runs: the folder with a folder for each trained run.
        out: the folder for tables and figures.
        sources: by `stories` and `synopses`, the file, folder, Hub id or corpus.
        labelled: the same, loaded.
        cleaning: of TRIPOD's sentences.
        smoke: whether this is a smoke test.
        loading: options of `StoryEncoder.from_pretrained`.
    """

    plan: Plan
    runs: Path
    out: Path
    sources: Mapping[str, str]
    labelled: Mapping[str, LabelledStories]
    cleaning: Cleaning = "full"
    smoke: bool = False
    loading: Mapping[str, Any] = field(default_factory=dict)

    def folders(self, name: str) -> dict[int, Path]:
        """The folders of the seeds of a run that are trained."""
        run = self.plan.runs[name]
        folders = {seed: run.folder(self.runs, seed) for seed in run.seeds}
        return {seed: folder for seed, folder in folders.items() if (folder / "final").is_dir()}

    def files(self, name: str) -> list[Path]:
        """The files of the runs of a prompted language model that are there."""
        return [file for file in self.plan.results[name].files(self.runs) if file.is_file()]

    def perplexities(self, row: TableRow, data: str) -> list[float]:
        """The perplexity of the choices of each run of a language model: two to the power of their
        mean entropy over stories, as of people. None if it chose no sentences."""
        if row.kind != "results" or row.operation not in CHOICES:
            return []
        runs = saved_runs(self.labelled[data], self.files(row.name))
        choices = [[votes for votes in run.values[row.operation] if votes] for run in runs]
        return [2 ** mean(map(label_entropy, votes)).value for votes in choices]

    def missing_seeds(self, name: str) -> list[int]:
        """The seeds of a run that are not trained."""
        return [seed for seed in self.plan.runs[name].seeds if seed not in self.folders(name)]

    def commands(self, names: Iterable[str]) -> list[str]:
        """The commands that train the missing seeds of some runs."""
        runs: list[Run] = [self.plan.runs[name] for name in dict.fromkeys(names)]
        return [
            run.command(self.runs, seed) for run in runs for seed in self.missing_seeds(run.name)
        ]

    def missing(self, row: TableRow, data: str) -> list[str]:
        """The commands that fill the empty cells of a row."""
        if row.kind == "run":
            return self.commands([row.name])
        if row.kind == "results" and len(self.files(row.name)) < self.plan.results[row.name].runs:
            split = split_of(data, self.sources[data])
            source = [self.sources[data], *(["--split", split] if split else [])]
            if data == "synopses" and self.cleaning != "full":
                source += ["--cleaning", self.cleaning]
            return [self.plan.results[row.name].command(self.runs, source)]
        return []

    def hint(self, row: TableRow, data: str) -> str | None:
        """What fills the empty cells of a row of people."""
        measured = {rows["scorer"][0] for rows in measure_people(self.labelled[data])}
        if row.kind != "people" or row.name in measured:
            return None
        return SECOND_GROUP if row.name == PEOPLE[0] else ANNOTATORS

    def results_of(self, name: str, file: str) -> list[dict[str, Any]]:
        """The JSON files of a name in the folders of the seeds of a run, as far as they are
        there."""
        files = [folder / file for folder in self.folders(name).values()]
        return [json.loads(each.read_text(encoding="utf-8")) for each in files if each.is_file()]

    def caption(self, text: str, data: str | None = None) -> str:
        """A caption with the data that the figures are of."""
        parts = [f"{SMOKE} {text}" if self.smoke else text]
        if data is not None:
            source = self.sources[data]
            # Only the last part of a local path.
            name = (
                CORPUS_LABELS[source]
                if is_corpus(source)
                else Path(source).name
                if Path(source).exists()
                else source
            )
            parts.append(f"Data: {name} ({DataSummary.of(self.labelled[data], 'numbered').text}).")
        return " ".join(parts)

    def title(self, caption: str) -> str:
        """The title of a figure."""
        return f"{'Smoke test, figures mean nothing: ' if self.smoke else ''}{caption.removesuffix('.')}"

    def compare(self, data: str) -> Comparison:
        """All scorers of the tables on a set of stories. The scores of each are saved in
        `OUT/DATA/scores`."""
        tables = [table for table in self.plan.tables if table.data == data]
        pairs = [
            pair for spec in self.plan.tests if spec.data == data for pair in spec.pairs.values()
        ]
        rows = [row for part in (*(table.rows for table in tables), *pairs) for row in part]
        of = {
            kind: dict.fromkeys(row.name for row in rows if row.kind == kind)
            for kind in ("run", "baseline", "results")
        }
        runs = {
            name: [str(folder / "final") for folder in self.folders(name).values()]
            for name in of["run"]
        }
        files = {name: self.files(name) for name in of["results"]}
        runs = {name: folders for name, folders in runs.items() if folders}
        files = {name: found for name, found in files.items() if found}
        labelled = self.labelled[data]
        if not (runs or files or of["baseline"] or list(measure_people(labelled))):
            return Comparison(pd.DataFrame(columns=COLUMNS), [DataSummary.of(labelled, "numbered")])
        operations = {name for table in tables for name in table.operations}
        operations |= {row.operation for row in rows if row.kind == "run" and row.operation}
        return evaluate(
            runs,
            labelled,
            self.out / data,
            operations=[name for name in OPERATIONS if name in operations],
            baselines=list(of["baseline"]),
            results=files,
            loading=self.loading,
            progress=not self.smoke,
            **self.plan.scoring.get(data, {}),
        )
