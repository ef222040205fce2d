"""Evaluation: how well scores agree with human labels."""

from narrative_twins.evaluation.agreement import agreement_with_turning_points as agreement_with_turning_points
from narrative_twins.evaluation.agreement import agreement_with_votes as agreement_with_votes
