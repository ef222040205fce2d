"""The result of scoring a story: ranks, top sentences, plain data."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from narrative_twins import OPERATIONS
from narrative_twins.evaluation.metrics import spearman

from support.models import small
from support.scoring import FixedScores, score_story
from support.strategies import stories


def test_rank_and_top(encoder):
    result = score_story(["A.", "B.", "C.", "D."], encoder, operations=[FixedScores([0.5, 0.9, 0.5, 0.1])])
    assert result.rank() == result.rank("fixed") == [2, 1, 2, 4]
    assert [(top.index, top.sentence, top.score) for top in result.top(3)] == [
        (1, "B.", 0.9),
        (0, "A.", 0.5),
        (2, "C.", 0.5),
    ]
    assert len(result.top(9)) == 4
    assert result.top(0) == []
    with pytest.raises(ValueError, match="negative"):
        result.top(-1)
    with pytest.raises(ValueError, match="'deletion' was not scored; choose from fixed"):
        result.rank("deletion")
    assert score_story("Nadia ran. It rained.", encoder).primary_operation == "summarization"


@given(stories(2, 12))
@settings(max_examples=20)
def test_ranks_reverse_the_order_of_scores(sentences):
    result = score_story(sentences, small())
    for name, scores in result.scores.items():
        if len(set(scores)) > 1:
            assert spearman(scores, result.rank(name)) == pytest.approx(-1)


def test_plain_data_and_pandas(encoder):
    result = score_story({"id": "x", "sentences": ["Nadia ran.", "It rained."], "windows": 2}, encoder)
    assert result.to_dict() == {
        "id": "x",
        "sentences": ["Nadia ran.", "It rained."],
        "spans": [[0, 10], [11, 21]],
        "windows": [[0, 1], [1, 2]],
        "scores": result.scores,
        "truncated": False,
        "context_tokens": 512,
        "cut_tokens": 0,
        "approximate": None,
    }
    frame = result.to_pandas()
    assert list(frame.columns) == ["sentence", "start", "end", "window", *OPERATIONS]
    assert frame["window"].tolist() == [0, 1]
    assert frame["summarization"].tolist() == result.scores["summarization"]
