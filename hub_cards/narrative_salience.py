"""Agreement of salience with human labels, as a metric of `evaluate`."""

import datasets
import evaluate

from narrative_twins.evaluation.metrics import auc, mean, spearman

DESCRIPTION = """\
Agreement of sentence scores with human choices of important sentences, within each story.
"""
INPUTS = """\
Args:
    predictions: for each story one score per sentence.
    references: for each story the number of people who chose each sentence, or 0 and 1.
Returns:
    spearman, auc: mean over the stories for which it is defined; nan if there are none.
    spearman_stories, auc_stories: the number of these stories.
"""


@evaluate.utils.file_utils.add_start_docstrings(DESCRIPTION, INPUTS)
class NarrativeSalience(evaluate.Metric):
    """Spearman correlation and AUC of sentence scores, see `INPUTS`."""

    def _info(self):
        numbers = datasets.Sequence(datasets.Value("float64"))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": numbers, "references": numbers}),
        )

    def _compute(self, predictions, references):
        for i, (scores, votes) in enumerate(zip(predictions, references)):
            if len(scores) != len(votes):
                raise ValueError(f"story {i} has {len(scores)} scores but {len(votes)} votes; give one per sentence")
        results = {}
        for name, measure in (("spearman", spearman), ("auc", auc)):
            found = mean(measure(scores, votes) for scores, votes in zip(predictions, references))
            results |= {name: found.value, f"{name}_stories": found.counted}
        return results
