"""Scoring of many stories by baselines: results, order, errors, and which texts are embedded."""

from __future__ import annotations

import logging
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrative_twins import StoryEncoder, StoryError, score_stories
from narrative_twins.baselines import (
    BASELINES,
    Baseline,
    EmbeddingBaseline,
    LexRank,
    Random,
    TextRank,
    WholeText,
    baseline_scores,
    register_baseline,
    scorers,
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
    assert result.to_dict()["scores"] == result.scores
    assert result.top(1, "lead")[0].index == 0 and result.rank("trail")[-1] == 1


letters = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)


@given(st.lists(stories() | st.lists(letters, min_size=1, max_size=9), min_size=1, max_size=4))
def test_every_sentence_gets_a_finite_score(texts):
    results = list(baseline_scores(texts, encoder=FakeSentenceEncoder()))
    assert [result.index for result in results] == list(range(len(texts)))
    for result, text in zip(results, texts, strict=True):
        for values in result.scores.values():
            assert len(values) == len(text) and np.isfinite(values).all()


@given(st.lists(stories(), min_size=2, max_size=5), st.data())
def test_scores_do_not_depend_on_other_stories(texts, data):
    encoder = FakeSentenceEncoder()
    order = data.draw(st.permutations(range(len(texts))))
    together = list(baseline_scores([texts[i] for i in order], encoder=encoder, seed=3))
    for result, i in zip(together, order, strict=True):
        assert result.scores == score(texts[i], encoder=encoder, seed=3).scores


def test_texts_are_embedded_once_and_together(monkeypatch):
    monkeypatch.setattr(scorers, "BUFFER_STORIES", 2)
    encoder = FakeSentenceEncoder()
    texts = [["A b.", "C d.", "A b."], ["C d.", "E f."], ["A b."]]
    list(baseline_scores(texts, encoder=encoder))
    assert [sorted(call) for call in encoder.calls] == [
        ["A b.", "A b. C d. A b.", "C d.", "C d. E f.", "E f."],
        ["A b."],
    ]
    encoder.calls.clear()
    list(baseline_scores(texts, ["textrank", "lexrank"], encoder=encoder))
    assert [sorted(call) for call in encoder.calls] == [["A b.", "C d.", "E f."], ["A b."]]
    encoder.calls.clear()
    monkeypatch.setattr(scorers, "BUFFER_STORIES", 3)
    assert len(list(baseline_scores(texts, "textrank", encoder=encoder))) == 3
    assert [len(call) for call in encoder.calls] == [3]


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
    """Those with the same weights agree: each sentence is read alone, with the pooling of the
    checkpoint."""
    model = trainable()
    encoder = StoryEncoder.from_sentence_transformer(model)
    names = ["textrank", "lexrank", "whole_text"]
    found = [score(STORY, names, encoder=given).scores for given in (model, encoder)]
    for name in names:
        assert found[0][name] == pytest.approx(found[1][name], abs=1e-5)
    of_folder = StoryEncoder.from_pretrained(bert_folder)
    assert (
        score(STORY, names, encoder=bert_folder).scores
        == score(STORY, names, encoder=of_folder).scores
    )
    with pytest.raises(TypeError, match="an encoder is a StoryEncoder, a folder, .* not int"):
        baseline_scores([STORY], encoder=5)


def test_the_default_encoder_is_that_of_the_package(default):
    found = score(STORY, "whole_text").scores["whole_text"]
    assert found == pytest.approx(
        score(STORY, "whole_text", encoder=default).scores["whole_text"], abs=0.02
    )
    assert found == pytest.approx(WholeText().scores(score(STORY, "lead").story), abs=1e-5)


def test_whole_text():
    """The cosine with the text as it is, whatever the windows; a story encoder's summarization is
    the same if there is one window."""
    encoder = FakeSentenceEncoder(
        2, {"A b.": [3, 4], "C d.": [4, 3], "E f.": [0, 0], "A b. C d.  E f.": [6, 8]}
    )
    story = {"text": "A b. C d.  E f.", "sentences": ["A b.", "C d.", "E f."]}
    for windows in (1, 2, 3):
        result = score(story, "whole_text", encoder=encoder, windows=windows)
        assert result.scores["whole_text"] == pytest.approx([1, 0.96, 0])
    expected = next(score_stories([STORY], small(), operations="summarization")).scores[
        "summarization"
    ]
    assert score(STORY, "whole_text", encoder=small()).scores["whole_text"] == pytest.approx(
        expected, abs=1e-5
    )


def test_a_baseline_keeps_its_own_encoder_and_seed():
    own, shared = FakeSentenceEncoder(), FakeSentenceEncoder(3)
    result = score(
        STORY, [TextRank(own), LexRank(threshold=None), Random(5), "lead"], encoder=shared, seed=6
    )
    assert len(own.calls) == len(shared.calls) == 1
    assert result.scores["textrank"] == TextRank(own).scores(result.story).tolist()
    assert result.scores["lexrank"] == LexRank(shared, threshold=None).scores(result.story).tolist()
    assert result.scores["random"] == Random(5).scores(result.story).tolist()
    assert (
        score(STORY, "random", seed=6).scores["random"] == Random(6).scores(result.story).tolist()
    )
    assert score(STORY, "random").scores["random"] == Random(0).scores(result.story).tolist()


def test_bad_stories_are_reported_with_their_index_after_the_stories_before_them():
    for bad, message in [
        (["ok.", ""], "story 3: sentence 1 is empty"),
        (["ok.", "\u0301"], "story 3: sentence 1 .* has no tokens for this encoder"),
    ]:
        for names in ("lead", "textrank") if bad[1] == "" else ("textrank", "whole_text"):
            results = baseline_scores(iter([STORY, STORY, bad, STORY]), names, encoder=small())
            assert [next(results).index, next(results).index] == [0, 1]
            with pytest.raises(StoryError, match=message) as error:
                next(results)
            assert error.value.index == 2
    with pytest.raises(TypeError, match="expected several stories"):
        baseline_scores("A story.")


def test_encoders_that_fail():
    class Broken:
        def __init__(self, vectors):
            self.vectors = vectors

        def encode(self, texts):
            return self.vectors

    with pytest.raises(StoryError, match="story 1: the encoder's vectors are not finite"):
        score(STORY, "textrank", encoder=Broken(np.full((3, 2), np.nan)))
    for vectors in (np.zeros((2, 2)), np.zeros(3)):
        with pytest.raises(ValueError, match=r"one vector for each of 3 text\(s\), not \("):
            score(STORY, "textrank", encoder=Broken(vectors))


def test_texts_beyond_the_limit_of_a_sentence_transformer_are_warned_of_once(caplog, monkeypatch):
    monkeypatch.setattr(scorers, "BUFFER_STORIES", 1)
    model = trainable(positions=32)
    model.max_seq_length = 32
    with caplog.at_level(logging.WARNING, logger="narrative_twins"):
        list(baseline_scores([STORY], encoder=model))
        assert caplog.messages == []
        list(baseline_scores([STORY * 5, STORY * 6], encoder=model))
    assert len(caplog.messages) == 1
    assert "reads only the first 32 tokens of 'Nadia found a map. It led" in caplog.messages[0]
    # A story encoder reads all of it, in several passes.
    caplog.clear()
    whole = score(STORY * 5, "whole_text", encoder=StoryEncoder.from_sentence_transformer(model))
    assert caplog.messages == []
    cut = score(STORY * 5, "whole_text", encoder=model)
    assert whole.scores["whole_text"] != pytest.approx(cut.scores["whole_text"], abs=1e-3)


def test_a_baseline_of_ones_own():
    with patch.dict(BASELINES):

        @register_baseline
        class Questions(Baseline):
            """Questions are salient."""

            name = "questions"
            meaning = "questions score higher"

            def scores(self, story):
                return np.array([sentence.endswith("?") for sentence in story.sentences], float)

        assert list(score(["Why?", "So."], encoder=FakeSentenceEncoder()).scores) == [
            *ALL,
            "questions",
        ]
        assert score(["Why?", "So."], "questions").scores == {"questions": [1.0, 0.0]}
        with pytest.raises(
            ValueError, match="unknown baseline 'question'; .*did you mean 'questions'"
        ):
            baseline_scores([STORY], ["lead", "question"])
        with pytest.raises(ValueError, match="baseline 'questions' exists already"):
            register_baseline(type("Others", (Questions,), {}))
    with pytest.raises(ValueError, match="no baseline given"):
        baseline_scores([STORY], [])
    with pytest.raises(TypeError, match="a baseline is a name or an instance of Baseline, not"):
        baseline_scores([STORY], [TextRank])


def test_scores_of_a_baseline_are_checked():
    class Wrong(EmbeddingBaseline):
        name = "wrong"
        meaning = "wrong"

        def compare(self, story, vectors):
            return vectors[:, 0] if len(story) > 3 else [np.nan] * len(story)

    with pytest.raises(
        ValueError,
        match=r"baseline 'wrong' must return one finite score for each of 3 sentence\(s\)",
    ):
        score(STORY, Wrong(FakeSentenceEncoder()))
    with pytest.raises(ValueError, match="one finite score for each of 1"):
        score(
            ["A."],
            type("Two", (Wrong,), {"compare": lambda self, story, vectors: [1, 2]})(
                FakeSentenceEncoder()
            ),
        )
