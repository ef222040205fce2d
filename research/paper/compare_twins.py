"""Narrative twins against dropout twins by rows and epochs: the table and the figure.

    python research/paper/compare_twins.py --state runs/twins-by-rows --data DATA --docs docs

Compares the runs of `twins_by_rows.py`: Spearman of summarization with the labels, and the same given
the place of a sentence and its number of words. Writes `results/twins_by_rows.json`, which has for
each run the ranks of the sentences of each story and no text, the table into docs/replication.md,
and docs/twins_by_rows.svg. Results of runs that are not in `--state` are kept.

For each number of rows and epochs: the means over seeds, the difference, its 95 % interval, and the
p-value of a paired permutation test over stories. Intervals are by a bootstrap over stories and,
from three seeds on, over the seeds of each kind of twins. The trend is the change of the difference
with each doubling of the steps, by least squares over the six numbers of rows and epochs.
"""

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill

import numpy as np
from numpy.typing import NDArray
from replication import holm, narrow, with_tables
from twins_by_rows import EPOCHS, RESULTS, ROWS, SEEDS, TWINS, Run, all_runs

from narrative_twins.data import load_story_salience
from narrative_twins.evaluation.metrics import partial_correlation, rank_products, spearman
from narrative_twins.evaluation.significance import RESAMPLES
from narrative_twins.evaluation.tables import Cell, Table, figure, interval, p_value
from narrative_twins.plots.style import (
    MUTED,
    PAGE,
    figure_style,
    line_style,
    new_figure,
    save_figure,
)

BEGIN, END = "<!-- twins by rows -->", "<!-- end of twins by rows -->"
METRICS = {"plain": "Spearman", "partial": "given place and length"}
LATER = "later is more salient"
Array = NDArray[np.float64]
Ranks = Mapping[str, Sequence[Sequence[int]]]
"""By the name of a run, for each story the ranks of its sentences."""


def collect(state: Path) -> dict[str, list[list[int]]]:
    """The ranks of all complete runs, 1 for the lowest score."""
    ranks = {}
    for run in all_runs():
        file = state / "runs" / f"{run.name}.json"
        if file.exists():
            scores = json.loads(file.read_text(encoding="utf-8"))["scores"]
            ranks[run.name] = [(np.argsort(np.argsort(row)) + 1).tolist() for row in scores]
    return ranks


class Agreement:
    """Agreement of runs with labels, for many weights of the stories at once.

    Args:
        stories: rows with `story` and `counts`.
        ranks: of each run; all stories have ranks.
    """

    def __init__(self, stories: Sequence[Mapping[str, Sequence]], ranks: Ranks) -> None:
        labels = [row["counts"] for row in stories]
        controls = [
            (range(len(row["story"])), [len(sentence.split()) for sentence in row["story"]])
            for row in stories
        ]
        scores = dict(ranks) | {LATER: [range(len(row)) for row in labels]}
        self.values = {
            name: np.array([spearman(*pair) for pair in zip(rows, labels, strict=True)])
            for name, rows in scores.items()
        }
        self.products = {
            name: np.stack(
                [rank_products(*each) for each in zip(rows, labels, controls, strict=True)]
            )
            for name, rows in scores.items()
        }
        self.stories = len(labels)

    def of(self, metric: str, name: str, weights: Array) -> Array:
        """A metric of a run, for each row of weights, shape `(samples, stories)`."""
        if metric == "plain":
            return _weighted_mean(self.values[name], weights)
        return partial_correlation(_weighted_sum(self.products[name], weights))

    def exchanged(self, metric: str, first: str, second: str, signs: Array) -> Array:
        """The difference of two runs if the scores of stories are exchanged where `signs`, of shape
        `(samples, stories)`, are 1 and not 0."""
        if metric == "plain":
            change = np.nan_to_num(self.values[first] - self.values[second])
            return (1 - 2 * signs) @ change / max(1, np.isfinite(self.values[first]).sum())
        one, two = self.products[first], self.products[second]
        moved = _weighted_sum(two - one, signs)
        return partial_correlation(one.sum(axis=0) + moved) - partial_correlation(
            two.sum(axis=0) - moved
        )


def _weighted_mean(values: Array, weights: Array) -> Array:
    return weights @ np.nan_to_num(values) / (weights @ np.isfinite(values))


def _weighted_sum(products: Array, weights: Array) -> Array:
    flat = products.reshape(len(products), -1)
    return (weights @ flat).reshape(-1, *products.shape[1:])


@dataclass(frozen=True)
class Setting:
    """A number of rows and epochs, with or without distractors: `distractors` is of the runs with
    narrative twins, `others` of those with dropout twins, by default the same."""

    distractors: bool
    epochs: int
    rows: int
    others: bool | None = None

    def pairs(self, ranks: Ranks) -> list[tuple[str, ...]]:
        """By seed the names of the runs with narrative and dropout twins, if both are complete."""
        others = self.distractors if self.others is None else self.others
        kinds = list(zip(TWINS, (self.distractors, others), strict=True))
        runs = (
            tuple(Run(seed, each, self.epochs, self.rows, twins).name for twins, each in kinds)
            for seed in SEEDS
        )
        return [pair for pair in runs if all(name in ranks for name in pair)]


SETTINGS = [Setting(*each) for each in itertools.product((True, False), EPOCHS, ROWS)]
ACROSS = [Setting(True, epochs, ROWS[-1], others=False) for epochs in EPOCHS]
"""Narrative twins with distractors against dropout twins without: distractors lower what dropout
twins have given place and length."""


class Comparison:
    """The differences between narrative and dropout twins, by setting and metric; seeds that only
    one kind of twins has are left out."""

    def __init__(self, agreement: Agreement, ranks: Ranks) -> None:
        self.agreement, self.random = agreement, np.random.default_rng(0)
        self.weights = self.random.multinomial(
            agreement.stories, np.full(agreement.stories, 1 / agreement.stories), RESAMPLES
        ).astype(np.float64)
        self.signs = self.random.integers(2, size=(RESAMPLES, agreement.stories)).astype(np.float64)
        self.pairs = {setting: setting.pairs(ranks) for setting in [*SETTINGS, *ACROSS]}

    def means(self, metric: str, setting: Setting) -> tuple[list[float], list[float]]:
        """Of each seed the metric over all stories, for each kind of twins."""
        once = np.ones((1, self.agreement.stories))
        narrative, dropout = (
            [float(self.agreement.of(metric, name, once)[0]) for name in names]
            for names in zip(*self.pairs[setting], strict=True)
        )
        return narrative, dropout

    def samples(self, metric: str, setting: Setting) -> Array:
        """The difference for each sample of stories and seeds."""
        sides = []
        for names in zip(*self.pairs[setting], strict=True):
            values = np.stack([self.agreement.of(metric, name, self.weights) for name in names])
            if len(names) > 2:
                picked = self.random.integers(len(names), size=values.shape)
                values = np.take_along_axis(values, picked, axis=0)
            sides.append(values.mean(axis=0))
        return np.asarray(sides[0] - sides[1])

    def p_value(self, metric: str, setting: Setting) -> float:
        """Of a two-tailed paired permutation test over stories, whose scores are exchanged in all
        seeds."""
        differences = np.mean(
            [self.agreement.exchanged(metric, *pair, self.signs) for pair in self.pairs[setting]],
            axis=0,
        )
        narrative, dropout = self.means(metric, setting)
        extreme = np.abs(differences) >= abs(fmean(narrative) - fmean(dropout)) - 1e-9
        return float((extreme.sum() + 1) / (RESAMPLES + 1))


def trend(comparison: Comparison, metric: str, distractors: bool) -> tuple[float, float, float]:
    """The change of the difference with each doubling of the steps, and its 95 % interval."""
    settings = [each for each in SETTINGS if each.distractors == distractors]
    steps = np.log2([each.rows * each.epochs for each in settings])
    steps -= steps.mean()
    measured = [fmean(a) - fmean(b) for a, b in (comparison.means(metric, s) for s in settings)]
    samples = np.stack([comparison.samples(metric, setting) for setting in settings])
    low, high = np.percentile(steps @ samples / (steps @ steps), [2.5, 97.5])
    return float(steps @ measured / (steps @ steps)), float(low), float(high)


def table(comparison: Comparison, metric: str) -> Table:
    """A row for each setting that has runs, with its p-value, and that corrected for their number."""
    rows = []
    settings = [each for each in SETTINGS if comparison.pairs[each]]
    p_values = [comparison.p_value(metric, setting) for setting in settings]
    for setting, p, corrected in zip(settings, p_values, holm(p_values), strict=True):
        sides = comparison.means(metric, setting)
        low, high = np.percentile(comparison.samples(metric, setting), [2.5, 97.5])
        cells = [
            "with" if setting.distractors else "without",
            f"{setting.rows:,}",
            str(setting.epochs),
            str(len(comparison.pairs[setting])),
            *map(_with_spread, sides),
            f"{fmean(sides[0]) - fmean(sides[1]):+.3f}",
            interval((low, high)),
            p_value(p),
            p_value(corrected),
        ]
        rows.append([Cell(text) for text in cells])
    columns = [
        "distractors",
        "rows",
        "epochs",
        "seeds",
        *TWINS,
        "difference",
        "95 % interval",
        "p",
        "p (Holm)",
    ]
    return Table(f"{METRICS[metric][:1].upper()}{METRICS[metric][1:]}:", columns, rows)


def _with_spread(values: Sequence[float]) -> str:
    spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    return figure(fmean(values)) + spread


def trend_lines(comparison: Comparison) -> Iterator[str]:
    """A line for each metric, with and without distractors, if all settings have runs."""
    for distractors, (metric, name) in itertools.product((True, False), METRICS.items()):
        if all(comparison.pairs[s] for s in SETTINGS if s.distractors == distractors):
            value, low, high = trend(comparison, metric, distractors)
            which = "with" if distractors else "without"
            yield (
                f"- {which} distractors, {name}: {value:+.3f} for each doubling of steps"
                f" (95 % interval {low:.3f} to {high:.3f})"
            )


def power_lines(comparison: Comparison) -> Iterator[str]:
    """For each metric, how many stories would show the difference that is measured with most rows
    and distractors: two-tailed with p < 0.05, four times in five."""
    for epochs, (metric, name) in itertools.product(EPOCHS, METRICS.items()):
        setting = Setting(True, epochs, ROWS[-1])
        if comparison.pairs[setting]:
            narrative, dropout = comparison.means(metric, setting)
            difference = fmean(narrative) - fmean(dropout)
            error = comparison.samples(metric, setting).std()
            stories = comparison.agreement.stories * ((1.96 + 0.84) * error / difference) ** 2
            yield (
                f"- {ROWS[-1]:,} rows, {epochs} epoch{'s' * (epochs > 1)}, {name}: a difference of"
                f" {difference:+.3f} would have p < 0.05 in four of five samples of about"
                f" {round(stories, -1):,.0f} stories"
            )


def lines_across(comparison: Comparison) -> Iterator[str]:
    """A line for each of `ACROSS` that has runs, given place and length."""
    for setting in (each for each in ACROSS if comparison.pairs[each]):
        narrative, dropout = comparison.means("partial", setting)
        low, high = np.percentile(comparison.samples("partial", setting), [2.5, 97.5])
        yield (
            f"- narrative twins with distractors against dropout twins without, {setting.rows:,}"
            f" rows, {setting.epochs} epoch{'s' * (setting.epochs > 1)}, {METRICS['partial']}:"
            f" {fmean(narrative):.3f} and {fmean(dropout):.3f}, difference"
            f" {fmean(narrative) - fmean(dropout):+.3f} (95 % interval {low:.3f} to {high:.3f})"
        )


def draw(comparison: Comparison, path: Path) -> None:
    """A panel for each metric, with distractors above and without below; a line for each kind of
    twins and number of epochs, with the standard deviation over seeds."""
    with figure_style():
        drawing = new_figure(PAGE, 4.4)
        drawing.set_layout_engine("constrained")
        panels = drawing.subplots(2, 2, sharex=True, sharey="col")
        for (distractors, (metric, name)), axes in zip(
            itertools.product((True, False), METRICS.items()), panels.flat, strict=True
        ):
            for number, (epochs, twins) in enumerate(itertools.product(EPOCHS, TWINS)):
                settings = [Setting(distractors, epochs, rows) for rows in ROWS]
                settings = [each for each in settings if comparison.pairs[each]]
                values = [comparison.means(metric, each)[TWINS.index(twins)] for each in settings]
                axes.errorbar(
                    [each.rows for each in settings],
                    [fmean(each) for each in values],
                    [stdev(each) if len(each) > 1 else 0 for each in values],
                    label=f"{twins}, {epochs} epoch{'s' * (epochs > 1)}",
                    capsize=2,
                    **line_style(number),
                )
            if metric == "plain":
                once = np.ones((1, comparison.agreement.stories))
                later = float(comparison.agreement.of(metric, LATER, once)[0])
                axes.axhline(later, color=MUTED, linewidth=0.6)
                if not distractors:  # where no line of a run is near
                    axes.text(ROWS[0], later, LATER, color=MUTED, va="bottom", size=5)
            axes.set_xscale("log")
            axes.set_xticks(ROWS, [f"{rows:,}" for rows in ROWS], minor=False)
            axes.minorticks_off()
            title = "with distractors" if distractors else "without distractors"
            axes.set_title(f"{title}: {name}", loc="left", size=7)
        for axes in panels[1]:
            axes.set_xlabel("rows")
        panels[0, 0].legend(loc="best", fontsize=5)
        save_figure(drawing, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", type=Path, help="the folder of twins_by_rows.py")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of research data")
    parser.add_argument("--docs", type=Path, help="folder of replication.md")
    options = parser.parse_args()
    saved = json.loads(RESULTS.read_text(encoding="utf-8"))
    if options.state:
        saved |= {
            name: " ".join("".join(map(str, ranks)) for ranks in stories)
            for name, stories in collect(options.state).items()
        }
        saved = {run.name: saved[run.name] for run in all_runs() if run.name in saved}
        RESULTS.write_text(json.dumps(saved, indent=0) + "\n", encoding="utf-8")
    ranks = {
        name: [list(map(int, ranks)) for ranks in text.split()] for name, text in saved.items()
    }
    stories = list(load_story_salience(str(options.data / "roc_val.json"), "train"))
    comparison = Comparison(Agreement(stories, ranks), ranks)
    tables = [narrow(table(comparison, metric)) for metric in METRICS]
    lines = [*trend_lines(comparison), *lines_across(comparison), *power_lines(comparison)]
    wrapped = [fill(line, 120, subsequent_indent="  ", break_on_hyphens=False) for line in lines]
    text = "\n\n".join([*tables, "\n".join(wrapped)])
    print(text)
    if options.docs:
        guide = options.docs / "replication.md"
        page = with_tables(guide.read_text(encoding="utf-8"), text + "\n", BEGIN, END)
        guide.write_text(page, encoding="utf-8")
        draw(comparison, options.docs / "twins_by_rows.svg")


if __name__ == "__main__":
    main()
