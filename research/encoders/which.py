"""Which encoder? Agreement with people, twins and seconds of the default encoder and others, the
same before training, and baselines.

    python research/encoders/which.py DATA --trained base=runs/base/encoder --plain MiniLM=FOLDER \\
        --plain mpnet=FOLDER --out runs/which
    python research/encoders/which.py DATA --trained multilingual=FOLDER --untimed \\
        --earlier benchmarks/results/encoders.json --out runs/which

The second command measures one encoder, and takes the figures of the others from a file. An adapter
is measured with its base, in a folder that `StoryEncoder.save_pretrained` wrote.

Measured are the stories of `roc_val.json` and the plot summaries of the half by which nothing was
chosen, all films of `tripod_train.json`, and passages of tales whose works are held out. Trained encoders are
scored exactly and in one pass, others exactly, all by summarization, large ones in bfloat16. Seconds
are medians of three rounds, in which the encoders take turns, in float32. It writes `which.json`, all
values to `exact` and `one-pass`, a card into the folder of each trained encoder that has facts in
`hub_cards`, and to `--docs` the table and the plot of the
documentation. Scores of finished encoders are not computed again.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from datasets import Dataset
from judged import judged_passages
from measuring import CARDS, check_data, half, precision, summaries, write_card
from triples import triples

from narrative_twins import StoryEncoder, default_encoder, evaluate, score_stories
from narrative_twins.data import (
    load_story_salience,
    load_story_twins,
    load_turning_points,
    load_window_twins,
)
from narrative_twins.evaluation import Comparison, LabelledStories, load_labelled
from narrative_twins.evaluation.comparison import PEOPLE
from narrative_twins.plots.figures import space_labels
from narrative_twins.plots.style import (
    MUTED,
    PAGE,
    figure_style,
    line_style,
    new_figure,
    save_figure,
)
from narrative_twins.training.evaluators import TwinsEvaluator
from narrative_twins.writing import atomic_write

BASELINES = ("lead", "trail", "length", "textrank")
FORMS = {"exact": None, "one pass": "one-pass"}
SETS = {"stories": "spearman", "films": "auc", "tales": "spearman", "summaries": "spearman"}
"""The sets of texts, and the metric that is shown."""
TIMED = {"stories": 50, "films": 3}
"""How many texts are timed."""
OF_CARD = {
    "rocstories_summarization_spearman": ("exact", "stories spearman"),
    "rocstories_summarization_auc": ("exact", "stories auc"),
    "tripod_summarization_auc": ("exact", "films auc"),
    "tales_summarization_spearman": ("exact", "tales spearman"),
    "stories_accuracy": ("exact", "twins"),
    "synopses_accuracy": ("exact", "twins of synopses"),
    "one_pass_rocstories_summarization_spearman": ("one pass", "stories spearman"),
    "one_pass_rocstories_summarization_auc": ("one pass", "stories auc"),
    "one_pass_tripod_summarization_auc": ("one pass", "films auc"),
    "one_pass_tales_summarization_spearman": ("one pass", "tales spearman"),
    "one_pass_squality_summarization_spearman": ("one pass", "summaries spearman"),
}
"""The figures of the model card, see `measuring.FIGURES`."""
BORDER = "<!-- encoders -->"
"""Around the table in the documentation."""
NOTES = """
Stories: Spearman of summarization with the choices of three to five readers, 127 five-sentence
stories of ROCStories (validation). Films: AUC of the five turning points of 84 synopses (TRIPOD) in
their windows. Tales: Spearman with the marks of a language model on 97 passages of fairy tales.
Summaries: with how much of a sentence other people's summaries keep, 242 plot summaries (SQuALITY).
In brackets the same given position and length: with what position and number of words explain taken
out of both ranks. Twins: how often a twin is nearer than the distractor, for stories and for
windows of synopses, on the validation splits of the package. Triples: how often a text is nearer to
another person's version of it than to the text of another story with the most similar words.
Seconds in float32 on two CPU cores."""


def labelled(data: Path) -> list[LabelledStories]:
    """The sets of texts with labels, in the order of `SETS`."""
    stories = half(load_story_salience(str(data / "roc_val.json"), "train"), held_out=True)
    sources = (
        stories,
        load_turning_points(str(data / "tripod_train.json"), "train"),
        Dataset.from_list(judged_passages(data, held_out=True)),
        Dataset.from_list(summaries(data, held_out=True)),
    )
    return [load_labelled(rows, "all", name=name) for name, rows in zip(SETS, sources, strict=True)]


def agreement(
    trained: dict[str, str],
    plain: dict[str, str],
    sets: list[LabelledStories],
    out: Path,
    baselines: Sequence[str],
) -> dict[str, dict[str, float]]:
    """By row, the figures of each set, also given position and length."""
    options: dict[str, Any] = {"operations": "summarization", "on_truncation": "ignore"}
    ways = [(name, form) for name in trained for form in FORMS] + [
        (name, "exact") for name in plain
    ]
    rows: dict[str, dict[str, float]] = {}
    for encoder, form in ways:
        folder = (trained | plain)[encoder]
        comparison = evaluate(
            {encoder: folder},
            sets,
            out / form.replace(" ", "-") / encoder,
            baselines=(),
            approximate=FORMS[form],
            loading={"device": "cpu", "dtype": precision(folder)},
            progress=True,
            **options,
        )
        rows |= figures_of(comparison, f"{encoder}, {form}" if encoder in trained else encoder)
    sentence_encoder = next(iter(plain.values()), None)
    if not baselines:
        return rows
    others = evaluate((), sets, baselines=baselines, sentence_encoder=sentence_encoder)
    return rows | figures_of(others)


def figures_of(comparison: Comparison, name: str | None = None) -> dict[str, dict[str, float]]:
    """By row, the figures of each set; with a `name`, of the only encoder."""
    rows: dict[str, dict[str, float]] = {}
    for line in comparison.means.itertuples():
        if name is None or line.scorer not in PEOPLE:
            row = rows.setdefault(name or line.scorer, {})
            row[f"{line.data} {line.metric}"] = line.mean
    return rows


def nearer(folders: dict[str, str], data: Path, file: Path) -> dict[str, dict[str, float]]:
    """By encoder, how often a twin is nearer than a distractor; kept in a file."""
    sets = {
        "twins": load_story_twins(split="validation"),
        "twins of synopses": load_window_twins(split="validation"),
        "triples": triples(data),
    }
    evaluators = {name: TwinsEvaluator(rows, batch_size=8) for name, rows in sets.items()}
    figures = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for encoder, folder in folders.items():
        if encoder not in figures:
            loaded = StoryEncoder.from_pretrained(folder, device="cpu", dtype=precision(folder))
            figures[encoder] = {name: each(loaded)["accuracy"] for name, each in evaluators.items()}
            with atomic_write(file) as out:
                out.write(json.dumps(figures, indent=1) + "\n")
    return {encoder: figures[encoder] for encoder in folders}


def seconds(folders: dict[str, str], sets: list[LabelledStories]) -> dict[str, dict[str, float]]:
    """By encoder and form, seconds a text."""
    ways = {}
    for encoder, folder in folders.items():
        loaded = StoryEncoder.from_pretrained(folder, device="cpu", dtype="float32")
        for form, approximate in FORMS.items():
            ways[f"{encoder}, {form}"] = partial(
                score_stories,
                encoder=loaded,
                operations="summarization",
                approximate=approximate,
                on_truncation="ignore",
            )
    times: dict[str, dict[str, list[float]]] = {way: {} for way in ways}
    for stories in sets:
        if stories.name in TIMED:
            texts = stories.stories[: TIMED[stories.name]]
            for _ in range(3):
                for way, score in ways.items():
                    start = time.perf_counter()
                    list(score(texts))
                    passed = (time.perf_counter() - start) / len(texts)
                    times[way].setdefault(f"seconds a text of {stories.name}", []).append(passed)
    return {
        way: {name: median(each) for name, each in by_set.items()} for way, by_set in times.items()
    }


def _seconds_of(figures: dict[str, float]) -> dict[str, float]:
    """The seconds among the figures of an encoder of before, which has the same size."""
    return {name: value for name, value in figures.items() if name.startswith("seconds")}


def table(rows: dict[str, dict[str, float]]) -> Iterator[str]:
    """The lines of a Markdown table; in brackets, given position and length."""
    others = ["twins", "twins of synopses", "triples"]
    yield f"| | {' | '.join([*SETS, *others, 'ms a story', 's a film'])} |"
    yield "|---" * (len(SETS) + len(others) + 3) + "|"
    for name, figures in rows.items():
        cells = []
        for of, metric in SETS.items():
            partial_figure = shown(figures.get(f"{of} partial"), 2)
            cells.append(shown(figures.get(f"{of} {metric}")))
            cells[-1] += f" ({partial_figure.replace('0.', '.')})" if partial_figure else ""
        cells += [shown(figures.get(key)) for key in others]
        of_story, of_film = (figures.get(f"seconds a text of {of}") for of in TIMED)
        cells += [shown(of_story and 1000 * of_story, 0), shown(of_film, 2)]
        yield f"| {name} | {' | '.join(cells)} |"


def shown(figure: float | None, digits: int = 3) -> str:
    """A figure, or an empty cell if it was not measured or is undefined."""
    return "" if figure is None or math.isnan(figure) else f"{figure:.{digits}f}"


def draw(rows: dict[str, dict[str, float]], path: Path) -> None:
    """Agreement against seconds a text, a panel for stories and one for films."""
    timed = {name: each for name, each in rows.items() if "seconds a text of films" in each}
    with figure_style():
        figure = new_figure(PAGE, 2.4)
        for number, of in enumerate(TIMED):
            axes = figure.add_axes((0.07 + 0.49 * number, 0.17, 0.42, 0.73), label=of)
            times = [each[f"seconds a text of {of}"] for each in timed.values()]
            values = [each[f"{of} {SETS[of]}"] for each in timed.values()]
            low, high = min(values), max(values)
            gap = (high - low or 1) / 9
            order = sorted(range(len(values)), key=values.__getitem__)
            heights = space_labels([values[i] for i in order], gap, low - gap, high + gap)
            for i, height in zip(order, heights, strict=True):
                style = line_style(i) | {"linestyle": "", "markersize": 5}
                axes.plot(times[i], values[i], **style)
                axes.text(times[i] * 1.2, height, list(timed)[i], va="center")
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_xlim(min(times) / 1.5, max(times) * 12)  # room for the last name
            axes.set_ylim(low - 2 * gap, high + 2 * gap)
            axes.set_title(of, loc="left", size=7)
            axes.set_xlabel("seconds a text, two CPU cores (less is better)", labelpad=2)
            axes.set_ylabel("AUC" if SETS[of] == "auc" else "Spearman", labelpad=2)
            axes.grid(axis="y", color=MUTED, linewidth=0.3, alpha=0.4)
        save_figure(figure, path)


def named(argument: str) -> tuple[str, str]:
    name, _, folder = argument.partition("=")
    return name, folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the research data")
    parser.add_argument("--default", default=str(default_encoder()), help="the default encoder")
    parser.add_argument(
        "--trained", action="append", type=named, default=[], help="NAME=FOLDER, in both forms"
    )
    parser.add_argument(
        "--plain", action="append", type=named, default=[], help="NAME=FOLDER, not trained"
    )
    parser.add_argument("--earlier", type=Path, help="a which.json with figures of others")
    parser.add_argument(
        "--only", action="append", choices=SETS, help="measure only these sets (default: all)"
    )
    parser.add_argument("--untimed", action="store_true", help="keep earlier seconds")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--docs", type=Path, help="folder of encoders.md")
    options = parser.parse_args()
    check_data(options.data, "fairytaleqa.jsonl", "squality_plot_twins.jsonl")
    options.out.mkdir(parents=True, exist_ok=True)
    earlier = json.loads(options.earlier.read_text(encoding="utf-8")) if options.earlier else {}
    trained = dict(options.trained)
    if not earlier:
        trained = {"default": options.default} | trained
    plain = {f"{name}, not trained": folder for name, folder in options.plain}
    sets = [each for each in labelled(options.data) if each.name in (options.only or SETS)]
    rows = agreement(trained, plain, sets, options.out, () if earlier else BASELINES)
    twins = nearer(trained | plain, options.data, options.out / "twins.json")
    for encoder, figures in twins.items():
        for form in FORMS if encoder in trained else [None]:
            rows[f"{encoder}, {form}" if form else encoder] |= figures
    times = dict.fromkeys(rows, {}) if options.untimed else seconds(trained, sets)
    for way, figures in times.items():
        rows[way] |= figures or _seconds_of(earlier.get(way, {}))
    # Trained encoders come first.
    trained_rows = [name for name in earlier if name.endswith(tuple(f", {form}" for form in FORMS))]
    latest = earlier | rows
    rows = {name: latest[name] for name in dict.fromkeys([*trained_rows, *rows, *earlier])}
    with atomic_write(options.out / "which.json") as file:
        file.write(json.dumps(rows, indent=1) + "\n")
    lines = "\n".join(table(rows))
    print(lines)
    for encoder, folder in options.trained:
        facts = f"{encoder}_encoder.yaml"
        if (CARDS / facts).exists():
            figures = {
                key: rows[f"{encoder}, {form}"][of]
                for key, (form, of) in OF_CARD.items()
                if of in rows[f"{encoder}, {form}"]
            }
            write_card(Path(folder), facts, f"{lines}\n{NOTES}", figures, seeds="0")
    if options.docs:
        page = options.docs / "encoders.md"
        before, _, after = page.read_text(encoding="utf-8").split(BORDER)
        page.write_text(f"{before}{BORDER}\n{lines}\n{BORDER}{after}", encoding="utf-8")
        draw(rows, options.docs / "encoders.svg")


if __name__ == "__main__":
    main()
