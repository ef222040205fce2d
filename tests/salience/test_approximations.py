"""Approximations: equal to the naive oracle for one pass, reported in results, and off by
default."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrative_twins import StoryEncoder
from narrative_twins.encoder.tokenizer import Window
from narrative_twins.salience.operations import SIMILARITIES, Shifting, resolve_operations
from narrative_twins.salience.plans import one_pass_plans
from narrative_twins.stories.story import Story

from support.models import FAMILIES, encoder_of, small
from support.scoring import assert_close, oracle_of, score_story
from support.strategies import stories, window_sizes

STORY = ["Nadia ran.", "It rained on the old mill.", "She found a map under the floor."]
STORY += ["The bridge was gone!", "Why?"]


def assert_one_pass(result, encoder):
    oracle = oracle_of(encoder, result.similarity)
    assert_close(result.scores, oracle.score_one_pass(result.sentences, result.windows))


@pytest.mark.parametrize("kind", FAMILIES)
def test_one_pass_equals_the_oracle(kind):
    for windows, attention in ((1, "auto"), ([2, 1, 2], "padded")):
        encoder = small(kind, attention=attention)
        result = score_story(STORY, encoder, windows=windows, approximate="one-pass")
        assert result.approximate == "one-pass"
        assert_one_pass(result, encoder)


@given(stories(1, 8), st.sampled_from(list(SIMILARITIES)), st.data())
@settings(max_examples=12)
def test_one_pass_equals_the_oracle_on_any_stories_and_windows(sentences, similarity, data):
    story = {"sentences": sentences, "windows": data.draw(window_sizes(len(sentences)))}
    encoder, options = small("roberta"), {"approximate": "one-pass", "similarity": similarity}
    assert_one_pass(score_story(story, encoder, **options), encoder)


def tokens_read(sentences, spans, context):
    """How many tokens each text that one pass reads has, and each sentence. Every token of a window
    is pooled from one text, which fits the context and has text around the sentence."""
    tokens = StoryEncoder(*encoder_of("bert"), context_tokens=context).tokenize(sentences)
    lengths = list(map(len, tokens.later))
    least = (context - 2) // 16 - 2 * max(lengths)  # see `_STEP`
    read = {}
    plans = list(one_pass_plans(resolve_operations(one_pass=True), tokens, spans))
    assert [(plan.window.lo, plan.window.hi) for plan in plans] == list(spans)
    for plan in plans:
        start, lo, hi, stop = plan.window
        texts = {ids.tobytes(): len(ids) for chunks in plan.variants for ids, _ in chunks}
        special = {ids.tobytes(): mask for (ids, mask) in sum(plan.variants[hi - lo :], [])}
        assert special.keys() == (texts.keys() if len(spans) == 1 else set())
        assert all(mask.sum() == 2 for mask in special.values())
        assert plan.tokens == sum(texts.values())
        assert (plan.cut_tokens > 0) == (sum(lengths) > context - 2)
        for i, chunks in zip(range(lo, hi), plan.variants, strict=False):
            pooled = np.concatenate([chunk.ids[chunk.pooled] for chunk in chunks])
            assert pooled.tolist() in (tokens.first[i].tolist(), tokens.later[i].tolist())
            for ids, _ in chunks:
                assert len(ids) <= context
                read[ids.tobytes()] = len(ids) - 2
            if len(chunks) > 1:  # the sentence exceeds the context
                continue
            ((ids, mask),) = chunks
            (first, *_), (*_, last) = np.flatnonzero(mask), np.flatnonzero(mask)
            before, after = first - 1, len(ids) - 2 - last
            assert before >= min(least, sum(lengths[:i]))
            assert after >= min(least, sum(lengths[i + 1 :]))
            assert i > lo or before == sum(lengths[start:lo])
            assert i < hi - 1 or after == sum(lengths[hi:stop])
    return list(read.values()), lengths


@given(st.data(), st.integers(12, 200))
@settings(max_examples=20)
def test_one_pass_reads_a_story_of_any_length_once_with_text_around_it(data, context):
    unit = data.draw(stories(1, 12) | st.just(["Nadia ran."] * 12))
    sentences = unit * data.draw(st.integers(1, 60))
    spans = Story.parse(sentences, data.draw(window_sizes(len(sentences)))).windows
    read, lengths = tokens_read(sentences, spans, context)
    assert len(read) == 1 or sum(lengths) > context - 2


@pytest.mark.parametrize("windows", [1, 50])
def test_a_long_story_is_read_at_most_1_3_times(windows):
    read, lengths = tokens_read(STORY * 100, Story.parse(STORY * 100, windows).windows, 400)
    assert sum(read) < 1.3 * sum(lengths)


@given(st.integers(2, 9), st.integers(0, 3), st.integers(0, 3), st.integers(1, 9))
def test_shifts_to_the_nearest_positions(size, before, after, max_shifts):
    window = Window(0, before, before + size, before + size + after)
    all_orders, orders = (list(Shifting(count).orders(window)) for count in (None, max_shifts))
    count = min(max_shifts, size - 1)
    assert orders[0] == window.base and len(orders) == 1 + size * count
    assert set(orders) <= set(all_orders)
    for i in range(size):
        moved = before + i
        own = orders[1 + i * count : 1 + (i + 1) * count]
        positions = {order.index(moved) for order in own}
        distances = sorted(abs(place - moved) for place in range(before, before + size))
        assert len(positions) == count
        assert sorted(abs(place - moved) for place in positions) == distances[1 : count + 1]


def test_shifting_to_all_positions_is_exact(encoder):
    exact, near, complete = (
        score_story(STORY, encoder, operations=Shifting(n)).scores["shifting"] for n in (None, 1, 4)
    )
    assert complete == pytest.approx(exact, abs=1e-6)
    # Moving the first sentence forward or the second one back swaps the same two sentences.
    assert near[0] == pytest.approx(near[1], abs=1e-6) and near != pytest.approx(exact, abs=1e-4)
