"""The twins loss: against its formula pair by pair, with gradients, and against the loss of
sentence-transformers."""

from __future__ import annotations

from itertools import zip_longest

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from narrative_twins.training import losses
from narrative_twins.training.losses import NarrativeTwinsLoss, batches_by_length

from support.models import modules
from support.oracle import twins_loss
from support.twins_batches import (
    LEVELS,
    STORIES,
    WINDOWS,
    assert_same,
    features,
    model_of,
    several,
    trained,
)

ABLATIONS = [
    ("stories", {"distractors": False}),
    ("windows", {"in_story_negatives": False}),
    # Only distractors; STORIES has rows without any, whose loss is 0.
    ("stories", {"in_batch_negatives": False}),
    ("windows", {"in_batch_negatives": False, "in_story_negatives": False}),
    # Only in-story negatives.
    ("windows", {"in_batch_negatives": False, "distractors": False}),
    # Distractor pairs in a loss of their own.
    ("stories", {"distractor_loss": "separate"}),
]


@pytest.mark.parametrize(("pooling", "size"), [("mean", None), ("mean", 3), ("first", 1)])
@pytest.mark.parametrize(("level", "settings"), [*((level, {}) for level in LEVELS), *ABLATIONS])
def test_loss_and_gradients_match_the_formula(level, settings, pooling, size):
    """In mini-batches, too. The encoder runs in float64, because in float32 the states of a text
    vary as much with its batch; the loss is in float32."""
    model = model_of(pooling).double()
    loss = NarrativeTwinsLoss(model, 0.5, mini_batch_size=size, **settings)
    batch = features(model, LEVELS[level])
    expected = twins_loss(
        *(model[0].auto_model, model.tokenizer, LEVELS[level], pooling), temperature=0.5, **settings
    )
    found = trained(loss([dict(batch)]), model)
    assert_same(found, trained(expected, model))
    with torch.no_grad():
        assert loss([dict(batch)]).item() == pytest.approx(found[0], abs=1e-6)
        if settings:
            plain = NarrativeTwinsLoss(model, 0.5)([batch]).item()
            assert abs(found[0] - plain) > 1e-3, "the setting changes the loss"


@given(data=st.data())
@settings(max_examples=15)
def test_loss_matches_the_formula_on_any_batch(data):
    """Any window may be missing, as long as one pair has both sides."""
    model = model_of().double()
    count = data.draw(st.integers(1, 3))
    sentence = st.sampled_from(["Nadia ran.", "It rained.", "She swam.", "A toy.", "Why?"])

    def text(all_windows: bool):
        windows = st.permutations(
            [*range(count), *data.draw(st.lists(st.integers(0, count - 1), max_size=2))]
        )
        if not all_windows:
            lowest = 0 if count == 1 else -1
            windows = st.lists(st.integers(lowest, count - 1), min_size=1, max_size=4)
        drawn = data.draw(windows)
        return [data.draw(sentence) for _ in drawn], drawn

    batch = [
        {"story": text(True), "twin": text(number == 0)}
        for number in range(data.draw(st.integers(1, 3)))
    ]
    for row in batch:
        for side in data.draw(st.sampled_from([(), ("negative",), ("negative", "negative_twin")])):
            row[side] = text(False)
    names = ("distractors", "in_story_negatives", "in_batch_negatives")
    options = {name: data.draw(st.booleans()) for name in names} | {"temperature": 0.5}
    try:
        with torch.no_grad():
            found = NarrativeTwinsLoss(model, **options)([features(model, batch)])
    except ValueError as error:
        assert "no window of the batch has a negative" in str(error)
        assert not options["in_batch_negatives"]
        found = torch.tensor(0.0)
    with torch.no_grad():
        expected = twins_loss(model[0].auto_model, model.tokenizer, batch, **options)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 30))
@settings(max_examples=100)
def test_passes_have_short_texts_first_and_no_more_tokens_than_the_limit(lengths, limit):
    found = list(batches_by_length(torch.tensor(lengths), limit))
    texts = [index for part, _ in found for index in part.tolist()]
    assert sorted(texts) == list(range(len(lengths)))
    assert [lengths[text] for text in texts] == sorted(lengths)
    for (part, longest), (after, _) in zip_longest(found, found[1:], fillvalue=([], 0)):
        assert longest == max(lengths[text] for text in part)
        assert len(part) * longest <= limit or len(part) == 1
        # One more text would not fit.
        assert not len(after) or (len(part) + 1) * lengths[after[0]] > limit


def test_texts_are_encoded_in_passes_that_fit_the_caches_of_a_cpu(monkeypatch):
    """The loss is in float32: at a temperature of 0.5, as above, rounded cosines change it less than
    at the default of 0.05."""
    model, shapes = model_of().double(), []
    batch, loss = features(model, STORIES), NarrativeTwinsLoss(model, 0.5)
    with torch.no_grad():
        whole = loss([batch]).item()
        monkeypatch.setattr(losses, "CPU_PASS_TOKENS", 40)
        hook = model.register_forward_pre_hook(
            lambda _, given: shapes.append(given[0]["input_ids"].shape)
        )
        with hook:
            assert loss([batch]).item() == pytest.approx(whole, abs=1e-6)
    assert sum(texts for texts, _ in shapes) == len(batch["side"]) and len(shapes) > 3
    assert all(texts * longest <= 40 or texts == 1 for texts, longest in shapes)


def test_it_is_multiple_negatives_ranking_loss():
    """At the default temperature, without distractors and windows. Cosines are rounded to float32,
    so the tolerance is larger than at a temperature of 0.5."""
    model = model_of().double()
    pairs = [{side: row[side] for side in ("story", "twin")} for row in STORIES]
    found = trained(NarrativeTwinsLoss(model)([features(model, pairs)]), model)
    theirs = MultipleNegativesRankingLoss(
        model, scale=20, directions=("query_to_doc", "query_to_query")
    )
    a, b = ([" ".join(row[side][0]) for row in pairs] for side in ("story", "twin"))
    loss = sum(theirs([model.preprocess(x) for x in order], None) for order in ([a, b], [b, a])) / 2
    assert_same(found, trained(loss, model), 1e-5)


class Uncached(NarrativeTwinsLoss):
    """Encodes a batch in mini-batches like gradient caching, but without caching."""

    def forward_cached(self, sentence_features, labels=None):
        (texts,) = sentence_features
        size = self.mini_batch_size
        vectors = [
            self.embed_minibatch(texts, start, start + size, True, False)[0]
            for start in range(0, len(texts["side"]), size)
        ]
        return self.calculate_loss([vectors], labels)


@pytest.mark.parametrize("level", LEVELS)
def test_gradient_caching_repeats_dropout_masks(level):
    """With one mini-batch it equals the plain loss with the same masks; with several, mini-batches
    without caching."""
    model = model_of(training=True).double()
    batch = features(model, LEVELS[level])

    def seeded(kind, size, seed=5):
        torch.manual_seed(seed)
        return trained(kind(model, 0.5, mini_batch_size=size)([dict(batch)]), model)

    plain = seeded(NarrativeTwinsLoss, None)
    assert_same(seeded(NarrativeTwinsLoss, 100), plain)
    other = seeded(NarrativeTwinsLoss, None, seed=6)[0]
    assert other != pytest.approx(plain[0], abs=1e-5), "there is dropout"
    assert_same(seeded(NarrativeTwinsLoss, 2), seeded(Uncached, 2))


def test_batches_that_are_refused():
    model = model_of()
    alone = NarrativeTwinsLoss(model, distractors=False, in_batch_negatives=False)
    assert alone([features(model, WINDOWS)]) > 0
    with pytest.raises(ValueError, match="no window of the batch has a negative"):
        alone([features(model, STORIES)])
    separate = NarrativeTwinsLoss(model, distractor_loss="separate")
    with pytest.raises(ValueError, match="distractor_loss='separate' needs stories with one wind"):
        separate([features(model, WINDOWS)])
    # Plain columns of text, as the trainer of sentence-transformers passes them.
    for columns in (["Nadia ran."], ["Nadia ran.", "She swam."]):
        with pytest.raises(ValueError, match="NarrativeTwinsTrainer.*data_collator=loss.coll"):
            NarrativeTwinsLoss(model)([model.preprocess([text]) for text in columns])
    # Each text has a token in only one of two windows, and not in the same one.
    story = several((0, "Nadia ran."), (1, "Rain."))
    batch = features(model, [{"story": story, "twin": several((1, "Rain."))}])
    batch["window_ids"][0][batch["window_ids"][0] == 1] = -1
    with pytest.raises(ValueError, match="no window of the batch has a token in both twins"):
        NarrativeTwinsLoss(model)([batch])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"temperature": 0}, "temperature=0 is not above 0"),
        ({"temperature": float("nan")}, "temperature=nan is not above 0"),
        ({"mini_batch_size": 0}, "mini_batch_size=0 is not at least 1"),
        ({"distractor_loss": "own"}, "distractor_loss='own' is unknown"),
    ],
)
def test_settings_that_are_refused(settings, problem):
    with pytest.raises(ValueError, match=problem):
        NarrativeTwinsLoss(model_of(), **settings)


def test_models_with_another_pooling_are_refused():
    pooled = SentenceTransformer(modules=[model_of()[0], modules.Pooling(32, pooling_mode="max")])
    with pytest.raises(ValueError, match="pooling 'max' is not supported"):
        NarrativeTwinsLoss(pooled)
