"""The salience loss: equal to a naive account of it, with gradients, and the texts it is made of."""

import copy
import math

import pytest
import torch
from datasets import Dataset
from tokenizers.processors import TemplateProcessing

from narrative_twins import SalienceLoss, StoryEncoder, score_stories
from narrative_twins.data import RowError, load_window_twins
from narrative_twins.training.losses import count_windows
from narrative_twins.training.salience_loss import ONE_PASS_TEMPERATURES, TEMPERATURES

from support.models import SENTENCES as S
from support.models import trainable
from support.oracle import Oracle
from support.twins_batches import JUDGED, assert_same, collated, model_of, trained, trainer_of

EQUAL = dict.fromkeys(("deletion", "shifting", "disruption", "summarization"), 1.0)
WEIGHTS = {"summarization": 1.0, "deletion": 0.5, "disruption": 0.0}
ONE_PASS = {"approximate": "one-pass"}
STORIES = [
    {"id": "votes", "story": [S[0], S[2], "It rained.", S[5]], "counts": [0, 3, 1, 1]},
    {"story": S[:6], "windows": [[0, 2], [2, 6]], "labels": [0.5, 1.0, 0.0, 0.2, 0.0, 0.6]},
    # A window without votes.
    {"story": S[1:5], "windows": [[0, 2], [2, 4]], "labels": [0.0, 0.0, 0.0, 1.0]},
    # Windows of one sentence.
    {"story": S[:3], "windows": [[0, 1], [1, 2], [2, 3]], "labels": [1.0, 0.0, 1.0]},
]


def double_model(pooling="mean"):
    """A model in float64, which tests may change."""
    return copy.deepcopy(model_of(pooling)).double()


def naive_loss(model, rows, loss) -> float:
    """The mean over windows, or over stories across their windows, of the weighted mean over
    operations of the divergence, from scores of single texts."""
    oracle, losses = Oracle(model[0].auto_model, model.tokenizer, loss.pooling), []
    for row in rows:
        n, labels = len(row["story"]), row.get("counts") or row["labels"]
        spans = row.get("windows") or [[0, n]]
        score = oracle.score if loss.approximate is None else oracle.score_one_pass
        scores = score(row["story"], spans)
        parts = [list(range(lo, hi)) for lo, hi in spans if hi - lo > 1]
        for part in [sum(parts, [])] if loss.across_windows else parts:
            total = sum(labels[at] for at in part)
            divergences = []
            for name, weight in loss.weights.items() if total else ():
                powers = [math.exp(scores[name][at] / loss.temperatures[name]) for at in part]
                for at, power in zip(part, powers, strict=True):
                    if share := labels[at] / total:
                        divergences.append(weight * share * math.log(share * sum(powers) / power))
            losses += [sum(divergences) / sum(loss.weights.values())] if total else []
    return sum(losses) / len(losses)


@pytest.mark.parametrize("options", [{}, ONE_PASS])
@pytest.mark.parametrize(
    ("weights", "temperature", "pooling", "across_windows"),
    [
        *(({name: 1.0}, {}, "mean", False) for name in EQUAL),
        (WEIGHTS, {"deletion": 1}, "mean", False),
        (EQUAL, 0.3, "first", True),
    ],
)
def test_equal_to_a_naive_account(weights, temperature, pooling, across_windows, options):
    model = double_model("mean" if options else pooling)
    loss = SalienceLoss(model, weights, temperature, across_windows=across_windows, **options)
    usual = ONE_PASS_TEMPERATURES if options else TEMPERATURES
    each = temperature if temperature != 0.3 else dict.fromkeys(EQUAL, temperature)
    assert loss.temperatures == {name: (usual | each)[name] for name in weights}
    assert loss.get_config_dict()["operations"] == weights
    with torch.no_grad():
        value = loss([collated(loss, STORIES)]).item()
    assert value == pytest.approx(naive_loss(model, STORIES, loss), rel=1e-4) and value > 0.001


@pytest.mark.parametrize(
    ("training", "size", "options"), [(False, 3, {}), (True, 1000, {}), (False, 1, ONE_PASS)]
)
def test_cached_gradients_are_the_same(training, size, options):
    """With dropout, which differs between mini-batches, in a single one."""
    model, results = double_model().train(training), []
    for mini_batch_size in (None, size):
        torch.manual_seed(0)
        # A low temperature makes large gradients.
        loss = SalienceLoss(model, None, 0.01, mini_batch_size=mini_batch_size, **options)
        results.append(trained(loss([collated(loss, STORIES)]), model))
    assert_same(results[1], results[0])


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("context", [None, 60, 12])
def test_one_pass_scores_are_those_of_scoring(context, special):
    """Of stories, of stories in windows, and of those that exceed the context; also with a
    tokenizer without special tokens."""
    model = trainable()
    if not special:
        model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing("$A")
    story = S + [f"{text} Again." for text in S]
    n = len(story)
    pairs = [[2 * i, 2 * i + 2] for i in range(n // 2)]
    row = {"story": story, "counts": [1] * n}
    rows = [row | {"windows": each} for each in ([[0, n]], [[0, 2], [2, 9], [9, n]], pairs)]
    loss = SalienceLoss(model, **ONE_PASS)
    batch = collated(loss, rows, context)
    encoder = StoryEncoder.from_sentence_transformer(model, context_tokens=context)
    assert context or len(batch["input_ids"]) == 1, "all windows of a story are read at once"
    assert max(batch["attention_mask"].sum(dim=1)) <= encoder.context_tokens
    with torch.no_grad():
        vectors = loss.embed(batch, count_windows(batch))
    stories = [{"sentences": row["story"], "windows": row["windows"]} for row in rows]
    results = score_stories(stories, encoder, on_truncation="ignore", **ONE_PASS)
    spans = [(result, *span) for result in results for span in result.windows]
    for window, (result, lo, hi) in zip(batch["judged"], spans, strict=True):
        for operation in loss.operations:
            scores = window.scores(operation, vectors)
            expected = result.scores[operation.name][lo:hi]
            assert scores.tolist() == pytest.approx(expected, abs=1e-5)


def test_equal_texts_are_encoded_once():
    """Both windows of a story that fits the context are read in its whole text."""
    deletion, summarization = (SalienceLoss(model_of(), name) for name in list(EQUAL)[::3])
    assert len(collated(deletion, [STORIES[0], STORIES[0]])["input_ids"]) == 1 + 4
    batch = collated(summarization, STORIES[1:2])
    assert len(batch["input_ids"]) == 1 + 6 and batch["window_ids"][0].max() == 1


def test_what_is_left_out(caplog):
    """Windows of one sentence, those without a vote, and those beyond the context."""
    loss = SalienceLoss(model_of())
    batch = collated(loss, STORIES[3:])
    assert batch["judged"] == []
    value, gradients = trained(loss([batch]), loss.model)
    assert value == 0.0 and gradients and not any(part.any() for part in gradients.values())
    assert [judged.window.lo for judged in collated(loss, STORIES[2:3])["judged"]] == [2]
    row = {"story": [" ".join([S[3]] * 3), "It rained."], "counts": [1, 1]}
    assert collated(loss, [row, row], 30)["judged"] == []
    assert caplog.text.count("windows exceed the context of 30 tokens, and are not trained on") == 1


def test_turning_points_are_judgments(tmp_path):
    (row,) = load_window_twins(split="validation[:1]", cache_dir=str(tmp_path))
    row |= {"story": [window[:3] for window in row["story"]], "turning_points": [1, 5]}
    judged = collated(SalienceLoss(model_of(), "summarization"), [row])["judged"]
    assert [(each.window.lo, each.labels) for each in judged] == [(0, [0, 1, 0]), (3, [0, 0, 1])]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"operations": {"deletion": -1}}, "weights must be finite numbers of at least 0"),
        ({"operations": {"deletion": math.nan}}, "weights must be finite numbers"),
        ({"operations": {"deletion": math.inf}}, "weights must be finite numbers"),
        ({"operations": {"deletion": 0}}, "and one of them above"),
        ({"temperature": 0}, "must be above 0"),
        ({"operations": "deletion", "temperature": {"shifting": 1}}, "name only deletion"),
        ({"max_shifts": 0}, "max_shifts=0"),
        ({"approximate": "two-pass"}, "choose 'one-pass' or None"),
        (ONE_PASS | {"max_shifts": 2}, "max_shifts=2 has no effect in one pass"),
        (ONE_PASS | {"model": model_of("first")}, "approximate='one-pass' needs mean pooling"),
    ],
)
def test_invalid_settings(options, problem):
    with pytest.raises(ValueError, match=problem):
        SalienceLoss(**{"model": model_of()} | options)


@pytest.mark.parametrize("labels", [None, [1.0], [1.0, -1.0], ["1", "0"], [1e308, 1e308], []])
def test_invalid_rows(labels, tmp_path):
    """Before training starts, and in a batch."""
    row = {"id": "x", "story": ["A.", "B."] if labels != [] else [], "labels": labels}
    problem = "a finite number of at least 0 for each of its 2" if row["story"] else "'story' must"
    loss = SalienceLoss(model_of())
    with pytest.raises(RowError, match=f"row x: .*{problem}"):
        collated(loss, [row])
    with pytest.raises(RowError, match=f"train_dataset, row 0: .*{problem}"):
        trainer_of(tmp_path, Dataset.from_list([row, *JUDGED]), loss.model, loss=loss)
