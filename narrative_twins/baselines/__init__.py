"""Baselines: scores of sentences by chance, position, length, TextRank, LexRank and similarity."""

from narrative_twins.baselines.scorers import BASELINES as BASELINES
from narrative_twins.baselines.scorers import Baseline as Baseline
from narrative_twins.baselines.scorers import Centre as Centre
from narrative_twins.baselines.scorers import EmbeddingBaseline as EmbeddingBaseline
from narrative_twins.baselines.scorers import Lead as Lead
from narrative_twins.baselines.scorers import Length as Length
from narrative_twins.baselines.scorers import LexRank as LexRank
from narrative_twins.baselines.scorers import Random as Random
from narrative_twins.baselines.scorers import TextRank as TextRank
from narrative_twins.baselines.scorers import Trail as Trail
from narrative_twins.baselines.scorers import WholeText as WholeText
from narrative_twins.baselines.scorers import baseline_scores as baseline_scores
from narrative_twins.baselines.scorers import lexrank_scores as lexrank_scores
from narrative_twins.baselines.scorers import register_baseline as register_baseline
from narrative_twins.baselines.scorers import textrank_scores as textrank_scores
