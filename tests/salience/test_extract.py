"""Extracts: the salient sentences in story order."""

from __future__ import annotations

import pytest

from support.results import result_of

SENTENCES = ["One.", "Two\n is long.", "Three.", "Four.", "Five."]


def result(scores=(0.1, 0.9, 0.3, 0.2, 0.8), **other):
    made = result_of(SENTENCES[: len(scores)])
    return type(made)(made.story, {"summarization": list(scores), **other})


def test_the_sentences_of_top_in_story_order():
    found = result()
    extract = found.extract(2)
    assert extract == sorted(found.top(2), key=lambda sentence: sentence.index)
    assert [sentence.index for sentence in extract] == [1, 4]
    assert str(extract) == "Two is long.\nFive."
    assert [sentence.index for sentence in found.extract(9)] == [0, 1, 2, 3, 4]
    assert found.extract(0) == [] and str(found.extract(0)) == ""


def test_a_share_of_the_sentences():
    found = result()
    assert [sentence.index for sentence in found.extract(share=0.5)] == [1, 4]
    assert [sentence.index for sentence in found.extract(share=0.01)] == [1]
    assert len(found.extract(share=1)) == 5
    assert found.extract() == found.extract(share=0.2) == found.extract(1)


def test_by_another_operation():
    found = result(deletion=[5.0, 4.0, 3.0, 2.0, 1.0])
    assert [sentence.sentence for sentence in found.extract(1, "deletion")] == ["One."]
    with pytest.raises(ValueError, match="'shifting' was not scored"):
        found.extract(1, "shifting")


@pytest.mark.parametrize(
    ("k", "share", "problem"),
    [(-1, None, "negative"), (1, 0.5, "not both"), (None, 0, "above 0"), (None, 1.5, "at most 1")],
)
def test_wrong_numbers(k, share, problem):
    with pytest.raises(ValueError, match=problem):
        result().extract(k, share=share)
