"""Evaluation: measures how well scores agree with human labels."""

from narrative_twins.extras import check_extra as _check_extra

_check_extra("train")

from narrative_twins.evaluation.agreement import (
    agreement_with_turning_points as agreement_with_turning_points,
)
from narrative_twins.evaluation.agreement import agreement_with_votes as agreement_with_votes
from narrative_twins.evaluation.comparison import Comparison as Comparison
from narrative_twins.evaluation.labelled_stories import LabelledStories as LabelledStories
from narrative_twins.evaluation.labelled_stories import load_labelled as load_labelled
from narrative_twins.evaluation.run import evaluate as evaluate
from narrative_twins.evaluation.similarity import SimilarityComparison as SimilarityComparison
from narrative_twins.evaluation.similarity import evaluate_similarity as evaluate_similarity
