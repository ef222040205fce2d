"""The result of scoring a story: ranks, top sentences, extracts, tables."""

from __future__ import annotations

import numpy as np
import pytest

from narrative_twins import OPERATIONS, Story, StorySalience, show

from support.scoring import FixedScores, score_story


def test_rank_and_top(encoder):
    result = score_story(
        ["A.", "B.", "C.", "D."], encoder, operations=[FixedScores([0.5, 0.9, 0.5, 0.1])]
    )
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


def saved(windows, **scores) -> StorySalience:
    sentences = [f"Sentence {i}." for i in range(windows[-1][1])]
    return StorySalience(Story.parse({"sentences": sentences, "windows": windows}), scores)


def test_disruption_is_compared_with_what_is_usual_at_its_place():
    usual = [0.0, 1.0, 2**-1.25, 3**-1.25]
    plain = [*usual, *usual, *usual[:3], 2 * usual[3]]
    result = saved([[0, 4], [4, 8], [8, 12]], disruption=plain, deletion=plain)
    # The first sentence of the story keeps 0; those of later windows, which have no score, count as
    # the median.
    assert result.compared("disruption") == pytest.approx([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2])
    ranks = result.rank("disruption")
    assert (ranks[0], ranks[11]) == (12, 1)
    (best,) = result.top(1, "disruption")
    assert best.index == 11 and best.score == plain[11], "the score itself is that of the operation"
    assert result.scores["disruption"] == plain == result.compared("deletion")
    assert result.rank("deletion")[1] == 1


@pytest.mark.parametrize("windows", [[[0, 3]], [[0, 1], [1, 2], [2, 3]], [[0, 1], [1, 3]]])
def test_comparison_of_few_sentences(windows):
    firsts = [lo for lo, _ in windows]
    scores = [0.0 if i in firsts else 0.5 for i in range(3)]
    compared = saved(windows, disruption=scores).compared("disruption")
    assert compared[0] == 0 and np.isfinite(compared).all()


def test_operations_of_others_are_compared_as_they_are():
    assert saved([[0, 3]], unknown=[3.0, 1.0, 2.0]).compared("unknown") == [3.0, 1.0, 2.0]


def test_what_is_shown_says_how_disruption_is_compared():
    result = saved([[0, 3]], disruption=[0.0, 0.5, 0.4], deletion=[0.1, 0.2, 0.3])
    words = "each score with what is usual at its place"
    assert not result.notes and words in result.notes_on(["deletion", "disruption"])[0]
    assert not result.notes_on(["deletion"])
    assert words in "".join(show.to_html([result]))
    assert words in saved([[0, 3]], disruption=[0.0, 0.5, 0.4])._repr_html_()


def test_plain_data_and_pandas(encoder):
    result = score_story(
        {"id": "x", "sentences": ["Nadia ran.", "It rained."], "windows": 2}, encoder
    )
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


def test_extracts_are_the_top_sentences_in_story_order():
    sentences = ["One.", "Two\n is long.", "Three.", "Four.", "Five."]
    scores = {"summarization": [0.1, 0.9, 0.3, 0.2, 0.8], "deletion": [5.0, 4.0, 3.0, 2.0, 1.0]}
    result = StorySalience(Story.parse(sentences), scores)
    extract = result.extract(2)
    assert extract == sorted(result.top(2), key=lambda sentence: sentence.index)
    assert str(extract) == "Two is long.\nFive."
    assert len(result.extract(9)) == len(result.extract(share=1)) == 5
    assert result.extract(0) == [] and str(result.extract(0)) == ""
    assert extract == result.extract(share=0.5)
    assert result.extract(1) == result.extract(share=0.01) == result.extract()
    assert str(result.extract(1, "deletion")) == "One."
    for problem, k, share in (
        ("negative", -1, None),
        ("not both", 1, 0.5),
        ("above 0", None, 0),
        ("at most 1", None, 1.5),
    ):
        with pytest.raises(ValueError, match=problem):
            result.extract(k, share=share)
    with pytest.raises(ValueError, match="'shifting' was not scored"):
        result.extract(1, "shifting")
