"""The engine: equal to the naive oracle, independent of batches, and no problem is silent."""

from __future__ import annotations

import logging
import math
import re
from itertools import count, islice

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, StoryEncoder, StoryError, score_stories

from support.models import FAMILIES, encoder_of, small
from support.oracle import Oracle
from support.scoring import TALE, FixedScores, score_story
from support.strategies import sentence, stories, window_sizes


def assert_close(a, b, tolerance=1e-5):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name] == pytest.approx(b[name], abs=tolerance), name


@pytest.mark.parametrize("attention", ["auto", "padded"])
@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("windows", [1, [4, 1, 7]], ids=str)
@pytest.mark.parametrize("kind", [*FAMILIES, "superwords"])
def test_parity_with_oracle(kind, windows, pooling, attention):
    encoder = small(kind, pooling=pooling, attention=attention)
    assert encoder.passes.attention == (
        "padded" if attention == "padded" or kind == "mpnet" else "packed"
    )
    result = score_story(TALE, encoder, windows=windows)
    assert len(result) == 12
    assert_close(
        result.scores,
        Oracle(encoder.model, encoder.tokenizer.tokenizer, pooling).score(
            result.sentences, result.windows
        ),
    )
    assert all(np.ptp(scores) > 1e-3 for scores in result.scores.values()), (
        "the encoder distinguishes no sentences"
    )


@given(stories(1, 8), st.data())
@settings(max_examples=20)
def test_parity_with_oracle_on_any_stories_and_windows(sentences, data):
    sizes = data.draw(window_sizes(len(sentences)))
    encoder = small("roberta")
    result = score_story({"sentences": sentences, "windows": sizes}, encoder)
    assert_close(
        result.scores,
        Oracle(encoder.model, encoder.tokenizer.tokenizer).score(sentences, result.windows),
    )


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_parity_with_oracle_on_the_part_of_a_story_that_fits(kind):
    """In a story that does not fit the context, a window is scored as in the part of the story read
    with it."""
    encoder = StoryEncoder(*encoder_of(kind), context_tokens=90)
    result = score_story(TALE, encoder, windows=6, on_truncation="ignore")
    assert result.truncated
    tokens = encoder.tokenize(result.sentences)
    oracle = Oracle(encoder.model, encoder.tokenizer.tokenizer)
    for span in result.windows:
        window = tokens.window(span)
        assert 2 < window.stop - window.start < 12
        part = result.sentences[window.start : window.stop]
        spans = [
            (0, window.lo - window.start),
            (window.lo - window.start, window.hi - window.start),
        ]
        spans = [(lo, hi) for lo, hi in [*spans, (spans[1][1], len(part))] if lo < hi]
        expected = oracle.score(part, spans)
        for name, scores in expected.items():
            found = result.scores[name][window.lo : window.hi]
            assert found == pytest.approx(
                scores[window.lo - window.start : window.hi - window.start], abs=1e-5
            )


@given(st.lists(stories(), min_size=2, max_size=6), st.data())
@settings(max_examples=20)
def test_scores_do_not_depend_on_batches(several, data):
    """Nor on other stories, their order, the size of the batch and the other operations, within
    1e-5."""
    model, tokenizer = encoder_of("modernbert")
    alone = [score_story(story, small("modernbert")).scores for story in several]
    order = data.draw(st.permutations(range(len(several))))
    attention = data.draw(st.sampled_from(["packed", "padded"]))
    encoder = StoryEncoder(
        model, tokenizer, batch_tokens=data.draw(st.integers(1, 400)), attention=attention
    )
    batch_size = data.draw(st.integers(1, 7))
    for index, result in zip(
        order,
        score_stories([several[i] for i in order], encoder, batch_size=batch_size),
        strict=True,
    ):
        assert_close(result.scores, alone[index])
    names = data.draw(st.lists(st.sampled_from(list(OPERATIONS)), min_size=1, unique=True))
    for result, expected in zip(
        score_stories(several, encoder, operations=names), alone, strict=True
    ):
        assert list(result.scores) == names
        assert_close(result.scores, {name: expected[name] for name in names})


@given(sentence, stories(1, 3))
def test_equal_sentences_get_their_own_scores(twice, between):
    result = score_story([twice, *between, twice], small())
    assert len(result.scores["disruption"]) == len(between) + 2
    assert result.scores["summarization"][0] == pytest.approx(
        result.scores["summarization"][-1], abs=1e-6
    )
    # The sentence begins the window and ends it, so it disrupts different prefixes.
    assert result.scores["disruption"][0] == 0.0 != result.scores["disruption"][-1]


def test_stories_of_one_two_and_a_hundred_sentences(encoder):
    single = score_story(["Nadia ran."], encoder)
    assert {name: scores[0] for name, scores in single.scores.items()} == {
        "deletion": 0.0,
        "shifting": 0.0,
        "disruption": 0.0,
        "summarization": pytest.approx(1.0),
    }
    two = score_story(["Nadia ran.", "It rained."], encoder).scores
    assert two["shifting"][0] == pytest.approx(two["shifting"][1]) != 0
    hundred = score_story(
        [f"In {y} the mill burned down." for y in range(1900, 2000)],
        encoder,
        on_truncation="ignore",
    )
    assert len(hundred.windows) == 14
    assert all(len(scores) == 100 for scores in hundred.scores.values())


def test_3000_sentences_are_all_scored(caplog):
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=64)
    sentences = [f"{i} ran." for i in range(3000)]
    result = score_story(sentences, encoder)
    assert result.sentences == tuple(sentences)
    assert len(result.windows) == 429
    assert all(
        len(scores) == 3000 and np.isfinite(scores).all() for scores in result.scores.values()
    )
    assert result.truncated
    assert result.cut_tokens > 3000
    # Sentences beyond the first context are scored like all others: leaving them out changes
    # something.
    late = np.array(
        [result.scores["deletion"][lo:hi] for lo, hi in result.windows[-50:] if hi - lo == 7]
    )
    assert (late > 1e-4).all()
    assert "story 1 is longer than the 64 tokens that the encoder reads at once" in caplog.text


@pytest.mark.parametrize("sentences", [1, 4], ids=["alone", "among others"])
def test_sentence_longer_than_the_context_is_scored_with_a_warning(sentences, caplog):
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=32)
    story = [*["It rained."] * (sentences - 1), "Nadia ran and " * 100 + "fell."]
    result = score_story(story, encoder, windows="auto")
    assert result.truncated
    assert result.context_tokens == 32
    total = len(encoder.tokenizer.tokenizer(" ".join(story), add_special_tokens=False)["input_ids"])
    assert result.cut_tokens == total - 30
    assert all(
        len(scores) == sentences and np.isfinite(scores).all() for scores in result.scores.values()
    )
    if sentences > 1:
        assert len(set(result.scores["disruption"])) > 1
    assert "is longer than the 32 tokens that the encoder reads at once" in caplog.text


def test_truncation_warns_once_is_ignored_or_raises(caplog):
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=40)
    with caplog.at_level(logging.WARNING, "narrative_twins"):
        assert [r.truncated for r in score_stories(["I ran.", TALE, TALE], encoder)] == [
            False,
            True,
            True,
        ]
    assert [record.getMessage()[:8] for record in caplog.records] == ["story 2 "]
    caplog.clear()
    list(score_stories([TALE], encoder, on_truncation="ignore"))
    assert not caplog.records
    with pytest.raises(StoryError, match="story 2: the story is longer than the 40 tokens"):
        list(score_stories(["I ran.", TALE], encoder, on_truncation="error"))


BAD = {"": "empty", ("A.", " "): "white space", ("A.", 3): "not text", "\u0301": "no token"}


@pytest.mark.parametrize(("bad", "problem"), BAD.items(), ids=list(BAD.values()))
def test_bad_story_does_not_affect_the_others(encoder, caplog, bad, problem):
    bad = list(bad) if isinstance(bad, tuple) else bad
    stories_ = ["Nadia ran. It rained.", bad, "The mill burned."]
    expected = [score_story(stories_[0], encoder).scores, score_story(stories_[2], encoder).scores]

    results = list(score_stories(stories_, encoder, on_error="skip"))
    assert [result.index for result in results] == [0, 2]
    for result, scores in zip(results, expected, strict=True):
        assert_close(result.scores, scores)
    assert "skipped story 2: " in caplog.text

    errors: list[StoryError] = []
    assert len(list(score_stories(stories_, encoder, on_error=errors.append))) == 2
    assert [(error.index, problem in str(error)) for error in errors] == [(1, True)]

    got = []
    with pytest.raises(StoryError, match=f"story 2: .*{problem}"):
        for result in score_stories(stories_, encoder):
            got.append(result.index)
    assert got == [0], "results before the bad story are yielded"


def test_generator_is_read_no_further_than_a_batch(encoder):
    """The input is endless."""
    taken = []

    def endless():
        for i in count():
            taken.append(i)
            yield f"In {i} the mill burned. Nadia ran."

    results = score_stories(endless(), encoder, batch_size=4, operations="deletion")
    assert taken == []
    first = list(islice(results, 3))
    assert [result.index for result in first] == [0, 1, 2]
    assert len(taken) == 4


def test_long_stories_are_scored_in_parts(encoder, monkeypatch):
    """The tokens planned and not yet encoded are limited, regardless of the length of a story."""
    monkeypatch.setattr("narrative_twins.salience.engine.BUFFER_TOKENS", 500)
    planned = []
    encode = StoryEncoder.encode

    def recorded(self, variants, progress=None):
        planned.append(sum(len(chunk.ids) for chunks in variants for chunk in chunks))
        return encode(self, variants, progress)

    expected = score_story(TALE, encoder, windows=6)
    monkeypatch.setattr(StoryEncoder, "encode", recorded)
    parts = score_story(TALE, encoder, windows=6)
    assert len(planned) > 3
    assert_close(parts.scores, expected.scores)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"operations": "erasure"}, "unknown operation 'erasure'"),
        ({"operations": []}, "no operation"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"on_error": "panic"}, "on_error='panic'"),
        ({"on_truncation": "panic"}, "on_truncation='panic'"),
    ],
)
def test_invalid_arguments_raise_at_once(encoder, options, problem):
    with pytest.raises(ValueError, match=problem):
        score_stories(["Nadia ran."], encoder, **options)


def test_input_that_is_not_several_stories_raises(encoder):
    for story in (TALE, {"text": TALE}):
        with pytest.raises(TypeError, match="put it in a list"):
            score_stories(story, encoder)
    for table in (Dataset.from_dict({"text": [TALE]}).to_pandas(),):
        with pytest.raises(TypeError, match="a table is not a list of stories; pass a column"):
            score_stories(table, encoder)
    with pytest.raises(TypeError, match="an encoder is a StoryEncoder, a folder or a Hub id"):
        score_stories(["Nadia ran."], 5)
    with pytest.raises(TypeError, match="expected a story or several stories, not NoneType"):
        score_stories(None, encoder)
    with pytest.raises(ValueError, match="splitter='pysbd': choose 'sentences' or 'lines'"):
        score_stories([TALE], encoder, splitter="pysbd")
    with pytest.raises(TypeError, match="unknown option 'shifts'; choose from operations"):
        score_stories([TALE], encoder, shifts=1)


def test_custom_operation(encoder):
    result = score_story(
        ["Nadia ran.", "It rained."], encoder, operations=[FixedScores([2.0, 1.0]), "deletion"]
    )
    assert result.scores["fixed"] == [2.0, 1.0]
    assert result.primary_operation == "fixed"
    for wrong in ([1.0], [1.0, math.nan], 1.0):
        with pytest.raises(
            ValueError, match="operation 'fixed' must return one finite score for each of 2 "
        ):
            score_story(["Nadia ran.", "It rained."], encoder, operations=FixedScores(wrong))


def test_progress_bar_ends_at_the_number_of_stories(encoder, capsys):
    list(score_stories(["Nadia ran. It rained."] * 3, encoder, progress=True))
    list(
        score_stories(
            (text for text in ["Nadia ran. It rained.", ""]),
            encoder,
            progress=True,
            on_error="skip",
        )
    )
    shown = capsys.readouterr().err
    assert "100%" in shown
    assert "3.0/3 stories" in shown
    assert "2.0 stories" in shown
    list(score_stories(["Nadia ran."], encoder))
    assert capsys.readouterr().err == ""


def test_states_that_are_not_finite_fail_only_their_story(encoder, monkeypatch):
    encode = StoryEncoder.encode

    def overflown(self, variants, progress=None):
        vectors = encode(self, variants, progress)
        vectors[0] = np.inf
        return vectors

    monkeypatch.setattr(StoryEncoder, "encode", overflown)
    errors = []
    results = list(
        score_stories(["Nadia ran. It rained.", "He left."], encoder, on_error=errors.append)
    )
    assert [result.index for result in results] == [1]
    assert "story 1: the encoder's states are not finite" in str(errors[0])


def test_story_that_could_not_be_read_keeps_its_index(encoder):
    errors = []
    unread = StoryError("a page is missing")
    results = list(
        score_stories(["Nadia ran.", unread, "He left."], encoder, on_error=errors.append)
    )
    assert [result.index for result in results] == [0, 2]
    assert str(errors[0]) == "story 2: a page is missing"


def test_story_that_fails_after_partial_scoring_counts_once_in_progress(
    encoder, monkeypatch, capsys
):
    monkeypatch.setattr("narrative_twins.salience.engine.BUFFER_TOKENS", 100)
    monkeypatch.setattr("narrative_twins.salience.plans.WINDOW_TOKENS", 300)
    story = {"sentences": ["Nadia ran."] * 12, "windows": [1, 1, 10]}
    list(score_stories([story, "He left."], encoder, on_error="skip", progress=True))
    shown = capsys.readouterr().err
    assert "100%" in shown and "2.0/2 stories" in shown
    assert max(map(float, re.findall(r"([\d.]+)/2 stories", shown))) == 2.0


def test_progress_function_is_called_and_can_stop_the_scoring(encoder, monkeypatch):
    seen = []
    list(
        score_stories(
            [TALE, "", "Nadia ran. It rained."],
            encoder,
            on_error="skip",
            windows=2,
            progress=seen.append,
        )
    )
    assert seen == sorted(seen) and seen[-1] == pytest.approx(3)
    seen.clear()
    list(score_stories([TALE], encoder, windows=3, progress=seen.append))
    assert any(0 < done < 1 for done in seen), "progress is reported within a long story"
    passes = []
    states = type(encoder.passes).states
    monkeypatch.setattr(
        type(encoder.passes), "states", lambda self, rows: passes.append(1) or states(self, rows)
    )

    class Enough(Exception):
        pass

    def stop(done):
        if done > 0:
            raise Enough

    with pytest.raises(Enough):
        list(score_stories([TALE] * 9, encoder, progress=stop))
    assert len(passes) == 1
    monkeypatch.undo()
    assert len(score_story(TALE, encoder)) == 12
