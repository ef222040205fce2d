"""Corpora of millions of stories: a callable for batches of rows, and runs that write shards."""

from narrative_twins.extras import check_extra as _check_extra

_check_extra("train")

from narrative_twins.corpora.run import CorpusRun as CorpusRun
from narrative_twins.corpora.run import score_corpus as score_corpus
from narrative_twins.corpora.scorer import COLUMNS as COLUMNS
from narrative_twins.corpora.scorer import StoryScorer as StoryScorer
