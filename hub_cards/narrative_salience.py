"""Agreement of salience with people's choices, as a metric of `evaluate`."""

import datasets
import evaluate

from narrative_twins.evaluation.metrics import auc, mean, spearman

DESCRIPTION = """\
How well scores of sentences agree with people's choices of the sentences that matter, within each story.
"""
INPUTS = """\
Args:
    predictions: for each story a score for each sentence.
    references: for each story how many people chose each sentence, or 0 and 1.
Returns:
    spearman, auc: mean over the stories that have one; nan if none has.
    spearman_stories, auc_stories: how many stories these are.
"""


@evaluate.utils.file_utils.add_start_docstrings(DESCRIPTION, INPUTS)
class NarrativeSalience(evaluate.Metric):
    """The metric."""

    def _info(self):
        numbers = datasets.Sequence(datasets.Value("float64"))
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": numbers, "references": numbers}),
        )

    def _compute(self, predictions, references):
        for at, (scores, votes) in enumerate(zip(predictions, references)):
            if len(scores) != len(votes):
                raise ValueError(f"story {at} has {len(scores)} scores but {len(votes)} votes; give one a sentence")
        found = {}
        for name, measure in (("spearman", spearman), ("auc", auc)):
            of_all = mean(measure(scores, votes) for scores, votes in zip(predictions, references))
            found |= {name: of_all.value, f"{name}_stories": of_all.counted}
        return found
