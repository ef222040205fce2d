"""Which claims of the paper the runs of reproduce.yaml replicate.

    python research/paper/replication.py runs/reproduce --out research/paper/results
    python research/paper/replication.py research/paper/results --guide docs/replication.md

Takes the scores that reproduce.py has measured, as far as they are there, and writes results.json,
with the main metric of each story by run, seed and operation, and replication.md, with the tables
of docs/replication.md, which are made of results.json alone. `--guide docs/replication.md` puts
them there, too, and draws docs/replication.svg.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from narrative_twins.evaluation.significance import bootstrap_interval, paired_permutation_test
from narrative_twins.evaluation.tables import Cell, Table, figure, interval, p_value
from narrative_twins.plots.style import figure_style, new_figure, save_figure

METRIC = {"stories": "spearman", "synopses": "auc"}
MARGIN = {"stories": 0.05, "synopses": 0.02}
"""How much two rows may differ that are called as good or equal."""
ALPHA = 0.05
BEGIN, END = "<!-- tables of replication.py -->", "<!-- end -->"

Results = Mapping[str, Any]
Relation = Literal["above", "as good", "equal"]


@dataclass(frozen=True)
class Claim:
    """A claim as a comparison of two lines, each a run with an operation.

    Attributes:
        text: the claim.
        data: the labelled stories.
        first, second: the lines.
        relation: whether the first is claimed to be above the second; as good (not below it by the
            margin); or equal to it (neither below nor above it by the margin).
    """

    text: str
    data: str
    first: str
    second: str
    relation: Relation = "above"


def _runs(text: str, first: str, second: str, relation: Relation = "above") -> Claim:
    """A claim on two runs by summarization; runs of synopses have the prefix `synopses_`."""
    data = "synopses" if first.startswith("synopses") else "stories"
    return Claim(text, data, f"{first} summarization", f"{second} summarization", relation)


def _best_operation(data: str, prefix: str = "") -> list[Claim]:
    """Summarization above each other operation, in every row of the main table."""
    return [
        Claim(f"{run.replace('_', ' ')}: summarization above {other}", data,
              f"{prefix}{run} summarization", f"{prefix}{run} {other}")
        for run in ("no_training", "mlm", "dropout_twins", "narrative_twins")
        for other in ("deletion", "shifting", "disruption")
    ]  # fmt: skip


CLAIMS = {
    "Contrastive learning with narrative twins is above masked language modeling": [
        _runs("narrative twins above masked language modeling", "narrative_twins", "mlm"),
        _runs("narrative twins above no training", "narrative_twins", "no_training"),
        _runs("narrative twins above masked language modeling", "synopses_narrative_twins",
              "synopses_mlm"),
        _runs("narrative twins above no training", "synopses_narrative_twins",
              "synopses_no_training"),
    ],
    "Narrative twins are above dropout twins on stories": [
        _runs("narrative twins above dropout twins", "narrative_twins", "dropout_twins"),
    ],
    "Without narrative twins, dropout twins can be used": [
        _runs("dropout twins above masked language modeling", "dropout_twins", "mlm"),
        _runs("dropout twins above masked language modeling", "synopses_dropout_twins",
              "synopses_mlm"),
        _runs("dropout twins as good as narrative twins", "synopses_dropout_twins",
              "synopses_narrative_twins", "as good"),
    ],
    "Summarization is the best operation, in every row: stories": _best_operation("stories"),
    "Summarization is the best operation, in every row: synopses": _best_operation(
        "synopses", "synopses_"
    ),
    "Distractors by a model help; in long stories other parts of the story will do": [
        _runs("distractors above none", "narrative_twins", "no_distractors"),
        _runs("distractors above none, dropout twins", "dropout_twins", "no_distractors_dropout"),
        _runs("distractors above none as released", "narrative_twins", "separate_distractors"),
        _runs("in-story negatives as good as distractors too", "synopses_no_distractors",
              "synopses_narrative_twins", "as good"),
        _runs("in-story negatives above no hard negatives", "synopses_no_distractors",
              "synopses_no_hard_negatives"),
        _runs("distractors above no hard negatives", "synopses_no_in_story_negatives",
              "synopses_no_hard_negatives"),
    ],
    "The mean of the tokens and the first token (CLS) are equal": [
        _runs("mean equal to first token, narrative twins", "narrative_twins", "first_token",
              "equal"),
    ],
    "Twins need no names in common": [
        _runs("replaced as good as kept names, no distractors", "entities", "no_distractors",
              "as good"),
    ],
    "Not a claim of the paper: distractors by a model are as good as by people": [
        _runs("by a model as good as by people, dropout twins", "dropout_twins",
              "human_distractors", "as good"),
    ],
    "Not claims of the paper: runs without distractors or other stories, and no training": [
        _runs("no distractors above no training", "no_distractors", "no_training"),
        _runs("no distractors, dropout, above no training", "no_distractors_dropout",
              "no_training"),
        _runs("no distractors, replaced names, above no training", "entities", "no_training"),
        _runs("only distractors equal to all negatives", "only_distractors",
              "narrative_twins", "equal"),
        _runs("masked language modeling equal to no training", "mlm", "no_training", "equal"),
    ],
}  # fmt: skip
"""Claims by family: p-values are corrected within a family."""


def collect(state: Path) -> dict[str, Any]:
    """The results of the runs in a folder of reproduce.py: under `stories` and `synopses` by line
    and seed the main metric, and its value of each story, None if undefined; under `runs` minutes
    and memory."""
    results: dict[str, Any] = {data: {} for data in METRIC}
    for data, metric in METRIC.items():
        file = state / "tables" / data / "results.json"
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
        for row in rows:
            if row["operation"] is not None:
                results[data][row["name"]] = {
                    Path(run["run"]).parent.name.rpartition("-seed")[2]: {
                        "mean": round(run[metric], 4),
                        "partial": round(run["partial"], 4),
                        "values": _by_story(run["values"][metric]),
                    }
                    for run in row["runs"]
                }
    log = state / "runs.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    results["runs"] = [
        {key: round(value, 1) if isinstance(value, float) else value for key, value in run.items()}
        for run in map(json.loads, lines)
    ]
    return results


def _by_story(values: list[Any]) -> list[float | None]:
    """A number for each story; of turning points their mean."""
    numbers = [
        [float(one) for one in (each if isinstance(each, list) else [each]) if one is not None]
        for each in values
    ]
    return [round(fmean(each), 4) if each else None for each in numbers]


def mean_over_seeds(seeds: Mapping[str, Any]) -> NDArray[np.float64]:
    """The mean of each story, nan where a seed has none."""
    return np.array([run["values"] for run in seeds.values()], np.float64).mean(axis=0)


@dataclass(frozen=True)
class Difference:
    """The measured difference of the two lines of a claim.

    Attributes:
        mean, low, high: the difference and its 95 % interval, by a bootstrap over stories.
        differs: the p-value of a difference from 0, two-tailed.
        confirms: the p-value of the claim: for `above` that of a difference from 0; else the
            one-tailed p-value of a difference within the margin, of both margins the larger.
    """

    mean: float
    low: float
    high: float
    differs: float
    confirms: float


def measure(claim: Claim, results: Results) -> Difference | None:
    """Measure and test a claim; None if a line of it is missing."""
    lines = results[claim.data]
    if claim.first not in lines or claim.second not in lines:
        return None
    first, second = (mean_over_seeds(lines[name]) for name in (claim.first, claim.second))
    mean, differs = float(np.nanmean(first - second)), paired_permutation_test(first, second)
    margin, confirms = MARGIN[claim.data], differs
    if claim.relation != "above":
        confirms = _one_tailed(first + margin, second)
    if claim.relation == "equal":
        confirms = max(confirms, _one_tailed(second + margin, first))
    return Difference(mean, *bootstrap_interval(first - second), differs, confirms)


def _one_tailed(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The p-value of a permutation test for `first` above `second`."""
    p = paired_permutation_test(first, second) / 2
    return p if np.nanmean(first - second) > 0 else 1 - p


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by the method of Holm (1979)."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def verdict(claim: Claim, test: Difference, confirms: float, differs: float) -> str:
    """Return the verdict on a claim from its test and the two p-values corrected for the family:
    whether it holds, whether its opposite does, or neither."""
    margin = MARGIN[claim.data]
    holds = (
        confirms < ALPHA
        and {
            "above": test.mean > 0,
            "as good": test.low > -margin,
            "equal": -margin < test.low and test.high < margin,
        }[claim.relation]
    )
    if holds:
        return "replicated"
    is_opposite = test.mean < 0 or claim.relation == "equal"
    return "not replicated" if differs < ALPHA and is_opposite else "undecided"


def family_table(claims: Sequence[Claim], results: Results) -> Table:
    """The tests and verdicts of a family of claims, and the p-values that decide them, by
    themselves and corrected."""
    tests = [measure(claim, results) for claim in claims]
    measured = [test for test in tests if test is not None]
    confirms = iter(holm([test.confirms for test in measured]))
    differs = iter(holm([test.differs for test in measured]))
    rows = []
    for claim, test in zip(claims, tests, strict=True):
        cells = ["", "", "", "", "not run yet"]
        if test is not None:
            p, opposite = next(confirms), next(differs)
            word = verdict(claim, test, p, opposite)
            decides = (test.differs, opposite) if word == "not replicated" else (test.confirms, p)
            cells = [f"{test.mean:+.3f}", interval((test.low, test.high))]
            cells += [*map(p_value, decides), word]
        rows.append([Cell(text) for text in (claim.text, claim.data, *cells)])
    columns = ["claim", "data", "difference", "95 % interval", "p", "p (Holm)", "verdict"]
    return Table("", columns, rows)


def line_table(data: str, results: Results) -> Table:
    """The mean of each run by operation, with its seeds."""
    operations = ["deletion", "shifting", "disruption", "summarization"]
    runs = dict.fromkeys(name.rpartition(" ")[0] for name in results[data])
    rows = []
    for run in runs:
        cells = [Cell(run.removeprefix("synopses_").replace("_", " "))]
        for operation in operations:
            seeds = results[data].get(f"{run} {operation}", {})
            means = [each["mean"] for each in seeds.values()]
            spread = f" ± {stdev(means):.3f}" if len(means) > 1 else ""
            cells.append(Cell(figure(fmean(means)) + spread if means else ""))
        partial = [each["partial"] for each in results[data][f"{run} summarization"].values()]
        cells.append(Cell(figure(fmean(partial))))
        measured = [one for one in results["runs"] if one["run"] == run]
        seeds = results[data][f"{run} summarization"]
        cells.append(Cell(str(len(seeds))))
        for key, digits in (("minutes", 0), ("peak_gb", 1)):
            values = [one[key] for one in measured if key in one]
            cells.append(Cell(figure(fmean(values), digits) if values else ""))
        rows.append(cells)
    return Table("", ["run", *operations, "given place", "seeds", "minutes", "GB"], rows)


def markdown(results: Results) -> str:
    """The tables of docs/replication.md."""
    parts = []
    for data in METRIC:
        if results[data]:
            parts.append(narrow(line_table(data, results)))
    for title, claims in CLAIMS.items():
        parts += [f"**{title}**", narrow(family_table(claims, results))]
    return "\n\n".join(parts) + "\n"


def narrow(table: Table) -> str:
    """A table in Markdown without padding: rows with the spread over seeds would be longer than a
    line of the docs."""
    rules = re.sub("-{4,}", "---", table.to_markdown().strip())
    return re.sub(r"(?<=\|) +| +(?=\|)", " ", rules)


def write_replication(folder: Path, out: Path | None = None) -> Path:
    """Write results.json and replication.md from a folder of reproduce.py, by default into its
    `tables`, or replication.md again beside a results.json; returns the folder."""
    is_state = (folder / "tables").is_dir()
    out = out or (folder / "tables" if is_state else folder)
    results = (
        collect(folder) if is_state else json.loads((folder / "results.json").read_text("utf-8"))
    )
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, separators=(",", ":")).replace('"runs":', '\n"runs":')
    (out / "results.json").write_text(text + "\n", encoding="utf-8")
    (out / "replication.md").write_text(markdown(results), encoding="utf-8")
    return out


def with_tables(guide: str, tables: str, begin: str = BEGIN, end: str = END) -> str:
    """A guide with other tables between two comments."""
    before, rest = guide.split(begin)
    return f"{before}{begin}\n\n{tables}\n{end}{rest.split(end)[1]}"


def draw(results: Results, path: Path) -> None:
    """The main metric of summarization of each run, a mark for each seed."""
    with figure_style():
        drawing = new_figure(6.3, 3)
        drawing.set_layout_engine("constrained")
        for axes, data in zip(drawing.subplots(1, 2), METRIC, strict=True):
            lines = {
                line.removesuffix(" summarization"): [seed["mean"] for seed in seeds.values()]
                for line, seeds in results[data].items()
                if line.endswith(" summarization")
            }
            ordered = sorted(lines.items(), key=lambda pair: fmean(pair[1]))
            for row, (_, values) in enumerate(ordered):
                axes.plot(values, [row] * len(values), "o", color="C0", alpha=0.6)
            names = [run.removeprefix("synopses_").replace("_", " ") for run, _ in ordered]
            axes.set_yticks(range(len(names)), names)
            axes.set_xlabel(f"{data}: {'Spearman' if data == 'stories' else 'AUC'}")
        save_figure(drawing, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of reproduce.py, or with a results.json")
    parser.add_argument("--out", type=Path, help="default: FOLDER/tables, or FOLDER")
    parser.add_argument("--guide", type=Path, help="a guide to put the tables into")
    arguments = parser.parse_args()
    folder = write_replication(arguments.folder, arguments.out)
    if arguments.guide is not None:
        tables = (folder / "replication.md").read_text("utf-8")
        guide = with_tables(arguments.guide.read_text("utf-8"), tables)
        arguments.guide.write_text(guide, encoding="utf-8")
        results = json.loads((folder / "results.json").read_text("utf-8"))
        draw(results, arguments.guide.with_suffix(".svg"))
