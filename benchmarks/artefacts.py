"""Two artefacts of the scores: the place in a window, and the length of a sentence (`make
artefacts`):

    python benchmarks/artefacts.py FOLDER [--out benchmarks/results/artefacts.json]

FOLDER contains `roc_val.json` (five-sentence stories with votes), `tripod_train.json` (film
synopses with turning points), `squality_plot_twins.jsonl` (plot summaries, with the labels of
`examples/retold_stories.py`) and `fairytaleqa.jsonl` (tales, without labels); missing files are
skipped. Five-sentence stories are scored exactly, the others in one pass, and with `--exact N` the
first N of each exactly. Choices are made by one half of the stories (by a hash of their id), and
the other half is reported.

- Disruption falls with the place in a window. Measured are the ways to compare its scores over a
  story: as they are, relative to the power of the place that `Disruption.compared` takes and to
  others, and with the whole story before a sentence as its prefix (one window). `place 2-3` is the
  share of the most salient fifth on the second and third sentence of a window, of which `even`
  would be the share if the place did not matter.
- Salience follows length. Measured are Spearman of scores and lengths in tokens, and agreement with
  the labels before and after length is partialled out of the ranks within a story.

Agreement is Spearman with the labels, and AUC of turning points among all sentences of the
synopsis, in brackets of their own window; means over stories.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from narrative_twins import OPERATIONS, Story, StoryEncoder, score_stories
from narrative_twins.evaluation.labelled import load_labelled
from narrative_twins.evaluation.metrics import auc, mean, spearman
from narrative_twins.files import AtomicFile
from narrative_twins.salience.operations import Disruption
from narrative_twins.stories.sentences import Span

sys.path += [
    str(Path(__file__).parents[1] / "examples"),
    str(Path(__file__).parents[1] / "examples/default_encoder"),
]
from judged import is_held_out  # noqa: E402
from retold_stories import labelled  # noqa: E402

Scores = NDArray[np.float64]
PASSAGE = 28
"""Sentences of a passage of a tale: its first."""
WHOLE = "whole story as prefix"
"""A form that is scored in one pass only."""
HALVES = {"chosen": False, "reported": True}


@dataclass
class Sample:
    """A story with its scores by operation, the lengths of its sentences in tokens and its labels,
    if it has some."""

    story: Story
    held_out: bool
    labels: Sequence[float] | None
    points: bool
    lengths: Sequence[int]
    scores: dict[str, Scores]

    @property
    def places(self) -> NDArray[np.int64]:
        return np.concatenate([np.arange(hi - lo) for lo, hi in self.story.windows])

    def agreement(self, scores: Scores) -> tuple[float, float]:
        """Over the story and within windows."""
        metric = auc if self.points else spearman
        inside = [
            metric(scores[lo:hi], self.labels[lo:hi])
            for lo, hi in self.story.windows
            if hi - lo > 1
        ]
        return metric(scores, self.labels), mean(inside).value

    def early(self, scores: Scores) -> float:
        """The share of the most salient fifth that is the second or third of its window."""
        best = np.argsort(-scores, kind="stable")[: max(1, round(len(scores) / 5))]
        return float(np.isin(self.places[best], (1, 2)).mean())


def powers(power: float) -> Callable[[Sample], Scores]:
    """Disruption relative to the place to a power, by the method of the package."""
    operation = type("_Disruption", (Disruption,), {"decline": power})()
    return lambda sample: operation.compared(sample.scores["disruption"], sample.story.windows)


FORMS: dict[str, Callable[[Sample], Scores]] = {
    "as scored": lambda sample: sample.scores["disruption"],
    "place, power 1": powers(1.0),
    f"place, power {Disruption.decline}": powers(Disruption.decline),
    "place, power 1.5": powers(1.5),
    "place, power 2": powers(2.0),
    WHOLE: lambda sample: sample.scores[WHOLE],
    "later": lambda sample: np.arange(len(sample.story), dtype=np.float64),
}


def without_length(scores: Scores, lengths: Sequence[int]) -> Scores:
    """The ranks of scores, less what a linear regression on the ranks of lengths within the story
    explains."""
    x, y = (rankdata(values) - (len(scores) + 1) / 2 for values in (lengths, scores))
    return np.asarray(y - (x @ y) / max(x @ x, 1e-9) * x)


def read(folder: Path) -> dict[str, list[tuple[Story, str, Sequence[float] | None, bool]]]:
    """By kind the stories with the id that their half is chosen by, their labels, and whether these
    are turning points."""
    found: dict[str, list[tuple[Story, str, Sequence[float] | None, bool]]] = {}
    for kind, file in (("five sentences", "roc_val.json"), ("synopses", "tripod_train.json")):
        if (folder / file).exists():
            data = load_labelled(folder / file, "all")
            found[kind] = [
                (story, str(story.id), labels, data.points is not None)
                for story, labels in zip(data.stories, data.labels, strict=True)
            ]
    for kind, file in (("summaries", "squality_plot_twins.jsonl"), ("tales", "fairytaleqa.jsonl")):
        if (folder / file).exists():
            rows = map(json.loads, (folder / file).read_text(encoding="utf-8").splitlines())
            found[kind] = [
                story
                for row in rows
                for story in (summaries(row) if "tellings" in row else [tale(row)])
            ]
    for file in {
        "roc_val.json",
        "tripod_train.json",
        "squality_plot_twins.jsonl",
        "fairytaleqa.jsonl",
    }:
        if not (folder / file).exists():
            print(f"skipped: no {folder / file} (it can't be redistributed; set DATA=)")
    return found


def summaries(row: dict[str, Any]) -> list[tuple[Story, str, Sequence[float] | None, bool]]:
    return [
        (Story.parse({"sentences": each["story"]}), row["id"], each["labels"], False)
        for each in labelled(row)
    ]


def tale(row: dict[str, Any]) -> tuple[Story, str, None, bool]:
    sentences = [sentence for sentence in row["sentences"] if sentence.strip()][:PASSAGE]
    return Story.parse({"sentences": sentences}), row["id"], None, False


def scored(
    rows: list[tuple[Story, str, Sequence[float] | None, bool]], encoder: StoryEncoder, exact: bool
) -> list[Sample]:
    """Stories with their scores: exact ones of all operations, shifting to the two nearest
    positions in stories of several windows, or those of one pass."""
    options: dict[str, Any] = {"on_truncation": "ignore", "progress": True}
    if not exact:
        options["approximate"] = "one-pass"
    elif any(len(row[0].windows) > 1 for row in rows):
        options["max_shifts"] = 2
    results = score_stories([row[0] for row in rows], encoder, **options)
    # The scores of one window have the whole story before a sentence as its prefix.
    whole = [
        {"sentences": row[0].sentences, "windows": [[0, len(row[0])]]} for row in rows if not exact
    ]
    prefixes = score_stories(whole, encoder, **{**options, "operations": "disruption"})
    samples = []
    for (story, id_, labels, points), result in zip(rows, results, strict=True):
        scores = {name: np.array(values) for name, values in result.scores.items()}
        if not exact:
            scores[WHOLE] = np.array(next(prefixes).scores["disruption"])
        tokens = encoder.tokenize(story.sentences)
        lengths = list(map(len, tokens.later))
        samples.append(Sample(story, is_held_out(id_), labels, points, lengths, scores))
    return samples


def by_place(samples: Sequence[Sample]) -> list[float]:
    """Mean disruption by place in a window, the first seven."""
    values = np.concatenate([sample.scores["disruption"] for sample in samples])
    places = np.concatenate([sample.places for sample in samples])
    return [float(values[places == place].mean()) for place in range(7) if (places == place).any()]


def disruption(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Agreement of each form over the story and within windows, and the share of stars that are
    early in windows."""
    found = {}
    for name, form in FORMS.items():
        if name == WHOLE and WHOLE not in samples[0].scores:
            continue
        pairs = [sample.agreement(form(sample)) for sample in samples if sample.labels is not None]
        over, inside = ([pair[i] for pair in pairs] for i in (0, 1))
        found[name] = {"agreement": mean(over).value, "in windows": mean(inside).value}
        found[name]["place 2-3"] = mean(sample.early(form(sample)) for sample in samples).value
    return found


def length(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """By operation Spearman of scores and lengths, and agreement with and without length;
    disruption as compared."""
    found = {}
    for name in (name for name in OPERATIONS if name in samples[0].scores):
        values = [
            OPERATIONS[name].compared(sample.scores[name], sample.story.windows)
            for sample in samples
        ]
        row = {
            "with length": (
                mean(spearman(sample.scores[name], sample.lengths) for sample in samples).value
            ),
            "stories": len(samples),
        }
        if samples[0].labels is not None:
            pairs = list(zip(samples, values, strict=True))
            row["agreement"] = mean(sample.agreement(value)[0] for sample, value in pairs).value
            row["without length"] = mean(
                sample.agreement(without_length(value, sample.lengths))[0]
                for sample, value in pairs
            ).value
        found[name] = row
    return found


def measure(samples: list[Sample]) -> dict[str, Any]:
    """The measures of all stories and of each half."""
    windows: list[Span] = [window for sample in samples for window in sample.story.windows]
    even = sum(min(2, hi - lo - 1) for lo, hi in windows) / sum(hi - lo for lo, hi in windows)
    report: dict[str, Any] = {
        "even": even,
        "disruption by place": by_place(samples),
        "length": length(samples),
    }
    for half, held_out in HALVES.items():
        part = [sample for sample in samples if sample.held_out == held_out]
        if part and part[0].labels is not None:
            report[half] = {
                "stories": len(part),
                "disruption": disruption(part),
                "length": length(part),
            }
    return report


def show(kind: str, report: dict[str, Any]) -> None:
    print(
        f"\n{kind}: disruption by place",
        *(f"{value:.3f}" for value in report["disruption by place"]),
    )
    for name, row in report["length"].items():
        print(f"  {name:<24}with length {row['with length']:.3f}  ({row['stories']} stories)")
    for half in (half for half in HALVES if half in report):
        print(
            f"  {half}, {report[half]['stories']} stories; place 2-3 would be {report['even']:.2f}"
            " if even"
        )
        for name, row in report[half]["disruption"].items():
            print(
                f"    {name:<24}{row['agreement']:.3f} ({row['in windows']:.3f})  place 2-3:"
                f" {row['place 2-3']:.2f}"
            )
        for name, row in report[half]["length"].items():
            print(
                f"    {name:<24}{row['agreement']:.3f}, without length {row['without length']:.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--model", help="folder or Hub id of the encoder (default: the default encoder)"
    )
    parser.add_argument("--out", default="benchmarks/results/artefacts.json")
    parser.add_argument(
        "--exact",
        type=int,
        default=0,
        metavar="N",
        help="the first N of each kind exactly, no others",
    )
    arguments = parser.parse_args()
    encoder = StoryEncoder.from_pretrained(arguments.model)
    report: dict[str, Any] = {}
    for kind, rows in read(arguments.folder).items():
        exact = kind == "five sentences" or arguments.exact > 0
        report[kind] = measure(scored(rows[: arguments.exact or None], encoder, exact))
        show(kind, report[kind])
        with AtomicFile(arguments.out) as out:
            out.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
