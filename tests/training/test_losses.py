"""The twins loss: against its formula pair by pair, with gradients, and against the loss of
sentence-transformers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.util import cos_sim

from narrative_twins.training.losses import NarrativeTwinsLoss

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

SETTINGS = [
    (level, {"distractors": distractors, "in_story_negatives": in_story})
    for level in LEVELS
    for distractors in (True, False)
    for in_story in (True, False)
]
ABLATIONS = [
    # Only distractors; STORIES has rows without any, whose loss is 0.
    ("stories", {"in_batch_negatives": False}),
    ("windows", {"in_batch_negatives": False, "in_story_negatives": False}),
    # Only in-story negatives.
    ("windows", {"in_batch_negatives": False, "distractors": False}),
    # Distractors and in-story negatives.
    ("windows", {"in_batch_negatives": False}),
    # Distractor pairs in a loss of their own.
    ("stories", {"distractor_loss": "separate"}),
]


@pytest.mark.parametrize("size", [None, 1, 3])
@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize(("level", "settings"), SETTINGS + ABLATIONS)
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
    if (level, settings) in ABLATIONS:
        plain = NarrativeTwinsLoss(model, 0.5)([batch]).item()
        assert abs(found[0] - plain) > 1e-3, "the setting changes the loss"


@pytest.mark.parametrize("level", LEVELS)
def test_default_temperature(level):
    """Cosines are rounded to float32, so the tolerance is larger than at a temperature of 0.5."""
    model = model_of().double()
    found = trained(NarrativeTwinsLoss(model)([features(model, LEVELS[level])]), model)
    expected = twins_loss(model[0].auto_model, model.tokenizer, LEVELS[level], temperature=0.05)
    assert_same(found, trained(expected, model), 1e-5)


def test_distractors_in_a_loss_of_their_own():
    """Of the two pairs of distractors, and of the stories as without distractors."""
    model = model_of().double()
    stories = [{side: row[side] for side in ("story", "twin")} for row in STORIES]
    distractors = [
        {"story": row["negative"], "twin": row["negative_twin"]}
        for row in STORIES
        if "negative_twin" in row
    ]
    parts = [
        NarrativeTwinsLoss(model)([features(model, part)]).item() for part in (stories, distractors)
    ]
    separate = NarrativeTwinsLoss(model, distractor_loss="separate")
    assert separate([features(model, STORIES)]).item() == pytest.approx(sum(parts) / 2, abs=1e-5)
    assert separate([features(model, stories)]).item() == pytest.approx(parts[0], abs=1e-5), (
        "there are no distractors"
    )
    with pytest.raises(
        ValueError, match="distractor_loss='separate' needs stories with one window"
    ):
        separate([features(model, WINDOWS)])


def test_batch_without_negatives_is_refused():
    model = model_of()
    loss = NarrativeTwinsLoss(model, distractors=False, in_batch_negatives=False)
    assert loss([features(model, WINDOWS)]) > 0
    with pytest.raises(ValueError, match="no window of the batch has a negative"):
        loss([features(model, STORIES)])


def test_plain_columns_of_text_are_refused():
    """As the trainer and collator of sentence-transformers pass them to the loss."""
    model = model_of()
    for columns in (["Nadia ran."], ["Nadia ran.", "She swam."]):
        with pytest.raises(ValueError, match="NarrativeTwinsTrainer.*data_collator=TwinsColl"):
            NarrativeTwinsLoss(model)([model.preprocess([text]) for text in columns])


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
            windows = st.lists(
                st.integers(0 if count == 1 else -1, count - 1), min_size=1, max_size=4
            )
        drawn = data.draw(windows)
        return [data.draw(sentence) for _ in drawn], drawn

    batch = [
        {"story": text(True), "twin": text(number == 0)}
        for number in range(data.draw(st.integers(1, 3)))
    ]
    for row in batch:
        for side in data.draw(st.sampled_from([(), ("negative",), ("negative", "negative_twin")])):
            row[side] = text(False)
    options = {"temperature": 0.5, "in_story_negatives": data.draw(st.booleans())}
    options["in_batch_negatives"] = data.draw(st.booleans())
    try:
        found = NarrativeTwinsLoss(model, **options)([features(model, batch)])
    except ValueError as error:
        assert (
            "no window of the batch has a negative" in str(error)
            and not options["in_batch_negatives"]
        )
        found = torch.tensor(0.0)
    expected = twins_loss(model[0].auto_model, model.tokenizer, batch, **options)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)


def test_without_distractors_and_windows_it_is_multiple_negatives_ranking_loss():
    model = model_of().double()
    pairs = [{side: row[side] for side in ("story", "twin")} for row in STORIES]
    found = trained(NarrativeTwinsLoss(model, 0.5)([features(model, pairs)]), model)
    theirs = MultipleNegativesRankingLoss(
        model, scale=2, directions=("query_to_doc", "query_to_query")
    )
    a, b = ([" ".join(row[side][0]) for row in pairs] for side in ("story", "twin"))
    loss = sum(theirs([model.preprocess(x) for x in order], None) for order in ([a, b], [b, a])) / 2
    assert_same(found, trained(loss, model))


def seeded(loss: NarrativeTwinsLoss, batch, model, seed: int = 5):
    torch.manual_seed(seed)
    return trained(loss([dict(batch)]), model)


@pytest.mark.parametrize("level", LEVELS)
def test_gradient_caching_repeats_dropout_masks(level):
    """With one mini-batch it equals the plain loss with the same masks; with several, mini-batches
    without caching."""
    model = model_of(training=True).double()
    batch = features(model, LEVELS[level])
    plain, single = (
        NarrativeTwinsLoss(model, 0.5),
        NarrativeTwinsLoss(model, 0.5, mini_batch_size=100),
    )
    expected = seeded(plain, batch, model)
    assert_same(seeded(single, batch, model), expected)
    assert seeded(plain, batch, model, 6)[0] != pytest.approx(expected[0], abs=1e-5), (
        "there is dropout"
    )

    cached = NarrativeTwinsLoss(model, 0.5, mini_batch_size=2)
    found = seeded(cached, batch, model)
    assert_same(found, seeded(cached, batch, model), 1e-12)
    assert_same(found, seeded(Uncached(model, 0.5, mini_batch_size=2), batch, model))


class Uncached(NarrativeTwinsLoss):
    """Encodes a batch in mini-batches like gradient caching, but without caching."""

    def forward_cached(self, sentence_features, labels=None):
        (texts,) = sentence_features
        size = self.mini_batch_size
        starts = range(0, len(texts["side"]), size)
        return self.calculate_loss(
            [
                [
                    self.embed_minibatch(texts, start, start + size, True, False)[0]
                    for start in starts
                ]
            ],
            labels,
        )


@pytest.mark.parametrize("size", [None, 2])
@pytest.mark.parametrize("level", LEVELS)
def test_dropout_twins_have_different_vectors(level, size, monkeypatch):
    """Only with dropout off they are."""
    seen = []
    monkeypatch.setattr(
        "narrative_twins.training.losses.cos_sim",
        lambda a, b: seen.append(cos_sim(a, b)) or seen[-1],
    )
    model = model_of()
    loss = NarrativeTwinsLoss(model, mini_batch_size=size)
    batch = features(model, LEVELS[level], twins="dropout")
    with torch.no_grad():
        loss([dict(batch)])
        assert seen[0].diagonal() == pytest.approx(1, abs=1e-5)
        model.train()
        seen.clear()
        loss([dict(batch)])
        assert (seen[0].diagonal() < 1 - 1e-3).all()


def test_invalid_settings_are_refused():
    model = model_of()
    for temperature in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="temperature=.* is not above 0"):
            NarrativeTwinsLoss(model, temperature)
    with pytest.raises(ValueError, match="mini_batch_size=0 is not at least 1"):
        NarrativeTwinsLoss(model, mini_batch_size=0)
    with pytest.raises(ValueError, match="distractor_loss='own' is unknown"):
        NarrativeTwinsLoss(model, distractor_loss="own")
    pooled = SentenceTransformer(modules=[model[0], modules.Pooling(32, pooling_mode="max")])
    with pytest.raises(ValueError, match="pooling 'max' is not supported"):
        NarrativeTwinsLoss(pooled)


@pytest.mark.parametrize("size", [None, 2])
def test_batch_without_a_pair_is_refused(size):
    """Each text has a token in only one of two windows, and not in the same one."""
    model = model_of()
    batch = features(
        model, [{"story": several((0, "Nadia ran."), (1, "Rain.")), "twin": several((1, "Rain."))}]
    )
    batch["window_ids"][0][batch["window_ids"][0] == 1] = -1
    with pytest.raises(ValueError, match="no window of the batch has a token in both twins"):
        NarrativeTwinsLoss(model, mini_batch_size=size)([batch])
