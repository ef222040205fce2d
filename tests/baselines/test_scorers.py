"""Scoring of many stories by baselines: results, order, errors, and which texts are embedded."""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import StoryEncoder, StoryError, score_stories
from narrative_twins.baselines import (
    BASELINES,
    EmbeddingBaseline,
    LexRank,
    Random,
    TextRank,
    baseline_scores,
)

from support.models import small, trainable
from support.scoring import TALE
from support.strategies import stories
from support.text_encoders import FakeSentenceEncoder

ALL = ["random", "lead", "trail", "centre", "length", "textrank", "lexrank", "whole_text"]
STORY = ["Nadia found a map.", "It led to a mill.", "The mill was gone."]


def score(story, baselines=None, **options):
    (result,) = baseline_scores([story], baselines, **options)
    return result


def test_results_are_those_of_score_stories():
    result = score({"text": TALE, "id": "T"}, encoder=small(), windows=3)
    expected = next(score_stories([{"text": TALE, "id": "T"}], small(), windows=3))
    assert list(result.scores) == list(BASELINES) == ALL
    assert (result.story, result.index) == (expected.story, 0)
    assert (result.context_tokens, result.cut_tokens, result.approximate) == (None, 0, None)
    assert all(type(value) is float for values in result.scores.values() for value in values)
    assert result.json()["scores"] == result.scores
    assert result.top(1, "lead")[0].index == 0 and result.rank("trail")[-1] == 1


letters = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
texts = stories() | st.lists(letters, min_size=1, max_size=9)


@given(st.lists(texts, min_size=1, max_size=4), st.data())
def test_scores_are_finite_and_do_not_depend_on_other_stories(texts, data):
    encoder = FakeSentenceEncoder()
    order = data.draw(st.permutations(range(len(texts))))
    together = list(baseline_scores([texts[i] for i in order], encoder=encoder, seed=3))
    assert [result.index for result in together] == list(range(len(texts)))
    for result, i in zip(together, order, strict=True):
        assert result.scores == score(texts[i], encoder=encoder, seed=3).scores
        for values in result.scores.values():
            assert len(values) == len(texts[i]) and np.isfinite(values).all()


def test_texts_of_a_story_are_embedded_once():
    encoder = FakeSentenceEncoder()
    texts = [["A b.", "C d.", "A b."], ["C d.", "E f."]]
    list(baseline_scores(texts, encoder=encoder))
    sentences, whole = [["A b.", "C d."], ["E f."]], [["A b. C d. A b."], ["C d. E f."]]
    assert encoder.calls == [sentences[0], whole[0], sentences[1], whole[1]]


def test_results_are_lazy_and_position_needs_no_encoder():
    taken = []

    def source():
        for text in (STORY, TALE, STORY):
            taken.append(text)
            yield text

    with patch.object(StoryEncoder, "from_pretrained", side_effect=AssertionError):
        results = baseline_scores(source(), ["lead", "random"], encoder="missing")
        assert taken == []
        next(results)
    assert taken == [STORY]


def test_encoders_of_all_kinds(bert_folder):
    """Those with the same weights agree."""
    model = trainable()
    for kind, same in (
        (model, StoryEncoder.from_sentence_transformer(model)),
        (bert_folder, StoryEncoder.from_pretrained(bert_folder)),
    ):
        found, expected = (
            score(STORY, "whole_text", encoder=each).scores["whole_text"] for each in (kind, same)
        )
        assert found == pytest.approx(expected, abs=1e-5)
    with pytest.raises(TypeError, match="an encoder is a StoryEncoder, a folder, .* not int"):
        baseline_scores([STORY], encoder=5)


def test_whole_text():
    """The cosine with the text; summarization is the same if there is one window."""
    vectors = {"A b.": [3, 4], "C d.": [4, 3], "E f.": [0, 0], "A b. C d.  E f.": [6, 8]}
    story = {"text": "A b. C d.  E f.", "sentences": ["A b.", "C d.", "E f."]}
    for windows in (1, 3):
        encoder = FakeSentenceEncoder(2, vectors)
        result = score(story, "whole_text", encoder=encoder, windows=windows)
        assert result.scores["whole_text"] == pytest.approx([1, 0.96, 0])
    (expected,) = score_stories([STORY], small(), operations="summarization")
    found = score(STORY, "whole_text", encoder=small()).scores["whole_text"]
    assert found == pytest.approx(expected.scores["summarization"], abs=1e-5)


def test_a_baseline_keeps_its_own_encoder_and_seed():
    own, shared = FakeSentenceEncoder(), FakeSentenceEncoder(3)
    result = score(STORY, [TextRank(own), LexRank(), Random(5)], encoder=shared, seed=6)
    assert len(own.calls) == len(shared.calls) == 1
    for baseline in (TextRank(own), LexRank(shared), Random(5)):
        assert result.scores[baseline.name] == baseline.scores(result.story).tolist()
    for options, seed in (({"seed": 6}, 6), ({}, 0)):
        found = score(STORY, "random", **options).scores["random"]
        assert found == Random(seed).scores(result.story).tolist()


def test_bad_stories_are_reported_with_their_index_after_the_stories_before_them():
    for name, sentence, problem in (
        ("lead", "", "is empty"),
        ("textrank", "\u0301", ".* has no tokens for this encoder"),
    ):
        source = iter([STORY, STORY, ["ok.", sentence], STORY])
        results = baseline_scores(source, name, encoder=small())
        assert [next(results).index, next(results).index] == [0, 1]
        with pytest.raises(StoryError, match=f"story 3: sentence 1 {problem}"):
            next(results)
    with pytest.raises(TypeError, match="expected several stories"):
        baseline_scores("A story.")


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (np.full((3, 2), np.nan), "story 1: the encoder's vectors are not finite"),
        (np.zeros((2, 2)), r"one vector for each of 3 text"),
        (np.zeros(3), r"one vector for each of 3 text"),
    ],
)
def test_encoders_that_fail(vectors, problem):
    encoder = SimpleNamespace(encode=lambda texts: vectors)
    with pytest.raises(ValueError, match=problem):
        score(STORY, "textrank", encoder=encoder)


def test_a_sentence_transformer_does_not_truncate():
    """All of a long text is read, in several passes; an object that hides its limit may cut it."""

    class Cutting:
        encode = staticmethod(lambda texts: model.encode(texts))

    model = trainable(positions=32)
    model.max_seq_length = 32
    cut, found, expected = (
        score(STORY * 5, "whole_text", encoder=encoder).scores["whole_text"]
        for encoder in (Cutting(), model, StoryEncoder.from_sentence_transformer(model))
    )
    assert found == pytest.approx(expected, abs=1e-6)
    assert cut != pytest.approx(expected, abs=1e-3)


def test_scores_of_a_baseline_are_checked():
    class Wrong(EmbeddingBaseline):
        name = meaning = "wrong"

        def compare(self, story, vectors):
            return [np.nan] * len(story) if len(story) == 3 else [1, 2]

    for story in (STORY, ["A."]):
        message = f"baseline 'wrong' must return one finite score for each of {len(story)} sent"
        with pytest.raises(ValueError, match=message):
            score(story, Wrong(FakeSentenceEncoder()))
