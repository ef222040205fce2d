"""The engine: equal to the naive oracle, independent of batches, and no problem is silent."""

import logging
import math
import re
from contextlib import nullcontext
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import OPERATIONS, StoryEncoder, StoryError, score_stories, split_sentences
from narrative_twins.salience.operations import SIMILARITIES, resolve_operations
from narrative_twins.salience.plans import exact_plans

from support.models import DECODERS, encoder_of, small
from support.scoring import TALE, FixedScores, assert_close, oracle_of, score_story
from support.strategies import stories, window_sizes


@pytest.fixture
def encoded(monkeypatch):
    """The sizes of the batches of variants that the encoder gets."""
    sizes, encode = [], StoryEncoder.encode

    def recorded(self, variants, progress=None):
        sizes.append(len(variants))
        return encode(self, variants, progress)

    monkeypatch.setattr(StoryEncoder, "encode", recorded)
    return sizes


@pytest.mark.parametrize(
    ("kind", "windows", "pooling"),
    [
        ("bert", 1, "first"),
        ("mpnet", [3, 1, 3], "mean"),
        ("roberta", 1, "mean"),
        ("modernbert", 1, "mean"),
        ("xlm-roberta", [3, 1, 3], "first"),
        ("superwords", [3, 1, 3], "mean"),
        ("qwen3", 1, "lasttoken"),
        ("llama", [3, 1, 3], "mean"),
        ("mistral", [3, 1, 3], "weightedmean"),
    ],
    ids=str,
)
def test_parity_with_oracle(kind, windows, pooling):
    for attention, prompt in (("auto", ""), ("padded", "Find the story, its map and mill:")):
        encoder = small(kind, pooling=pooling, attention=attention, prompt=prompt)
        is_padded = attention == "padded" or kind == "mpnet"
        assert encoder.passes.attention == ("padded" if is_padded else "packed")
        result = score_story(split_sentences(TALE)[1:8], encoder, windows=windows)
        assert_close(result.scores, oracle_of(encoder).score(result.sentences, result.windows))
        assert all(np.ptp(scores) > 1e-4 for scores in result.scores.values()), "they differ"


@given(stories(1, 6), st.sampled_from(list(SIMILARITIES)), st.data())
@settings(max_examples=12)
def test_parity_with_oracle_on_any_stories_and_windows(sentences, similarity, data):
    """Also where tokens of the prompt depend on the text."""
    kind = data.draw(st.sampled_from(["roberta", "superwords", *DECODERS]))
    pooling = data.draw(st.sampled_from(["mean", "lasttoken", "weightedmean"]))
    prompt = data.draw(st.sampled_from(["", "query: ", "it was h", "-"]))
    encoder = small(kind, pooling=pooling, prompt=prompt)
    story = {"sentences": sentences, "windows": data.draw(window_sizes(len(sentences)))}
    result = score_story(story, encoder, similarity=similarity)
    oracle = oracle_of(encoder, similarity)
    assert_close(result.scores, oracle.score(result.sentences, result.windows))
    assert result.similarity == similarity


def test_parity_with_oracle_on_the_part_of_a_story_that_fits():
    """In a story that does not fit the context, a window is scored as in the part of the story read
    with it."""
    encoder = StoryEncoder(*encoder_of("modernbert"), context_tokens=90)
    result = score_story(TALE, encoder, windows=6, on_truncation="ignore")
    assert result.truncated
    tokens = encoder.tokenize(result.sentences)
    for span in result.windows[1:4:2]:
        start, lo, hi, stop = tokens.window(span)
        assert 2 < stop - start < 12
        edges = [(0, lo - start), (lo - start, hi - start), (hi - start, stop - start)]
        spans = [(first, last) for first, last in edges if first < last]
        scores = oracle_of(encoder).score(result.sentences[start:stop], spans)
        expected = {name: each[lo - start : hi - start] for name, each in scores.items()}
        assert_close({name: each[lo:hi] for name, each in result.scores.items()}, expected)


@given(st.lists(stories(), min_size=2, max_size=5), st.data())
@settings(max_examples=4)
def test_scores_do_not_depend_on_batches(several, data):
    """Nor on other stories, their order, the size of the batch and the other operations, within
    1e-5."""
    alone = [score_story(story, small("modernbert")).scores for story in several]
    order = data.draw(st.permutations(range(len(several))))
    how = {"batch_tokens": data.draw(st.integers(1, 400))}
    how["attention"] = data.draw(st.sampled_from(["packed", "padded"]))
    encoder = StoryEncoder(*encoder_of("modernbert"), **how)
    names = data.draw(st.lists(st.sampled_from(list(OPERATIONS)), min_size=1, unique=True))
    options = {"batch_size": data.draw(st.integers(1, 7)), "operations": names}
    results = score_stories([several[i] for i in order], encoder, **options)
    for index, result in zip(order, results, strict=True):
        assert list(result.scores) == names
        assert_close(result.scores, {name: alone[index][name] for name in names})


def test_a_text_without_full_stops_is_noted(caplog):
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=40)
    with caplog.at_level(logging.WARNING, "narrative_twins"):
        (result,) = score_stories(["so i went down to the barn\n" * 100], encoder)
    assert "splitter='lines'" in caplog.text and "--split lines" in result.notes[-1]


def test_stories_that_exceed_the_context_are_scored_in_full_with_one_warning(caplog):
    """Sentences beyond the first context are scored like all others."""
    encoder = StoryEncoder(*encoder_of("bert"), context_tokens=40)
    sentences = [f"{i} ran." for i in range(200)] + ["Nadia ran and " * 100 + "fell."]
    with caplog.at_level(logging.WARNING, "narrative_twins"):
        results = list(score_stories(["I ran.", sentences, TALE], encoder))
    assert [result.truncated for result in results] == [False, True, True]
    assert results[1].sentences == tuple(sentences) and results[1].cut_tokens > 300
    for scores in results[1].scores.values():
        assert len(scores) == 201 and np.isfinite(scores).all()
    assert min(results[1].scores["deletion"][100:]) > 1e-4
    assert [text[:32] for text in caplog.messages] == ["story 2 is longer than the 40 to"]
    assert "--split" not in caplog.text
    caplog.clear()
    list(score_stories([TALE], encoder, on_truncation="ignore"))
    assert not caplog.records
    with pytest.raises(StoryError, match="story 2: the story is longer than the 40 tokens"):
        list(score_stories(["I ran.", TALE], encoder, on_truncation="error"))


BAD = {"empty": "", "no token": "\u0301", "a page is missing": StoryError("a page is missing")}


@pytest.mark.parametrize("problem", BAD)
def test_bad_story_does_not_affect_the_others(encoder, problem):
    good = ["Nadia ran. It rained.", "The mill burned."]
    expected = [score_story(story, encoder).scores for story in good]
    several = [good[0], BAD[problem], good[1]]

    errors: list[StoryError] = []
    results = list(score_stories(several, encoder, on_error=errors.append))
    assert [result.index for result in results] == [0, 2]
    assert [(error.index, problem in str(error)) for error in errors] == [(1, True)]
    for result, scores in zip(results, expected, strict=True):
        assert_close(result.scores, scores)
    numbers = count()
    endless = (several[i % 3] for i in numbers)
    results = score_stories(endless, encoder, batch_size=4)
    assert next(results).index == 0, "results before the bad story are yielded"
    batch = 4 if problem == "no token" else 2  # a batch is tokenized together
    assert next(numbers) == batch, "and nothing is read after it"
    with pytest.raises(StoryError, match=f"story 2: .*{problem}"):
        next(results)


def test_long_stories_are_scored_in_parts(encoder, monkeypatch, encoded):
    """The tokens planned and not yet encoded are limited, regardless of the length of a story."""
    expected = score_story(TALE, encoder, windows=6)
    assert len(encoded) == 1
    monkeypatch.setattr("narrative_twins.salience.engine.BUFFER_TOKENS", 500)
    assert_close(score_story(TALE, encoder, windows=6).scores, expected.scores)
    assert len(encoded) > 4


def test_window_with_too_many_tokens_is_refused_before_it_is_encoded(encoder, monkeypatch, encoded):
    monkeypatch.setattr("narrative_twins.salience.plans.WINDOW_TOKENS", 2_000)
    problem = "window of sentences 0 to 10 needs more than 2,000 tokens for shifting; use"
    with pytest.raises(StoryError, match=problem):
        score_story(TALE, encoder, windows=1)
    assert not encoded
    # Exactly as many tokens as there may be, and one more.
    operations = resolve_operations("summarization")
    tokens = encoder.tokenize(split_sentences(TALE))
    (plan,) = exact_plans(operations, tokens, [(0, len(tokens.texts))])
    for limit in (plan.tokens, plan.tokens - 1):
        monkeypatch.setattr("narrative_twins.salience.plans.WINDOW_TOKENS", limit)
        refused = pytest.raises(StoryError, match=f"{limit:,} tokens for summarization")
        with refused if limit < plan.tokens else nullcontext():
            assert score_story(TALE, encoder, windows=1, operations=operations).scores


def test_scores_of_an_operation_are_checked(encoder):
    story = ["Nadia ran.", "It rained."]
    result = score_story(story, encoder, operations=[FixedScores([2.0, 1.0]), "deletion"])
    assert result.scores["fixed"] == [2.0, 1.0] and result.primary_operation == "fixed"
    for wrong in ([1.0], [1.0, math.nan], 1.0):
        with pytest.raises(ValueError, match="'fixed' must return one finite score for each of 2"):
            score_story(story, encoder, operations=FixedScores(wrong))


@pytest.mark.parametrize("order", [(1, 2), (-1, 0), (), [0]], ids=str)
def test_invalid_orders_raise(encoder, order, monkeypatch):
    monkeypatch.setattr(FixedScores, "orders", lambda self, window: [order])
    with pytest.raises(ValueError, match="operation 'fixed' has the order"):
        score_story("Nadia ran. It rained.", encoder, operations=FixedScores([0.0, 0.0]))


def test_states_that_are_not_finite_fail_only_their_story(encoder, monkeypatch):
    encode = StoryEncoder.encode

    def overflown(self, variants, progress=None):
        vectors = encode(self, variants, progress)
        vectors[0] = np.inf
        return vectors

    monkeypatch.setattr(StoryEncoder, "encode", overflown)
    errors, texts = [], ["Nadia ran. It rained.", "He left."]
    results = list(score_stories(texts, encoder, on_error=errors.append))
    assert [result.index for result in results] == [1]
    assert "story 1: the encoder's states are not finite" in str(errors[0])


# Progress


def test_progress_counts_stories_and_can_stop_the_scoring(encoder, monkeypatch, capsys, encoded):
    """A story that fails after a part of it is scored counts once."""
    seen = []
    texts = [TALE, "", "Nadia ran. It rained."]
    list(score_stories(texts, encoder, on_error="skip", windows=2, progress=seen.append))
    assert seen == sorted(seen) and seen[-1] == pytest.approx(3)
    assert any(0 < done < 1 for done in seen), "progress is reported within a story"
    encoded.clear()

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(score_stories([TALE] * 9, encoder, progress=stop))
    assert not encoded and capsys.readouterr().err == ""
    monkeypatch.setattr("narrative_twins.salience.engine.BUFFER_TOKENS", 100)
    monkeypatch.setattr("narrative_twins.salience.plans.WINDOW_TOKENS", 300)
    story = {"sentences": ["Nadia ran."] * 12, "windows": [1, 1, 10]}
    list(score_stories([story, "He left."], encoder, on_error="skip", progress=True))
    shown = capsys.readouterr().err
    assert "100%" in shown and "2.00/2.00" in shown
    assert max(map(float, re.findall(r"([\d.]+)/2.00", shown))) == 2.0
