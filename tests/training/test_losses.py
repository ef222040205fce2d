"""The twins loss: against its formula pair by pair, with gradients, and against the loss of
sentence-transformers."""

from itertools import zip_longest

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from narrative_twins import StoryEncoder
from narrative_twins.training import losses
from narrative_twins.training.losses import NarrativeTwinsLoss, batches_by_length

from support.models import trainable
from support.oracle import cosine, window_vector
from support.twins_batches import (
    LEVELS,
    STORIES,
    WINDOWS,
    assert_same,
    features,
    model_of,
    text,
    texts,
    trained,
)

CASES = [
    ("stories", {}),
    ("windows", {}),
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


def naive_loss(model, tokenizer, texts, pooling="mean", prompts=("", True), **settings):
    """The loss of a batch, written out pair by pair; every text is encoded on its own.

    Args:
        texts: for each row of the batch a dict of `story`, `twin` and perhaps `negative` and
            `negative_twin`; each is a pair of the sentences and the window of each sentence, -1 for
            none.
        prompts: the prompt of all texts, and whether it is pooled.
        settings: of the loss.
    """
    is_separate = settings.pop("distractor_loss", "joint") == "separate"
    has_distractors = settings.pop("distractors", True)
    # Pairs of vectors, with story, row and window of each pair; and vectors that are only
    # negatives, with their row.
    pairs, distractor_pairs, negatives = [], [], []
    for number, row in enumerate(texts):
        count = max(row["story"][1]) + 1
        pooled = range(count) if count > 1 else [None]
        what = pooling, *prompts
        vectors = {
            side: [window_vector(model, tokenizer, *text, window, *what) for window in pooled]
            for side, text in row.items()
            if text is not None
        }
        sides = zip(vectors["story"], vectors["twin"], range(count), strict=True)
        pairs += [(story, twin, number, number, window) for story, twin, window in sides]
        if has_distractors and "negative" in vectors:
            if "negative_twin" in vectors and count == 1:
                both = vectors["negative"][0], vectors["negative_twin"][0]
                distractor_pairs.append((*both, f"distractor of {number}", number, 0))
            else:
                some = (vector for vector in vectors["negative"] if vector is not None)
                negatives += [(vector, number) for vector in some]
    if not is_separate:
        return naive_info_nce(pairs + distractor_pairs, negatives, **settings)
    losses = [naive_info_nce(some, [], **settings) for some in (pairs, distractor_pairs) if some]
    return sum(losses) / len(losses)


def naive_info_nce(pairs, negatives, temperature, in_story_negatives=True, in_batch_negatives=True):
    pairs = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
    everything = [
        (vector, story, row, window) for a, b, story, row, window in pairs for vector in (a, b)
    ]
    losses = []
    for index, (query, story, row, window) in enumerate(everything):
        # The two vectors of a pair are neighbors.
        partner = index + 1 if index % 2 == 0 else index - 1
        scores = [cosine(query, everything[partner][0]) / temperature]
        for other, (key, its_story, its_row, its_window) in enumerate(everything):
            if other in (index, partner):
                continue
            if not in_story_negatives and its_story == story and its_window != window:
                continue
            if not in_batch_negatives and its_row != row:
                continue
            scores.append(cosine(query, key) / temperature)
        for key, its_row in negatives:
            if in_batch_negatives or its_row == row:
                scores.append(cosine(query, key) / temperature)
        losses.append(torch.log(sum(torch.exp(score) for score in scores)) - scores[0])
    return sum(losses) / len(losses)


POOLED = [("mean", None), ("mean", 3), ("first", 1), ("lasttoken", 3), ("weightedmean", None)]


@pytest.mark.parametrize(("pooling", "size"), POOLED)
@pytest.mark.parametrize(("level", "settings"), CASES)
def test_loss_and_gradients_match_the_formula(level, settings, pooling, size, monkeypatch):
    """In mini-batches, and in forward passes of few tokens, too. The encoder runs in float64,
    because in float32 the states of a text vary as much with its batch; the loss is in float32."""
    limit = 40 if size is None else losses.CPU_PASS_TOKENS
    monkeypatch.setattr(losses, "CPU_PASS_TOKENS", limit)
    model, shapes = model_of(pooling).double(), []
    loss = NarrativeTwinsLoss(model, 0.5, mini_batch_size=size, **settings)
    batch = features(model, LEVELS[level])
    with model.register_forward_pre_hook(lambda _, x: shapes.append(x[0]["input_ids"].shape)):
        measured = trained(loss([dict(batch)]), model)
    assert all(count * longest <= limit or count == 1 for count, longest in shapes)
    model_parts = (model[0].auto_model, model.tokenizer)
    formula = naive_loss(*model_parts, LEVELS[level], pooling, temperature=0.5, **settings)
    assert_same(measured, trained(formula, model))
    with torch.no_grad():
        assert loss([dict(batch)]).item() == pytest.approx(measured[0], abs=1e-6)
        plain = NarrativeTwinsLoss(model, 0.5)([batch]).item()
    assert not settings or abs(measured[0] - plain) > 1e-3, "the setting changes the loss"


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("kind", "pooling"), [("qwen3", "lasttoken"), ("mistral", "weightedmean"), ("bert", "mean")]
)
def test_loss_with_a_prompt_matches_the_formula(kind, pooling, level, include, tmp_path):
    """And what is trained is saved, with the prompt."""
    model = trainable(kind, pooling, prompt="query: ").double().eval()
    model.set_pooling_include_prompt(include)
    batch = features(model, LEVELS[level])
    with torch.no_grad():
        measured = NarrativeTwinsLoss(model, 0.5)([batch]).item()
        parts = (model[0].auto_model, model.tokenizer)
        options = {"temperature": 0.5, "prompts": ("query: ", include)}
        expected = naive_loss(*parts, LEVELS[level], pooling, **options).item()
    assert measured == pytest.approx(expected, abs=1e-6)
    model.float().save_pretrained(str(tmp_path), create_model_card=False)
    encoder = StoryEncoder.from_pretrained(tmp_path, device="cpu")
    assert (encoder.prompt, encoder.pooling) == ("query: ", pooling)
    assert encoder.tokenizer.settings.include_prompt == include


@given(data=st.data())
@settings(max_examples=15)
def test_loss_matches_the_formula_on_any_batch(data):
    """Any window may be missing, as long as one pair has both sides."""
    model = model_of().double()
    count = data.draw(st.integers(1, 3))
    sentence = st.sampled_from(["Nadia ran.", "It rained.", "She swam.", "A toy.", "Why?"])

    def drawn(all_windows: bool):
        more = data.draw(st.lists(st.integers(0, count - 1), max_size=2))
        windows = st.permutations([*range(count), *more])
        if not all_windows:
            lowest = 0 if count == 1 else -1
            windows = st.lists(st.integers(lowest, count - 1), min_size=1, max_size=4)
        at = data.draw(windows)
        return [data.draw(sentence) for _ in at], at

    batch = []
    for number in range(data.draw(st.integers(1, 3))):
        distractors = [drawn(False) for _ in range(data.draw(st.integers(0, 2)))]
        batch.append(texts(drawn(True), drawn(number == 0), *distractors))
    names = ("distractors", "in_story_negatives", "in_batch_negatives")
    options = {name: data.draw(st.booleans()) for name in names} | {"temperature": 0.5}
    with torch.no_grad():
        expected = naive_loss(model[0].auto_model, model.tokenizer, batch, **options).item()
        loss, inputs = NarrativeTwinsLoss(model, **options), [features(model, batch)]
        # With no negative at all, the formula has a loss of 0.
        if expected < 1e-9 and not options["in_batch_negatives"]:
            with pytest.raises(ValueError, match="no window of the batch has a negative"):
                loss(inputs)
        else:
            assert loss(inputs).item() == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 30))
@settings(max_examples=100)
def test_passes_have_short_texts_first_and_no_more_tokens_than_the_limit(lengths, limit):
    passes = list(batches_by_length(torch.tensor(lengths), limit))
    order = [index for part, _ in passes for index in part.tolist()]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths)
    for (part, longest), (after, _) in zip_longest(passes, passes[1:], fillvalue=([], 0)):
        assert longest == max(lengths[index] for index in part)
        assert len(part) * longest <= limit or len(part) == 1
        # One more text would not fit.
        assert not len(after) or (len(part) + 1) * lengths[after[0]] > limit


def test_it_is_multiple_negatives_ranking_loss():
    """At the default temperature, without distractors and windows; negatives of other processes are
    none in one. Cosines are rounded to float32, so the tolerance is larger than at a temperature of
    0.5."""
    model = model_of().double()
    pairs = [texts(row["story"], row["twin"]) for row in STORIES]
    loss = NarrativeTwinsLoss(model, gather_across_devices=True)
    measured = trained(loss([features(model, pairs)]), model)
    directions = ("query_to_doc", "query_to_query")
    theirs = MultipleNegativesRankingLoss(model, scale=20, directions=directions)
    a, b = ([" ".join(row[side][0]) for row in pairs] for side in ("story", "twin"))
    loss = sum(theirs([model.preprocess(x) for x in order], None) for order in ([a, b], [b, a])) / 2
    assert_same(measured, trained(loss, model), 1e-5)


ALONE = {"distractors": False, "in_batch_negatives": False}
# With two tokens left, the story and its twin have one in different windows.
CUT = [texts(text("Ran.", "Rain.", at="01"), text("Rain.", "Ran.", at="10"))]


@pytest.mark.parametrize(
    ("settings", "batch", "problem"),
    [
        ({"temperature": 0}, None, "temperature=0 is not above 0"),
        ({"temperature": float("nan")}, None, "temperature=nan is not above 0"),
        ({"mini_batch_size": 0}, None, "mini_batch_size=0 is not at least 1"),
        ({"distractor_loss": "own"}, None, "distractor_loss='own' is unknown"),
        (ALONE, STORIES, "no window of the batch has a negative"),
        ({}, CUT, "no window of the batch has a token in both twins"),
        ({"distractor_loss": "separate"}, WINDOWS, "needs stories with one window"),
        # Columns of text, as the trainer of sentence-transformers passes them.
        ({}, ["Nadia ran."], "NarrativeTwinsTrainer.*data_collator=loss.collator"),
        ({}, ["Nadia ran.", "She swam."], "NarrativeTwinsTrainer.*data_collator=loss.collator"),
    ],
)
def test_settings_and_batches_that_are_refused(settings, batch, problem):
    model = model_of()
    with pytest.raises(ValueError, match=problem):
        loss = NarrativeTwinsLoss(model, **settings)
        if isinstance(batch[0], str):
            loss([model.preprocess([column]) for column in batch])
        inputs = features(model, batch)
        if batch is CUT:
            inputs["window_ids"][:, 2:] = -1
        loss([inputs])


def test_dropout_twins_need_a_model_with_dropout():
    """Of all rows, or of rows without a twin."""
    row = {"story": ["Why?"], "twin": ["How?"]}
    lone, bare = row | {"twin": None}, trainable("modernbert", attention_dropout=0.0)
    for options, refused in (({}, lone), ({"twins": "dropout"}, row)):
        NarrativeTwinsLoss(trainable("modernbert"), **options).check_row(refused, "row 1")
        NarrativeTwinsLoss(model_of(), **options).check_row(refused, "row 1")
        loss = NarrativeTwinsLoss(bare, **options)
        with pytest.raises(ValueError, match="^row 1 gets a dropout twin, which needs an encoder"):
            loss.check_row(refused, "row 1")
    NarrativeTwinsLoss(bare).check_row(row, "row 0")
    collator = loss.collator(StoryEncoder.from_sentence_transformer(bare).tokenizer)
    assert (collator.twins, collator.seed) == ("dropout", 0)
