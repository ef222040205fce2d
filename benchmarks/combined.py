"""Whether operations together agree better with people than summarization alone.

    python benchmarks/combined.py roc_val.json tripod_train.json --out figures/combined

Tried are mean ranks of operations, and a ridge regression on all of them that is fitted to human
labels of nine tenths of the stories and scores the last tenth, for each tenth (needs scikit-learn).
Scores are compared within windows. Each row has its p-value against summarization, by the test of
`narrative-twins evaluate`. Scores are saved in the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from narrative_twins.evaluation.comparison import make_rows
from narrative_twins.evaluation.labelled import LabelledStories, load_labelled
from narrative_twins.evaluation.scorers import EncoderScorer, Scores
from narrative_twins.evaluation.tables import Cell, Table, figure, p_value

FOLDS = 10
MEANS = [("summarization", "deletion"), ("summarization", "deletion", "shifting", "disruption")]


def in_windows(data: LabelledStories, values: list[list[float]]) -> list[np.ndarray]:
    """Ranks of the values of each story within its windows, centred, from -0.5 to 0.5."""
    found = []
    for story, own in zip(data.stories, values, strict=True):
        parts = [rankdata(own[lo:hi]) for lo, hi in story.windows]
        found.append(np.concatenate([(part - (len(part) + 1) / 2) / len(part) for part in parts]))
    return found


def regression(data: LabelledStories, ranks: dict[str, list[np.ndarray]]) -> list[list[float]]:
    """Scores of each story by a regression that was fitted to the labels of other stories."""
    from sklearn.linear_model import Ridge

    features = [np.stack(columns, axis=1) for columns in zip(*ranks.values(), strict=True)]
    labels = in_windows(data, [list(own) for own in data.labels])
    fold = np.random.default_rng(0).permutation(len(data)) % FOLDS
    scores: list[list[float]] = [[] for _ in range(len(data))]
    for k in range(FOLDS):
        chosen = np.flatnonzero(fold != k)
        model = Ridge().fit(
            np.concatenate([features[i] for i in chosen]),
            np.concatenate([labels[i] for i in chosen]),
        )
        for i in np.flatnonzero(fold == k):
            scores[i] = model.predict(features[i]).tolist()
    return scores


def table_of(data: LabelledStories, encoder: str | None, out: Path) -> Table:
    """The combinations and each operation alone."""
    (found,) = EncoderScorer("default", [encoder]).scores(data, out / "scores", progress=True)
    ranks = {
        name: in_windows(data, [list(own or ()) for own in values])
        for name, values in found.values.items()
    }
    values = {
        name: [list(own or ()) for own in by_story] for name, by_story in found.values.items()
    }
    for names in MEANS:
        mean = [
            sum(columns) / len(names)
            for columns in zip(*(ranks[name] for name in names), strict=True)
        ]
        values["mean rank of " + " and ".join(names) if len(names) < 3 else "mean rank of all"] = [
            list(own) for own in mean
        ]
    values["regression, out of fold"] = regression(data, ranks)
    rows = list(make_rows(data, "", True, [Scores("", values)]))
    main = next(row for row in rows if row.operation == "summarization")
    metric = main.metrics[0]
    lines = [
        [
            Cell(str(row.operation)),
            Cell(figure(row.mean(metric))),
            Cell("" if row is main else p_value(row.p_value(main, metric))),
        ]
        for row in rows
    ]
    return Table(
        f"{data.name}, {len(data)} stories", ["", metric, "p against summarization"], lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data", nargs="+", help="stories with human labels, as for `narrative-twins evaluate`"
    )
    parser.add_argument(
        "--model", help="folder or Hub id of the encoder (default: that of the package)"
    )
    parser.add_argument("--stories", type=int, help="only the first stories")
    parser.add_argument(
        "--out", type=Path, default=Path("figures/combined"), help="folder of the scores"
    )
    arguments = parser.parse_args()
    for source in arguments.data:
        data = load_labelled(source)
        if arguments.stories is not None:
            data = data.first(arguments.stories)
        print(table_of(data, arguments.model, arguments.out).to_markdown())


if __name__ == "__main__":
    main()
