"""Which claims of the paper the runs of reproduce.yaml replicate.

    python examples/paper/replication.py runs/reproduce --out examples/paper/results
    python examples/paper/replication.py examples/paper/results --guide docs/replication.md

Takes the scores that reproduce.py has measured, as far as they are there, and writes results.json,
with the main metric of each story by run, seed and operation, and replication.md, with the tables
of docs/replication.md, which are made of results.json alone. `--guide docs/replication.md` puts
them there, too, and draws docs/replication.svg.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrative_twins.evaluation.significance import bootstrap_interval, paired_permutation_test
from narrative_twins.evaluation.tables import Cell, Table, figure, interval, p_value
from narrative_twins.plots.style import figure_style, new_figure, save_figure

METRIC = {"stories": "spearman", "synopses": "auc"}
MARGIN = {"stories": 0.05, "synopses": 0.02}
"""How much worse a row may be that is called as good."""
ALPHA = 0.05
BEGIN, END = "<!-- tables of replication.py -->", "<!-- end -->"

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper as a comparison of two lines, each a run with an operation.

    Attributes:
        text: the claim.
        data: the labelled stories.
        first, second: the lines.
        above: whether the first is claimed to be above the second; if not, as good as it.
    """

    text: str
    data: str
    first: str
    second: str
    above: bool = True


def _operations(data: str, run: str) -> list[Claim]:
    return [
        Claim(f"summarization above {other}", data, f"{run} summarization", f"{run} {other}")
        for other in ("deletion", "shifting", "disruption")
    ]


def _runs(text: str, first: str, second: str, above: bool = True) -> Claim:
    """A claim on two runs by summarization; runs of synopses have the prefix `synopses_`."""
    data = "synopses" if first.startswith("synopses") else "stories"
    return Claim(text, data, f"{first} summarization", f"{second} summarization", above)


CLAIMS = {
    "Contrastive learning is above masked language modeling": [
        _runs("narrative twins above masked language modeling", "narrative_twins", "mlm"),
        _runs("dropout twins above masked language modeling", "dropout_twins", "mlm"),
        _runs("narrative twins above no training", "narrative_twins", "no_training"),
        _runs("narrative twins above masked language modeling", "synopses_narrative_twins",
              "synopses_mlm"),
        _runs("dropout twins above masked language modeling", "synopses_dropout_twins",
              "synopses_mlm"),
        _runs("narrative twins above no training", "synopses_narrative_twins",
              "synopses_no_training"),
    ],
    "Summarization is the best operation": [
        *_operations("stories", "narrative_twins"),
        *_operations("synopses", "synopses_narrative_twins"),
    ],
    "Dropout twins suffice": [
        _runs("dropout twins as good as narrative twins", "dropout_twins", "narrative_twins", False),
        _runs("dropout twins as good as narrative twins", "synopses_dropout_twins",
              "synopses_narrative_twins", False),
    ],
    "Distractors by a model help; in long stories other parts of the story will do": [
        _runs("distractors above none", "narrative_twins", "no_distractors"),
        _runs("distractors above none, dropout twins", "dropout_twins", "no_distractors_dropout"),
        _runs("by a model as good as by people, dropout twins", "dropout_twins",
              "human_distractors", False),
        _runs("distractors above none as released", "narrative_twins", "separate_distractors"),
        _runs("in-story negatives as good as distractors too", "synopses_no_distractors",
              "synopses_narrative_twins", False),
        _runs("in-story negatives above no hard negatives", "synopses_no_distractors",
              "synopses_no_hard_negatives"),
        _runs("distractors above no hard negatives", "synopses_no_in_story_negatives",
              "synopses_no_hard_negatives"),
    ],
    "The mean of the tokens (the paper's choice) is above the first token (CLS)": [
        _runs("mean above first token", "narrative_twins", "first_token"),
    ],
    "Twins need no names in common": [
        _runs("names replaced as good as names kept, no distractors", "entities", "no_distractors",
              False),
    ],
}  # fmt: skip


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


def verdict(claim: Claim, results: Results) -> list[str] | None:
    """The cells of a claim: the difference, its 95 % interval, the p-value and the verdict. None if
    a line is missing."""
    lines = results[claim.data]
    if claim.first not in lines or claim.second not in lines:
        return None
    first, second = (mean_over_seeds(lines[name]) for name in (claim.first, claim.second))
    difference, p = first - second, paired_permutation_test(first, second)
    mean, (low, high) = float(np.nanmean(difference)), bootstrap_interval(difference)
    if claim.above:
        holds, fails = mean > 0 and p < ALPHA, mean < 0 and p < ALPHA
    else:
        holds, fails = low > -MARGIN[claim.data], high < 0
    word = "replicated" if holds else "not replicated" if fails else "undecided"
    return [f"{mean:+.3f}", interval((low, high)), p_value(p), word]


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
            spread = f" ± {pstdev(means):.3f}" if len(means) > 1 else ""
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
            parts.append(line_table(data, results).to_markdown().strip())
    for title, claims in CLAIMS.items():
        rows = []
        for claim in claims:
            cells = verdict(claim, results) or ["", "", "", "not run yet"]
            rows.append([Cell(text) for text in (claim.text, claim.data, *cells)])
        columns = ["claim", "data", "difference", "95 % interval", "p", "verdict"]
        parts += [f"**{title}**", Table("", columns, rows).to_markdown().strip()]
    # Unpadded, since rows with the spread over seeds would be longer than a line of the docs.
    return re.sub(r"(?<=\|) +| +(?=\|)", " ", re.sub("-{4,}", "---", "\n\n".join(parts))) + "\n"


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


def with_tables(guide: str, tables: str) -> str:
    """A guide with other tables between its two comments."""
    before, rest = guide.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{rest.split(END)[1]}"


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
