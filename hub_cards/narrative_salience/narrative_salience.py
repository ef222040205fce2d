"""Agreement of salience with human labels, as metrics of `evaluate`."""

import datasets
import evaluate

from narrative_twins.evaluation.agreement import turning_point_areas
from narrative_twins.evaluation.metrics import auc, label_entropy, partial_spearman, spearman
from narrative_twins.evaluation.significance import mean

DESCRIPTION = """\
Agreement of sentence scores with human labels of important sentences. The configurations are
`labels` (the default): Spearman correlation and AUC within each story; `partial`: Spearman given
position and length; `turning_points`: AUC of each turning point in its window; `entropy`: how much
annotators agree on the sentences.
"""
INPUTS = """\
Args:
    predictions: for each story one score per sentence (not for `entropy`).
    references: for each story the number of people who chose each sentence, or any label of each
        sentence; for `turning_points` the indices of the turning points, counted from 0.
    lengths: with `partial`, for each story the number of words of each sentence.
    windows: with `turning_points`, for each story its windows as half-open ranges, one for each
        turning point.
Returns:
    labels: spearman, auc: mean over the stories for which it is defined, nan if there are none;
        spearman_stories, auc_stories: the number of these stories.
    partial: partial_spearman, over all stories together.
    turning_points: auc_1 and so on, auc (the mean of these means), and left_out, the number of
        turning points outside of the window with their number.
    entropy: entropy (in bits, mean over stories) and perplexity (two to the power of it).
"""
NUMBERS = datasets.Sequence(datasets.Value("float64"))
INTEGERS = datasets.Sequence(datasets.Value("int64"))
FEATURES = {
    "labels": {"predictions": NUMBERS, "references": NUMBERS},
    "partial": {"predictions": NUMBERS, "references": NUMBERS, "lengths": NUMBERS},
    "turning_points": {
        "predictions": NUMBERS,
        "references": INTEGERS,
        "windows": datasets.Sequence(INTEGERS),
    },
    "entropy": {"references": NUMBERS},
}


@evaluate.utils.file_utils.add_start_docstrings(DESCRIPTION, INPUTS)
class NarrativeSalience(evaluate.Metric):
    """Agreement of sentence scores with human labels, see `INPUTS`."""

    def _info(self):
        name = "labels" if self.config_name == "default" else self.config_name
        if name not in FEATURES:
            raise ValueError(f"unknown configuration {name!r}; choose from {', '.join(FEATURES)}")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features(FEATURES[name]),
        )

    def _compute(self, references, predictions=None, lengths=None, windows=None):
        if self.config_name == "entropy":
            entropy = mean(map(label_entropy, references)).value
            return {"entropy": entropy, "perplexity": 2**entropy}
        if self.config_name == "turning_points":
            return _turning_points(predictions, references, windows)
        for i, (scores, labels) in enumerate(zip(predictions, references, strict=True)):
            if len(scores) != len(labels):
                raise ValueError(
                    f"story {i} has {len(scores)} scores but {len(labels)} labels; give one per"
                    " sentence"
                )
        if self.config_name == "partial":
            controls = [
                (range(len(scores)), words)
                for scores, words in zip(predictions, lengths, strict=True)
            ]
            return {"partial_spearman": partial_spearman(predictions, references, controls)}
        results = {}
        for name, measure in (("spearman", spearman), ("auc", auc)):
            found = mean(
                measure(scores, labels)
                for scores, labels in zip(predictions, references, strict=True)
            )
            results |= {name: found.value, f"{name}_stories": found.counted}
        return results


def _turning_points(predictions, references, windows):
    table = [
        turning_point_areas(scores, [tuple(span) for span in spans], points)
        for scores, points, spans in zip(predictions, references, windows, strict=True)
    ]
    means = [mean(column) for column in zip(*table, strict=True)]
    results = {f"auc_{number}": value.value for number, value in enumerate(means, start=1)}
    outside = [
        not span[0] <= point < span[1]
        for points, spans in zip(references, windows, strict=True)
        for point, span in zip(points, spans, strict=True)
    ]
    return results | {"auc": mean(value.value for value in means).value, "left_out": sum(outside)}
