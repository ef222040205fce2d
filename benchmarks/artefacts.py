"""Two artefacts of the scores: the place in a window, and the length of a sentence (`make
artefacts`):

    python benchmarks/artefacts.py FOLDER [--out benchmarks/results/artefacts.json]

FOLDER contains `roc_val.json` (five-sentence stories with votes), which are scored exactly, and
`tripod_train.json` (film synopses with turning points), which are scored in one pass; missing files
are skipped.

- Disruption falls with the place in a window. Measured is agreement of its scores over a story
  as they are, relative to the power of the place that `Disruption.compared` takes, and with the
  whole story before a sentence as its prefix (one window). `place 2-3` is the share of the most
  salient fifth on the second and third sentence of a window, of which `even` would be the share if
  the place did not matter.
- Salience follows length. Measured are Spearman of scores and lengths in tokens, and agreement with
  the labels before and after length is partialled out of the ranks within a story.

Agreement is Spearman with the labels, and AUC of turning points among all sentences of the
synopsis; "in windows" it is within their own window. All are means over stories.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata
from speed import write_report

from narrative_twins import OPERATIONS, Story, StoryEncoder, score_stories
from narrative_twins.evaluation.labelled_stories import LabelledStories, load_labelled
from narrative_twins.evaluation.metrics import auc, spearman
from narrative_twins.evaluation.significance import mean

Scores = NDArray[np.float64]
FILES = {"five sentences": "roc_val.json", "synopses": "tripod_train.json"}
WHOLE = "whole story as prefix"
"""A form that is scored in one pass only."""


@dataclass
class Sample:
    """A story with labels, the tokens of each sentence, and scores by operation."""

    story: Story
    labels: Sequence[float]
    points: bool
    lengths: Sequence[int]
    scores: dict[str, Scores]

    @property
    def places(self) -> NDArray[np.int64]:
        return np.concatenate([np.arange(hi - lo) for lo, hi in self.story.windows])

    def agreement(self, scores: Scores) -> tuple[float, float]:
        """Over the story and within windows."""
        metric = auc if self.points else spearman
        spans = [(lo, hi) for lo, hi in self.story.windows if hi - lo > 1]
        inside = (metric(scores[lo:hi], self.labels[lo:hi]) for lo, hi in spans)
        return metric(scores, self.labels), mean(inside).value

    def early(self, scores: Scores) -> float:
        """The share of the most salient fifth that is the second or third of its window."""
        best = np.argsort(-scores, kind="stable")[: max(1, round(len(scores) / 5))]
        return float(np.isin(self.places[best], (1, 2)).mean())

    def compared(self, operation: str) -> Scores:
        """Scores as ranks, stars and shades compare them."""
        return OPERATIONS[operation].compared(self.scores[operation], self.story.windows)


FORMS: dict[str, Callable[[Sample], Scores]] = {
    "as scored": lambda sample: sample.scores["disruption"],
    "relative to the place": lambda sample: sample.compared("disruption"),
    WHOLE: lambda sample: sample.scores[WHOLE],
    "later": lambda sample: np.arange(len(sample.story), dtype=np.float64),
}


def without_length(scores: Scores, lengths: Sequence[int]) -> Scores:
    """The ranks of scores, less what a linear regression on the ranks of lengths within the story
    explains."""
    x, y = (rankdata(values) - (len(scores) + 1) / 2 for values in (lengths, scores))
    return np.asarray(y - (x @ y) / max(x @ x, 1e-9) * x)


def scored(data: LabelledStories, encoder: StoryEncoder, exact: bool) -> Iterator[Sample]:
    """Stories with their scores, exact or of one pass."""
    approximate: Any = None if exact else "one-pass"
    options: dict[str, Any] = {"on_truncation": "ignore", "approximate": approximate}
    results = score_stories(data.stories, encoder, progress=True, **options)
    # The scores of one window have the whole story before a sentence as its prefix.
    whole = ({"sentences": story.sentences, "windows": [[0, len(story)]]} for story in data.stories)
    prefixes = score_stories(whole, encoder, operations="disruption", **options)
    for story, labels, result in zip(data.stories, data.labels, results, strict=True):
        scores = {name: np.array(values) for name, values in result.scores.items()}
        if not exact:
            scores[WHOLE] = np.array(next(prefixes).scores["disruption"])
        lengths = list(map(len, encoder.tokenize(story.sentences).later))
        yield Sample(story, labels, data.points is not None, lengths, scores)


def disruption(sample: Sample, form: Callable[[Sample], Scores]) -> dict[str, float]:
    """Where a form of disruption has its stars, and its agreement."""
    scores = form(sample)
    agreement, in_windows = sample.agreement(scores)
    return {"place 2-3": sample.early(scores), "agreement": agreement, "in windows": in_windows}


def length(sample: Sample, operation: str) -> dict[str, float]:
    """Spearman of scores and lengths, and agreement with and without length; disruption as
    compared."""
    scores = sample.compared(operation)
    return {
        "with length": spearman(sample.scores[operation], sample.lengths),
        "agreement": sample.agreement(scores)[0],
        "without length": sample.agreement(without_length(scores, sample.lengths))[0],
    }


def averages(rows: list[dict[str, float]]) -> dict[str, float]:
    """The means of each column of a table of stories, without undefined values."""
    return pd.DataFrame(rows).mean().to_dict()


def measure(samples: Sequence[Sample]) -> dict[str, Any]:
    """All measures of some stories."""
    sizes = [hi - lo for sample in samples for lo, hi in sample.story.windows]
    values = np.concatenate([sample.scores["disruption"] for sample in samples])
    places = np.concatenate([sample.places for sample in samples])
    return {
        "stories": len(samples),
        "even": sum(min(2, size - 1) for size in sizes) / sum(sizes),
        "disruption by place": pd.Series(values).groupby(places).mean().head(7).tolist(),
        "disruption": {
            name: averages([disruption(sample, form) for sample in samples])
            for name, form in FORMS.items()
            if name != WHOLE or WHOLE in samples[0].scores
        },
        "length": {
            name: averages([length(sample, name) for sample in samples]) for name in OPERATIONS
        },
    }


def show(kind: str, report: dict[str, Any]) -> None:
    """Print the measures of a kind of stories."""
    places = " ".join(f"{value:.3f}" for value in report["disruption by place"])
    print(f"\n{kind}, {report['stories']} stories: disruption by place {places}")
    print(f"place 2-3 would be {report['even']:.2f} if the place did not matter")
    for measured in ("disruption", "length"):
        print(pd.DataFrame(report[measured]).T.to_string(float_format="%.3f"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", help="folder or Hub id of the encoder (default: the default)")
    parser.add_argument("--out", default="benchmarks/results/artefacts.json")
    options = parser.parse_args()
    encoder = StoryEncoder.from_pretrained(options.model)
    report: dict[str, Any] = {}
    for kind, file in FILES.items():
        if not (path := options.folder / file).exists():
            print(f"skipped: no {path} (it can't be redistributed; set DATA=)")
            continue
        data = load_labelled(path, "all")
        report[kind] = measure(list(scored(data, encoder, exact=kind == "five sentences")))
        show(kind, report[kind])
    write_report(options.out, report)


if __name__ == "__main__":
    main()
